// SPDX-License-Identifier: MIT
// Choice of memory types and allocation of buffers.
#include "darner/device/vulkan/memory.h"

#include "darner/device/vulkan/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace darner::vulkan {
namespace {

struct Wish {
    VkMemoryPropertyFlags required = 0;
    // The earlier wish outweighs all later ones together.
    std::array<VkMemoryPropertyFlags, 2> wanted = {};
    std::array<VkMemoryPropertyFlags, 2> unwanted = {};
};

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                                coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

Wish wish_for(MemoryUse use) {
    switch (use) {
        // Memory that the host also sees may be a small aperture of the device's.
        case MemoryUse::device: return {.wanted = {local}, .unwanted = {0, visible}};
        case MemoryUse::device_mapped: return {.required = visible | coherent, .wanted = {local, cached}};
        // Plain uncached writes combine; device memory behind the bus is left to tensors.
        case MemoryUse::upload: return {.required = visible | coherent, .unwanted = {local, cached}};
        case MemoryUse::read_back: return {.required = visible, .wanted = {cached, coherent}, .unwanted = {0, local}};
    }
    bug(__FILE__, __LINE__, "MemoryUse out of range");
}

int score(VkMemoryPropertyFlags flags, const Wish& wish) {
    int total = 0;
    for (size_t i = 0; i < wish.wanted.size(); ++i) {
        const int weight = i == 0 ? 4 : 1;
        if (wish.wanted[i] && (flags & wish.wanted[i]) == wish.wanted[i]) total += weight;
        if (flags & wish.unwanted[i]) total -= weight;
    }
    return total;
}

}  // namespace

Result<uint32_t> choose_memory_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed, MemoryUse use) {
    constexpr VkMemoryPropertyFlags special = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                              VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                                              VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
    const Wish wish = wish_for(use);
    std::optional<uint32_t> best;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
        const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || (flags & special) || (flags & wish.required) != wish.required) continue;
        if (!best) {
            best = i;
            continue;
        }
        const int gain = score(flags, wish) - score(memory.memoryTypes[*best].propertyFlags, wish);
        const auto heap_bytes = [&](uint32_t type) { return memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size; };
        if (gain > 0 || (gain == 0 && heap_bytes(i) > heap_bytes(*best))) best = i;
    }
    if (!best) return unsupported("[vulkan] the device has no memory of the needed kind");
    return *best;
}

Result<Buffer> Buffer::create(const Context& context, uint64_t bytes, MemoryUse use, const std::string& name, bool shared) {
    const DeviceFunctions& vk = context.vk();
    const VkDevice device = context.device();
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = std::max<uint64_t>(bytes, 16);
    info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    if (use == MemoryUse::device || use == MemoryUse::device_mapped)
        info.usage |= VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
    const PhysicalDevice& physical = context.physical();
    const std::array<uint32_t, 2> families = {physical.queue_family, physical.transfer_family.value_or(0)};
    if (shared && physical.transfer_family) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = families.size();
        info.pQueueFamilyIndices = families.data();
    }
    VkBuffer buffer = VK_NULL_HANDLE;
    if (const VkResult r = vk.CreateBuffer(device, &info, nullptr, &buffer); r != VK_SUCCESS)
        return vulkan_error(r, fmt::format("creating the {} of {} bytes", name, bytes));
    Buffer result;
    result.bytes_ = bytes;
    result.buffer_ = Handle<VkBuffer>(device, buffer, vk.DestroyBuffer);
    context.name_object(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(buffer), name);

    VkMemoryRequirements requirements;
    vk.GetBufferMemoryRequirements(device, buffer, &requirements);
    const VkPhysicalDeviceMemoryProperties& memory = context.physical().memory;
    TRY(const uint32_t type, choose_memory_type(memory, requirements.memoryTypeBits, use));
    VkMemoryAllocateInfo allocation{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocation.allocationSize = requirements.size;
    allocation.memoryTypeIndex = type;
    VkDeviceMemory block = VK_NULL_HANDLE;
    if (const VkResult r = vk.AllocateMemory(device, &allocation, nullptr, &block); r != VK_SUCCESS)
        return vulkan_error(r, fmt::format("allocating the {} of {} bytes", name, bytes));
    result.memory_ = Handle<VkDeviceMemory>(device, block, vk.FreeMemory);
    TRY(check(vk.BindBufferMemory(device, buffer, block, 0), "binding memory"));
    if (use != MemoryUse::device) {
        void* mapped = nullptr;
        TRY(check(vk.MapMemory(device, block, 0, VK_WHOLE_SIZE, 0, &mapped), "mapping memory"));
        result.mapped_ = static_cast<std::byte*>(mapped);
        result.coherent_ = memory.memoryTypes[type].propertyFlags & coherent;
    }
    return result;
}

Result<void> Buffer::invalidate(const Context& context) const {
    if (coherent_) return {};
    VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
    range.memory = memory_.get();
    range.size = VK_WHOLE_SIZE;
    return check(context.vk().InvalidateMappedMemoryRanges(context.device(), 1, &range), "reading device memory");
}

}  // namespace darner::vulkan
