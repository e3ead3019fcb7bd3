// SPDX-License-Identifier: MIT
// The checking interpreter: right results, and each of its checks shown to fire.
#include "darner/kir/interpret.h"

#include "darner/kir/builder.h"
#include "darner/kir/half.h"
#include "darner/kir/text.h"
#include "darner/kir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace darner::kir {
namespace {

using testing::HasSubstr;

template <class T>
Buffer buffer(std::vector<T>& data, Shadow* shadow = nullptr) {
    return {reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(T), shadow, 0};
}

struct Call {
    Kernel kernel;
    std::vector<Buffer> buffers;
    std::vector<uint32_t> params = {};
    std::array<uint32_t, 3> groups = {1, 1, 1};
    InterpretOptions options = {};

    Result<void> go() { return interpret(kernel, groups, buffers, params, options); }
    std::string error() {
        Result<void> result = go();
        return result ? "no error" : result.error().message;
    }
    void expect_ok() {
        EXPECT_TRUE(verify(kernel)) << verify(kernel).error().text();
        Result<void> result = go();
        EXPECT_TRUE(result) << result.error().text();
    }
};

TEST(Interpret, MapWithGuardAndParams) {
    Builder b("map");
    b.workgroup_size(64);
    BindingRef x = b.binding("x", Scalar::f32, 1, Access::read, 100), y = b.binding("y", Scalar::f32, 1, Access::write, 100);
    Expr i = b.workgroup_id(0) * 64 + b.local_id(0);
    b.when(i < b.param("count"), [&] { b.store(y, i, b.exp(b.load(x, i)) * 2); });
    std::vector<float> in(100), out(100, -1);
    for (size_t n = 0; n < 100; ++n) in[n] = static_cast<float>(n) * 0.1f;
    InterpretStats stats;
    Call run{b.finish(), {buffer(in), buffer(out)}, {99}, {2, 1, 1}, {.stats = &stats}};
    run.expect_ok();
    for (size_t n = 0; n < 99; ++n) EXPECT_EQ(out[n], static_cast<float>(std::exp(double(in[n]))) * 2);
    EXPECT_EQ(out[99], -1);
    EXPECT_EQ(stats.loads, (std::vector<uint64_t>{99, 0}));
    EXPECT_EQ(stats.stores, (std::vector<uint64_t>{0, 99}));
}

// Shared-memory tiles, barriers in a loop, carried accumulators.
Kernel matmul(uint32_t m, uint32_t n, uint32_t k, bool second_barrier = true) {
    constexpr uint32_t tile = 8;
    Builder b("matmul");
    b.workgroup_size(tile, tile);
    BindingRef x = b.binding("x", Scalar::f32, 1, Access::read, m * k), w = b.binding("w", Scalar::f32, 1, Access::read, k * n);
    BindingRef y = b.binding("y", Scalar::f32, 1, Access::write, m * n);
    ArrayRef xs = b.workgroup_array("xs", f32_type, tile * tile), ws = b.workgroup_array("ws", f32_type, tile * tile);
    Expr lx = b.local_id(0), ly = b.local_id(1), row = b.workgroup_id(1) * tile + ly, column = b.workgroup_id(0) * tile + lx;
    auto guarded = [&](BindingRef source, Expr ok, Expr index) {
        return b.branch(
            ok, [&] { return Builder::Values{b.load(source, index)}; }, [&] { return Builder::Values{b.f32(0)}; })[0];
    };
    Expr sum = b.loop(b.u32(0), b.u32(k), b.u32(tile), {b.f32(0)}, [&](Expr k0, const Builder::Values& acc) {
        b.store(xs, ly * tile + lx, guarded(x, (row < m) & (k0 + lx < k), row * k + k0 + lx));
        b.store(ws, ly * tile + lx, guarded(w, (column < n) & (k0 + ly < k), (k0 + ly) * n + column));
        b.barrier();
        auto next = b.loop(b.u32(0), b.u32(tile), b.u32(1), acc, [&](Expr kk, const Builder::Values& a) {
            return Builder::Values{b.fma(b.load(xs, ly * tile + kk), b.load(ws, kk * tile + lx), a[0])};
        });
        if (second_barrier) b.barrier();
        return next;
    })[0];
    b.when((row < m) & (column < n), [&] { b.store(y, row * n + column, sum); });
    return b.finish();
}

TEST(Interpret, TiledMatmul) {
    uint32_t m = 13, n = 9, k = 21;
    std::vector<float> x(m * k), w(k * n), y(m * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
    Call run{matmul(m, n, k), {buffer(x), buffer(w), buffer(y)}, {}, {2, 2, 1}};
    run.expect_ok();
    for (uint32_t r = 0; r < m; ++r)
        for (uint32_t c = 0; c < n; ++c) {
            float sum = 0;
            for (uint32_t i = 0; i < k; ++i) sum += x[r * k + i] * w[i * n + c];
            EXPECT_EQ(y[r * n + c], sum);
        }
    Call racy{matmul(m, n, k, false), {buffer(x), buffer(w), buffer(y)}, {}, {2, 2, 1}};
    EXPECT_THAT(racy.error(), testing::AllOf(HasSubstr("race"), HasSubstr("workgroup array"), HasSubstr("[kernel matmul]"),
                                             HasSubstr("array_store")));
}

struct InterpretChecks : testing::Test {
    Builder b{"checked"};
    BindingRef in, out;
    std::vector<uint32_t> in_data = std::vector<uint32_t>(64), out_data = std::vector<uint32_t>(64);
    ArrayRef shared;
    Expr i;
    void SetUp() override {
        std::iota(in_data.begin(), in_data.end(), 0u);
        b.workgroup_size(64);
        in = b.binding("in", Scalar::u32, 1, Access::read, 64);
        out = b.binding("out", Scalar::u32, 1, Access::inout, 64);
        shared = b.workgroup_array("shared", u32_type, 64);
        i = b.local_id(0);
    }
    Call run() { return {b.finish(), {buffer(in_data), buffer(out_data)}}; }
    Expr loaded() { return b.load(in, i); }  // without known bounds
};

TEST_F(InterpretChecks, OutOfBounds) {
    b.store(out, i + 1, i);
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("out of bounds: binding out, index 64 of 64"), HasSubstr("`store out[%"),
                                              HasSubstr("workgroup (0,0,0), invocation (63,0,0)")));
}

