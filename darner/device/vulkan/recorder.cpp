// SPDX-License-Identifier: MIT
// Descriptor sets, barriers and the recording of entries.
#include "darner/device/vulkan/recorder.h"

#include "darner/program/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace darner::vulkan {
namespace {

// What a descriptor says of a window: buffer, offset, bytes.
using WindowKey = std::vector<std::tuple<VkBuffer, uint64_t, uint64_t>>;

void collect(const std::vector<Item>& items, std::vector<const Dispatch*>& dispatches) {
    for (const Item& item : items) {
        if (const Dispatch* d = std::get_if<Dispatch>(&item)) dispatches.push_back(d);
        if (const Repeat* r = std::get_if<Repeat>(&item)) collect(r->body, dispatches);
    }
}

BarrierScope scope_of(const BarrierGroup& group) {
    BarrierScope scope{.compute = false, .transfer = false};
    for (const Member& member : group) {
        (member.dispatch ? scope.compute : scope.transfer) = true;
        scope.indirect |= member.dispatch && member.dispatch->groups_from;
    }
    return scope;
}

VkPipelineStageFlags stages(BarrierScope scope) {
    VkPipelineStageFlags flags = 0;
    if (scope.compute) flags |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    if (scope.transfer) flags |= VK_PIPELINE_STAGE_TRANSFER_BIT;
    if (scope.indirect) flags |= VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT;
    return flags;
}

}  // namespace

