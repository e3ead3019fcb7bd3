// SPDX-License-Identifier: MIT
// Estimates of Programs made by hand, where the model's answer can be worked out on paper.
#include "darner/plan/estimate.h"

#include "darner/kir/builder.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

constexpr Rates rates{.bytes_per_second = 1e9,
                      .flops = 1e9,
                      .contraction_flops = 4e9,
                      .dispatch_seconds = 1e-6,
                      .group_seconds = 10e-6,
                      .load_seconds = 1e-6,
                      .compute_units = 4};

// Each of the 64 invocations of a workgroup loads `loads` elements of x in a loop and stores one.
kir::Kernel sum_kernel(uint32_t loads, uint64_t elements) {
    kir::Builder b("sum");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, elements);
    const auto y = b.binding("y", kir::Scalar::f32, 1, kir::Access::write, 64);
    const auto sum = b.loop(b.u32(0), b.u32(loads), b.u32(1), {b.f32(0)}, [&](kir::Expr i, const kir::Builder::Values& carried) {
        return kir::Builder::Values{carried[0] + b.load(x, i)};
    });
    b.store(y, b.local_id(0), sum[0]);
    return b.finish();
}

struct Made {
    Program program;
    Dispatch dispatch;

    Made(uint32_t loads, uint64_t elements) {
        program.segments = {{SegmentKind::scratch, 1 << 20}, {SegmentKind::scratch, 1 << 20}};
        program.kernels.push_back({sum_kernel(loads, elements)});
        dispatch.kernel = KernelId(0);
        dispatch.groups = {4, 1, 1};
        dispatch.bindings = {{SegmentId(0), 0, elements * 4, kir::Access::read}, {SegmentId(1), 0, 256, kir::Access::write}};
        dispatch.label = "row[sum]";
    }
    EntryEstimate run(std::vector<Item> items) {
        const Result<EntryEstimate> result = estimate(program, {"step", {}, {}, std::move(items)}, rates);
        EXPECT_TRUE(result);
        return *result;
    }
};

TEST(Estimate, BytesAreThoseOfTheWindows) {
    Made made(1000, 1000);
    const EntryEstimate one = made.run({made.dispatch});
    EXPECT_EQ(one.bytes, 4000u + 256u);
    // 1,000 rounds that wait for a load each outlast the bytes.
    EXPECT_DOUBLE_EQ(one.seconds, 10e-6 + 1e-6 + 1000e-6);
    EXPECT_DOUBLE_EQ(one.groups[0].members[0].seconds, 1001e-6);
}

TEST(Estimate, AKernelReadsNoMoreThanItLoads) {
    Made made(2, 100000);  // of a table; 256 invocations load two elements each
    EXPECT_EQ(made.run({made.dispatch}).bytes, 256u * 2 * 4 + 256u);
}

TEST(Estimate, OverlappingWindowsCountOnce) {
    Made made(1, 64);
    kir::Builder b("add");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, 64);
    const auto y = b.binding("y", kir::Scalar::f32, 1, kir::Access::read, 64);
    const auto z = b.binding("z", kir::Scalar::f32, 1, kir::Access::inout, 64);
    const kir::Expr i = b.local_id(0);
    b.store(z, i, b.load(x, i) + b.load(y, i) + b.load(z, i));
    made.program.kernels.push_back({b.finish()});
    Dispatch add = made.dispatch;
    add.kernel = KernelId(1);
    add.bindings = {{SegmentId(0), 0, 256}, {SegmentId(0), 128, 256}, {SegmentId(1), 0, 256, kir::Access::inout}};
    EXPECT_EQ(made.run({add}).bytes, 384u + 256u + 256u);
}

TEST(Estimate, FewWorkgroupsDrawAPartOfTheRates) {
    Made made(1, 64);
    made.dispatch.flops = 1000000;
    EXPECT_DOUBLE_EQ(made.run({made.dispatch}).groups[0].members[0].seconds, 1001e-6);
    made.dispatch.groups = {1, 1, 1};
    EXPECT_DOUBLE_EQ(made.run({made.dispatch}).groups[0].members[0].seconds, 4001e-6);
    made.dispatch.groups = {400, 1, 1};
    EXPECT_DOUBLE_EQ(made.run({made.dispatch}).groups[0].members[0].seconds, 1001e-6);
}

TEST(Estimate, ContractionsHaveTheirOwnRate) {
    Made made(1, 64);
    made.dispatch.flops = 1000000;
    made.dispatch.label = "contract[dot] model.py:3";
    EXPECT_DOUBLE_EQ(made.run({made.dispatch}).groups[0].members[0].seconds, 251e-6);
}

TEST(Estimate, MembersOfAGroupOverlapAndGroupsDoNot) {
    Made made(1, 64);
    made.dispatch.flops = 1000000;
    made.dispatch.groups = {1, 1, 1};  // alone 4,000 us, of which the device is busy for a quarter
    EXPECT_DOUBLE_EQ(made.run({made.dispatch, made.dispatch}).seconds, 10e-6 + 2e-6 + 4000e-6);
    made.dispatch.groups = {4, 1, 1};
    EXPECT_DOUBLE_EQ(made.run({made.dispatch, made.dispatch}).seconds, 10e-6 + 2e-6 + 2000e-6);
    EXPECT_DOUBLE_EQ(made.run({made.dispatch, Barrier{}, made.dispatch}).seconds, 2 * (10e-6 + 1e-6 + 1000e-6));
}

TEST(Estimate, RepeatsCopiesAndCounters) {
    Made made(1, 64);
    const Copy copy{{SegmentId(0), 0, 5000}, {SegmentId(1), 0, 5000}};
    const EntryEstimate rounds = made.run({Repeat{3, {copy, Barrier{}}, BindingWindow{SegmentId(0), 8192, 4}}});
    EXPECT_EQ(rounds.groups.size(), 6u);
    EXPECT_EQ(rounds.bytes, 3u * 10000u);
    EXPECT_DOUBLE_EQ(rounds.seconds, 3 * (10e-6 + 1e-6 + 10e-6 + 10e-6 + 1e-6));
    EXPECT_FALSE(estimate(made.program, {"step", {}, {}, {Repeat{UINT32_MAX, {copy}}}}, rates));
}

TEST(Estimate, UnmeasuredRatesAreThoseOfAnH200) {
    const Rates unknown = rates_of(webgpu_default_caps()), h200 = rates_of(h200_caps());
    EXPECT_EQ(unknown.bytes_per_second, h200.bytes_per_second);
    EXPECT_EQ(unknown.group_seconds, 2.5e-6);
    EXPECT_EQ(h200.compute_units, 132u);
    Caps measured = h200_caps();
    measured.copy_bytes_per_second = 1e11;
    EXPECT_EQ(rates_of(measured).bytes_per_second, 1e11);
}

}  // namespace
}  // namespace darner
