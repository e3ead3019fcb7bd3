// SPDX-License-Identifier: MIT
// The zoo run by the checking interpreter, and compared with what a device left.
#include "darner/emit/kernel_zoo_test.h"

#include "darner/kir/half.h"
#include "darner/kir/interpret.h"
#include "darner/kir/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace darner {
namespace {

std::vector<std::vector<uint32_t>> interpreted(const ZooKernel& zoo) {
    std::vector<std::vector<uint32_t>> contents = zoo.buffers;
    std::vector<kir::Buffer> buffers;
    for (std::vector<uint32_t>& words : contents)
        buffers.push_back({reinterpret_cast<std::byte*>(words.data()), words.size() * 4});
    const auto result = kir::interpret(zoo.kernel, zoo.groups, buffers, zoo.params);
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return contents;
}

bool close(float got, float want) { return std::abs(got - want) <= 2e-3f * std::max(1.0f, std::abs(want)); }

bool close_words(kir::Scalar scalar, uint32_t got, uint32_t want) {
    if (scalar != kir::Scalar::f16) return close(std::bit_cast<float>(got), std::bit_cast<float>(want));
    return close(kir::f16_to_f32(got & 0xffff), kir::f16_to_f32(want & 0xffff)) &&
           close(kir::f16_to_f32(got >> 16), kir::f16_to_f32(want >> 16));
}

TEST(KernelZoo, IsValidKernelIr) {
    for (const ZooKernel& zoo : kernel_zoo()) {
        const auto result = kir::verify(zoo.kernel);
        EXPECT_TRUE(result) << (result ? "" : result.error().text());
    }
}

TEST(KernelZoo, HoldsEveryOpcode) {
    std::set<kir::Opcode> seen;
    for (const ZooKernel& zoo : kernel_zoo()) {
        for (const kir::Block& block : zoo.kernel.blocks) {
            if (!block.arguments.empty()) seen.insert(kir::Opcode::argument);
            for (kir::ValueId v : block.instructions) seen.insert(zoo.kernel.at(v).op);
        }
    }
    for (uint32_t op = 0; op <= uint32_t(kir::Opcode::coop_map); ++op)
        EXPECT_TRUE(seen.count(kir::Opcode(op))) << "no kernel of the zoo uses " << kir::to_string(kir::Opcode(op));
}

}  // namespace

void expect_as_interpreted(const ZooKernel& zoo, const std::vector<std::vector<uint32_t>>& contents) {
    const std::vector<std::vector<uint32_t>> expected = interpreted(zoo);
    ASSERT_EQ(contents.size(), expected.size());
    for (size_t b = 0; b < expected.size(); ++b) {
        ASSERT_EQ(contents[b].size(), expected[b].size());
        for (size_t i = 0; i < expected[b].size(); ++i) {
            const uint32_t got = contents[b][i], want = expected[b][i];
            const bool same = got == want || (!zoo.exact && close_words(zoo.kernel.bindings[b].scalar, got, want));
            ASSERT_TRUE(same) << fmt::format("{} binding {} word {}: got {:08x}, expected {:08x}", zoo.kernel.name, b, i, got,
                                             want);
        }
    }
}

}  // namespace darner