TEST_F(InterpretChecks, OutOfTheWindow) {
    b.store(out, i, b.load(in, i));
    Call r = run();
    r.buffers[0].bytes = 40;
    EXPECT_THAT(r.error(), HasSubstr("binding in, index 10 of 64 declared, 10 in the window"));
}

TEST_F(InterpretChecks, OutOfAnArray) {
    b.store(shared, loaded() * 2, i);
    EXPECT_THAT(run().error(), HasSubstr("out of bounds: workgroup array shared, index 64 of 64"));
}

TEST_F(InterpretChecks, UninitialisedSharedMemory) {
    b.when(i < 32, [&] { b.store(shared, i, i); });
    b.barrier();
    b.store(out, i, b.load(shared, i));
    EXPECT_THAT(run().error(), HasSubstr("uninitialised read: workgroup array shared, scalar 32"));
}

TEST_F(InterpretChecks, SharedMemoryDoesNotOutliveItsWorkgroup) {
    b.when(b.workgroup_id(0) == 0, [&] { b.store(shared, i, i); });
    b.barrier();
    b.store(out, i, b.load(shared, i));
    Call r = run();
    r.groups = {2, 1, 1};
    EXPECT_THAT(r.error(), testing::AllOf(HasSubstr("uninitialised read"), HasSubstr("workgroup (1,0,0)")));
}

TEST_F(InterpretChecks, UninitialisedPrivateMemory) {
    ArrayRef mine = b.private_array("mine", u32_type, 2);
    b.when(i < 5, [&] { b.store(mine, b.u32(1), i); });
    b.store(out, i, b.load(mine, b.u32(1)));
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("private array mine, element 1"), HasSubstr("invocation (5,0,0)")));
}

