// SPDX-License-Identifier: MIT
// Windows, pools and norms: values at their edges and the texts of inference errors. Drawn values are in PyTorch's cases.
#include "darner/ops/test_support.h"

#include <gmock/gmock.h>

namespace darner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

TEST_F(Ops, UnfoldShowsWindows) {
    const Value x = real({0, 1, 2, 3, 4, 5, 6});
    EXPECT_THAT(reals(unfold(x, {0}, {3}, {.steps = {2}, .dilations = {2}})), ElementsAre(0, 2, 4, 2, 4, 6));
}

TEST_F(Ops, UnfoldWithADivisorSpreadsWindowsEvenly) {
    // Windows start at floor(w 5 / 3): 0, 1, 3.
    EXPECT_THAT(reals(unfold(real({0, 1, 2, 3, 4}), {0}, {2}, {.steps = {5}, .divisors = {3}})), ElementsAre(0, 1, 1, 2, 3, 4));
}

TEST_F(Ops, FoldAddsWindowsUp) {
    EXPECT_THAT(reals(fold(real({3, 2}, {1, 2, 30, 40, 500, 600}), {0}, {4})), ElementsAre(1, 32, 540, 600));
}

TEST_F(Ops, FoldLeavesGapsZero) {
    EXPECT_THAT(reals(fold(real({2, 1}, {7, 8}), {0}, {4}, {.steps = {3}})), ElementsAre(7, 0, 0, 8));
}

TEST_F(Ops, PoolOfALastWindowThatEndsOutside) {
    EXPECT_THAT(reals(avg_pool(real({1, 2, 3, 4, 6}), {2}, {.ceil_mode = true})), ElementsAre(1.5, 3.5, 6));
}

TEST_F(Ops, PoolHasNoWindowThatStartsBehindX) {
    // The third window would start at 4 - 1 = 3, behind the three elements.
    EXPECT_THAT(reals(max_pool(real({1, 2, 3}), {2}, {.strides = {2}, .padding = {1, 1}, .ceil_mode = true})), ElementsAre(1, 3));
}

TEST_F(Ops, AvgPoolCountsPaddingOrNot) {
    const std::vector<int64_t> padding = {1, 1};
    const Value x = real({3, 6, 9});
    const Value with = avg_pool(x, {3}, {.strides = {1}, .padding = padding});
    const Value without = avg_pool(x, {3}, {.strides = {1}, .padding = padding, .count_include_pad = false});
    EXPECT_THAT(reals(stack(std::vector{with, without})), near({3, 6, 5, 4.5, 6, 7.5}));
}

TEST_F(Ops, PoolsOfWindowsWithoutElements) {
    // Elements 3 apart around the only one: both are padding.
    const PoolOptions options{.strides = {1}, .padding = {1, 2}, .dilation = {3}, .count_include_pad = false};
    const Value x = real({5});
    EXPECT_THAT(reals(stack(std::vector{max_pool(x, {2}, options), avg_pool(x, {2}, options)})), ElementsAre(-inf, 0));
}

TEST_F(Ops, MaxPoolOfIntegersStartsBelowAllOfThem) {
    const Value x = whole(DType::i32, {-5, -2147483648.0});
    EXPECT_THAT(integers(max_pool(x, {2}, {.strides = {1}, .padding = {1, 1}})), ElementsAre(-5, -5, -2147483648LL));
}

TEST_F(Ops, MaxPoolKeepsNaN) { EXPECT_THAT(reals(max_pool(real({1, nan, 3, 4}), {2})), ElementsAre(IsNan(), 4)); }

TEST_F(Ops, AdaptivePoolsOverlapWhereNothingDivides) {
    const Value x = real({1, 2, 3, 4, 5});
    // [0, 2), [1, 4), [3, 5).
    EXPECT_THAT(reals(stack(std::vector{adaptive_avg_pool(x, {3}), adaptive_max_pool(x, {3})})), near({1.5, 3, 4.5, 2, 4, 5}));
}

TEST_F(Ops, AdaptivePoolDoesNotReadBeyondItsWindow) {
    EXPECT_THAT(reals(adaptive_avg_pool(real({1, 2, inf, 4, 5}), {3})), ElementsAre(1.5, inf, 4.5));
}

TEST_F(Ops, StandardizeOfOneElementIsZero) { EXPECT_THAT(reals(standardize(real({7}))), ElementsAre(0)); }

TEST_F(Ops, NormsThinkOfWandB) {
    const Value y = layer_norm(real({2, 2}, {1, 3, -5, 5}), real({2, 10}), real({100, 200}), -1, 0);
    EXPECT_THAT(reals(y), near({98, 210, 98, 210}));
}

struct Refusal {
    const char* op;
    Type x;
    std::vector<NamedAttr> attrs;
    const char* message;
};

using Ints = std::vector<int64_t>;

