// SPDX-License-Identifier: MIT
// Rounding against known bit patterns, all 16-bit floats both ways, integers at their ends, the packed form.
#include "darner/graph/tensor.h"
#include "darner/base/bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace darner {
namespace {

uint16_t bits16(DType dtype, double value) { return load_le<uint16_t>(Tensor::of(dtype, {1}, {value}).bytes().data()); }

double from16(DType dtype, uint16_t bits) {
    std::vector<std::byte> bytes;
    append_le(bytes, bits);
    return Tensor::from_bytes(dtype, {}, bytes)->real[0];
}

TEST(Rounding, HalfPrecisionBits) {
    EXPECT_EQ(bits16(DType::f16, 1), 0x3c00);
    EXPECT_EQ(bits16(DType::f16, -2), 0xc000);
    EXPECT_EQ(bits16(DType::f16, 65504), 0x7bff);
    EXPECT_EQ(bits16(DType::f16, 65519.99), 0x7bff);
    EXPECT_EQ(bits16(DType::f16, 65520), 0x7c00) << "the tie goes to infinity";
    EXPECT_EQ(bits16(DType::f16, 1 + 0x1p-11), 0x3c00) << "tie to even, down";
    EXPECT_EQ(bits16(DType::f16, 1 + 0x3p-11), 0x3c02) << "tie to even, up";
    EXPECT_EQ(bits16(DType::f16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
    EXPECT_EQ(bits16(DType::f16, 0x1p-24), 0x0001) << "smallest subnormal";
    EXPECT_EQ(bits16(DType::f16, 0x1p-25), 0x0000) << "tie to even: zero";
    EXPECT_EQ(bits16(DType::f16, 0x1.8p-25), 0x0001);
    EXPECT_EQ(bits16(DType::f16, -0x1p-26), 0x8000) << "zero keeps its sign";
    EXPECT_EQ(bits16(DType::f16, 0x1.ff8p-15), 0x03ff) << "largest subnormal";
    EXPECT_EQ(bits16(DType::f16, 0x1.ffbp-15), 0x03ff);
    EXPECT_EQ(bits16(DType::f16, 0x1.ffcp-15), 0x0400) << "tie to even, up into the normals";
    EXPECT_EQ(bits16(DType::f16, std::nan("")), 0x7e00);
    EXPECT_EQ(bits16(DType::bf16, 1), 0x3f80);
    EXPECT_EQ(bits16(DType::bf16, 3.140625), 0x4049);
    EXPECT_EQ(bits16(DType::bf16, 1 + 0x1p-8), 0x3f80);
    EXPECT_EQ(bits16(DType::bf16, 1 + 0x3p-8), 0x3f82);
    EXPECT_EQ(bits16(DType::bf16, 0x1p-133), 0x0001);
    EXPECT_EQ(bits16(DType::bf16, std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Rounding, Every16BitFloatReadsBack) {
    for (DType dtype : {DType::f16, DType::bf16}) {
        for (uint32_t bits = 0; bits < 65536; ++bits) {
            const double value = from16(dtype, static_cast<uint16_t>(bits));
            if (std::isnan(value)) continue;
            ASSERT_EQ(bits16(dtype, value), bits);
            ASSERT_EQ(round_to(dtype, value), value);
        }
    }
}

// Between two neighbours everything goes to the nearer one.
TEST(Rounding, NearestOfNeighbours) {
    for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
        const double low = from16(DType::f16, static_cast<uint16_t>(bits)),
                     high = from16(DType::f16, static_cast<uint16_t>(bits + 1));
        const double middle = (low + high) / 2;
        ASSERT_EQ(round_to(DType::f16, std::nextafter(middle, 0)), low);
        ASSERT_EQ(round_to(DType::f16, std::nextafter(middle, 1e9)), high);
        ASSERT_EQ(round_to(DType::f16, middle), bits % 2 ? high : low);
    }
}

TEST(Rounding, SinglePrecisionIsTheHosts) {
    for (double value : {0.1, 1e-45, 7e-46, 1e-40, 3.4028235677973366e38, 3.4028235e38, 16777217.0, -1e300})
        EXPECT_EQ(round_to(DType::f32, value), static_cast<double>(static_cast<float>(value))) << value;
    EXPECT_EQ(round_to(DType::f64, 0.1), 0.1);
}

TEST(Integers, WrapAndSaturate) {
    EXPECT_EQ(wrap_to(DType::i8, 130), -126);
    EXPECT_EQ(wrap_to(DType::u8, -1), 255);
    EXPECT_EQ(wrap_to(DType::i32, int64_t{1} << 31), INT32_MIN);
    EXPECT_EQ(wrap_to(DType::u32, -1), 4294967295);
    EXPECT_EQ(wrap_to(DType::boolean, -7), 1);
    EXPECT_EQ(saturate_to(DType::i8, 1e9), 127);
    EXPECT_EQ(saturate_to(DType::i8, -128.9), -128);
    EXPECT_EQ(saturate_to(DType::u8, -0.5), 0);
    EXPECT_EQ(saturate_to(DType::u32, 4294967295.7), 4294967295);
    EXPECT_EQ(saturate_to(DType::i32, std::nan("")), 0);
    EXPECT_EQ(saturate_to(DType::i64, 1e30), INT64_MAX);
    EXPECT_EQ(saturate_to(DType::i64, -INFINITY), INT64_MIN);
    EXPECT_EQ(saturate_to(DType::i32, -2.9), -2);
    EXPECT_EQ(saturate_to(DType::boolean, 0.5), 1);
}

TEST(Bytes, RoundTripAndSizes) {
    for (int i = 0; i < dtype_count; ++i) {
        const auto dtype = static_cast<DType>(i);
        const Tensor tensor = Tensor::of(dtype, {2, 3}, {0, 1, 1, 0, 0, 1});
        EXPECT_EQ(tensor.bytes().size(), 6 * byte_size(dtype));
        const Result<Tensor> back = Tensor::from_bytes(dtype, {2, 3}, tensor.bytes());
        ASSERT_TRUE(back);
        EXPECT_EQ(*back, tensor);
    }
    EXPECT_EQ(Tensor::from_bytes(DType::f32, {3}, std::vector<std::byte>(8)).error().message,
              "wrong size of f32[3]: got 8 bytes, expected 12");
    EXPECT_FALSE(Tensor::from_bytes(DType::f32, {-1}, {}));
    EXPECT_FALSE(Tensor::from_bytes(DType::f32, {int64_t{1} << 40, int64_t{1} << 40}, {}));
    EXPECT_TRUE(Tensor::from_bytes(DType::f32, {0}, {}));
}

TEST(Index, WalksRowMajor) {
    const std::vector<int64_t> dims = {2, 3};
    std::vector<int64_t> index = {0, 0};
    int count = 1;
    while (next_index(dims, index)) ++count;
    EXPECT_EQ(count, 6);
    EXPECT_EQ(row_major_strides(std::vector<int64_t>{2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
}

}  // namespace
}  // namespace darner