TEST_F(InterpretChecks, UninitialisedBuffer) {
    b.store(out, i, b.load(in, i));
    Call r = run();
    Shadow shadow(in_data.size() * 4);
    shadow.mark_initialised(0, 80);
    r.buffers[0].shadow = &shadow;
    EXPECT_THAT(r.error(), HasSubstr("uninitialised read: binding in, scalar 20"));
    shadow.mark_initialised(80, 256 - 80);
    EXPECT_EQ(r.error(), "no error");
    shadow.poison(4, 4);
    EXPECT_THAT(r.error(), HasSubstr("binding in, scalar 1"));
}

TEST_F(InterpretChecks, StoresInitialise) {
    b.store(out, i, i);
    b.store(out, i, b.load(out, i) + 1);
    Call r = run();
    Shadow shadow(512);
    r.buffers[1].shadow = &shadow;
    r.buffers[1].shadow_offset = 256;
    r.expect_ok();
    EXPECT_TRUE(shadow.is_initialised(256, 256));
    EXPECT_FALSE(shadow.is_initialised(252, 8));
}

TEST_F(InterpretChecks, TwoInvocationsWriteOneWord) {
    b.store(out, loaded() / 2, i);
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("race: binding out, scalar 0"), HasSubstr("another invocation")));
}

TEST_F(InterpretChecks, MissingBarrier) {
    b.store(shared, i, i);
    b.store(out, i, b.load(shared, 63 - i));
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("race: workgroup array shared"), HasSubstr("no barrier between")));
}

TEST_F(InterpretChecks, WriteAfterReadWithoutBarrier) {
    b.store(shared, i, i);
    b.barrier();
    b.store(out, i, b.load(shared, 63 - i));
    b.store(shared, i, i + 1);
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("race: workgroup array shared"), HasSubstr("array_store")));
}

TEST_F(InterpretChecks, BarriersOrder) {
    b.store(shared, i, i);
    b.barrier();
    Expr other = b.load(shared, 63 - i);
    b.barrier();
    b.store(shared, i, other);
    b.barrier();
    b.store(out, i, b.load(shared, 63 - i));
    run().expect_ok();
    EXPECT_EQ(out_data, in_data);
}

TEST_F(InterpretChecks, WorkgroupsRace) {
    b.store(out, i, b.workgroup_id(0));
    Call r = run();
    r.groups = {2, 1, 1};
    EXPECT_THAT(r.error(), testing::AllOf(HasSubstr("another workgroup"), HasSubstr("workgroup (1,0,0)")));
}

TEST_F(InterpretChecks, ReadersBeforeTheWriterRaceToo) {
    // Workgroups 0 and 1 read word 0; then workgroup 1 writes it.
    Expr first = b.load(out, b.u32(0));
    b.when((b.workgroup_id(0) == 1) & (i == 0), [&] { b.store(out, b.u32(0), first); });
    Call r = run();
    r.groups = {2, 1, 1};
    EXPECT_THAT(r.error(), testing::AnyOf(HasSubstr("another workgroup"), HasSubstr("another invocation")));
}

TEST_F(InterpretChecks, DispatchesRaceOnlyWithoutBarrier) {
    b.store(out, i, i);
    Call r = run();
    Shadow shadow(256);
    r.buffers[1].shadow = &shadow;
    r.expect_ok();
    r.expect_ok();
    r.options.before_barrier = false;
    r.expect_ok();
    r.options.after_barrier = false;
    EXPECT_THAT(r.error(), HasSubstr("another workgroup or dispatch"));
    EXPECT_FALSE(shadow.touch(0, 4, false));
    shadow.begin_dispatch();
    EXPECT_TRUE(shadow.touch(0, 4, false));
    EXPECT_TRUE(shadow.touch(0, 4, false));
    EXPECT_FALSE(shadow.touch(0, 4, true));
}

