// SPDX-License-Identifier: MIT
// Staging of uploads.
#include "darner/device/vulkan/transfers.h"

#include "darner/device/vulkan/recorder.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace darner::vulkan {
namespace {

// Small writes of one batch share a block.
constexpr uint64_t smallest_block = 1u << 20;
// Allocating host memory that the device sees is slow, so blocks are kept and used again up to this sum.
constexpr uint64_t max_kept_bytes = Uploads::max_staging_bytes;
constexpr uint64_t staging_alignment = 16;

bool overlap(const VkBufferCopy& a, const VkBufferCopy& b) {
    return a.dstOffset < b.dstOffset + b.size && b.dstOffset < a.dstOffset + a.size;
}

}  // namespace

Result<Timeline> Timeline::create(const Context& context) {
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    info.pNext = &type;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    TRY(check(context.vk().CreateSemaphore(context.device(), &info, nullptr, &semaphore), "creating a timeline semaphore"));
    Timeline timeline;
    timeline.semaphore_ = Handle<VkSemaphore>(context.device(), semaphore, context.vk().DestroySemaphore);
    return timeline;
}

VkResult Timeline::poll(const Context& context) {
    return context.vk().GetSemaphoreCounterValue(context.device(), semaphore_.get(), &completed_);
}

VkResult Timeline::wait(const Context& context, uint64_t value) {
    const VkSemaphore semaphore = semaphore_.get();
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    const VkResult r = context.vk().WaitSemaphores(context.device(), &info, UINT64_MAX);
    return r == VK_SUCCESS ? poll(context) : r;
}

Result<Handle<VkCommandPool>> create_command_pool(const Context& context, uint32_t queue_family) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = queue_family;
    VkCommandPool pool = VK_NULL_HANDLE;
    TRY(check(context.vk().CreateCommandPool(context.device(), &info, nullptr, &pool), "creating a command pool"));
    return Handle<VkCommandPool>(context.device(), pool, context.vk().DestroyCommandPool);
}

Result<VkCommandBuffer> allocate_commands(const Context& context, VkCommandPool pool) {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    TRY(check(context.vk().AllocateCommandBuffers(context.device(), &info, &commands), "allocating a command buffer"));
    return commands;
}

Result<Uploads> Uploads::create(const Context& context, uint32_t queue_family, Order order) {
    Uploads uploads;
    uploads.order_ = order;
    TRY(uploads.pool_, create_command_pool(context, queue_family));
    return uploads;
}

Result<void> Uploads::add_block(const Context& context, uint64_t bytes) {
    auto fit = free_blocks_.end();  // the smallest that is large enough
    for (auto b = free_blocks_.begin(); b != free_blocks_.end(); ++b)
        if (b->bytes() >= bytes && (fit == free_blocks_.end() || b->bytes() < fit->bytes())) fit = b;
    Buffer block;
    if (fit != free_blocks_.end()) {
        block = std::move(*fit);
        free_blocks_.erase(fit);
        kept_bytes_ -= block.bytes();
    } else {
        TRY(block, Buffer::create(context, std::bit_ceil(std::max(bytes, smallest_block)), MemoryUse::upload, "staging memory"));
    }
    staging_bytes_ += block.bytes();
    open_.blocks.push_back(std::move(block));
    open_.used = 0;
    return {};
}

Result<void> Uploads::stage(const Context& context, VkBuffer target, uint64_t offset, std::span<const std::byte> bytes,
                            bool again) {
    if (bytes.empty()) return {};
    StagedCopy copy;
    copy.behind_barrier = again;
    copy.target = target;
    copy.region.dstOffset = offset;
    copy.region.size = bytes.size();
    for (const StagedCopy& earlier : open_.copies) {
        if (earlier.target != target || !overlap(earlier.region, copy.region)) continue;
        copy.behind_barrier = true;
    }
    // The newest copy to the very same range can take the new bytes: nothing reads between the two writes.
    if (copy.behind_barrier && pending()) {
        StagedCopy& last = open_.copies.back();
        if (last.target == target && last.region.dstOffset == offset && last.region.size == bytes.size()) {
            std::memcpy(last.staged, bytes.data(), bytes.size());
            return {};
        }
    }
    if (open_.blocks.empty() || open_.blocks.back().bytes() - open_.used < bytes.size()) TRY(add_block(context, bytes.size()));
    const Buffer& block = open_.blocks.back();
    copy.source = block.get();
    copy.region.srcOffset = open_.used;
    copy.staged = block.mapped() + open_.used;
    std::memcpy(copy.staged, bytes.data(), bytes.size());
    open_.used =
        std::min(block.bytes(), (open_.used + bytes.size() + staging_alignment - 1) / staging_alignment * staging_alignment);
    open_.copies.push_back(copy);
    return {};
}

Result<VkCommandBuffer> Uploads::record(const Context& context, uint64_t signals) {
    const DeviceFunctions& vk = context.vk();
    if (free_commands_.empty()) {
        TRY(open_.commands, allocate_commands(context, pool_.get()));
    } else {
        open_.commands = free_commands_.back();
        free_commands_.pop_back();
    }
    const VkCommandBuffer commands = open_.commands;
    TRY(begin_commands(vk, commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    if (order_ == Order::in_order) memory_barrier(vk, commands, {}, {.compute = false});
    for (const StagedCopy& copy : open_.copies) {
        if (copy.behind_barrier) memory_barrier(vk, commands, {.compute = false}, {.compute = false});
        vk.CmdCopyBuffer(commands, copy.source, copy.target, 1, &copy.region);
    }
    if (order_ == Order::in_order) host_read_barrier(vk, commands);
    TRY(end_commands(vk, commands));
    open_.value = signals;
    flying_.push_back(std::move(open_));
    open_ = {};
    return commands;
}

void Uploads::completed(uint64_t value) {
    while (!flying_.empty() && flying_.front().value <= value) {
        Batch& batch = flying_.front();
        free_commands_.push_back(batch.commands);
        for (Buffer& block : batch.blocks) {
            staging_bytes_ -= block.bytes();
            if (kept_bytes_ + block.bytes() > max_kept_bytes) continue;
            kept_bytes_ += block.bytes();
            free_blocks_.push_back(std::move(block));
        }
        flying_.pop_front();
    }
}

}  // namespace darner::vulkan
