// SPDX-License-Identifier: MIT
// darner compile, darner plan and darner run of compiled programs, on the interpreter and through Vulkan: what goes through a
// file runs to the same bits as what does not.
#include "darner/base/files.h"
#include "darner/device/test_programs.h"
#include "darner/graph/text.h"
#include "darner/io/npy.h"
#include "darner/program/dp.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/load.h"
#include "tests/networks.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace darner::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// The value; a failed test and the end of it where there is none.
template <class T>
T ok(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().text());
    return std::move(*result);
}

ProcessResult darner(std::vector<std::string> words) {
    words.insert(words.begin(), DARNER_BINARY_DIR "/bin/darner");
    return run_process(words);
}

void expect_error(const ProcessResult& result, const std::string& message) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(message));
}

constexpr std::string_view model_text = R"(graph step {
  x = input f32[n,6]
  w = param f32[4,6] init=0.25
  b = param f32[4]
  y = tanh(linear(x, w, b))
  loss = mean(y)
  k = param u32[] init=3 trainable=false role=counter
  output y
  output loss
  update k = add(k, 1)
}
graph scale {
  x = input f32[n,6]
  output z = mul(x, 2)
}
)";

class ProgramFiles : public ::testing::Test {
protected:
    std::string path(const std::string& name) const { return folder_.file(name); }
    std::string model(std::string_view text = model_text) {
        EXPECT_TRUE(write_text_file(path("model.dg"), text));
        return path("model.dg");
    }
    std::string compiled(std::vector<std::string> how) {
        std::vector<std::string> words = {"compile", model(), "--dim", "n=5", "-o", path("model.dp")};
        words.insert(words.end(), how.begin(), how.end());
        const ProcessResult result = darner(words);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return path("model.dp");
    }

private:
    TemporaryFolder folder_;
};

// --- whole training modules -------------------------------------------------------------------------------------------

class ProgramFileOn : public ::testing::TestWithParam<const char*> {};

// Three steps of a network: every output and all state.
std::vector<Array> trained(Session session, const TestNetwork& network) {
    NamedArrays inputs;
    for (const auto& [name, tensor] : network.inputs(7)) inputs[name] = {to_string(tensor.dtype), tensor.dims, tensor.bytes()};
    std::vector<Array> all;
    for (int step = 0; step < 3; ++step)
        for (auto& [name, value] : ok(session.run("step", inputs))) all.push_back(value);
    for (const std::string& name : session.state()) all.push_back(ok(session.read(name)));
    return all;
}

TEST_P(ProgramFileOn, TrainingThroughAFileGivesTheSameBits) {
    for (const TestNetwork& network : test_networks()) {
        const std::shared_ptr<Device> device = ok(open_device(GetParam()));
        const Program program = ok(compile_program(network.module, ok(caps_to_plan_for(*device))));
        const std::vector<std::byte> file = ok(to_dp(program));
        Program loaded = ok(parse_dp(file));
        EXPECT_EQ(to_text(loaded), to_text(program));
        EXPECT_EQ(ok(to_dp(loaded)), file);
        const CompileOptions options{.open = device, .seed = 5};
        EXPECT_EQ(trained(ok(load_program(std::move(loaded), options)), network),
                  trained(ok(compile(network.module, options)), network))
            << network.name;
    }
}

TEST_P(ProgramFileOn, EveryKindOfItemRuns) {
    const std::shared_ptr<Device> device = ok(open_device(GetParam()));
    const darner::testing::EveryItem made(device->caps());
    Program loaded = ok(parse_dp(ok(to_dp(made.program))));
    Session session = ok(load_program(std::move(loaded), {.open = device}));
    const std::vector<float> x(darner::testing::EveryItem::n, 3.0f);
    ASSERT_TRUE(session.run("step", {{"x", make_array<float>({darner::testing::EveryItem::n}, std::span<const float>(x))}}));
    const Array total = ok(session.read("total"));
    EXPECT_EQ(reinterpret_cast<const float*>(total.data.data())[999], 21.0f);
}

// The least that Vulkan grants runs everywhere.
TEST_P(ProgramFileOn, ProgramsForTheLeastOfVulkanRun) {
    const TestNetwork network = mlp_network();
    Program program = ok(compile_program(network.module, vulkan_minimum_caps()));
    EXPECT_EQ(trained(ok(load_program(std::move(program), {.device = GetParam(), .seed = 5})), network).empty(), false);
}

