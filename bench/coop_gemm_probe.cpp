// SPDX-License-Identifier: MIT
// Measures the cooperative-matrix GEMM of darner/kernels/coop_gemm.h on a Vulkan device and checks it against f64 at sampled
// elements: tiles, input types, accumulators as arrays or phis, NonPrivatePointer on and off, prefetch on and off.
//   coop_gemm_probe [--device ID] [--check M N K] [SIZE...]
#include "darner/device/vulkan/vulkan.h"
#include "darner/emit/spirv.h"
#include "darner/kernels/coop_gemm.h"
#include "darner/kir/half.h"
#include "darner/kir/verify.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

namespace darner {
namespace {

struct Variant {
    std::string name;
    kernels::CoopGemmSpec spec;
    SpirvOptions emit;
};

std::vector<Variant> variants(uint32_t m, uint32_t n, uint32_t k) {
    kernels::CoopGemmSpec base{.m = m, .n = n, .k = k};
    std::vector<Variant> all;
    const auto add = [&](std::string name, auto change, SpirvOptions emit = {}) {
        kernels::CoopGemmSpec spec = base;
        change(spec);
        all.push_back({std::move(name), spec, emit});
    };
    add("f16 128x128x32", [](auto&) {});
    add("f16 128x128x32 phis", [](auto&) {}, {.coop_accumulators_as_phis = true});
    add("f16 128x128x32 without NonPrivatePointer", [](auto&) {}, {.non_private_pointer = false});
    add("f16 128x128x32 no prefetch", [](auto& s) { s.prefetch = false; });
    add("f16 128x128x16", [](auto& s) { s.tile_k = 16; });
    add("f16 128x128x64", [](auto& s) { s.tile_k = 64; });
    add("f16 128x256x32", [](auto& s) { s.tile_n = 256; });
    add("f16 128x256x32 phis", [](auto& s) { s.tile_n = 256; }, {.coop_accumulators_as_phis = true});
    add("f16 128x256x32 without NonPrivatePointer", [](auto& s) { s.tile_n = 256; }, {.non_private_pointer = false});
    add("f16 128x256x16", [](auto& s) {
        s.tile_n = 256;
        s.tile_k = 16;
    });
    add("f16 256x128x32", [](auto& s) {
        s.tile_m = 256;
        s.subgroups_m = 4;
        s.subgroups_n = 2;
    });
    add("f16 128x128x32, 4 subgroups", [](auto& s) { s.subgroups_n = 2; });
    add("f16 128x128x64, 4 subgroups", [](auto& s) {
        s.subgroups_n = 2;
        s.tile_k = 64;
    });
    add("f16 128x256x32 no prefetch", [](auto& s) {
        s.tile_n = 256;
        s.prefetch = false;
    });
    add("f16 128x256x32, bands of 16", [](auto& s) {
        s.tile_n = 256;
        s.group_rows = 16;
    });
    add("f16 256x256x32, 16 subgroups", [](auto& s) {
        s.tile_m = s.tile_n = 256;
        s.subgroups_m = 4;
    });
    add("bf16 128x128x32", [](auto& s) { s.input = kir::Scalar::bf16; });
    add("bf16 128x256x32", [](auto& s) {
        s.input = kir::Scalar::bf16;
        s.tile_n = 256;
    });
    return all;
}

struct Matrices {
    std::vector<uint16_t> a, b;
};

uint16_t narrow(kir::Scalar type, float v) {
    return static_cast<uint16_t>(type == kir::Scalar::bf16 ? kir::f32_to_bf16(v) : kir::f32_to_f16(v));
}
double widen(kir::Scalar type, uint16_t v) { return type == kir::Scalar::bf16 ? kir::bf16_to_f32(v) : kir::f16_to_f32(v); }

Matrices random_matrices(const kernels::CoopGemmSpec& spec) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    Matrices out{std::vector<uint16_t>(size_t{spec.m} * spec.k), std::vector<uint16_t>(size_t{spec.k} * spec.n)};
    for (auto* values : {&out.a, &out.b})
        for (uint16_t& v : *values) v = narrow(spec.input, uniform(random));
    return out;
}

// A Program of one dispatch: segment 0 a, 1 b, 2 c.
Result<Program> program_of(const Variant& variant, const Caps& caps) {
    kir::Builder builder("coop_gemm");
    TRY(kernels::Grid grid, kernels::build_coop_gemm(builder, variant.spec, caps));
    Program program;
    program.caps = caps;
    KernelCode code;
    code.kir = builder.finish();
    TRY(kir::verify(code.kir));
    TRY(code.spirv, emit_spirv(code.kir, caps, variant.emit));
    code.hash = kir::structural_hash(code.kir);
    program.kernels.push_back(std::move(code));
    Dispatch dispatch;
    dispatch.kernel = KernelId(0);
    dispatch.groups = grid.groups;
    dispatch.label = variant.name;
    const auto& s = variant.spec;
    const auto tensor = [&](const char* name, const char* dtype, int64_t rows, int64_t cols, uint64_t element,
                            kir::Access access) {
        const uint64_t bytes = static_cast<uint64_t>(rows * cols) * element, rounded = (bytes + 15) / 16 * 16;
        const SegmentId segment(program.segments.size());
        program.segments.push_back({SegmentKind::io, rounded, true});
        program.tensors.push_back({name, dtype, {rows, cols}, segment, 0, bytes, {}, false});
        dispatch.bindings.push_back({segment, 0, rounded, access});
    };
    const char* dtype = s.input == kir::Scalar::bf16 ? "bf16" : "f16";
    tensor("a", dtype, s.m, s.k, 2, kir::Access::read);
    tensor("b", dtype, s.k, s.n, 2, kir::Access::read);
    tensor("c", "f32", s.m, s.n, 4, kir::Access::write);
    Entry entry;
    entry.name = "gemm";
    entry.inputs = {TensorId(0), TensorId(1)};
    entry.outputs = {TensorId(2)};
    entry.body.emplace_back(std::in_place_type<Dispatch>, std::move(dispatch));
    program.entries.push_back(std::move(entry));
    return program;
}

// The largest error over its bound, 4 u sqrt(k) sum |a b| with u of f32, at 4,000 elements: all corners and random ones.
double worst_ratio(const kernels::CoopGemmSpec& spec, const Matrices& in, const std::vector<float>& c) {
    std::mt19937_64 random(2);
    double worst = 0;
    for (int sample = 0; sample < 4000; ++sample) {
        const uint64_t row = sample < 4 ? (sample & 1) * (spec.m - 1) : random() % spec.m;
        const uint64_t col = sample < 4        ? (sample >> 1) * (spec.n - 1)
                             : sample % 4 == 0 ? spec.n - 1 - random() % std::min(spec.n, 16u)
                                               : random() % spec.n;
        double want = 0, size = 0;
        for (uint64_t k = 0; k < spec.k; ++k) {
            const double product = widen(spec.input, in.a[row * spec.k + k]) * widen(spec.input, in.b[k * spec.n + col]);
            want += product;
            size += std::abs(product);
        }
        const double error = std::abs(c[row * spec.n + col] - want);
        worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error / (4 * 0x1p-24 * std::sqrt(double(spec.k)) * size));
    }
    return worst;
}