TEST_F(InterpretChecks, AtomicsDoNotRaceWithEachOther) {
    b.atomic(AtomicKind::add, out, b.u32(0), i);
    b.atomic(AtomicKind::max, out, b.u32(1), i + b.workgroup_id(0));
    Call r = run();
    r.groups = {3, 1, 1};
    r.expect_ok();
    EXPECT_EQ(out_data[0], 3u * 63 * 32);
    EXPECT_EQ(out_data[1], 65u);
}

TEST_F(InterpretChecks, AtomicsRaceWithLoads) {
    b.atomic(AtomicKind::add, out, b.u32(0), i);
    b.store(out, i + 1 - b.min(i, b.u32(1)) * 1 + 1, b.load(out, b.u32(0)));
    EXPECT_THAT(run().error(), HasSubstr("race: binding out, scalar 0"));
}

TEST_F(InterpretChecks, DivergentBarrier) {
    b.when(i < 32, [&] { b.barrier(); });
    Kernel k = b.finish();
    EXPECT_FALSE(verify(k));
    Call r{k, {buffer(in_data), buffer(out_data)}};
    EXPECT_THAT(r.error(), HasSubstr("divergent barrier: 32 of 64 invocations"));
}

TEST_F(InterpretChecks, DivergentSubgroup) {
    b.when(loaded() < 33, [&] { b.store(out, i, b.subgroup_reduce(ReduceKind::add, i)); });
    EXPECT_THAT(run().error(),
                testing::AllOf(HasSubstr("subgroup operation in divergent control flow"), HasSubstr("invocation (32,0,0)")));
}

TEST_F(InterpretChecks, PartialOperations) {
    Expr v = loaded();
    b.store(out, i, b.u32(100) / v);
    EXPECT_THAT(run().error(), HasSubstr("integer division by zero"));
}

TEST_F(InterpretChecks, ShiftCounts) {
    b.store(out, i, b.u32(1) << loaded());
    EXPECT_THAT(run().error(), testing::AllOf(HasSubstr("shift count 32"), HasSubstr("invocation (32,0,0)")));
}

TEST_F(InterpretChecks, LoopsThatCannotEnd) {
    b.loop(b.u32(0), b.u32(10), loaded(), [&](Expr k) { b.store(out, i, k); });
    EXPECT_THAT(run().error(), HasSubstr("step of the loop is zero"));
}

TEST_F(InterpretChecks, DivisorsOfInactiveInvocationsDoNotCount) {
    Expr v = loaded();
    b.when(v != 0, [&] { b.store(out, i, b.u32(100) / v); });
    run().expect_ok();
    EXPECT_EQ(out_data[7], 14u);
}

TEST_F(InterpretChecks, WrongCallsAreRefused) {
    b.store(out, i, b.load(in, i));
    Call r = run();
    r.buffers.pop_back();
    EXPECT_THAT(r.error(), HasSubstr("got 1 buffers, expected 2"));
    r.buffers.push_back(buffer(out_data));
    r.params = {1};
    EXPECT_THAT(r.error(), HasSubstr("got 1 params, expected 0"));
    r.params = {};
    r.options.subgroup_size = 12;
    EXPECT_THAT(r.error(), HasSubstr("subgroup size 12"));
}

TEST_F(InterpretChecks, DivergentLoopsAndCarriedSwaps) {
    // Fibonacci numbers, each invocation its own trip count; the carried values swap places.
    auto f = b.loop(b.u32(0), loaded() % 20, b.u32(1), {b.u32(0), b.u32(1)}, [&](Expr, const Builder::Values& c) {
        return Builder::Values{c[1], c[0] + c[1]};
    });
    b.store(out, i, f[0]);
    run().expect_ok();
    EXPECT_EQ(out_data[10], 55u);
    EXPECT_EQ(out_data[19], 4181u);
    EXPECT_EQ(out_data[20], 0u);
}

TEST_F(InterpretChecks, NestedBranchesWithResults) {
    Expr v = loaded();
    Expr r = b.branch(
        v < 32,
        [&] {
            return b.branch(
                v % 2 == 0, [&] { return Builder::Values{v * 2}; }, [&] { return Builder::Values{v + 100}; });
        },
        [&] { return Builder::Values{b.u32(7)}; })[0];
    b.store(out, i, r);
    run().expect_ok();
    EXPECT_EQ(out_data[4], 8u);
    EXPECT_EQ(out_data[5], 105u);
    EXPECT_EQ(out_data[40], 7u);
}