void memory_barrier(const DeviceFunctions& vk, VkCommandBuffer commands, BarrierScope before, BarrierScope behind) {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    if (before.compute) barrier.srcAccessMask |= VK_ACCESS_SHADER_WRITE_BIT;
    if (before.transfer) barrier.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
    if (behind.compute) barrier.dstAccessMask |= VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    if (behind.transfer) barrier.dstAccessMask |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    if (behind.indirect) barrier.dstAccessMask |= VK_ACCESS_INDIRECT_COMMAND_READ_BIT;
    vk.CmdPipelineBarrier(commands, stages(before), stages(behind), 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void host_read_barrier(const DeviceFunctions& vk, VkCommandBuffer commands) {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk.CmdPipelineBarrier(commands, stages({}), VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

Result<void> begin_commands(const DeviceFunctions& vk, VkCommandBuffer commands, VkCommandBufferUsageFlags usage) {
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    info.flags = usage;
    return check(vk.BeginCommandBuffer(commands, &info), "recording commands");
}

Result<void> end_commands(const DeviceFunctions& vk, VkCommandBuffer commands) {
    return check(vk.EndCommandBuffer(commands), "recording commands");
}

Result<DescriptorSets> DescriptorSets::create(const Context& context, const Program& program, const Pipelines& pipelines,
                                              const SegmentBuffers& segments, const Rings& rings) {
    const DeviceFunctions& vk = context.vk();
    DescriptorSets result;
    std::map<WindowKey, std::vector<std::pair<const Dispatch*, uint32_t>>> users;  // dispatches and slots
    uint32_t descriptors = 0;
    for (uint32_t e = 0; e < program.entries.size(); ++e) {
        std::vector<const Dispatch*> dispatches;
        collect(program.entries[e].body, dispatches);
        for (const Dispatch* d : dispatches) {
            const auto in_ring = [&](const BindingWindow& w) { return program.segment(w.segment).slots > 1; };
            const bool rings_used = std::any_of(d->bindings.begin(), d->bindings.end(), in_ring);
            result.sets_[d].resize(rings_used ? rings.slots(e) : 1);
            if (d->bindings.empty()) continue;
            for (uint32_t slot = 0; slot < result.sets_[d].size(); ++slot) {
                WindowKey key;
                for (const BindingWindow& w : d->bindings)
                    key.emplace_back(segments.of(w.segment, slot).get(), w.offset, w.bytes);
                auto& same = users[std::move(key)];
                if (same.empty()) descriptors += static_cast<uint32_t>(d->bindings.size());
                same.emplace_back(d, slot);
            }
        }
    }
    if (users.empty()) return result;

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors};
    VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    info.maxSets = static_cast<uint32_t>(users.size());
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    VkDescriptorPool pool = VK_NULL_HANDLE;
    TRY(check(vk.CreateDescriptorPool(context.device(), &info, nullptr, &pool), "creating a descriptor pool"));
    result.pool_ = Handle<VkDescriptorPool>(context.device(), pool, vk.DestroyDescriptorPool);

    for (const auto& [key, same] : users) {
        const VkDescriptorSetLayout layout = pipelines.layout(same.front().first->kernel).set.get();
        VkDescriptorSetAllocateInfo allocation{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
        allocation.descriptorPool = pool;
        allocation.descriptorSetCount = 1;
        allocation.pSetLayouts = &layout;
        VkDescriptorSet set = VK_NULL_HANDLE;
        TRY(check(vk.AllocateDescriptorSets(context.device(), &allocation, &set), "allocating descriptor sets"));
        std::vector<VkDescriptorBufferInfo> buffers;
        for (const auto& [buffer, offset, bytes] : key) buffers.push_back({buffer, offset, bytes});
        VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        write.dstSet = set;
        write.descriptorCount = static_cast<uint32_t>(buffers.size());  // runs on over the following bindings
        write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        write.pBufferInfo = buffers.data();
        vk.UpdateDescriptorSets(context.device(), 1, &write, 0, nullptr);
        for (const auto& [d, slot] : same) result.sets_[d][slot] = set;
    }
    return result;
}

void Recorder::poison(VkCommandBuffer commands) const {
    for (size_t i = 0; i < program.segments.size(); ++i)
        for (const ByteRange& dead : dead_ranges(program.segments[i]))
            context.vk().CmdFillBuffer(commands, buffer(SegmentId(i)), dead.offset, dead.bytes, poison_word);
    memory_barrier(context.vk(), commands, {}, {});
}

void Recorder::deliver(VkCommandBuffer commands, const RecordOptions& options) const {
    memory_barrier(context.vk(), commands, {}, {.compute = false});
    for (const Delivery& d : options.deliveries) {
        const VkBufferCopy region{d.offset, d.target_offset, d.bytes};
        context.vk().CmdCopyBuffer(commands, buffer(d.segment), options.delivered, 1, &region);
    }
}

void Recorder::record_member(VkCommandBuffer commands, const Member& member, KernelId& bound) const {
    const DeviceFunctions& vk = context.vk();
    if (member.dispatch) return record_dispatch(commands, *member.dispatch, bound);
    if (member.counter) {
        const BindingWindow& word = *member.counter;
        vk.CmdFillBuffer(commands, buffer(word.segment), word.offset, word.bytes, member.round);
        return;
    }
    const BindingWindow &source = member.copy->source, &target = member.copy->target;
    const VkBufferCopy region{source.offset, target.offset, source.bytes};
    vk.CmdCopyBuffer(commands, buffer(source.segment), buffer(target.segment), 1, &region);
}

void Recorder::record_dispatch(VkCommandBuffer commands, const Dispatch& d, KernelId& bound) const {
    const DeviceFunctions& vk = context.vk();
    const VkPipelineLayout layout = pipelines.layout(d.kernel).pipeline.get();
    if (vk.CmdBeginDebugUtilsLabelEXT) {
        VkDebugUtilsLabelEXT label{VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT};
        label.pLabelName = d.label.c_str();
        vk.CmdBeginDebugUtilsLabelEXT(commands, &label);
    }
    if (bound != d.kernel) vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines.pipeline(d.kernel));
    bound = d.kernel;
    if (const VkDescriptorSet set = sets.of(d, slot); set != VK_NULL_HANDLE)
        vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    if (!d.params.empty())
        vk.CmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(d.params.size() * 4),
                            d.params.data());
    if (d.groups_from)
        vk.CmdDispatchIndirect(commands, buffer(d.groups_from->segment), d.groups_from->offset);
    else
        vk.CmdDispatch(commands, d.groups[0], d.groups[1], d.groups[2]);
    if (vk.CmdEndDebugUtilsLabelEXT) vk.CmdEndDebugUtilsLabelEXT(commands);
}

Result<void> Recorder::record(VkCommandBuffer commands, const std::vector<BarrierGroup>& groups,
                              const RecordOptions& options) const {
    const DeviceFunctions& vk = context.vk();
    TRY(begin_commands(vk, commands, options.usage));
    uint32_t query = 0;
    const auto timestamp = [&] {
        if (options.timestamps != VK_NULL_HANDLE)
            vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, options.timestamps, query++);
    };
    if (options.timestamps != VK_NULL_HANDLE) {
        uint32_t count = 1;
        for (const BarrierGroup& group : groups) count += static_cast<uint32_t>(group.size());
        vk.CmdResetQueryPool(commands, options.timestamps, 0, count);
    }
    BarrierScope all;
    for (const BarrierGroup& group : groups) all.indirect |= scope_of(group).indirect;
    memory_barrier(vk, commands, all, all);
    if (options.poison_scratch) poison(commands);
    timestamp();
    KernelId bound;
    for (size_t i = 0; i < groups.size(); ++i) {
        // Barriers form a chain through the stage they share, so each needs to name only its neighbours.
        const bool crumbs = options.breadcrumbs != VK_NULL_HANDLE;
        if (i != 0) {
            BarrierScope before = scope_of(groups[i - 1]), behind = scope_of(groups[i]);
            before.transfer |= crumbs;
            behind.transfer |= crumbs;
            memory_barrier(vk, commands, before, behind);
        }
        if (crumbs) vk.CmdFillBuffer(commands, options.breadcrumbs, 0, 4, static_cast<uint32_t>(i));
        for (const Member& member : groups[i]) {
            record_member(commands, member, bound);
            timestamp();
        }
    }
    if (!options.deliveries.empty()) deliver(commands, options);
    if (options.visible_to_host || !options.deliveries.empty()) host_read_barrier(vk, commands);
    return end_commands(vk, commands);
}

}  // namespace darner::vulkan
