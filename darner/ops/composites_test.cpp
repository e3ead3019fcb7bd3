// SPDX-License-Identifier: MIT
// What the table tests and PyTorch's cases do not reach: infinities and NaN, edges of integers, what lies out of range,
// dropout, and the texts of inference errors.
#include "darner/graph/text.h"
#include "darner/ops/test_support.h"

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

using testing::DoubleEq;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

TEST_F(Ops, FunctionsAtTheEndsOfTheirDomains) {
    EXPECT_THAT(reals(stack(std::vector{asin(real({2.0, 1.0})), acosh(real({0.5, 1.0})), log1p(real({-1.5, -1.0})),
                                        atanh(real({1.5, 1.0}))})),
                ElementsAre(IsNan(), DoubleEq(std::asin(1.0)), IsNan(), 0, IsNan(), -inf, IsNan(), inf));
}

TEST_F(Ops, ActivationsOfInfinity) {
    const Value x = real({inf, -inf});
    EXPECT_THAT(reals(stack(std::vector{softplus(x), log_sigmoid(x), elu(x), relu6(x), hard_sigmoid(x), leaky_relu(x, 0.5),
                                        erf(x), erfc(x)})),
                ElementsAre(inf, 0, 0, -inf, inf, -1, 6, 0, 1, 0, inf, -inf, 1, -1, 0, 2));
}

TEST_F(Ops, ActivationsKeepNaN) {
    const Value x = real({nan});
    EXPECT_THAT(reals(stack(std::vector{silu(x), gelu(x), gelu(x, "tanh"), elu(x), selu(x), celu(x), mish(x), softplus(x),
                                        softsign(x), leaky_relu(x), hard_sigmoid(x), hard_swish(x), hard_tanh(x), relu6(x),
                                        thresholded_relu(x), log_sigmoid(x), clamp(x, -1, 1), expm1(x), erfc(x)})),
                Each(IsNan()));
}

TEST_F(Ops, GeluFarOutIsItsArgumentOrZero) {
    const Value x = real({0x1p100, -0x1p100, -30});
    EXPECT_THAT(reals(stack(std::vector{gelu(x), gelu(x, "tanh")})), near({0x1p100, 0, 0, 0x1p100, 0, 0}));
}

TEST_F(Ops, ShiftsBeyondTheWidth) {
    const Value count = whole(DType::i8, {7, 8, 100, -1, 0});
    EXPECT_THAT(integers(stack(std::vector{bitwise_left_shift(whole(DType::i8, {1, 1, 1, 1, 1}), count),
                                           bitwise_right_shift(whole(DType::i8, {-128, -128, 5, -5, -5}), count)})),
                ElementsAre(-128, 0, 0, 0, 1, -1, -1, 0, -1, -5));
}

TEST_F(Ops, ModHasTheSignOfTheDivisor) {
    const Value a = whole(DType::i32, {7, -7, 7, -7, 5, -2147483648.0}), d = whole(DType::i32, {3, 3, -3, -3, 0, -1});
    EXPECT_THAT(integers(mod(a, d)), ElementsAre(1, 2, -2, -1, 0, 0));
}

TEST_F(Ops, ArgminOfTheSmallestInteger) {
    EXPECT_THAT(integers(argmin(whole(DType::i32, {2147483647, -2147483648.0, -2147483648.0, 0}))), ElementsAre(1));
}

TEST_F(Ops, ArgminOfUnsignedIntegers) {
    EXPECT_THAT(integers(argmin(whole(DType::u32, {3, 4294967295.0, 0, 0}), 0, true)), ElementsAre(2));
}

TEST_F(Ops, AnyAndAllOverNothing) {
    const Value none = whole(DType::boolean, {2, 0}, {});
    EXPECT_THAT(integers(stack(std::vector{any(none, {1}), all(none, {1})})), ElementsAre(0, 0, 1, 1));
}

