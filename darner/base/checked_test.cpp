// SPDX-License-Identifier: MIT
#include "darner/base/checked.h"
#include "darner/base/bytes.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace darner {
namespace {

constexpr int64_t huge = std::numeric_limits<int64_t>::max();

std::optional<uint64_t> product(std::vector<int64_t> extents) { return checked_product(extents); }

TEST(Checked, Product) {
    EXPECT_EQ(product({}), 1u);
    EXPECT_EQ(product({2, 3, 4}), 24u);
    EXPECT_EQ(product({5, 0, 7}), 0u);
    EXPECT_EQ(product({huge, 1}), uint64_t{huge});
    EXPECT_EQ(product({-1}), std::nullopt);
    EXPECT_EQ(product({-1, 0}), std::nullopt);
    EXPECT_EQ(product({huge, 2}), std::nullopt);
    EXPECT_EQ(product({int64_t{1} << 32, int64_t{1} << 32, 0}), std::nullopt);
}

TEST(Checked, AddAndMultiply) {
    constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
    EXPECT_EQ(checked_add(most - 1, 1), most);
    EXPECT_EQ(checked_add(most, 1), std::nullopt);
    EXPECT_EQ(checked_mul(most, 1), most);
    EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
}

TEST(Bytes, LoadsAtAnyAlignmentInBothOrders) {
    std::vector<std::byte> bytes(1);
    append_le(bytes, uint32_t{0x01020304});
    EXPECT_EQ(load_le<uint32_t>(bytes.data() + 1), 0x01020304u);
    EXPECT_EQ(load_be<uint32_t>(bytes.data() + 1), 0x04030201u);
    EXPECT_EQ(load_be<uint16_t>(bytes.data() + 1), 0x0403u);
    swap_byte_order(std::span(bytes).subspan(1), 4);
    EXPECT_EQ(load_le<uint32_t>(bytes.data() + 1), 0x04030201u);
}

}  // namespace
}  // namespace darner
