// SPDX-License-Identifier: MIT
// Records an entry of a Program into a command buffer: once, to be submitted many times. It opens with a barrier against
// everything before it, so that a submit may list it n times; between barrier groups stands one memory barrier.
#pragma once

#include "darner/device/vulkan/pipelines.h"
#include "darner/program/groups.h"

#include <unordered_map>
#include <vector>

namespace darner::vulkan {

class Buffer;

// The descriptor sets of all dispatches of a Program, written once; dispatches with equal windows share one.
class DescriptorSets {
public:
    static Result<DescriptorSets> create(const Context& context, const Program& program, const Pipelines& pipelines,
                                         const std::vector<Buffer>& segments);
    // Null for a kernel without bindings.
    VkDescriptorSet of(const Dispatch& dispatch) const { return sets_.at(&dispatch); }

private:
    Handle<VkDescriptorPool> pool_;
    std::unordered_map<const Dispatch*, VkDescriptorSet> sets_;
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
};

struct Recorder {
    const Context& context;
    const Program& program;
    const Pipelines& pipelines;
    const DescriptorSets& sets;
    const std::vector<Buffer>& segments;

    Result<void> record(VkCommandBuffer commands, const std::vector<BarrierGroup>& groups, const RecordOptions& options) const;

private:
    void record_member(VkCommandBuffer commands, const Member& member, KernelId& bound) const;
    void poison(VkCommandBuffer commands) const;
};

// Which kinds of work a barrier stands between.
struct BarrierScope {
    bool compute = true, transfer = true;
};

// Writes before it are visible to reads and writes behind it.
void memory_barrier(const DeviceFunctions& vk, VkCommandBuffer commands, BarrierScope before, BarrierScope behind);
void host_read_barrier(const DeviceFunctions& vk, VkCommandBuffer commands);

Result<void> begin_commands(const DeviceFunctions& vk, VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
Result<void> end_commands(const DeviceFunctions& vk, VkCommandBuffer commands);

}  // namespace darner::vulkan
