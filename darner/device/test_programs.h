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

// sum[0] += round[0]. Bindings: round read, sum inout.
inline kir::Kernel add_round_kernel() {
    kir::Builder b("add_round");
    const auto round = b.binding("round", kir::Scalar::u32, 1, kir::Access::read, 1);
    const auto sum = b.binding("sum", kir::Scalar::u32, 1, kir::Access::inout, 1);
    const kir::Expr zero = b.u32(0);
    b.store(sum, zero, b.load(sum, zero) + b.load(round, zero));
    return b.finish();
}

// value[0] = 1. Bindings: value write.
inline kir::Kernel one_kernel() {
    kir::Builder b("one");
    const auto value = b.binding("value", kir::Scalar::u32, 1, kir::Access::write, 1);
    b.store(value, b.u32(0), b.u32(1));
    return b.finish();
}

// value[0] = 2 value[0] + 1. Bindings: value inout.
inline kir::Kernel grow_kernel() {
    kir::Builder b("grow");
    const auto value = b.binding("value", kir::Scalar::u32, 1, kir::Access::inout, 1);
    const kir::Expr zero = b.u32(0);
    b.store(value, zero, b.load(value, zero) * 2 + 1);
    return b.finish();
}

// The workgroups that an indirect dispatch then takes: {value[0] < limit ? 1 : 0, 1, 1}. Bindings: value read, groups write.
inline kir::Kernel below_kernel(uint32_t limit) {
    kir::Builder b("below");
    const auto value = b.binding("value", kir::Scalar::u32, 1, kir::Access::read, 1);
    const auto groups = b.binding("groups", kir::Scalar::u32, 1, kir::Access::write, 3);
    b.store(groups, b.u32(0), b.select(b.load(value, b.u32(0)) < limit, b.u32(1), b.u32(0)));
    b.store(groups, b.u32(1), b.u32(1));
    b.store(groups, b.u32(2), b.u32(1));
    return b.finish();
}

// What slow_kernel() adds: the end of a chain that has no closed form.
inline constexpr uint32_t slow_sum(uint32_t rounds) {
    uint32_t v = 0;
    for (uint32_t round = 0; round < rounds; ++round) v = (v ^ round) * 1664525u + 1013904223u;
    return v;
}

// y[i] = x[0] + slow_sum(rounds) for i < n. Bindings: x read, y write.
inline kir::Kernel slow_kernel(uint32_t n, uint32_t rounds) {
    kir::Builder b("slow");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::u32, 1, kir::Access::read, 1);
    const auto y = b.binding("y", kir::Scalar::u32, 1, kir::Access::write, n);
    const kir::Expr i = b.workgroup_id(0) * 64 + b.local_id(0), start = b.load(x, b.u32(0));
    const auto carried = b.loop(b.u32(0), b.u32(rounds), b.u32(1), {b.u32(0)}, [](kir::Expr round, const auto& v) {
        return kir::Builder::Values{(v[0] ^ round) * 1664525u + 1013904223u};
    });
    b.when(i < n, [&] { b.store(y, i, start + carried[0]); });
    return b.finish();
}

struct ProgramMaker {
    Program program;

    explicit ProgramMaker(const Caps& caps) { program.caps = caps; }

