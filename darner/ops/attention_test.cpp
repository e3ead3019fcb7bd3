// SPDX-License-Identifier: MIT
// What attention and rotary refuse, and where their definitions have corners; the rest is checked by the op table and PyTorch.
#include "darner/ops/test_support.h"

namespace darner {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class Attention : public Ops {
protected:
    Value zeros(Dims dims) { return b.constant(f32(std::move(dims)), 0); }
    std::string refusal(Dims q, Dims k, Dims v, AttentionOptions options = {}) {
        Builder other;
        const auto of = [&](std::string_view name, Dims dims) { return other.input(name, f32(std::move(dims))); };
        const Value query = of("q", std::move(q)), key = of("k", std::move(k)), value = of("v", std::move(v));
        if (options.position.valid()) options.position = other.input("at", i32());
        if (options.mask.valid()) options.mask = of("mask", {3, 9});
        attention(query, key, value, options);
        return other.failed() ? other.error().text() : "";
    }
};

TEST_F(Attention, ExplainsWhatDoesNotFit) {
    const Dims q = {2, 4, 5, 3}, k = {2, 2, 7, 3};
    EXPECT_EQ(refusal(q, k, k), "");
    EXPECT_THAT(refusal({4, 5, 3}, k, k), HasSubstr("q f32[4,5,3] needs 4 axes: [batch, heads, length, head_dim]"));
    EXPECT_THAT(refusal(q, {2, 3, 7, 3}, {2, 3, 7, 3}), HasSubstr("the heads of q f32[2,4,5,3] are no multiple of those of k"));
    EXPECT_THAT(refusal(q, {2, 2, 7, 4}, {2, 2, 7, 4}), HasSubstr("head_dim of k and q differ"));
    EXPECT_THAT(refusal(q, {1, 2, 7, 3}, {1, 2, 7, 3}), HasSubstr("batch of k and q differ"));
    EXPECT_THAT(refusal(q, k, {2, 2, 6, 3}), HasSubstr("batch, heads and length of v, those of k"));
    EXPECT_THAT(refusal(q, k, k, {.mask = zeros({})}), HasSubstr("mask"));
    EXPECT_THAT(refusal(q, k, k, {.position = zeros({})}), HasSubstr("position means nothing without causal=true or a window"));
    EXPECT_THAT(refusal(q, k, k, {.window = -1}), HasSubstr("window out of range: got -1"));
    EXPECT_THAT(refusal(q, k, k, {.soft_cap = -1}), HasSubstr("soft_cap must be a number of f32 not below 0"));
    EXPECT_THAT(refusal(q, k, k, {.dropout = 2}), HasSubstr("dropout must be in 0 to 1: got 2"));
    EXPECT_THAT(refusal(q, k, k, {.dropout = 0.5}), HasSubstr("dropout needs the operands key and counter"));
}

TEST_F(Attention, QueriesThatSeeNothingGiveZero) {
    const Value ones = b.constant(f32({1, 1, 2, 3}), 1);
    EXPECT_THAT(reals(attention(ones, ones, ones, {.mask = whole(DType::boolean, {1, 2}, {0, 0})})), Each(0));
}

TEST_F(Attention, PositionsFarAwayDoNotWrapRound) {
    const Value ones = b.constant(f32({2, 1, 2, 3}), 1);
    // The first sees nothing, the second everything.
    const Value at = whole(DType::i32, {-2147483648.0, 2147483647.0});
    const std::vector<double> y = reals(attention(ones, ones, ones, {.position = at, .causal = true}));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], i < 6 ? 0 : 1, 1e-12);
}

TEST_F(Attention, RotaryExplainsWhatDoesNotFit) {
    const auto refusal_of = [](Dims dims, RotaryOptions options) {
        Builder other;
        rotary(other.input("x", f32(std::move(dims))), options);
        return other.failed() ? other.error().text() : "";
    };
    EXPECT_THAT(refusal_of({5}, {}), HasSubstr("needs the axes [.., length, features]"));
    EXPECT_THAT(refusal_of({2, 5}, {}), HasSubstr("an even number, at most 5: got 5"));
    EXPECT_THAT(refusal_of({2, 4}, {.dims = 6}), HasSubstr("an even number, at most 4: got 6"));
    EXPECT_THAT(refusal_of({2, 4}, {.theta = 0}), HasSubstr("theta must be positive"));
    EXPECT_THAT(refusal_of({2, 4}, {.layout = "whole"}), HasSubstr("layout"));
}

}  // namespace
}  // namespace darner