TEST_F(InterpretChecks, SubgroupsOfAnySize) {
    b.store(out, i,
            b.subgroup_reduce(ReduceKind::add, b.load(in, i)) + b.subgroup_shuffle_xor(i, 1) * 10000 +
                b.subgroup_broadcast(i, 2) * 1000000);
    Kernel kernel = b.finish();
    for (uint32_t size : {8u, 32u}) {
        Call r{kernel, {buffer(in_data), buffer(out_data)}, {}, {1, 1, 1}, {.subgroup_size = size}};
        r.expect_ok();
        for (uint32_t n = 0; n < 64; ++n) {
            uint32_t first = n / size * size, sum = size * first + size * (size - 1) / 2;
            EXPECT_EQ(out_data[n], sum + (n ^ 1u) * 10000 + (first + 2) * 1000000);
        }
    }
}

TEST(Interpret, HalvesAndVectors) {
    Builder b("halves");
    b.workgroup_size(4);
    BindingRef h = b.binding("h", Scalar::f16, 2, Access::read, 4), g = b.binding("g", Scalar::bf16, 1, Access::write, 8);
    BindingRef v = b.binding("v", Scalar::f32, 4, Access::write, 4);
    Expr i = b.local_id(0);
    Expr pair = b.convert(b.load(h, i), Scalar::f32);
    Expr sum = b.load_scalar(h, i * 2 + 1) + b.constant(f16_type, 0.5);
    b.store(g, i * 2, b.convert(b.extract(pair, 0), Scalar::bf16));
    b.store(v, i,
            b.make_vector({b.extract(pair, 0), b.extract(pair, 1), b.convert(sum, Scalar::f32),
                           b.extract(b.unpack_half2(b.pack_half2(b.f32(1), b.extract(pair, 1) * 3)), 1)}));
    std::vector<uint16_t> half(8), wide(8);
    for (size_t n = 0; n < 8; ++n) half[n] = static_cast<uint16_t>(f32_to_f16(0.1f * static_cast<float>(n)));
    std::vector<float> out(16);
    Call run{b.finish(), {buffer(half), buffer(wide), buffer(out)}};
    run.expect_ok();
    float second = f16_to_f32(half[3]);
    EXPECT_EQ(out[5], second);
    EXPECT_EQ(out[6], f16_to_f32(f32_to_f16(second + 0.5f)));
    EXPECT_EQ(out[7], f16_to_f32(f32_to_f16(second * 3)));
    EXPECT_EQ(wide[2], f32_to_bf16(f16_to_f32(half[2])));
}

TEST(Half, RoundsToNearestEven) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        float value = f16_to_f32(bits);
        if (value == value)
            EXPECT_EQ(f32_to_f16(value), bits);
        else
            EXPECT_NE(f32_to_f16(value) & 0x3ffu, 0u);
    }
    EXPECT_EQ(f32_to_f16(65519.996f), 0x7bffu);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00u);
    EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00u);
    EXPECT_EQ(f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02u);
    EXPECT_EQ(f32_to_f16(0x1p-25f), 0u);
    EXPECT_EQ(f32_to_f16(0x1.8p-24f), 2u);
    EXPECT_EQ(f32_to_f16(-0.0f), 0x8000u);
    EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80u);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80u);
}

