// SPDX-License-Identifier: MIT
// Rounds of loops, read off kernels. What features a kernel has is tested where they are compared with Caps.
#include "darner/kir/features.h"

#include "darner/kir/builder.h"

#include <gtest/gtest.h>

namespace darner::kir {
namespace {

using Body = std::function<void(Builder&, BindingRef)>;

std::optional<uint64_t> rounds(const Body& body) {
    Builder b("loops");
    const BindingRef x = b.binding("x", Scalar::u32, 1, Access::inout, 64);
    body(b, x);
    return total_rounds(b.finish());
}

void count(Builder& b, BindingRef x, Expr low, Expr high, uint32_t step) {
    b.loop(low, high, b.u32(step), [&](Expr i) { b.store(x, i, i); });
}

TEST(TotalRounds, OfConstantBounds) {
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) { b.store(x, b.u32(0), b.u32(1)); }), 0u);
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) { count(b, x, b.u32(3), b.u32(10), 2); }), 4u);
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) { count(b, x, b.u32(10), b.u32(3), 2); }), 0u);
}

TEST(TotalRounds, OfNestedLoopsAndBranches) {
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) {
                  b.loop(b.u32(0), b.u32(5), b.u32(1), [&](Expr) { count(b, x, b.u32(0), b.u32(7), 1); });
              }),
              5u + 35u);
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) {
                  const Expr first = b.local_id(0) == 0;
                  b.when(first, [&] { count(b, x, b.u32(0), b.u32(7), 1); });
                  count(b, x, b.u32(0), b.u32(2), 1);
              }),
              9u);
}

TEST(TotalRounds, OfBoundsThatAreKnownLater) {
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) { count(b, x, b.local_id(0), b.u32(9), 1); }), 9u);  // at most
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) { count(b, x, b.u32(0), b.load(x, b.u32(0)), 1); }), std::nullopt);
    EXPECT_EQ(rounds([](Builder& b, BindingRef x) {
                  b.loop(b.u32(0), b.u32(0xffffffff), b.u32(1), [&](Expr) {
                      b.loop(b.u32(0), b.u32(0xffffffff), b.u32(1), [&](Expr) { count(b, x, b.u32(0), b.u32(0xffffffff), 1); });
                  });
              }),
              std::nullopt);
}

}  // namespace
}  // namespace darner::kir