    SegmentId segment(SegmentKind kind, uint64_t bytes, bool zeroed = false, uint32_t slots = 1) {
        program.segments.push_back({kind, (bytes + 15) / 16 * 16, zeroed, slots});
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
//   doubled = 2 x + 1; copied = doubled; three times: total += copied; counter += 7, y = total;
//   for round in 0 .. 3: rounds += round;
//   grown = 1; eight times, while grown < 100: grown = 2 grown + 1
// so that after s steps of one x: total = 3 s (2 x + 1), counter = 7 s, y = total, rounds = 6 s, grown = 127.
struct EveryItem {
    static constexpr uint32_t n = 1000;
    static constexpr uint64_t bytes = n * 4, window = (bytes + 255) / 256 * 256;
    static constexpr size_t members = 7 + 4 * 2 + 2 + 8 * 2;  // as a device runs them
    Program program;
    TensorId x, y, total, counter, rounds, grown;

    explicit EveryItem(const Caps& caps) {
        ProgramMaker make(caps);
        const SegmentId io = make.segment(SegmentKind::io, 2 * window), scratch = make.segment(SegmentKind::scratch, 4 * window);
        const SegmentId state = make.segment(SegmentKind::state, 4 * window, true);
        x = make.tensor("x", "f32", {n}, io, 0, bytes);
        y = make.tensor("y", "f32", {n}, io, window, bytes);
        total = make.tensor("total", "f32", {n}, state, 0, bytes);
        counter = make.tensor("counter", "u32", {}, state, window, 4);
        rounds = make.tensor("rounds", "u32", {}, state, 2 * window, 4);
        grown = make.tensor("grown", "u32", {}, state, 3 * window, 4);
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
        entry.body.push_back(count_rounds(make, {scratch, 2 * window, 4}, {state, 2 * window, 4}));
        add_while(make, entry.body, {state, 3 * window, 4}, {scratch, 3 * window, 12});
        make.program.entries.push_back(entry);
        program = std::move(make.program);
    }

private:
    static Repeat count_rounds(ProgramMaker& make, BindingWindow round, BindingWindow sum) {
        Repeat repeat;
        repeat.count = 4;
        repeat.counter = round;
        repeat.body.push_back(make.dispatch(make.kernel(add_round_kernel()), 1, {round, sum}, "add round"));
        return repeat;
    }
    static void add_while(ProgramMaker& make, std::vector<Item>& body, BindingWindow value, BindingWindow groups) {
        const KernelId one = make.kernel(one_kernel()), grow = make.kernel(grow_kernel());
        const KernelId below = make.kernel(below_kernel(100));
        const Dispatch test = make.dispatch(below, 1, {value, groups}, "test");
        Dispatch step = make.dispatch(grow, 1, {value}, "grow");
        step.groups_from = groups;
        body.push_back(make.dispatch(one, 1, {value}, "start"));
        body.push_back(Barrier{});
        body.push_back(test);
        Repeat repeat;
        repeat.count = 8;
        repeat.body = {Barrier{}, step, Barrier{}, test};
        body.push_back(repeat);
    }
};

// Rings. Entry 0, "step": y = 2 x + bias, total += y; x and y are per step, `bias` is an input like any other. Entry 1,
// "other", has rings of its own: v = 2 u + 1.
struct RingProgram {
    static constexpr uint32_t n = 130;
    static constexpr uint64_t bytes = n * 4, window = (bytes + 255) / 256 * 256;
    Program program;
    TensorId x, y, bias, total, u, v;

    explicit RingProgram(const Caps& caps, uint32_t slots = 4, uint32_t other_slots = 2) {
        ProgramMaker make(caps);
        const SegmentId ring = make.segment(SegmentKind::io, 2 * window, false, slots);
        const SegmentId other_ring = make.segment(SegmentKind::io, 2 * window, false, other_slots);
        const SegmentId io = make.segment(SegmentKind::io, window), state = make.segment(SegmentKind::state, window, true);
        const SegmentId scratch = make.segment(SegmentKind::scratch, window);
        x = make.tensor("x", "f32", {n}, ring, 0, bytes);
        y = make.tensor("y", "f32", {n}, ring, window, bytes);
        u = make.tensor("u", "f32", {n}, other_ring, 0, bytes);
        v = make.tensor("v", "f32", {n}, other_ring, window, bytes);
        for (const TensorId id : {x, y, u, v}) make.program.tensors[id.value].per_step = true;
        bias = make.tensor("bias", "f32", {n}, io, 0, bytes);
        total = make.tensor("total", "f32", {n}, state, 0, bytes);
        const KernelId twice = make.kernel(affine_kernel(n, 2, 0)), more = make.kernel(affine_kernel(n, 2, 1));
        const KernelId add = make.kernel(accumulate_kernel(n));
        const uint32_t groups = (n + 63) / 64;
        const BindingWindow doubled{scratch, 0, bytes}, result{ring, window, bytes};
        Entry step, other;
        step.name = "step";
        step.inputs = {x, bias};
        step.outputs = {y};
        step.body = {make.dispatch(twice, groups, {{ring, 0, bytes}, doubled}, "twice"),
                     Barrier{},
                     Copy{doubled, result},
                     Barrier{},
                     make.dispatch(add, groups, {{io, 0, bytes}, result}, "bias"),
                     Barrier{},
                     make.dispatch(add, groups, {result, {state, 0, bytes}}, "total")};
        other.name = "other";
        other.inputs = {u};
        other.outputs = {v};
        other.body = {make.dispatch(more, groups, {{other_ring, 0, bytes}, {other_ring, window, bytes}}, "more")};
        make.program.entries = {step, other};
        program = std::move(make.program);
    }
};

}  // namespace darner::testing