// One 16x16 tile a subgroup, operands through bindings and through workgroup memory packed in words.
TEST(Interpret, CooperativeMatrices) {
    constexpr uint32_t k = 32;
    Builder b("coop");
    b.workgroup_size(64);
    b.require_subgroup_size(32);
    Type ta{Scalar::f16, 1, 16, 16, CoopUse::a}, tb{Scalar::f16, 1, 16, 16, CoopUse::b},
        tc{Scalar::f32, 1, 16, 16, CoopUse::accumulator};
    BindingRef x = b.binding("x", Scalar::f16, 1, Access::read, 32 * k),
               w = b.binding("w", Scalar::u32, 4, Access::read, k * 16 / 8);
    BindingRef y = b.binding("y", Scalar::f32, 1, Access::write, 32 * 16);
    ArrayRef staged = b.workgroup_array("staged", u32_type.with_lanes(4), k * 16 / 8), acc = b.private_array("acc", tc, 1);
    Expr i = b.local_index(), row = b.subgroup_id() * 16;
    b.store(staged, i, b.load(w, i));
    b.barrier();
    b.store(acc, b.u32(0), b.coop_fill(tc, b.f32(0)));
    b.loop(b.u32(0), b.u32(k), b.u32(16), [&](Expr k0) {
        Expr a = b.coop_load(ta, x, row * k + k0, b.u32(k)), c = b.coop_load(tb, staged, k0 * 2, b.u32(2));
        b.store(acc, b.u32(0), b.coop_mul_add(a, c, b.load(acc, b.u32(0))));
    });
    b.coop_store(y, row * 16, b.u32(16), b.coop_map(Opcode::mul, b.load(acc, b.u32(0)), b.f32(2)));
    std::vector<uint16_t> xs(32 * k), ws(k * 16);
    for (size_t n = 0; n < xs.size(); ++n) xs[n] = static_cast<uint16_t>(f32_to_f16(static_cast<float>(n % 9) - 4));
    for (size_t n = 0; n < ws.size(); ++n) ws[n] = static_cast<uint16_t>(f32_to_f16(static_cast<float>(n % 11) - 5));
    std::vector<float> ys(32 * 16);
    InterpretStats stats;
    Call run{b.finish(), {buffer(xs), buffer(ws), buffer(ys)}, {}, {1, 1, 1}, {.stats = &stats}};
    run.expect_ok();
    for (uint32_t r = 0; r < 32; ++r)
        for (uint32_t c = 0; c < 16; ++c) {
            float sum = 0;
            for (uint32_t n = 0; n < k; ++n) sum += f16_to_f32(xs[r * k + n]) * f16_to_f32(ws[n * 16 + c]);
            EXPECT_EQ(ys[r * 16 + c], 2 * sum);
        }
    EXPECT_EQ(stats.loads, (std::vector<uint64_t>{32 * k, k * 16 / 2, 0}));
}

TEST(Interpret, CooperativeAccessIsChecked) {
    auto kernel = [](uint32_t index, bool divergent) {
        Builder b("coop");
        b.workgroup_size(32);
        Type t{Scalar::f32, 1, 8, 8, CoopUse::accumulator};
        BindingRef y = b.binding("y", Scalar::f32, 1, Access::inout, 64);
        b.coop_store(y, divergent ? b.local_index() / 32 + b.local_index() % 2 : b.u32(index), b.u32(8),
                     b.coop_fill(t, b.f32(1)));
        return b.finish();
    };
    std::vector<float> y(64);
    EXPECT_THAT((Call{kernel(1, false), {buffer(y)}}.error()), HasSubstr("out of bounds: binding y, index 64 of 64"));
    EXPECT_THAT((Call{kernel(0, true), {buffer(y)}}.error()), HasSubstr("differ within the subgroup"));
    Call small{kernel(0, false), {buffer(y)}};
    small.expect_ok();
    small.options.subgroup_size = 64;
    EXPECT_THAT(small.error(), HasSubstr("whole subgroups"));
}