INSTANTIATE_TEST_SUITE_P(Devices, ProgramFileOn, ::testing::Values("interp", "vulkan"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ProgramFile, MisfitsAreRefusedWithAllReasons) {
    Program program = ok(compile_program(mlp_network().module, interpreter_caps(32)));
    Caps small = webgpu_default_caps();
    small.max_storage_bindings = 1;
    small.max_workgroup_bytes = 4;
    const Result<void> fits = check_fits(program, small);
    ASSERT_FALSE(fits);
    EXPECT_THAT(fits.error().message, HasSubstr("bindings, the device's limit is 1"));
    EXPECT_THAT(fits.error().message, HasSubstr("bytes of workgroup memory, the device's limit is 4"));
    EXPECT_THAT(fits.error().message, HasSubstr("subgroup"));
    EXPECT_TRUE(check_fits(program, interpreter_caps(32)));
}

TEST(ProgramFile, LoopsThatTheDriverWouldEndAreRefused) {
    kir::Builder b("long");
    const auto x = b.binding("x", kir::Scalar::u32, 1, kir::Access::inout, 1);
    b.loop(b.u32(0), b.u32(70000), b.u32(1), [&](kir::Expr i) { b.store(x, b.u32(0), i); });
    Program program;
    program.caps = interpreter_caps(32);
    program.kernels.push_back({b.finish()});
    Caps mesa = interpreter_caps(32);
    mesa.max_loop_rounds = 65535;
    EXPECT_TRUE(check_fits(program, interpreter_caps(32)));
    EXPECT_THAT(check_fits(program, mesa).error().message,
                HasSubstr("run for 70000 rounds, and this driver ends them after 65535"));
    mesa.max_loop_rounds = 70000;
    EXPECT_TRUE(check_fits(program, mesa));
}

// --- the commands -----------------------------------------------------------------------------------------------------

TEST_F(ProgramFiles, RunGivesWhatTheGraphGives) {
    const std::string program = compiled({"--device", "interp"});
    const auto outputs = [&](const std::string& file, const std::string& out, std::vector<std::string> more) {
        std::vector<std::string> words = {"run",      file,       "--graph", "step",      "--fill",
                                          "random:3", "--device", "interp",  "--out-dir", path(out)};
        words.insert(words.end(), more.begin(), more.end());
        const ProcessResult result = darner(words);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.out;
    };
    const std::string shown = outputs(program, "a", {});
    outputs(path("model.dg"), "b", {"--dim", "n=5"});
    for (const char* name : {"/y.npy", "/loss.npy"}) EXPECT_EQ(*read_npy(path("a") + name), *read_npy(path("b") + name));
    EXPECT_THAT(shown, HasSubstr("k     u32[]  becomes 4"));

    const ProcessResult other = darner({"run", program, "--graph", "scale", "--fill", "ones", "--device", "interp"});
    EXPECT_THAT(other.out, HasSubstr("z  f32[5,6]  2 2 2"));
    EXPECT_THAT(other.out, ::testing::Not(HasSubstr("becomes")));
}

TEST_F(ProgramFiles, FilesAreToldByContent) {
    const std::string program = compiled({"--target", "vulkan"});
    std::filesystem::rename(program, path("odd.dg"));
    const ProcessResult result = darner({"run", path("odd.dg"), "--graph", "scale", "--fill", "ones", "--device", "interp"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_error(darner({"plan", path("odd.dg")}), "this is a compiled program (.dp), expected graphs (.dg)");
    const std::string piped = "cat " + path("odd.dg") + " | " DARNER_BINARY_DIR "/bin/darner run - --graph scale --fill ones";
    EXPECT_EQ(run_process({"/bin/sh", "-c", piped + " --device interp"}).out, result.out);
}

TEST_F(ProgramFiles, GraphsComeFromStandardInputToo) {
    const std::string piped = "cat " + model() + " | " DARNER_BINARY_DIR "/bin/darner plan - --dim n=2 --graph scale";
    EXPECT_THAT(run_process({"/bin/sh", "-c", piped}).out,
                HasSubstr("scale\n  1 kernels, 1 dispatches in 1 barrier group, 0 barriers"));
}

TEST_F(ProgramFiles, WhatIsMissingOrWrongIsSaid) {
    const std::string program = compiled({"--target", "vulkan"});
    expect_error(darner({"run", program}), "the program has 3 graphs: step, scale, init");
    expect_error(darner({"run", program, "--graph", "stp"}), "there is no graph \"stp\"");
    expect_error(darner({"run", program, "--graph", "step"}), "2 values are not set: x (input f32[5,6]), b (param f32[4])");
    expect_error(darner({"run", program, "--graph", "step", "--fill", "ones", "--set", "c=c.npy"}), "no input or param \"c\"");
    expect_error(darner({"run", program, "--graph", "step", "--fill", "ones", "--dim", "n=5"}), "a compiled program has numbers");
    std::string bytes = *read_text_file(program);
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(write_text_file(program, bytes));
    expect_error(darner({"run", program, "--graph", "scale", "--fill", "ones"}), "do not have the hash");
}

TEST_F(ProgramFiles, CompileNeedsADeviceAndSomethingToWrite) {
    const std::string file = model();
    expect_error(darner({"compile", file, "-o", path("a.dp")}), "needs either --target or --device");
    expect_error(darner({"compile", file, "--target", "vulkan", "--device", "interp", "-o", path("a.dp")}), "needs either");
    expect_error(darner({"compile", file, "--target", "vulkan"}), "has nothing to write");
    expect_error(darner({"compile", file, "--target", "vulkan", "--emit", "kir"}), "--emit and --out-dir go together");
    expect_error(darner({"compile", file, "--target", "vulcan", "-o", path("a.dp")}), "did you mean \"vulkan\"");
    expect_error(darner({"compile", file, "--target", "vulkan", "-o", path("a.dp"), "--dim", "m=5"}), "no symbol \"m\"");
    expect_error(darner({"compile", file, "--target", "vulkan", "-o", path("none/a.dp"), "--dim", "n=5"}), "none/a.dp");
    EXPECT_FALSE(std::filesystem::exists(path("a.dp")));
}

TEST_F(ProgramFiles, EmitWritesAFileAKernel) {
    for (const char* code : {"kir", "spirv", "wgsl"}) {
        const ProcessResult result =
            darner({"compile", model(), "--dim", "n=5", "--target", "webgpu", "--emit", code, "--out-dir", path(code), "--json"});
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const Json summary = Json::parse(result.out);
        const std::vector<std::string> files = summary["kernel_files"];
        EXPECT_EQ(files.size(), summary["kernels"].get<size_t>());
        for (const std::string& file : files) {
            const std::string text = *read_text_file(file);
            const std::string begin = code == std::string("kir")     ? "kernel "
                                      : code == std::string("spirv") ? "\x03\x02\x23\x07"
                                                                     : "";
            EXPECT_THAT(text, ::testing::StartsWith(begin)) << file;
            if (code == std::string("wgsl")) EXPECT_THAT(text, HasSubstr("@compute"));
        }
    }
}

TEST_F(ProgramFiles, PlanShowsMemoryAndTimes) {
    const ProcessResult text = darner({"plan", model(), "--dim", "n=5", "--estimate"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("contract[dot"));
    EXPECT_THAT(text.out, HasSubstr("expected: "));
    const ProcessResult json = darner({"plan", model(), "--dim", "n=5", "--estimate", "--json", "--target", "webgpu"});
    const Json plans = Json::parse(json.out);
    ASSERT_EQ(plans.size(), 3u);
    for (const Json& plan : plans) {
        EXPECT_EQ(plan["estimate"]["dispatches"].size(), plan["dispatches"].get<size_t>());
        double bytes = 0;
        for (const Json& row : plan["estimate"]["dispatches"]) bytes += row["bytes"].get<double>();
        EXPECT_EQ(bytes, plan["estimate"]["bytes"].get<double>());
        EXPECT_GT(plan["estimate"]["microseconds"].get<double>(), 2.5 * plan["groups"].get<double>());
    }
    expect_error(darner({"plan", model()}), "n");
    expect_error(darner({"plan", model(), "--dim", "n=5", "--graph", "sclae"}), "no graph \"sclae\"");
}

TEST_F(ProgramFiles, AGivenSeedWinsOverAnInitialOne) {
    const std::string file = model(R"(graph main {
  seed = param u32[2] init=7 trainable=false role=counter
  output s = add(seed, 0)
})");
    ASSERT_EQ(darner({"compile", file, "--target", "vulkan", "-o", path("seed.dp")}).exit_code, 0);
    for (const std::string& from : {file, path("seed.dp")}) {
        EXPECT_THAT(darner({"run", from, "--device", "interp"}).out, HasSubstr("u32[2]  7 7"));
        EXPECT_THAT(darner({"run", from, "--device", "interp", "--seed", "4294967298"}).out, HasSubstr("u32[2]  2 1"));
    }
}

// A param by the name of the seed that is none.
TEST_F(ProgramFiles, ASeedIsTwoWords) {
    const std::string file = model("graph main {\n  seed = param f32[3]\n  output s = mul(seed, 2)\n}");
    EXPECT_THAT(darner({"run", file, "--fill", "ones", "--device", "interp", "--seed", "4"}).out, HasSubstr("f32[3]  2 2 2"));
}

}  // namespace
}  // namespace darner::test
