// SPDX-License-Identifier: MIT
// A loaded Program on a Vulkan device: its segments, its entries recorded once for each slot of their rings, uploads,
// submission and read-back. Runs of one Executable are ordered by the queue and its timeline; the waiting is as device.h says.
//
// A ring's slot is written when the run that had it last has finished, so its upload need not wait for other work: on unified
// memory the host writes in place; else a queue of its own copies beside the kernels, where the device has one, and the run
// waits for that queue's timeline. Per-step outputs that the host cannot reach are copied to where it can at the end of the run.
#pragma once

#include "darner/device/device.h"
#include "darner/device/vulkan/recorder.h"
#include "darner/device/vulkan/timing.h"
#include "darner/device/vulkan/transfers.h"

#include <deque>
#include <memory>
#include <vector>

namespace darner::vulkan {

class VulkanExecutable final : public Executable {
public:
    static Result<std::unique_ptr<Executable>> load(std::shared_ptr<Context> context, std::shared_ptr<const Program> program);
    ~VulkanExecutable() override;

    Result<void> write(TensorId tensor, std::span<const std::byte> bytes, uint32_t ahead) override;
    Result<void> read(TensorId tensor, std::span<std::byte> bytes, uint32_t ago) override;
    Result<void> submit(uint32_t entry, uint32_t steps) override;
    Result<uint64_t> finished(uint32_t entry) override;
    Result<void> wait() override;
    Result<std::vector<DispatchTime>> profile(uint32_t entry) override;

private:
    // A queue submission of runs that has not been seen to finish.
    struct Flight {
        uint64_t value = 0;  // of the timeline
        uint32_t entry = 0, steps = 0;
        uint64_t first_run = 0;
        std::optional<uint32_t> timer_slot;
    };
    // Enough to keep the queue busy with the shortest steps; it bounds what submits hold.
    static constexpr size_t max_flights = 64;

    struct LoadedEntry {
        std::vector<BarrierGroup> groups;
        std::vector<VkCommandBuffer> recorded;  // a slot
        std::vector<std::pair<TensorId, Delivery>> deliveries;
        std::vector<Buffer> delivered;   // a slot
        std::vector<uint64_t> arrivals;  // a slot: value of transfer_timeline_ when its inputs are there
        uint64_t finished = 0;           // runs
    };

    // Where a write goes.
    struct Target {
        const Buffer* buffer = nullptr;
        bool free_slot = false;  // of a ring: no work in flight touches it ...
        bool again = false;      // ... but an earlier write for the same run
    };

    VulkanExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Program> program)
        : context_(std::move(context)), program_(std::move(program)) {}
    Result<void> allocate();
    Result<void> allocate_deliveries(uint32_t entry);
    Result<void> fill();
    Result<void> record();
    Result<void> record_entry(VkCommandBuffer commands, uint32_t entry, uint32_t slot, RecordOptions options) const;

    // Takes effect before the next submission; behind the earlier ones, except in a free slot.
    Result<void> write_range(const Target& target, uint64_t offset, std::span<const std::byte> bytes);
    Result<void> stage(const Target& target, uint64_t offset, std::span<const std::byte> bytes);
    Result<void> read_staged(const Buffer& source, uint64_t offset, std::span<std::byte> bytes);
    // Submits the open uploads, then `commands`, signalling one more value of the timeline. What is submitted from here on
    // waits for value `arrival` of the transfer queue's.
    Result<void> submit_commands(std::span<const VkCommandBuffer> commands, uint64_t arrival = 0);
    Result<void> submit_flight(Flight flight, std::span<const VkCommandBuffer> commands);
    bool has_transfer_queue() const { return transfer_timeline_.has_value(); }
    Result<void> submit_transfers();
    Result<void> wait_for(uint64_t value);
    Result<void> wait_for(const Run& run);
    // Takes note of what has finished by now.
    Result<void> poll();
    void note_progress();
    // The error of a failed call, which every later call gives too.
    Error failure(VkResult result, const char* what);

    std::shared_ptr<Context> context_;  // first in, last out
    std::shared_ptr<const Program> program_;
    std::optional<Rings> rings_;
    SegmentBuffers segments_;
    std::optional<Pipelines> pipelines_;
    DescriptorSets sets_;
    std::optional<Timeline> timeline_;
    std::optional<Timeline> transfer_timeline_;  // when ring inputs go through the transfer queue
    Uploads uploads_, ring_uploads_;
    Run arriving_;          // whose inputs the open batch of ring_uploads_ holds
    uint64_t awaited_ = 0;  // value of transfer_timeline_ that submitted work waits for already
    Buffer read_back_;
    Buffer breadcrumbs_;  // only when asked for
    Handle<VkCommandPool> pool_;
    VkCommandBuffer scratch_commands_ = VK_NULL_HANDLE;  // for fills, read-back and profiles, which wait
    std::vector<LoadedEntry> entries_;
    RecordOptions options_;
    StepTimer timer_;
    std::deque<Flight> flights_;
    std::optional<Error> failed_;
};

}  // namespace darner::vulkan
