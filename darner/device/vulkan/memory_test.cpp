// SPDX-License-Identifier: MIT
// The choice of memory types, on the tables of real devices.
#include "darner/device/vulkan/memory.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace darner::vulkan {
namespace {

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                                coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr uint64_t gib = 1ull << 30;

VkPhysicalDeviceMemoryProperties table(std::vector<uint64_t> heaps,
                                       std::vector<std::pair<VkMemoryPropertyFlags, uint32_t>> types) {
    VkPhysicalDeviceMemoryProperties memory{};
    memory.memoryHeapCount = static_cast<uint32_t>(heaps.size());
    memory.memoryTypeCount = static_cast<uint32_t>(types.size());
    for (size_t i = 0; i < heaps.size(); ++i) memory.memoryHeaps[i] = {heaps[i], 0};
    for (size_t i = 0; i < types.size(); ++i) memory.memoryTypes[i] = {types[i].first, types[i].second};
    return memory;
}

uint32_t choose(const VkPhysicalDeviceMemoryProperties& memory, MemoryUse use, uint32_t allowed = ~0u) {
    const Result<uint32_t> type = choose_memory_type(memory, allowed, use);
    return type ? *type : 99;
}

TEST(MemoryType, DiscreteWithSmallAperture) {
    const auto memory =
        table({24 * gib, 64 * gib, gib / 4},
              {{0, 1}, {local, 0}, {visible | coherent, 1}, {visible | coherent | cached, 1}, {local | visible | coherent, 2}});
    EXPECT_EQ(choose(memory, MemoryUse::device), 1u);
    EXPECT_EQ(choose(memory, MemoryUse::upload), 2u);
    EXPECT_EQ(choose(memory, MemoryUse::read_back), 3u);
    EXPECT_EQ(choose(memory, MemoryUse::device_mapped), 4u);
    // The buffer's own restriction wins over the wish.
    EXPECT_EQ(choose(memory, MemoryUse::device, 0b10000), 4u);
    EXPECT_EQ(choose(memory, MemoryUse::device, 0b00001), 0u);
}

TEST(MemoryType, UnifiedWithOneType) {
    const auto memory = table({2 * gib}, {{local | visible | coherent | cached, 0}});
    for (MemoryUse use : {MemoryUse::device, MemoryUse::device_mapped, MemoryUse::upload, MemoryUse::read_back})
        EXPECT_EQ(choose(memory, use), 0u);
}

TEST(MemoryType, MobileReadsBackThroughCachedMemory) {
    const auto memory = table({8 * gib}, {{local, 0}, {local | visible | coherent, 0}, {local | visible | cached, 0}});
    EXPECT_EQ(choose(memory, MemoryUse::device), 0u);
    EXPECT_EQ(choose(memory, MemoryUse::device_mapped), 1u);
    EXPECT_EQ(choose(memory, MemoryUse::upload), 1u);
    EXPECT_EQ(choose(memory, MemoryUse::read_back), 2u);
}

TEST(MemoryType, LargerHeapWinsAmongEquals) {
    const auto memory = table({gib, 8 * gib}, {{local, 0}, {local, 1}});
    EXPECT_EQ(choose(memory, MemoryUse::device), 1u);
}

TEST(MemoryType, SpecialMemoryIsNeverChosen) {
    const auto memory = table({8 * gib}, {{local | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT, 0},
                                          {local | VK_MEMORY_PROPERTY_PROTECTED_BIT, 0},
                                          {local | visible | coherent | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD, 0}});
    for (MemoryUse use : {MemoryUse::device, MemoryUse::device_mapped, MemoryUse::upload, MemoryUse::read_back})
        EXPECT_EQ(choose(memory, use), 99u);
}

}  // namespace
}  // namespace darner::vulkan
