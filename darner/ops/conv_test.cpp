// SPDX-License-Identifier: MIT
// Convolutions: values by hand, what inference explains, extents with symbols.
#include "darner/ops/test_support.h"

namespace darner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Conv : public Ops {
protected:
    Value zeros(Dims dims, DType dtype = DType::f32) { return b.constant(Type{dtype, std::move(dims)}, 0.0); }
    std::string conv_error(Dims x, Dims w, ConvGeometry geometry = {}) {
        Builder other;
        conv(other.constant(f32(std::move(x)), 0.0), other.constant(f32(std::move(w)), 0.0), {}, std::move(geometry));
        return other.failed() ? other.error().text() : "";
    }
    std::string transpose_error(Dims x, Dims w, ConvGeometry geometry = {}, std::vector<int64_t> more = {}) {
        Builder other;
        conv_transpose(other.constant(f32(std::move(x)), 0.0), other.constant(f32(std::move(w)), 0.0), {}, std::move(geometry),
                       std::move(more));
        return other.failed() ? other.error().text() : "";
    }
};

TEST_F(Conv, DoesNotFlipTheKernel) {
    EXPECT_THAT(reals(conv(real({1, 1, 4}, {1, 2, 3, 4}), real({1, 1, 2}, {10, 1}))), ElementsAre(12, 23, 34));
}

TEST_F(Conv, PadsEachEndOfItsOwn) {
    EXPECT_THAT(reals(conv(real({1, 1, 3}, {1, 2, 3}), real({1, 1, 2}, {10, 1}), {}, {.padding = {0, 2}})),
                ElementsAre(12, 23, 30, 0));
}

TEST_F(Conv, NegativePaddingCrops) {
    EXPECT_THAT(reals(conv(real({1, 1, 4}, {1, 2, 3, 4}), real({1, 1, 1}, {1}), {}, {.padding = {-1, -2}})), ElementsAre(2));
}

TEST_F(Conv, TransposeScatters) {
    EXPECT_THAT(reals(conv_transpose(real({1, 1, 2}, {1, 2}), real({1, 1, 3}, {1, 10, 100}), {}, {.strides = {2}})),
                ElementsAre(1, 10, 102, 20, 200));
}

TEST_F(Conv, BiasIsOfOutputChannels) {
    EXPECT_THAT(reals(conv(real({1, 1, 1}, {3}), real({2, 1, 1}, {1, 2}), real({10, 20}))), ElementsAre(13, 26));
}

TEST_F(Conv, InfinityMeetsNoPadding) {
    // 0 times the infinity beside it would be NaN.
    EXPECT_THAT(reals(conv(real({1, 1, 2}, {1, 2}), real({1, 1, 2}, {inf, 1}), {}, {.padding = {1, 0}})), ElementsAre(1, inf));
}

TEST_F(Conv, ErrorsSayWhatDoesNotFit) {
    EXPECT_THAT(conv_error({2, 3}, {4, 3}), HasSubstr("x f32[2,3] has no spatial axes"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 1, 1}), HasSubstr("wrong rank of w f32[4,3,1,1]: expected [O, C / groups, ..]"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 2, 3}), HasSubstr("input channels a group of w f32[4,2,3] do not fit x f32[2,3,5]"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 0}), HasSubstr("extent of axis 2 of w f32[4,3,0]: got 0"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.groups = 2}), HasSubstr("3 channels of axis 1 of x f32[2,3,5] do not part"));
    EXPECT_THAT(conv_error({2, 4, 5}, {3, 2, 3}, {.groups = 2}), HasSubstr("3 channels of axis 0 of w f32[3,2,3] do not part"));
    EXPECT_THAT(conv_error({2, 4, 5}, {3, 2, 3}, {.groups = 0}), HasSubstr("groups out of range: got 0"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.strides = {1, 1}}), HasSubstr("strides needs one entry an axis: got 2"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.strides = {0}}), HasSubstr("entry of strides out of range: got 0"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.padding = {1}}), HasSubstr("padding needs"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.dilation = {3}}), HasSubstr("it spans 7 elements, with padding there are 5"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.padding = {-4, 1}}), HasSubstr("with padding there are 2"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.padding = {2147483647, 2147483647}}), HasSubstr("too large"));
    EXPECT_THAT(conv_error({2, 3, 5}, {4, 3, 3}, {.dilation = {2147483647}}), HasSubstr("does not fit axis 2"));
    EXPECT_THAT(transpose_error({1, 2, 3}, {2, 1, 3}, {.strides = {2}}, {2}), HasSubstr("output_padding must be below"));
    EXPECT_THAT(transpose_error({1, 2, 1}, {2, 1, 1}, {.padding = {1, 1}}), HasSubstr("extent of axis 2 of the result is -1"));
    EXPECT_THAT(transpose_error({1, 2, 3}, {3, 1, 3}), HasSubstr("input channels of w f32[3,1,3] and x f32[1,2,3] differ"));
    const Value x = zeros({1, 2, 3});
    conv(x, zeros({4, 2, 1}), zeros({3}));
    EXPECT_THAT(error(), HasSubstr("shape of b, one entry an output channel: got [3], expected [4]"));
}

TEST_F(Conv, SymbolsMayBeBatchOrExtents) {
    const Dim n = Dim::symbol("n"), h = Dim::symbol("h");
    const Value w = zeros({4, 3, 3});
    EXPECT_EQ(conv(b.input("x", f32({n, 3, 8})), w, {}, {.strides = {2}}).type(), f32({n, 4, 3}));
    EXPECT_EQ(conv(b.input("y", f32({n, 3, h})), w, {}, {.padding = {1, 2}}).type(), f32({n, 4, h + 1}));
    EXPECT_EQ(error(), "");
    conv(b.input("z", f32({n, 3, h})), w, {}, {.strides = {2}});
    EXPECT_THAT(error(), HasSubstr("a stride of 2 needs a known extent: got h on axis 2"));
}

}  // namespace
}  // namespace darner
