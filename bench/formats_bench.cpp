// SPDX-License-Identifier: MIT
// Micro-benchmarks of what stands between a file and the host's memory: parsers, unpacking, hashing. Rates are of the
// bytes that come out.
#include "darner/base/files.h"
#include "darner/base/hash.h"
#include "darner/io/gzip.h"
#include "darner/io/npy.h"
#include "darner/io/safetensors.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

namespace darner {
namespace {

Array ramp(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    return make_array<float>({count}, std::span<const float>(values));
}

void parse_npy_file(benchmark::State& state) {
    const Array array = ramp(state.range(0));
    const std::vector<std::byte> file = *format_npy(array);
    for (auto _ : state) benchmark::DoNotOptimize(parse_npy(file));
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(array.data.size()));
}
BENCHMARK(parse_npy_file)->Arg(1)->Arg(1 << 20);

// Many small tensors: the header's cost.
void read_safetensors_file(benchmark::State& state) {
    Safetensors contents;
    for (int64_t i = 0; i < state.range(0); ++i) contents.tensors["layers." + std::to_string(i) + ".weight"] = ramp(256);
    const std::string path =
        (std::filesystem::temp_directory_path() / ("darner-bench-" + std::to_string(::getpid()) + ".safetensors")).string();
    if (const Result<void> written = write_safetensors(path, contents); !written)
        return state.SkipWithError(written.error().text().c_str());
    for (auto _ : state) benchmark::DoNotOptimize(read_safetensors(path));
    std::filesystem::remove(path);
    state.SetBytesProcessed(state.iterations() * state.range(0) * 1024);
}
BENCHMARK(read_safetensors_file)->Arg(1)->Arg(1000);

// Debian's package dataset-fashion-mnist.
void unpack_images(benchmark::State& state) {
    const auto packed = read_file("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz");
    if (!packed) return state.SkipWithError(packed.error().text().c_str());
    int64_t bytes = 0;
    for (auto _ : state) bytes += static_cast<int64_t>(gunzip(*packed, default_max_file_bytes, "images")->size());
    state.SetBytesProcessed(bytes);
}
BENCHMARK(unpack_images)->Unit(benchmark::kMillisecond);

void hash_text(benchmark::State& state) {
    const std::string text(static_cast<size_t>(state.range(0)), 'x');
    for (auto _ : state) {
        Hasher hasher;
        hasher.add(text);
        benchmark::DoNotOptimize(hasher.value());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hash_text)->Arg(16)->Arg(1 << 16);

}  // namespace
}  // namespace darner

BENCHMARK_MAIN();
