// SPDX-License-Identifier: MIT
// Records an entry of a Program into a command buffer: once for each slot of its rings, to be submitted many times. It opens
// with a barrier against everything before it, so that a submit may list it n times; between barrier groups stands one memory
// barrier.
#pragma once

#include "darner/device/vulkan/memory.h"
#include "darner/device/vulkan/pipelines.h"
#include "darner/program/groups.h"
#include "darner/program/rings.h"

#include <unordered_map>
#include <vector>

namespace darner::vulkan {

// The memory of a Program: of each segment one buffer, of a ring one for each slot.
class SegmentBuffers {
public:
    void add(std::vector<Buffer> slots) { buffers_.push_back(std::move(slots)); }
    const Buffer& of(SegmentId segment, uint32_t slot) const {
        const std::vector<Buffer>& slots = buffers_[segment.value];
        return slots[slots.size() == 1 ? 0 : slot];
    }

private:
    std::vector<std::vector<Buffer>> buffers_;
};

// The descriptor sets of all dispatches of a Program, written once; dispatches with equal windows share one. A dispatch that
// touches a ring has one for each slot.
class DescriptorSets {
public:
    static Result<DescriptorSets> create(const Context& context, const Program& program, const Pipelines& pipelines,
                                         const SegmentBuffers& segments, const Rings& rings);
    // Null for a kernel without bindings.
    VkDescriptorSet of(const Dispatch& dispatch, uint32_t slot) const {
        const std::vector<VkDescriptorSet>& slots = sets_.at(&dispatch);
        return slots[slots.size() == 1 ? 0 : slot];
    }

private:
    Handle<VkDescriptorPool> pool_;
    std::unordered_map<const Dispatch*, std::vector<VkDescriptorSet>> sets_;
};

// A copy for the host at the end of a run, where it cannot reach the segment.
struct Delivery {
    SegmentId segment;
    uint64_t offset = 0, bytes = 0;
    uint64_t target_offset = 0;
};

struct RecordOptions {
    VkCommandBufferUsageFlags usage = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    // When set, timestamp 0 is written at the start and one behind every member; the pool holds them all.
    VkQueryPool timestamps = VK_NULL_HANDLE;
    // The host reads segments in place: what the entry wrote is made visible to it at the end.
    bool visible_to_host = false;
    // Fills scratch segments with NaN before each run, so that a read of stale scratch shows.
    bool poison_scratch = false;
    // When set, each group leaves its number in word 0 of this buffer as it starts, for the report of a lost device.
    VkBuffer breadcrumbs = VK_NULL_HANDLE;
    std::vector<Delivery> deliveries;
    VkBuffer delivered = VK_NULL_HANDLE;  // takes them
};

struct Recorder {
    const Context& context;
    const Program& program;
    const Pipelines& pipelines;
    const DescriptorSets& sets;
    const SegmentBuffers& segments;
    uint32_t slot = 0;  // of rings

    Result<void> record(VkCommandBuffer commands, const std::vector<BarrierGroup>& groups, const RecordOptions& options) const;

private:
    VkBuffer buffer(SegmentId segment) const { return segments.of(segment, slot).get(); }
    void record_member(VkCommandBuffer commands, const Member& member, KernelId& bound) const;
    void record_dispatch(VkCommandBuffer commands, const Dispatch& dispatch, KernelId& bound) const;
    void poison(VkCommandBuffer commands) const;
    void deliver(VkCommandBuffer commands, const RecordOptions& options) const;
};

// Which kinds of work a barrier stands between.
struct BarrierScope {
    bool compute = true, transfer = true, indirect = false;
};

// Writes before it are visible to reads and writes behind it.
void memory_barrier(const DeviceFunctions& vk, VkCommandBuffer commands, BarrierScope before, BarrierScope behind);
void host_read_barrier(const DeviceFunctions& vk, VkCommandBuffer commands);

Result<void> begin_commands(const DeviceFunctions& vk, VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
Result<void> end_commands(const DeviceFunctions& vk, VkCommandBuffer commands);

}  // namespace darner::vulkan
