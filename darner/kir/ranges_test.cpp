// SPDX-License-Identifier: MIT
// Ranges of accesses: stated sets, and on random index arithmetic no access of the interpreter outside them.
#include "darner/kir/ranges.h"

#include "darner/kir/builder.h"
#include "darner/kir/interpret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace darner::kir {

void PrintTo(const Interval& i, std::ostream* os) { *os << "[" << i.low << ", " << i.high << "]"; }

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t size = 100000;

struct Reader {
    Builder b{"k"};
    BindingRef x, y;
    explicit Reader(uint64_t elements = size, uint32_t workgroup = 64) {
        b.workgroup_size(workgroup);
        x = b.binding("x", Scalar::f32, 1, Access::read, elements);
        y = b.binding("y", Scalar::f32, 1, Access::write, size);
    }
    Expr id() { return b.workgroup_id(0) * 64 + b.local_id(0); }
    void read(Expr at, Expr to) { b.store(y, to, b.load(x, at)); }
};

// What the workgroups [first, end) touch of x.
Intervals touched(Builder& b, uint32_t first, uint32_t end, uint32_t groups = 1000) {
    const Kernel kernel = b.finish();
    AccessRanges ranges(kernel, {groups, 1, 1}, 0);
    return ranges.of({{first, 0, 0}, {end, 1, 1}})[0];
}

TEST(Ranges, OfAWorkgroupsOwnElements) {
    Reader r;
    r.read(r.id(), r.id());
    const Kernel kernel = r.b.finish();
    AccessRanges ranges(kernel, {1000, 1, 1}, 0);
    for (uint32_t binding : {0u, 1u}) {
        EXPECT_THAT(ranges.of({{3, 0, 0}, {5, 1, 1}})[binding], ElementsAre(Interval{192, 319}));
        EXPECT_THAT(ranges.of({{0, 0, 0}, {1000, 1, 1}})[binding], ElementsAre(Interval{0, 63999}));
    }
}

TEST(Ranges, OfAFoldedGrid) {
    Reader r;
    const Expr linear = r.b.workgroup_id(0) + r.b.workgroup_id(1) * 10;
    r.read(linear, linear);
    const Kernel kernel = r.b.finish();
    AccessRanges ranges(kernel, {10, 7, 1}, 0);
    EXPECT_THAT(ranges.of({{0, 2, 0}, {10, 4, 1}})[0], ElementsAre(Interval{20, 39}));
    EXPECT_THAT(ranges.of({{3, 2, 0}, {5, 3, 1}})[0], ElementsAre(Interval{23, 24}));
}

TEST(Ranges, ARemainderThatWrapsIsTwoIntervals) {
    Reader r;
    r.read(r.id() % 1000, r.id());
    EXPECT_THAT(touched(r.b, 15, 16), ElementsAre(Interval{0, 23}, Interval{960, 999}));
}

TEST(Ranges, ATransposeKeepsTheRowsOfAFewColumns) {
    // Element i of the transpose of [3000, 30]: column i / 3000, row i % 3000.
    Reader r;
    r.read(r.id() % 3000 * 30 + r.id() / 3000, r.id());
    EXPECT_THAT(touched(r.b, 1, 2), ElementsAre(Interval{64 * 30, 127 * 30}));
}

TEST(Ranges, AFewRowsFarApartStayApart) {
    Reader r(size, 2);
    r.read(r.b.local_id(0) * 40000 + r.b.workgroup_id(0) % 10, r.b.local_id(0));
    EXPECT_THAT(touched(r.b, 3, 4), ElementsAre(Interval{3, 3}, Interval{40003, 40003}));
}

TEST(Ranges, AClampedDifferenceBelowZeroIsAPoint) {
    // As a padded read: before the first element the index wraps and is clamped to the last.
    Reader r;
    r.read(r.b.min(r.id() - 100, r.b.u32(999)), r.id());
    EXPECT_THAT(touched(r.b, 1, 2), ElementsAre(Interval{0, 27}, Interval{999, 999}));
    Reader later;
    later.read(later.b.min(later.id() - 100, later.b.u32(999)), later.id());
    EXPECT_THAT(touched(later.b, 2, 3), ElementsAre(Interval{28, 91}));
}

TEST(Ranges, ABranchStatesItsCondition) {
    Reader r;
    const Expr id = r.id();
    r.b.branch((id < 1000) & (id >= 970),
               [&] {
                   r.read(id, id);
                   return Builder::Values{};
               },
               [&] {
                   r.b.when(id > 5000, [&] { r.read(id + 10000, id); });
                   return Builder::Values{};
               });
    Builder& b = r.b;
    const Kernel kernel = b.finish();
    AccessRanges ranges(kernel, {1000, 1, 1}, 0);
    EXPECT_THAT(ranges.of({{15, 0, 0}, {16, 1, 1}})[0], ElementsAre(Interval{970, 999}));
    EXPECT_THAT(ranges.of({{20, 0, 0}, {21, 1, 1}})[0], IsEmpty());
    EXPECT_THAT(ranges.of({{78, 0, 0}, {79, 1, 1}})[0], ElementsAre(Interval{15001, 15055}));
}