TEST_F(Ops, LogSumExpOfInfinities) {
    EXPECT_THAT(reals(log_sum_exp(real({3, 2}, {-inf, -inf, inf, 1, nan, 1}), {1})), ElementsAre(-inf, inf, IsNan()));
}

TEST_F(Ops, LogaddexpOfInfinities) {
    EXPECT_THAT(reals(logaddexp(real({-inf, inf, inf, -inf}), real({-inf, inf, 1, 1}))), ElementsAre(-inf, inf, inf, 1));
}

TEST_F(Ops, NormOfInfinity) { EXPECT_THAT(reals(l2_norm(real({2, 2}, {inf, 1, nan, 1}), {1})), ElementsAre(inf, IsNan())); }

// An infinite element must not reach sums that it is not part of.
TEST_F(Ops, CumsumOfInfinity) {
    const Value x = real({1, inf, 2});
    EXPECT_THAT(reals(stack(std::vector{cumsum(x), cumsum(x, 0, true), cumsum(x, 0, false, true)})),
                ElementsAre(1, inf, inf, 0, 1, inf, inf, inf, 2));
}

TEST_F(Ops, ResizeKeepsInfinityToItsNeighbours) {
    EXPECT_THAT(reals(resize(real({inf, 1, 2}), {0}, {6}, {.mode = "linear"})), ElementsAre(inf, inf, inf, 1.25, 1.75, 2));
}

TEST_F(Ops, OneHotOutOfRangeIsAllZero) {
    EXPECT_THAT(reals(one_hot(whole(DType::i32, {1, -1, 2}), 2)), ElementsAre(0, 1, 0, 0, 0, 0));
}

TEST_F(Ops, LookupsOutOfRangeReadTheNearest) {
    const Value x = real({2, 3}, {0, 1, 2, 10, 11, 12});
    EXPECT_THAT(reals(concat(std::vector{reshape(gather_elements(x, whole(DType::i32, {2, 2}, {-5, 9, 1, 3}), 1), {4}),
                                         gather_nd(x, whole(DType::i32, {2, 2}, {-1, 1, 5, 9}))},
                             0)),
                ElementsAre(0, 2, 11, 12, 1, 12));
}

TEST_F(Ops, CrossEntropyLeavesImpossibleClassesOut) {
    const Value logits = real({2, 3}, {0, 0, -inf, 0, -inf, -inf});
    EXPECT_THAT(reals(concat(std::vector{cross_entropy(logits, whole(DType::i32, {0, 0}), "none"),
                                         cross_entropy(logits, real({2, 3}, {0.5, 0.5, 0, 1, 0, 0}), "none")},
                             0)),
                near({std::log(2.0), 0, std::log(2.0), 0}));
}

TEST_F(Ops, CrossEntropyWithoutALabelIsZeroUnderSmoothingToo) {
    const Value logits = real({2, 2}, {1, 2, 1, 2});
    EXPECT_THAT(reals(cross_entropy(logits, whole(DType::i32, {7, -1}), {.reduction = "none", .label_smoothing = 0.5})),
                ElementsAre(0, 0));
}

// --- dropout, bernoulli ---------------------------------------------------------------------------------------------

class Random : public Ops {
protected:
    Value key = whole(DType::u32, {2}, {1, 2}), counter = whole(DType::u32, {}, {0});
    Value ones = b.constant(f32({10000}), 1);
};

TEST_F(Random, DropoutScalesWhatItKeeps) {
    const std::vector<double> y = reals(dropout(ones, key, counter, 0.2));
    EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 0.0)), 2000, 150);
    EXPECT_THAT(y, Each(testing::AnyOf(0, DoubleEq(1.25))));
}

TEST_F(Random, DropoutOfAllOrNothing) {
    EXPECT_THAT(reals(sub(dropout(ones, key, counter, 0), dropout(ones, key, counter, 1))), Each(1));
}