// Both ways through the arithmetic: what the builder folds is what the interpreter computes.
TEST(Interpret, AgreesWithFolding) {
    const uint32_t words[] = {0,          1,          2,          5,          31,         0x7fffffff, 0x80000000,
                              0xffffffff, 0x3f800000, 0xbf000000, 0x40490fdb, 0x00000001, 0x4b800001};
    const Opcode binary[] = {Opcode::add, Opcode::sub, Opcode::mul, Opcode::div, Opcode::rem, Opcode::min, Opcode::max,
                             Opcode::lt,  Opcode::le,  Opcode::eq,  Opcode::ne,  Opcode::shl, Opcode::shr};
    for (Scalar scalar : {Scalar::i32, Scalar::u32, Scalar::f32}) {
        for (Opcode op : binary) {
            bool shift = op == Opcode::shl || op == Opcode::shr;
            if (scalar == Scalar::f32 && (shift || op == Opcode::rem)) continue;
            for (uint32_t left : words)
                for (uint32_t right : words) {
                    if (shift && right > 31) continue;
                    if (right == 0 && (op == Opcode::div || op == Opcode::rem)) continue;
                    Builder b("fold");
                    BindingRef in = b.binding("in", Scalar::u32, 1, Access::read, 2),
                               out = b.binding("out", Scalar::u32, 1, Access::write, 2);
                    auto word = [&](Expr v) {
                        return v.type().scalar == Scalar::boolean ? b.convert(v, Scalar::u32) : b.bitcast(v, Scalar::u32);
                    };
                    Expr l = b.bitcast(b.load(in, b.u32(0)), scalar), r = b.bitcast(b.load(in, b.u32(1)), scalar);
                    b.store(out, b.u32(0), word(b.binary(op, l, r)));
                    b.store(out, b.u32(1), word(b.binary(op, b.bitcast(b.u32(left), scalar), b.bitcast(b.u32(right), scalar))));
                    std::vector<uint32_t> in_data{left, right}, out_data(2);
                    Call run{b.finish(), {buffer(in_data), buffer(out_data)}};
                    ASSERT_EQ(run.error(), "no error");
                    bool nan = scalar == Scalar::f32 && std::isnan(std::bit_cast<float>(out_data[0])) &&
                               std::isnan(std::bit_cast<float>(out_data[1]));
                    bool zeros = scalar == Scalar::f32 && (out_data[0] | out_data[1]) == 0x80000000u;  // min and max of 0 and -0
                    EXPECT_TRUE(out_data[0] == out_data[1] || nan || zeros)
                        << to_string(op) << " " << to_string(scalar) << " " << left << " " << right;
                }
        }
    }
}

// Bits of the simplifications: index arithmetic with and without known bounds gives the same numbers.
TEST(Interpret, SimplifiedIndexArithmeticIsRight) {
    for (uint32_t d : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 24u, 48u}) {
        Builder b("index");
        b.workgroup_size(96);
        BindingRef out = b.binding("out", Scalar::u32, 1, Access::write, 96 * 6);
        Expr i = b.local_index(), q = i / 12, r = i % 12;
        std::vector<std::function<uint32_t(uint32_t)>> expected;
        uint32_t n = 0;
        auto check = [&](Expr e, std::function<uint32_t(uint32_t)> f) {
            b.store(out, i * 6 + n++, e);
            expected.push_back(std::move(f));
        };
        check((q * 12 + r) / d, [=](uint32_t v) { return v / d; });
        check((q * 24 + r * 2 + 1) / d, [=](uint32_t v) { return (v * 2 + 1) / d; });
        check((q * 24 + r * 2 + 1) % d, [=](uint32_t v) { return (v * 2 + 1) % d; });
        check(((i * 8 + 5) % 48) % d, [=](uint32_t v) { return (v * 8 + 5) % 48 % d; });
        check((i / 3 * 4 + i % 3) / d, [=](uint32_t v) { return (v / 3 * 4 + v % 3) / d; });
        check((i * 6 + q * 4 + 25) % d + (i * 6 + q * 4 + 25) / d,
              [=](uint32_t v) { return (v * 6 + v / 12 * 4 + 25) % d + (v * 6 + v / 12 * 4 + 25) / d; });
        std::vector<uint32_t> data(96 * 6);
        Call run{b.finish(), {buffer(data)}};
        run.expect_ok();
        for (uint32_t v = 0; v < 96; ++v)
            for (uint32_t e = 0; e < 6; ++e)
                EXPECT_EQ(data[v * 6 + e], expected[e](v)) << "formula " << e << " at " << v << " by " << d;
    }
}

}  // namespace
}  // namespace darner::kir
