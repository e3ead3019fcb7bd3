// SPDX-License-Identifier: MIT
#include "darner/io/array.h"

#include <limits>

#include <gtest/gtest.h>

namespace darner {
namespace {

TEST(Array, SizesAreOverflowSafe) {
    const auto bytes = [](std::string_view dtype, std::vector<int64_t> dims) { return array_bytes(dtype, dims); };
    EXPECT_EQ(bytes("f32", {}), 4u);
    EXPECT_EQ(bytes("bf16", {3, 5}), 30u);
    EXPECT_EQ(bytes("bool", {3, 0}), 0u);
    EXPECT_EQ(bytes("i64", {int64_t{1} << 61}), std::nullopt);
    EXPECT_EQ(bytes("f32", {-1}), std::nullopt);
    EXPECT_EQ(bytes("i16", {1}), std::nullopt);
    EXPECT_EQ(bytes("u8", std::vector<int64_t>(64, 1)), 1u);
    EXPECT_EQ(bytes("u8", std::vector<int64_t>(65, 1)), std::nullopt);
}

TEST(Array, VerifyExplains) {
    EXPECT_TRUE(verify(make_array<float>({2}, {1, 2})));
    EXPECT_EQ(verify({"f32", {2, 3}, std::vector<std::byte>(20)}).error().message,
              "[array] f32[2,3] has 20 bytes of data, expected 24");
    EXPECT_EQ(verify({"f31", {}, {}}).error().message, "[array] there is no dtype \"f31\"");
    EXPECT_EQ(verify({"f32", {2, -3}, {}}).error().message, "[array] no array can have the type f32[2,-3]");
}

TEST(Array, TypedAccess) {
    const Array array = make_array<int32_t>({3}, {4, 5, 6});
    EXPECT_EQ(type_text(array), "i32[3]");
    EXPECT_EQ(values_of<int32_t>(array)[2], 6);
    EXPECT_DEATH((void)values_of<float>(array), "the array is i32");
    EXPECT_DEATH((void)make_array<float>({2}, {1}), "does not match the dims");
}

}  // namespace
}  // namespace darner