Result<void> measure(Device& device, const Variant& variant, int steps) {
    TRY(Program program, program_of(variant, device.caps()));
    TRY(std::unique_ptr<Executable> run, device.load(std::make_shared<const Program>(std::move(program))));
    const Matrices in = random_matrices(variant.spec);
    TRY(run->write(TensorId(0), std::as_bytes(std::span(in.a))));
    TRY(run->write(TensorId(1), std::as_bytes(std::span(in.b))));
    TRY(run->submit(0, 1));
    TRY(run->wait());
    std::vector<float> c(size_t{variant.spec.m} * variant.spec.n);
    TRY(run->read(TensorId(2), std::as_writable_bytes(std::span(c))));
    const double ratio = worst_ratio(variant.spec, in, c);
    const double flops = 2.0 * variant.spec.m * variant.spec.n * variant.spec.k;
    double best = HUGE_VAL;
    std::vector<double> times;
    // Half a second of warming, then medians.
    const auto seconds = [&]() -> Result<double> {
        const auto start = std::chrono::steady_clock::now();
        TRY(run->submit(0, static_cast<uint32_t>(steps)));
        TRY(run->wait());
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
    };
    double warmed = 0;
    while (warmed < 0.5) {
        TRY(double s, seconds());
        warmed += s * steps;
    }
    for (int i = 0; i < 7; ++i) {
        TRY(double s, seconds());
        times.push_back(s);
        best = std::min(best, s);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    fmt::print("{:<46} {:>5}x{:>5}x{:>5}  {:8.1f} us  {:7.1f} TFLOP/s (best {:.1f})  error/bound {:.3f}{}\n", variant.name,
               variant.spec.m, variant.spec.n, variant.spec.k, median * 1e6, flops / median / 1e12, flops / best / 1e12, ratio,
               ratio <= 1 ? "" : "  WRONG");
    std::fflush(stdout);
    return {};
}

int run(int count, char** words) {
    std::string id = "vulkan";
    std::vector<std::array<uint32_t, 3>> sizes;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(words[i], "--device") == 0 && i + 1 < count)
            id = words[++i];
        else if (std::strcmp(words[i], "--check") == 0 && i + 3 < count) {
            sizes.push_back({static_cast<uint32_t>(std::atoi(words[i + 1])), static_cast<uint32_t>(std::atoi(words[i + 2])),
                             static_cast<uint32_t>(std::atoi(words[i + 3]))});
            i += 3;
        } else {
            const uint32_t s = static_cast<uint32_t>(std::atoi(words[i]));
            sizes.push_back({s, s, s});
        }
    }
    if (sizes.empty()) sizes = {{4096, 4096, 4096}, {4097, 4095, 4093}};
    auto device = open_vulkan(id);
    if (!device) {
        fmt::print(stderr, "{}\n", device.error().text());
        return 1;
    }
    fmt::print("{}, {}\n", (*device)->info().name, (*device)->info().driver);
    bool good = true;
    for (const auto& [m, n, k] : sizes)
        for (const Variant& variant : variants(m, n, k))
            if (const auto done = measure(**device, variant, m >= 4096 ? 20 : 100); !done) {
                fmt::print("{:<46} {}\n", variant.name, done.error().text());
                good = false;
            }
    return good ? 0 : 1;
}

}  // namespace
}  // namespace darner

int main(int count, char** words) { return darner::run(count, words); }
