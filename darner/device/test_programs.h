// SPDX-License-Identifier: MIT
// Small hand-made Programs for the tests of devices. They use few kernels with results that are exact in f32, so that a
// test compares bits.
#pragma once

#include "darner/kir/builder.h"
#include "darner/program/program.h"

#include <string>
#include <utility>
#include <vector>

namespace darner::testing {

// y[i] = x[i] * scale + shift for i < n. Bindings: x read, y write.
inline kir::Kernel affine_kernel(uint32_t n, float scale, float shift) {
    kir::Builder b("affine");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, n);
    const auto y = b.binding("y", kir::Scalar::f32, 1, kir::Access::write, n);
    const kir::Expr i = b.workgroup_id(0) * 64 + b.local_id(0);
    b.when(i < n, [&] { b.store(y, i, b.load(x, i) * scale + shift); });
    return b.finish();
}

// total[i] += x[i] for i < n. Bindings: x read, total inout.
inline kir::Kernel accumulate_kernel(uint32_t n) {
    kir::Builder b("accumulate");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, n);
    const auto total = b.binding("total", kir::Scalar::f32, 1, kir::Access::inout, n);
    const kir::Expr i = b.workgroup_id(0) * 64 + b.local_id(0);
    b.when(i < n, [&] { b.store(total, i, b.load(total, i) + b.load(x, i)); });
    return b.finish();
}

// counter[0] += amount, a parameter. Bindings: counter inout.
inline kir::Kernel count_kernel() {
    kir::Builder b("count");
    const auto counter = b.binding("counter", kir::Scalar::u32, 1, kir::Access::inout, 1);
    const kir::Expr zero = b.u32(0);
    b.store(counter, zero, b.load(counter, zero) + b.param("amount"));
    return b.finish();
}

struct ProgramMaker {
    Program program;

    explicit ProgramMaker(const Caps& caps) { program.caps = caps; }

    SegmentId segment(SegmentKind kind, uint64_t bytes, bool zeroed = false) {
        program.segments.push_back({kind, (bytes + 15) / 16 * 16, zeroed});
        return SegmentId(program.segments.size() - 1);
    }
    TensorId tensor(std::string name, std::string dtype, std::vector<int64_t> dims, SegmentId segment, uint64_t offset,
                    uint64_t bytes) {
        program.tensors.push_back({std::move(name), std::move(dtype), std::move(dims), segment, offset, bytes, "", false});
        return TensorId(program.tensors.size() - 1);
    }
    KernelId kernel(kir::Kernel kernel) {
        const uint64_t hash = kir::structural_hash(kernel);
        program.kernels.push_back({std::move(kernel), hash, {}, ""});
        return KernelId(program.kernels.size() - 1);
    }
    // Windows in the order of the kernel's bindings; accesses are the kernel's.
    Dispatch dispatch(KernelId kernel, uint32_t groups, std::vector<BindingWindow> windows, std::string label,
                      std::vector<uint32_t> params = {}) const {
        for (size_t i = 0; i < windows.size(); ++i) windows[i].access = program.kernel(kernel).kir.bindings[i].access;
        Dispatch d;
        d.kernel = kernel;
        d.groups = {groups, 1, 1};
        d.bindings = std::move(windows);
        d.params = std::move(params);
        d.label = std::move(label);
        return d;
    }
};

// A program with every kind of item. Entry 0, "step":
//   doubled = 2 x + 1; copied = doubled; three times: total += copied; counter += 7, y = total
// so that after s steps of one x: total = 3 s (2 x + 1), counter = 7 s, y = total.
struct EveryItem {
    static constexpr uint32_t n = 1000;
    static constexpr uint64_t bytes = n * 4, window = (bytes + 255) / 256 * 256;
    Program program;
    TensorId x, y, total, counter;

    explicit EveryItem(const Caps& caps) {
        ProgramMaker make(caps);
        const SegmentId io = make.segment(SegmentKind::io, 2 * window), scratch = make.segment(SegmentKind::scratch, 2 * window);
        const SegmentId state = make.segment(SegmentKind::state, 2 * window, true);
        x = make.tensor("x", "f32", {n}, io, 0, bytes);
        y = make.tensor("y", "f32", {n}, io, window, bytes);
        total = make.tensor("total", "f32", {n}, state, 0, bytes);
        counter = make.tensor("counter", "u32", {}, state, window, 4);
        const KernelId twice = make.kernel(affine_kernel(n, 2, 1)), same = make.kernel(affine_kernel(n, 1, 0));
        const KernelId accumulate = make.kernel(accumulate_kernel(n)), count = make.kernel(count_kernel());
        const uint32_t groups = (n + 63) / 64;
        const BindingWindow doubled{scratch, 0, bytes}, copied{scratch, window, bytes};
        Repeat thrice;
        thrice.count = 3;
        thrice.body.push_back(make.dispatch(accumulate, groups, {copied, {state, 0, bytes}}, "accumulate"));
        thrice.body.push_back(Barrier{});
        Entry entry;
        entry.name = "step";
        entry.inputs = {x};
        entry.outputs = {y};
        entry.body.push_back(make.dispatch(twice, groups, {{io, 0, bytes}, doubled}, "twice"));
        entry.body.push_back(Barrier{});
        entry.body.push_back(Copy{doubled, copied});
        entry.body.push_back(Barrier{});
        entry.body.push_back(thrice);
        entry.body.push_back(make.dispatch(count, 1, {{state, window, 4}}, "count", {7}));
        entry.body.push_back(make.dispatch(same, groups, {{state, 0, bytes}, {io, window, bytes}}, "output"));
        make.program.entries.push_back(entry);
        program = std::move(make.program);
    }
};

}  // namespace darner::testing