TEST_F(Random, DropoutsAreIndependent) {
    const std::vector<double> both = reals(mul(dropout(ones, key, counter, 0.5), dropout(ones, key, counter, 0.5)));
    EXPECT_NEAR(static_cast<double>(std::count(both.begin(), both.end(), 0.0)), 7500, 200);
}

TEST_F(Random, BernoulliHasItsProbability) {
    const std::vector<double> y = reals(bernoulli(ones * 0.3, key, counter));
    EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 1.0)), 3000, 200);
    EXPECT_THAT(y, Each(testing::AnyOf(0, 1)));
}

TEST_F(Random, BernoulliOfZeroAndOneIsCertain) {
    EXPECT_THAT(reals(sub(bernoulli(ones, key, counter), bernoulli(ones * 0.0, key, counter))), Each(1));
}

// --- errors ---------------------------------------------------------------------------------------------------------

struct Refused {
    const char* call;
    const char* message;
};

// x f32[2,3], v f32[3], s f32[], i i32[2], c bool[2,3], e f32[0,3]
constexpr Refused refused[] = {
    {"clamp(x)", "[clamp] needs min or max or both"},
    {"clamp(i, min=0.5)", "min does not fit the dtype: got 0.5 for i32"},
    {"celu(x, alpha=0)", "alpha must be above 0: got 0"},
    {"softplus(x, beta=-1)", "beta must be above 0: got -1"},
    {"prelu(x, v, axis=0)", "shape of weight, a scalar or axis 0 of x: got [3], expected [2]"},
    {"hard_tanh(x, min=2, max=1)", "min must not be above max: got 2 and 1"},
    {"glu(x)", "axis 1 of x f32[2,3] must have an even extent"},
    {"bitwise_and(x, x)", "[bitwise_and] wrong dtype of a"},
    {"isnan(i)", "[isnan] wrong dtype of x"},
    {"stack(x, v)", "shape of parts"},
    {"split(x, sizes=[1,1], index=0, axis=1)", "sum of sizes for axis 1 of x f32[2,3]: got 2, expected 3"},
    {"split(x, sizes=[1,2], index=2, axis=1)", "index out of range: got 2 of 2 parts"},
    {"split(x, sizes=[4,-1], index=0, axis=1)", "entry of sizes out of range: got -1"},
    {"tile(x, repeats=[2])", "repeats needs one entry an axis of x f32[2,3]: got 1"},
    {"tile(x, repeats=[2,-1])", "entry of repeats out of range: got -1"},
    {"repeat_interleave(x, repeats=-1)", "repeats out of range: got -1"},
    {"reverse(x, axes=[2])", "axis out of range: got 2"},
    {"flatten(x, start_axis=1, end_axis=0)", "start_axis must not be behind end_axis: got 1 and 0"},
    {"squeeze(x, axes=[0])", "axis 0 of x f32[2,3] must have extent 1"},
    {"unsqueeze(x, axes=[4])", "axis out of range: got 4"},
    {"pad_reflect(x, low=[0,3], high=[0,0])", "axis 1 of x f32[2,3] is too short for low=3"},
    {"pad_edge(e, low=[1,0], high=[0,0])", "axis 0 of x f32[0,3] is too short for low=1"},
    {"pad_edge(x, low=[1], high=[0,0])", "low needs one entry an axis of x f32[2,3]: got 1"},
    {"tril(v)", "needs at least 2 axes: got x f32[3]"},
    {"gather_elements(x, i)", "indices need as many axes as x: got indices i32[2] and x f32[2,3]"},
    {"gather_elements(reshape(v, shape=[1,3]), reshape(i, shape=[2,1]), axis=1)", "indices reach beyond x at axis 0"},
    {"gather_elements(e, reshape(i, shape=[2,1]))", "nothing to read: axis 0 of x f32[0,3] is empty"},
    {"gather_elements(v, x)", "[gather_elements] wrong dtype of indices"},
    {"gather_nd(v, i)", "the last axis of indices holds 1 to 1 numbers"},
    {"dynamic_slice(x, i, sizes=[3,1])", "sizes does not fit at axis 0: got [3,1] for x f32[2,3]"},
    {"dynamic_slice(v, i, sizes=[1])", "shape of start, one number an axis of x: got [2], expected [1]"},
    {"dynamic_update_slice(x, v, i)", "update needs as many axes as x f32[2,3]: got 1"},
    {"one_hot(i, classes=-1)", "classes out of range: got -1"},
    {"where(x, x, x)", "[where] wrong dtype of condition"},
    {"resize(x, axes=[1], sizes=[1,2])", "sizes needs one entry for each of axes: got 2 and 1"},
    {"resize(x, axes=[1], sizes=[4], align_corners=true)", "align_corners goes with mode=linear: got mode=nearest"},
    {"resize(x, axes=[1], sizes=[4194305])", "entry of sizes out of range: got 4194305, expected 0 to 4194304"},
    {"resize(broadcast(v, shape=[5000000,3], axes=[1]), axes=[0], sizes=[4])",
     "axis 0 of x f32[5000000,3] is too long to be resized"},
    {"resize(e, axes=[0], sizes=[4])", "nothing to read: axis 0 of x f32[0,3] is empty"},
    {"variance(x, axes=[0], correction=2)", "2 elements with a correction of 2 have no variance: got x f32[2,3]"},
    {"variance(x, correction=-1)", "correction must not be negative: got -1"},
    {"log_sum_exp(e)", "nothing to reduce: axis 0 of x f32[0,3] is empty"},
    {"any(x)", "[any] wrong dtype of x"},
    {"cumsum(c)", "[cumsum] wrong dtype of x"},
    {"cross_entropy(x, i, label_smoothing=1.5)", "label_smoothing must be in 0 to 1: got 1.5"},
    {"cross_entropy(x, x, ignore_index=1)", "ignore_index needs integer labels: got labels f32[2,3]"},
    {"cross_entropy(x, v)", "shape of labels, probabilities for each of the logits: got [3], expected [2,3]"},
    {"cross_entropy(x, i, x)", "shape of weight, one for each index of axis 1: got [2,3], expected [3]"},
    {"nll(x, i, ignore_index=3000000000)", "ignore_index is no label: got 3000000000 for labels i32[2]"},
    {"nll(x, x)", "[nll] wrong dtype of labels"},
    {"huber(x, x, delta=0)", "delta must be above 0: got 0"},
    {"smooth_l1(x, x, beta=-1)", "beta must not be negative: got -1"},
    {"kl_div(s, s, reduction=batchmean)", "batchmean needs a first axis: got prediction f32[]"},
    {"l1(e, e)", "the mean of no losses is undefined: got prediction f32[0,3]"},
    {"binary_cross_entropy_with_logits(x, x, reshape(i, shape=[2,1]))", "dtypes of logits and weight differ"},
    {"binary_cross_entropy_with_logits(x, x, constant f32[2] {1})", "weight f32[2] does not broadcast to [2,3]"},
    {"dropout(x, constant u32[2] {1}, constant u32[] {0}, p=1.5)", "p must be in 0 to 1: got 1.5"},
    {"dropout(x, i, constant u32[] {0})", "wrong type of key: got i32[2], expected u32[2]"},
};

TEST(OpErrors, EachSaysWhatIsWrong) {
    for (const Refused& r : refused) {
        const auto module = parse_module(std::string("graph g {\n  x = input f32[2,3]\n  v = input f32[3]\n  s = input f32[]\n"
                                                     "  i = input i32[2]\n  c = input bool[2,3]\n  e = input f32[0,3]\n  y = ") +
                                         r.call + "\n  output y\n}\n");
        ASSERT_FALSE(module) << r.call;
        EXPECT_THAT(module.error().text(), HasSubstr(r.message)) << r.call;
    }
}

}  // namespace
}  // namespace darner