TEST(Ranges, OfLoopsAndWhatTheyCarry) {
    Reader r;
    const auto values = r.b.loop(r.b.u32(10), r.b.u32(20), r.b.u32(1), {r.b.u32(0)}, [&](Expr k, const Builder::Values& c) {
        r.read(k * 100 + r.b.local_id(0), r.b.local_id(0));
        return Builder::Values{c[0] + k};
    });
    EXPECT_THAT(touched(r.b, 0, 1), ElementsAre(Interval{1000, 1963}));
    Reader carried(1000);
    const auto sum = carried.b.loop(carried.b.u32(0), carried.b.u32(20), carried.b.u32(1), {carried.b.u32(0)},
                                    [&](Expr k, const Builder::Values& c) { return Builder::Values{c[0] + k}; });
    carried.read(carried.b.min(sum[0], carried.b.u32(499)), carried.b.u32(0));
    EXPECT_THAT(touched(carried.b, 0, 1), ElementsAre(Interval{0, 499})) << "what a loop carries may be anything";
}

TEST(Ranges, WhatDependsOnDataMayBeAnything) {
    Reader r(5000);
    const BindingRef index = r.b.binding("i", Scalar::u32, 1, Access::read, size);
    r.read(r.b.load(index, r.id()), r.id());
    EXPECT_THAT(touched(r.b, 3, 4), ElementsAre(Interval{0, 4999}));
    Reader clamped(5000);
    const BindingRef from = clamped.b.binding("i", Scalar::u32, 1, Access::read, size);
    clamped.read(clamped.b.min(clamped.b.load(from, clamped.id()), clamped.b.u32(99)) * 10 + 5, clamped.id());
    EXPECT_THAT(touched(clamped.b, 3, 4), ElementsAre(Interval{5, 995}));
}

TEST(Ranges, VectorsCountScalars) {
    Builder b("k");
    b.workgroup_size(8);
    const BindingRef x = b.binding("x", Scalar::f32, 4, Access::read, 1000);
    const BindingRef y = b.binding("y", Scalar::f32, 4, Access::write, 1000);
    const Expr id = b.workgroup_id(0) * 8 + b.local_id(0);
    b.store(y, id, b.load(x, id));
    const Kernel kernel = b.finish();
    AccessRanges ranges(kernel, {100, 1, 1}, 0);
    EXPECT_THAT(ranges.of({{2, 0, 0}, {3, 1, 1}}), ElementsAre(Intervals{{64, 95}}, Intervals{{64, 95}}));
}

// Random expressions of ids: each element that the interpreter sees touched lies in the stated set.
class RandomIndex {
public:
    RandomIndex(Builder& b, uint64_t seed) : b_(b), random_(seed) {}
    Expr make(int depth) {
        if (depth == 0 || below(8) == 0) {
            switch (below(4)) {
                case 0: return b_.workgroup_id(0);
                case 1: return b_.local_id(0);
                case 2: return b_.workgroup_id(0) * 16 + b_.local_id(0);
                default: return b_.u32(below(300));
            }
        }
        const Expr a = make(depth - 1), c = make(depth - 1);
        const uint32_t number = 1 + below(20);
        switch (below(14)) {
            case 0: return a + c;
            case 1: return a - c;
            case 2: return a * number;
            case 3: return a / number;
            case 4: return a % number;
            case 5: return b_.min(a, c);
            case 6: return b_.max(a, c);
            case 7: return b_.select(a < c, a, c);
            case 8: return a & c;
            case 9: return a | c;
            case 10: return a ^ c;
            case 11: return a >> below(5);
            case 12: return b_.bitcast(b_.max(b_.bitcast(a, Scalar::i32) - 20, b_.i32(0)), Scalar::u32);
            default:
                return b_.branch((a > c) | (a == number), [&] { return Builder::Values{a - number}; },
                                 [&] { return Builder::Values{c + a}; })[0];
        }
    }

private:
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
    Builder& b_;
    std::mt19937_64 random_;
};

TEST(Ranges, HoldEveryAccessOfRandomIndices) {
    constexpr uint32_t elements = 4096, groups = 12;
    for (uint64_t seed = 0; seed < 400; ++seed) {
        Builder b("k");
        b.workgroup_size(16);
        const BindingRef hits = b.binding("hits", Scalar::u32, 1, Access::inout, elements);
        RandomIndex index(b, seed);
        const Expr at = index.make(5);
        b.when(at < elements, [&] { b.atomic(AtomicKind::add, hits, at, b.u32(1)); });
        const Kernel kernel = b.finish();
        AccessRanges ranges(kernel, {groups, 1, 1}, 0);
        // A whole run, as the union of single workgroups: each of those must be within the box that holds it.
        const Intervals all = ranges.of({{0, 0, 0}, {groups, 1, 1}})[0];
        Intervals singles;
        for (uint32_t g = 0; g < groups; ++g) {
            const Intervals one = ranges.of({{g, 0, 0}, {g + 1, 1, 1}})[0];
            singles.insert(singles.end(), one.begin(), one.end());
        }
        std::vector<uint32_t> data(elements, 0);
        std::vector<Buffer> buffers = {{reinterpret_cast<std::byte*>(data.data()), data.size() * 4}};
        const auto ran = interpret(kernel, {groups, 1, 1}, buffers, {});
        ASSERT_TRUE(ran) << ran.error().text();
        for (int64_t i = 0; i < elements; ++i) {
            if (data[static_cast<size_t>(i)] == 0) continue;
            const auto holds = [&](const Intervals& set) {
                return std::any_of(set.begin(), set.end(), [&](const Interval& in) { return in.low <= i && i <= in.high; });
            };
            ASSERT_TRUE(holds(all) && holds(singles)) << "seed " << seed << ", element " << i;
        }
    }
}

}  // namespace
}  // namespace darner::kir
