// SPDX-License-Identifier: MIT
// How long a step of an entry takes, measured by the device itself while it works: each chunk of a submit is put between two
// timestamps. The estimate bounds how many steps go into one queue submission; watchdogs of some drivers kill long ones.
#pragma once

#include "darner/device/vulkan/context.h"
#include "darner/device/vulkan/memory.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace darner::vulkan {

class StepTimer {
public:
    // Aim of one queue submission.
    static constexpr double chunk_seconds = 0.1;
    // Steps of a chunk before the first measurement is in; few, since nothing is known of the step.
    static constexpr uint32_t unmeasured_steps = 4;
    // Bounds the driver's memory for one submission.
    static constexpr uint32_t max_steps = 1024;

    static Result<StepTimer> create(const Context& context, size_t entries);

    uint32_t chunk_steps(uint32_t entry) const;

    // A free pair of command buffers to put round a chunk, or nothing when all are in use or the device has no timestamps.
    std::optional<uint32_t> acquire();
    VkCommandBuffer opening(uint32_t slot) const { return slots_[slot].opening; }
    VkCommandBuffer closing(uint32_t slot) const { return slots_[slot].closing; }
    // The pair was not submitted after all.
    void release(uint32_t slot) { slots_[slot].busy = false; }
    // The chunk of `steps` between the pair has finished.
    void finished(const Context& context, uint32_t slot, uint32_t entry, uint32_t steps);

private:
    struct Slot {
        VkCommandBuffer opening = VK_NULL_HANDLE, closing = VK_NULL_HANDLE;
        bool busy = false;
    };
    Handle<VkCommandPool> pool_;
    Handle<VkQueryPool> queries_;  // two a slot
    // Two ticks a slot, copied there by the device: Mesa's CPU driver lets the host ask for queries only when it is idle.
    Buffer ticks_;
    std::vector<Slot> slots_;
    std::vector<double> seconds_per_step_;  // an entry; 0: not measured
};

Result<Handle<VkQueryPool>> create_timestamps(const Context& context, uint32_t count);
// Seconds between the neighbours of `count` timestamps; one fewer. Waits for them.
Result<std::vector<double>> read_intervals(const Context& context, VkQueryPool pool, uint32_t count);

}  // namespace darner::vulkan