TEST(OpErrors, OfWindowsPoolsAndNorms) {
    const Ints one = {1}, two = {2}, three = {3};
    const Refusal refusals[] = {
        {"unfold", f32({5}), {{"axes", Ints{0}}, {"sizes", Ints{6}}}, "does not fit along axis 0: 6 elements 1 apart"},
        {"unfold",
         f32({5}),
         {{"axes", Ints{0}}, {"sizes", three}, {"dilations", three}},
         "3 elements 3 apart, in an extent of 5"},
        {"unfold", f32({5}), {{"axes", Ints{0}}, {"sizes", Ints{1, 1}}}, "sizes needs one entry for each of axes: got 2 and 1"},
        {"unfold", f32({5}), {{"axes", Ints{1}}, {"sizes", one}}, "axis"},
        {"unfold", f32({5}), {{"axes", Ints{0}}, {"sizes", one}, {"steps", Ints{0}}}, "steps out of range: got 0"},
        {"unfold", f32({Dim::symbol("n")}), {{"axes", Ints{0}}, {"sizes", one}}, "must be known (bind the symbols first)"},
        {"unfold",
         f32({1 << 20}),
         {{"axes", Ints{0}}, {"sizes", one}, {"divisors", Ints{1 << 20}}},
         "too long for a divisor of 1048576"},
        {"fold", f32({3, 2}), {{"axes", Ints{0}}, {"lengths", Ints{6}}}, "number of windows"},
        {"fold", f32({3}), {{"axes", Ints{0}}, {"lengths", Ints{6}}}, "an axis of windows and one of their elements"},
        {"fold", f32({3, 0}), {{"axes", Ints{0}}, {"lengths", Ints{6}}}, "windows need an element"},
        {"fold", boolean({3, 1}), {{"axes", Ints{0}}, {"lengths", Ints{3}}}, "bool"},
        {"max_pool", f32({4}), {{"window", Ints{2, 2}}}, "window needs an entry for each of the last axes"},
        {"max_pool", f32({4}), {{"window", Ints{}}}, "window needs an entry"},
        {"max_pool", f32({4}), {{"window", Ints{0}}}, "window out of range: got 0"},
        {"max_pool", f32({4}), {{"window", Ints{5}}}, "too short: with padding it has 4 elements, a window reaches over 5"},
        {"max_pool", f32({4}), {{"window", two}, {"padding", one}}, "padding needs two entries for each of window"},
        {"max_pool", f32({4}), {{"window", two}, {"padding", Ints{2, 0}}}, "padding must be less than the window's reach of 2"},
        {"max_pool", f32({4}), {{"window", two}, {"padding", Ints{-1, 0}}}, "got -1"},
        {"max_pool", f32({2, 0}), {{"window", one}}, "axis 1 of x f32[2,0] is empty"},
        {"max_pool", boolean({4}), {{"window", two}}, "bool"},
        {"max_pool", f32({4}), {{"window", Ints{2147483647}}, {"dilation", Ints{2147483647}}}, "too long"},
        {"avg_pool", i32({4}), {{"window", two}}, "i32"},
        {"adaptive_avg_pool", f32({4}), {{"output_size", Ints{0}}}, "output_size out of range: got 0"},
        {"adaptive_max_pool", f32({1, 3000017}), {{"output_size", Ints{1000003}}}, "too long for an output_size of 1000003"},
        {"layer_norm", f32({3, 0}), {}, "axis 1 of x f32[3,0] is empty"},
        {"layer_norm", f32({3}), {{"eps", -1.0}}, "eps must not be negative"},
        {"layer_norm", f32({3}), {{"axis", int64_t{1}}}, "axis"},
        {"standardize", f32({0}), {}, "is empty"},
        {"group_norm", f32({2, 6}), {{"groups", int64_t{4}}}, "groups must divide the 6 channels: got 4"},
        {"group_norm", f32({2, 6}), {{"groups", int64_t{0}}}, "got 0"},
        {"group_norm", f32({6}), {{"groups", int64_t{1}}}, "needs at least 2 axes"},
        {"instance_norm", f32({2, 6}), {}, "needs at least 3 axes"},
        {"batch_norm", f32({0, 6}), {}, "axis 0 of x f32[0,6] is empty"},
        {"batch_norm", i32({2, 6}), {}, "i32"},
    };
    for (const Refusal& r : refusals) {
        Builder b;
        const Value operands[] = {b.input("x", r.x)};
        b.call(r.op, operands, r.attrs);
        ASSERT_TRUE(b.failed()) << r.op << ": " << r.message;
        EXPECT_THAT(b.error().text(), HasSubstr(r.message));
        EXPECT_THAT(b.error().text(), HasSubstr(std::string("[") + r.op + "]"));
    }
}

TEST(OpErrors, OfOperandsOfNorms) {
    const auto message = [](auto call) {
        Builder b;
        call(b.input("x", f32({2, 3, 4})), b.input("v", f32({3})), b.input("u", f32({4})));
        return b.failed() ? b.error().text() : "";
    };
    EXPECT_THAT(message([](Value x, Value v, Value) { layer_norm(x, v); }), HasSubstr("shape of w, that of x from axis 2 on"));
    EXPECT_THAT(message([](Value x, Value, Value u) { instance_norm(x, {}, u); }), HasSubstr("shape of b, the channels of x"));
    EXPECT_THAT(message([](Value x, Value v, Value) { batch_norm(x, {.mean = v}); }), HasSubstr("mean and variance go together"));
    EXPECT_EQ(message([](Value x, Value v, Value) { batch_norm(x, {.w = v, .mean = v, .variance = v}); }), "");
}

}  // namespace
}  // namespace darner
