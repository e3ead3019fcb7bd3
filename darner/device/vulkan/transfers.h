// SPDX-License-Identifier: MIT
// Uploads through staging memory. Writes gather in an open batch; the owner records the batch into a command buffer, submits
// it ahead of the work that needs it, and says which timeline value it signals. Staging comes back when that is reached.
// Timeline: the semaphore of a queue, whose values count its submissions.
#pragma once

#include "darner/device/vulkan/context.h"
#include "darner/device/vulkan/memory.h"

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace darner::vulkan {

class Timeline {
public:
    static Result<Timeline> create(const Context& context);

    VkSemaphore semaphore() const { return semaphore_.get(); }
    uint64_t submitted() const { return submitted_; }
    uint64_t completed() const { return completed_; }  // as of the last poll() or wait()
    bool idle() const { return completed_ == submitted_; }
    void submit() { ++submitted_; }
    VkResult poll(const Context& context);
    VkResult wait(const Context& context, uint64_t value);

private:
    Handle<VkSemaphore> semaphore_;
    uint64_t submitted_ = 0, completed_ = 0;
};

class Uploads {
public:
    // What the copies of a batch may overtake. in_order: nothing that was submitted before. anything: the owner knows that no
    // work in flight touches the targets.
    enum class Order : uint8_t { in_order, anything };

    static constexpr uint64_t max_piece_bytes = 16u << 20;    // of one stage() call
    static constexpr uint64_t max_staging_bytes = 64u << 20;  // callers wait for earlier batches above this
    static constexpr size_t max_copies = 1024;                // of a batch; callers submit it then

    static Result<Uploads> create(const Context& context, uint32_t queue_family, Order order);

    // Copies the bytes into staging, to go to `target` at `offset`; `again` when a batch in flight may write there.
    Result<void> stage(const Context& context, VkBuffer target, uint64_t offset, std::span<const std::byte> bytes,
                       bool again = false);
    bool pending() const { return !open_.copies.empty(); }
    bool full() const { return open_.copies.size() >= max_copies; }
    uint64_t staging_bytes() const { return staging_bytes_; }

    // The commands of the open batch, which is closed: it orders its copies behind all earlier work.
    Result<VkCommandBuffer> record(const Context& context, uint64_t signals);
    // The timeline has reached `value`.
    void completed(uint64_t value);
    // The value that frees the oldest batch in flight; 0 when there is none.
    uint64_t oldest() const { return flying_.empty() ? 0 : flying_.front().value; }

private:
    struct StagedCopy {
        VkBuffer source = VK_NULL_HANDLE, target = VK_NULL_HANDLE;
        VkBufferCopy region = {};
        std::byte* staged = nullptr;
        bool behind_barrier = false;  // overlaps an earlier copy
    };
    struct Batch {
        std::vector<StagedCopy> copies;
        std::vector<Buffer> blocks;
        uint64_t used = 0;  // of the last block
        VkCommandBuffer commands = VK_NULL_HANDLE;
        uint64_t value = 0;
    };
    Result<void> add_block(const Context& context, uint64_t bytes);

    Handle<VkCommandPool> pool_;
    Order order_ = Order::in_order;
    Batch open_;
    std::deque<Batch> flying_;
    std::vector<VkCommandBuffer> free_commands_;
    std::vector<Buffer> free_blocks_;
    uint64_t kept_bytes_ = 0;     // of the free blocks
    uint64_t staging_bytes_ = 0;  // of the open batch and of those in flight
};

Result<Handle<VkCommandPool>> create_command_pool(const Context& context, uint32_t queue_family);
Result<VkCommandBuffer> allocate_commands(const Context& context, VkCommandPool pool);

}  // namespace darner::vulkan
