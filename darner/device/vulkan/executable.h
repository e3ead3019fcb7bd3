// SPDX-License-Identifier: MIT
// A loaded Program on a Vulkan device: its segments, its entries recorded once, uploads, submission and read-back. Work of
// one Executable is ordered by the queue and one timeline semaphore; nothing waits but read(), wait() and profile().
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

    Result<void> write(TensorId tensor, std::span<const std::byte> bytes) override;
    Result<void> read(TensorId tensor, std::span<std::byte> bytes) override;
    Result<void> submit(uint32_t entry, uint32_t steps) override;
    Result<void> wait() override;
    Result<std::vector<DispatchTime>> profile(uint32_t entry) override;

private:
    // A queue submission that has not been seen to finish.
    struct Flight {
        uint64_t value = 0;
        uint32_t entry = 0, steps = 0;
        std::optional<uint32_t> timer_slot;
    };

    VulkanExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Program> program)
        : context_(std::move(context)), program_(std::move(program)) {}
    Result<void> allocate();
    Result<void> fill();
    Result<void> record();
    Recorder recorder() const { return {*context_, *program_, *pipelines_, sets_, segments_}; }

    // Writes a range of a segment; takes effect before the next submission and behind the earlier ones.
    Result<void> write_segment(SegmentId segment, uint64_t offset, std::span<const std::byte> bytes);
    // Submits the open uploads, then `commands`, signalling one more value of the timeline.
    Result<void> submit_commands(std::span<const VkCommandBuffer> commands);
    Result<void> wait_for(uint64_t value);
    // Takes note of what has finished by now.
    Result<void> poll();
    Error failure(VkResult result, const char* what) const;

    std::shared_ptr<Context> context_;  // first in, last out
    std::shared_ptr<const Program> program_;
    std::vector<Buffer> segments_;
    std::optional<Pipelines> pipelines_;
    DescriptorSets sets_;
    Handle<VkSemaphore> timeline_;
    uint64_t submitted_ = 0, completed_ = 0;  // values of the timeline
    Uploads uploads_;
    Buffer read_back_;
    Buffer breadcrumbs_;  // only when asked for
    Handle<VkCommandPool> pool_;
    VkCommandBuffer scratch_commands_ = VK_NULL_HANDLE;  // for fills, read-back and profiles, which wait
    std::vector<std::vector<BarrierGroup>> groups_;      // an entry
    std::vector<VkCommandBuffer> recorded_;              // an entry
    RecordOptions options_;
    StepTimer timer_;
    std::deque<Flight> flights_;
};

}  // namespace darner::vulkan
