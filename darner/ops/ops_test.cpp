// SPDX-License-Identifier: MIT
// Values of the ops against numbers known from elsewhere (by hand, NumPy, PyTorch, Random123's published vectors), and the
// texts of inference errors. Gradients, kernels and devices are checked for all ops by tables: emit_test.cpp, op_check.
#include "darner/ops/philox.h"
#include "darner/ops/test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace darner {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::Pointwise;

TEST_F(Ops, IntegerDivisionTruncatesAndByZeroGivesZero) {
    const Value a = whole(DType::i32, {7, -7, 7, -7, 5, -2147483648.0}), d = whole(DType::i32, {2, 2, -2, -2, 0, -1});
    EXPECT_THAT(integers(a / d), ElementsAre(3, -3, -3, 3, 0, -2147483648LL));
}

TEST_F(Ops, IntegerRemainderHasTheSignOfTheDividend) {
    const Value a = whole(DType::i32, {7, -7, 7, -7, 5, -2147483648.0}), d = whole(DType::i32, {3, 3, -3, -3, 0, -1});
    EXPECT_THAT(integers(a % d), ElementsAre(1, -1, 1, -1, 0, 0));
}

TEST_F(Ops, IntegersWrap) {
    EXPECT_THAT(integers(whole(DType::i8, {127, -128, 100}) + whole(DType::i8, {1, -1, 100})), ElementsAre(-128, 127, -56));
}

TEST_F(Ops, UnsignedIntegersWrap) {
    EXPECT_THAT(integers(whole(DType::u32, {0, 4294967295.0}) - whole(DType::u32, {1, 0})), ElementsAre(4294967295, 4294967295));
}

TEST_F(Ops, IntegerPow) {
    EXPECT_THAT(integers(pow(whole(DType::i32, {2, -3, 0, 0, 1, -1, 5}), whole(DType::i32, {10, 3, 0, -1, -5, -3, -1}))),
                ElementsAre(1024, -27, 1, 0, 1, -1, 0));
}

TEST_F(Ops, FloatRemainder) { EXPECT_THAT(reals(rem(real({5.5, -5.5, 5.5}), real({2, 2, -2}))), ElementsAre(1.5, -1.5, 1.5)); }

TEST_F(Ops, SigmoidIsStable) {
    const auto y = reals(sigmoid(real({0, 100, -100, 2})));
    EXPECT_DOUBLE_EQ(y[0], 0.5);
    EXPECT_DOUBLE_EQ(y[1], 1);
    EXPECT_NEAR(y[2] / 3.720075976020836e-44, 1, 1e-12);
    EXPECT_NEAR(y[3], 0.8807970779778823, 1e-15);
}

TEST_F(Ops, CastToIntegerTruncatesAndSaturates) {
    EXPECT_THAT(integers(cast(real({1.9, -1.9, 300, -300, 127.5}), DType::i8)), ElementsAre(1, -1, 127, -128, 127));
}

TEST_F(Ops, CastToUnsignedSaturatesAtZero) {
    EXPECT_THAT(integers(cast(real({-5, 1e20, 0.99}), DType::u32)), ElementsAre(0, 4294967295, 0));
}

TEST_F(Ops, CastOfNanToIntegerGivesZero) { EXPECT_THAT(integers(cast(log(real({-1, 1})), DType::i32)), ElementsAre(0, 0)); }

TEST_F(Ops, CastBetweenIntegersWraps) {
    EXPECT_THAT(integers(cast(whole(DType::i32, {-1, 256, 300}), DType::u8)), ElementsAre(255, 0, 44));
}

TEST_F(Ops, CastRoundsToNearestEven) {
    EXPECT_THAT(reals(cast(real({2049, 2051, 65520, 1.0009765625}), DType::f16)), ElementsAre(2048, 2052, inf, 1.0009765625));
}

TEST_F(Ops, CastToBf16) { EXPECT_THAT(reals(cast(real({257, 259, 1.00390625}), DType::bf16)), ElementsAre(256, 260, 1)); }

