# What is built on top of the layers: the darner command, the examples, tests over several layers.
if(EXISTS ${CMAKE_SOURCE_DIR}/cli/main.cpp)
  find_package(CLI11 REQUIRED)
  file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.cpp)
  add_executable(darner ${cli_sources})
  target_link_libraries(darner PRIVATE darner_options ${DARNER_LAYERS} CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
  # The JSON library's inline functions must be the same everywhere in a program, and the library has them without exceptions.
  target_compile_definitions(darner PRIVATE DARNER_VERSION="${PROJECT_VERSION}" JSON_NOEXCEPTION)
endif()

# Each examples/NAME.cpp is the program bin/example_NAME.
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.cpp)
set(DARNER_EXAMPLES "")
foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(example_${name} PRIVATE darner_options ${DARNER_LAYERS})
  list(APPEND DARNER_EXAMPLES example_${name})
endforeach()

# Prints docs/estimates.md. Left out of `all`.
add_executable(estimates EXCLUDE_FROM_ALL bench/estimates.cpp)
target_link_libraries(estimates PRIVATE darner_options ${DARNER_LAYERS} fmt::fmt)

if(DARNER_TESTS)
  file(GLOB test_sources CONFIGURE_DEPENDS tests/*.cpp)
  if(test_sources)
    add_executable(whole_test ${test_sources})
    target_link_libraries(whole_test PRIVATE darner_test_options ${DARNER_LAYERS} fmt::fmt nlohmann_json::nlohmann_json
                          GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_definitions(whole_test PRIVATE DARNER_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DARNER_BINARY_DIR="${CMAKE_BINARY_DIR}"
                                                  JSON_NOEXCEPTION)
    # These tests run the programs.
    add_dependencies(whole_test darner ${DARNER_EXAMPLES})
    # In parts of about the same time, which run side by side; what is bounded in time runs alone.
    # Each names its file of results, since those of one program that start together would take the same name.
    function(add_part name filter)
      add_test(NAME ${name} COMMAND whole_test --gtest_filter=${filter}
                                    --gtest_output=json:${CMAKE_BINARY_DIR}/test-results/${name}_test.json)
    endfunction()
    foreach(part 0 1)
      add_part(whole_${part} -TrainFashionMnist.*:Shaders.*)
      set_tests_properties(whole_${part} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${part}")
    endforeach()
    add_part(shaders Shaders.*)
    add_part(training TrainFashionMnist.*)
    set_tests_properties(training PROPERTIES RUN_SERIAL ON)
  endif()
endif()

# Micro-benchmarks: ./dev bench. Left out of `all`.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*_bench.cpp)
find_package(benchmark QUIET)
if(bench_sources AND benchmark_FOUND)
  add_executable(darner_bench EXCLUDE_FROM_ALL ${bench_sources})
  target_link_libraries(darner_bench PRIVATE darner_options ${DARNER_LAYERS} benchmark::benchmark)
endif()

# Probes of single kernels on a GPU: bench/NAME_probe.cpp is the program bin/NAME_probe. Left out of `all`.
file(GLOB probe_sources CONFIGURE_DEPENDS bench/*_probe.cpp)
foreach(source ${probe_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE darner_options ${DARNER_LAYERS} fmt::fmt)
endforeach()