TEST_F(Ops, CastToBool) { EXPECT_THAT(integers(cast(real({0, 0.1, -2}), DType::boolean)), ElementsAre(0, 1, 1)); }

TEST_F(Ops, Comparisons) {
    const Value x = real({1, 2, 3}), y = real({2, 2, 2});
    const Value packed = cast(lt(x, y), DType::i32) + cast(eq(x, y), DType::i32) * 10.0 + cast(ge(x, y), DType::i32) * 100.0;
    EXPECT_THAT(integers(packed), ElementsAre(1, 110, 100));
}

TEST_F(Ops, SelectAndLogic) {
    const Value p = whole(DType::boolean, {1, 1, 0, 0}), q = whole(DType::boolean, {1, 0, 1, 0});
    const Value c = logical_or(logical_and(p, q), logical_not(logical_or(p, q)));
    EXPECT_THAT(reals(select(c, real({1, 2, 3, 4}), real({-1, -2, -3, -4}))), ElementsAre(1, -2, -3, 4));
}

TEST_F(Ops, TransposeAndReshape) {
    const Value x = real({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor y = value(reshape(transpose(x, {1, 0}), {2, -1}));
    EXPECT_THAT(y.dims, ElementsAre(2, 3));
    EXPECT_THAT(y.real, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(Ops, BroadcastNewAndRepeatedAxes) {
    const Value x = real({2, 1}, {1, 2});
    EXPECT_THAT(reals(broadcast(x, {2, 2, 3}, {0, 2})), ElementsAre(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
}

TEST_F(Ops, SliceWithStepsAndNegativeEnds) {
    const Value x = real({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    EXPECT_THAT(reals(slice(x, {0, -5}, {2, -1}, {1, 2})), ElementsAre(0, 2, 5, 7));
}

TEST_F(Ops, ConcatOfThreeAlongTheLastAxis) {
    const Value parts[] = {real({2, 1}, {1, 2}), real({2, 2}, {3, 4, 5, 6}), b.constant(f32({2, 0}), 0)};
    EXPECT_THAT(reals(concat(parts, -1)), ElementsAre(1, 3, 4, 2, 5, 6));
}

TEST_F(Ops, PadWithInterior) { EXPECT_THAT(reals(pad(real({1, 2, 3}), {1}, {2}, {1}, 9)), ElementsAre(9, 1, 9, 2, 9, 3, 9, 9)); }

TEST_F(Ops, GatherClampsAndKeepsOtherAxes) {
    const Value table = real({2, 3}, {0, 1, 2, 10, 11, 12});
    const Tensor y = value(gather(table, whole(DType::i32, {2, 2}, {2, 0, -1, 7}), 1));
    EXPECT_THAT(y.dims, ElementsAre(2, 2, 2));
    EXPECT_THAT(y.real, ElementsAre(2, 0, 0, 2, 12, 10, 10, 12));
}

TEST_F(Ops, ScatterAddSumsRepeatsAndDropsTheRest) {
    const Value updates = real({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_THAT(reals(scatter_add(whole(DType::i32, {2, 0, 2, 3}), updates, 3)), ElementsAre(3, 4, 0, 0, 6, 8));
}

TEST_F(Ops, Iota) { EXPECT_THAT(integers(b.iota(i32({2, 3}), -1)), ElementsAre(0, 1, 2, 0, 1, 2)); }

TEST_F(Ops, Reductions) {
    const Value x = real({2, 3}, {1, -2, 3, 4, 5, -6});
    const Value parts[] = {sum(x, {1}), mean(x, {-1}), max(x, {1}), min(x, {1})};
    EXPECT_THAT(reals(concat(parts, 0)), near({2, 3, 2.0 / 3, 1, 3, 5, -2, -6}));
}

TEST_F(Ops, ReductionsKeepAxesAndReduceAllByDefault) {
    const Value x = real({2, 3}, {1, -2, 3, 4, 5, -6});
    EXPECT_EQ(to_string(sum(x, {0}, true).type()), "f32[1,3]");
    EXPECT_EQ(to_string(argmax(x, 1, true).type()), "i32[2,1]");
    EXPECT_THAT(reals(sum(x)), ElementsAre(5));
}

TEST_F(Ops, SumOfNothingIsZero) { EXPECT_THAT(reals(sum(b.constant(f32({2, 0}), 1), {1})), ElementsAre(0, 0)); }

TEST_F(Ops, NanPropagates) {
    const Value x = real({nan, 1, nan, -1}), other = real({1, nan, nan, 2}), rows = real({3, 2}, {nan, 1, 1, nan, 1, 2});
    const Value parts[] = {relu(x),        maximum(x, other), minimum(x, other), abs(x),        sign(x),
                           max(rows, {1}), min(rows, {1}),    sum(rows, {1}),    max(rows, {0})};
    EXPECT_THAT(reals(concat(parts, 0)), ElementsAre(IsNan(), 1, IsNan(), 0,         // relu
                                                     IsNan(), IsNan(), IsNan(), 2,   // maximum
                                                     IsNan(), IsNan(), IsNan(), -1,  // minimum
                                                     IsNan(), 1, IsNan(), 1,         // abs
                                                     IsNan(), 1, IsNan(), -1,        // sign
                                                     IsNan(), IsNan(), 2,            // max
                                                     IsNan(), IsNan(), 1,            // min
                                                     IsNan(), IsNan(), 3,            // sum
                                                     IsNan(), IsNan()));             // max over the other axis
}

TEST_F(Ops, SoftmaxOfARowWithNanIsNan) {
    const Value parts[] = {softmax(real({2, 2}, {nan, 1, 0, 0})), log_softmax(real({2, 2}, {1, nan, 0, 0}))};
    const double log_half = std::log(0.5);
    EXPECT_THAT(reals(reshape(concat(parts, 0), {8})),
                ElementsAre(IsNan(), IsNan(), 0.5, 0.5, IsNan(), IsNan(), log_half, log_half));
}

TEST_F(Ops, ArgmaxTakesTheLowestIndex) { EXPECT_THAT(integers(argmax(real({2, 3}, {1, 3, 3, 2, 2, 1}))), ElementsAre(1, 0)); }

TEST_F(Ops, ArgmaxTakesTheFirstNan) {
    const double nan = std::nan(""), inf = INFINITY;
    EXPECT_THAT(integers(argmax(real({3, 4}, {1, nan, inf, nan, nan, 1, nan, 2, -inf, -inf, 0, 0}))), ElementsAre(1, 0, 2));
}

TEST_F(Ops, DotWithBatchAndTransposedOperands) {
    // b[k,batch,n] and a[m,batch,k]
    const Value a = real({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), w = real({2, 2, 1}, {1, 2, 3, 4});
    const Tensor y = value(dot(a, w, {{2}, {0}}, {{1}, {1}}));
    EXPECT_THAT(y.dims, ElementsAre(2, 2, 1));
    EXPECT_THAT(y.real, ElementsAre(1 * 1 + 2 * 3, 5 * 1 + 6 * 3, 3 * 2 + 4 * 4, 7 * 2 + 8 * 4));
}

TEST_F(Ops, IntegerDotWraps) {
    const Value a = whole(DType::i32, {65536, 3}), w = whole(DType::i32, {65536, 5});
    EXPECT_THAT(integers(dot(a, w, {{0}, {0}})), ElementsAre(15));
}

TEST_F(Ops, MatmulTypesFollowNumpy) {
    const auto type = [&](Dims x, Dims y) { return to_string(matmul(b.constant(f32(x), 1), b.constant(f32(y), 1)).type()); };
    EXPECT_EQ(type({3}, {3}), "f32[]");
    EXPECT_EQ(type({2, 3}, {3}), "f32[2]");
    EXPECT_EQ(type({3}, {3, 4}), "f32[4]");
    EXPECT_EQ(type({3}, {5, 3, 4}), "f32[5,4]");
    EXPECT_EQ(type({7, 1, 2, 3}, {5, 3, 4}), "f32[7,5,2,4]");
    EXPECT_EQ(type({2, 3}, {5, 3, 4}), "f32[5,2,4]");
}

TEST_F(Ops, MatmulBroadcastsBatches) {
    const Value x = real({2, 1, 1, 2}, {1, 2, 3, 4}), y = real({2, 2, 1}, {1, 10, 100, 1000});
    EXPECT_THAT(reals(matmul(x, y)), ElementsAre(21, 2100, 43, 4300));
}

TEST_F(Ops, LinearIsXTimesWTransposedPlusB) {
    const Value x = real({1, 2}, {1, 2}), w = real({3, 2}, {1, 0, 0, 1, 1, 1});
    EXPECT_THAT(reals(linear(x, w, real({10, 20, 30}))), ElementsAre(11, 22, 33));
}

TEST_F(Ops, SoftmaxIsStable) {
    EXPECT_THAT(reals(softmax(real({2, 3}, {1, 2, 3, 1000, 1000, -1000}))),
                near({0.09003057317038046, 0.24472847105479764, 0.6652409557748219, 0.5, 0.5, 0}));
}

TEST_F(Ops, LogSoftmaxAlongTheFirstAxis) {
    EXPECT_THAT(reals(log_softmax(real({2, 2}, {0, 1e4, 0, -1e4}), 0)),
                near({-0.6931471805599453, 0, -0.6931471805599453, -2e4}));
}

TEST_F(Ops, RmsNorm) {
    const Value x = real({1, 4}, {1, 2, 3, 4});
    EXPECT_THAT(reals(rms_norm(x, real({1, 1, 2, 2}), real({0, 1, 0, 1}), -1, 0)),
                near({0.3651483716701107, 1.7302967433402214, 2.1908902300206643, 3.9211869733608857}));
}

// torch.nn.functional.cross_entropy([[1,2,3],[1,5,2]], [2,0], reduction=...)
TEST_F(Ops, CrossEntropy) {
    const Value x = real({2, 3}, {1, 2, 3, 1, 5, 2}), y = whole(DType::i32, {2, 0});
    const Value parts[] = {cross_entropy(x, y, "none"), reshape(cross_entropy(x, y, "sum"), {1}),
                           reshape(cross_entropy(x, y), {1})};
    EXPECT_THAT(reals(concat(parts, 0)), near({0.4076059644443804, 4.065883903757429, 4.473489868201809, 2.2367449341009045}));
}

TEST_F(Ops, CrossEntropyIsStableAndIgnoresLabelsThatAreNoClass) {
    const Value x = real({3, 2}, {1e4, -1e4, 1e4, -1e4, 1, 1}), y = whole(DType::i32, {0, 1, -100});
    EXPECT_THAT(reals(cross_entropy(x, y, "none")), near({0, 2e4, 0}));
}

TEST_F(Ops, CrossEntropyWithClassAxisOne) {
    const Value x = real({1, 2, 2}, {0, 1, 0, 3}), y = whole(DType::u32, {1, 2}, {0, 1});
    EXPECT_THAT(reals(b.call("cross_entropy", {x, y}, {{"axis", int64_t{1}}, {"reduction", std::string("none")}})),
                near({0.6931471805599453, 0.1269280110429726}));
}

TEST_F(Ops, MeanSquaredError) { EXPECT_THAT(reals(mse(real({1, 2, 3}), real({1, 0, 0}))), near({13.0 / 3})); }

// Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
    using Words = std::array<uint32_t, 4>;
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_F(Ops, RandomBitsAreWordsOfPhilox) {
    const Value key = whole(DType::u32, {5, 6}), counter = b.constant(u32(), 9);
    const Value bits = b.call("random_bits", {key, counter}, {{"shape", Dims{2, 3}}, {"stream", int64_t{4}}});
    const auto first = philox4x32({0, 0, 4, 9}, {5, 6}), second = philox4x32({1, 0, 4, 9}, {5, 6});
    EXPECT_THAT(integers(bits), ElementsAre(first[0], first[1], first[2], first[3], second[0], second[1]));
}

TEST_F(Ops, TwoRandomCallsAreTwoStreams) {
    const Value key = whole(DType::u32, {5, 6}), counter = b.constant(u32(), 9);
    const Value same = eq(random_bits(key, counter, {4}), random_bits(key, counter, {4}));
    EXPECT_THAT(integers(same), ElementsAre(0, 0, 0, 0));
}

TEST_F(Ops, UniformStaysInItsRange) {
    const Tensor y = value(uniform(whole(DType::u32, {1, 2}), b.constant(u32(), 0), {10000}, -2, 6));
    double sum = 0;
    for (const double v : y.real) {
        EXPECT_GE(v, -2);
        EXPECT_LT(v, 6);
        sum += v;
    }
    EXPECT_NEAR(sum / 10000, 2, 0.1);
}

TEST_F(Ops, NormalIsBoxMullerOnWordPairs) {
    const Value key = whole(DType::u32, {1, 2}), counter = b.constant(u32(), 3);
    const Value y = b.call("normal", {key, counter}, {{"shape", Dims{3}}, {"stream", int64_t{0}}});
    const auto words = philox4x32({0, 0, 0, 3}, {1, 2});
    const auto radius = [&](uint32_t w) { return std::sqrt(-2 * std::log(((w >> 8) + 1.0) * 0x1p-24)); };
    const auto angle = [&](uint32_t w) { return 2 * M_PI * ((w >> 8) * 0x1p-24); };
    EXPECT_THAT(reals(y), near({radius(words[0]) * std::cos(angle(words[1])), radius(words[0]) * std::sin(angle(words[1])),
                                radius(words[2]) * std::cos(angle(words[3]))}));
}

TEST_F(Ops, NormalHasItsMoments) {
    const Tensor y = value(normal(whole(DType::u32, {1, 2}), b.constant(u32(), 0), {9999}, 1, 3));
    double sum = 0, squares = 0;
    for (const double v : y.real) sum += v, squares += v * v;
    EXPECT_NEAR(sum / 9999, 1, 0.1);
    EXPECT_NEAR(std::sqrt(squares / 9999 - 1), 3, 0.1);
}

// --- inference errors -----------------------------------------------------------------------------------------------

TEST_F(Ops, DtypesMustAgree) {
    add(real({1}), whole(DType::i32, {1}));
    EXPECT_THAT(error(), HasSubstr("[add] dtypes of a and b differ: got f32 and i32, expected one dtype (cast one of them)"));
}

TEST_F(Ops, BoolIsNoNumber) {
    neg(whole(DType::boolean, {1}));
    EXPECT_THAT(error(), HasSubstr("[neg] wrong dtype of x: got bool[1], expected a number"));
}

TEST_F(Ops, ExpNeedsFloats) {
    exp(whole(DType::i32, {1}));
    EXPECT_THAT(error(), HasSubstr("[exp] wrong dtype of x: got i32[1], expected a float dtype"));
}

TEST_F(Ops, ReshapeMustKeepTheElementCount) {
    reshape(real({1, 2, 3}), {2});
    EXPECT_THAT(error(), HasSubstr("[reshape] element count of shape=[2] for x f32[3]: got 2, expected 3"));
}

TEST_F(Ops, TransposeNamesARepeatedAxis) {
    transpose(real({1, 2}, {1, 2}), {1, 1});
    EXPECT_THAT(error(), HasSubstr("[transpose] axis 1 is named twice"));
}

TEST_F(Ops, AxisOutOfRange) {
    sum(real({1}), {1});
    EXPECT_THAT(error(), HasSubstr("[sum] axis out of range: got 1, expected -1 to 0 for rank 1"));
}

TEST_F(Ops, SliceOutOfRange) {
    slice(real({1, 2, 3}), {1}, {4});
    EXPECT_THAT(error(), HasSubstr("[slice] stop of axis 0 is out of range: got 4 for x f32[3]"));
}

TEST_F(Ops, SliceStepMustBePositive) {
    slice(real({1, 2, 3}), {0}, {3}, {0});
    EXPECT_THAT(error(), HasSubstr("[slice] entry of step out of range: got 0, expected 1 to"));
}

TEST_F(Ops, MaximumOfNothing) {
    max(b.constant(f32({2, 0}), 0), {1});
    EXPECT_THAT(error(), HasSubstr("[max] nothing to reduce: axis 1 of x f32[2,0] is empty"));
}

TEST_F(Ops, GatherNeedsIntegerIndices) {
    gather(real({1}), real({0}));
    EXPECT_THAT(error(), HasSubstr("[gather] wrong dtype of indices: got f32[1], expected i32 or u32"));
}

TEST_F(Ops, GatherFromNothing) {
    gather(b.constant(f32({0, 2}), 0), whole(DType::i32, {0}));
    EXPECT_THAT(error(), HasSubstr("[gather] nothing to read: axis 0 of table f32[0,2] is empty"));
}

// x / sqrt(mean(x^2) + eps) with an eps that weighs: (12.5 + 3.5) is 4 squared.
TEST_F(Ops, RmsNormAddsEpsToTheMeanSquare) { EXPECT_THAT(reals(rms_norm(real({3, 4}), {}, {}, -1, 3.5)), ElementsAre(0.75, 1)); }

TEST_F(Ops, BroadcastAxesMustAscend) {
    broadcast(real({2, 3}, std::vector<double>(6)), {3, 2}, {1, 0});
    EXPECT_THAT(error(), HasSubstr("[broadcast] axes must ascend (use transpose to reorder)"));
}

TEST_F(Ops, DotNamesBothExtents) {
    dot(real({2, 3}, std::vector<double>(6)), real({2, 3}, std::vector<double>(6)), {{1}, {0}});
    EXPECT_THAT(error(),
                HasSubstr("[dot] contracted extents of a f32[2,3] axis 1 and b f32[2,3] axis 0 differ: got 2, expected 3"));
}

TEST_F(Ops, DotAxesMustNotRepeat) {
    const Value x = real({2, 2}, std::vector<double>(4));
    dot(x, x, {{1}, {0}}, {{1}, {1}});
    EXPECT_THAT(error(), HasSubstr("[dot] axis 1 is named twice"));
}

TEST_F(Ops, MatmulOfScalars) {
    matmul(b.constant(f32(), 1), real({1}));
    EXPECT_THAT(error(), HasSubstr("[matmul] a f32[] is a scalar, expected at least one axis (use mul)"));
}

TEST_F(Ops, LinearWeightIsOutTimesIn) {
    linear(real({1, 3}, {1, 2, 3}), real({3, 2}, std::vector<double>(6)));
    EXPECT_THAT(error(), HasSubstr("[linear] input features of x f32[1,3] and w f32[3,2] differ: got 2, expected 3"));
}

TEST_F(Ops, CrossEntropyLabelsHaveTheShapeOfTheRows) {
    cross_entropy(real({2, 3}, std::vector<double>(6)), whole(DType::i32, {1, 2, 3}));
    EXPECT_THAT(error(),
                HasSubstr("[cross_entropy] shape of labels, that of logits f32[2,3] without axis 1: got [3], expected [2]"));
}

TEST_F(Ops, PadValueMustFitTheDtype) {
    pad(whole(DType::u8, {1}), {1}, {0}, {}, 256);
    EXPECT_THAT(error(), HasSubstr("[pad] value does not fit the dtype: got 256 for u8"));
}

TEST_F(Ops, RandomKeyIsTwoWords) {
    random_bits(whole(DType::u32, {1}), b.constant(u32(), 0), {1});
    EXPECT_THAT(error(), HasSubstr("[random_bits] wrong type of key: got u32[1], expected u32[2]"));
}

TEST_F(Ops, UndecidedDimsSuggestAssume) {
    const Value x = b.input("x", f32({Dim::symbol("n")})), y = b.input("y", f32({Dim::symbol("m")}));
    dot(x, y, {{0}, {0}});
    EXPECT_THAT(error(), HasSubstr("assume"));
}

TEST_F(Ops, HostileSizesAreErrors) {
    pad(real({1}), {int64_t{1} << 62}, {0});
    EXPECT_THAT(error(), HasSubstr("[pad] entry of low out of range"));
}

}  // namespace
}  // namespace darner
