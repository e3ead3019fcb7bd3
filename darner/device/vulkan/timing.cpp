// SPDX-License-Identifier: MIT
// Timestamps and the estimate of a step's time.
#include "darner/device/vulkan/timing.h"

#include "darner/device/vulkan/recorder.h"
#include "darner/device/vulkan/transfers.h"

#include <algorithm>

namespace darner::vulkan {
namespace {

constexpr uint32_t slot_count = 16;

}  // namespace

Result<Handle<VkQueryPool>> create_timestamps(const Context& context, uint32_t count) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = count;
    VkQueryPool pool = VK_NULL_HANDLE;
    TRY(check(context.vk().CreateQueryPool(context.device(), &info, nullptr, &pool), "creating timestamps"));
    return Handle<VkQueryPool>(context.device(), pool, context.vk().DestroyQueryPool);
}

Result<std::vector<double>> read_intervals(const Context& context, VkQueryPool pool, uint32_t first, uint32_t count) {
    std::vector<uint64_t> ticks(count);
    TRY(check(context.vk().GetQueryPoolResults(context.device(), pool, first, count, count * sizeof(uint64_t), ticks.data(),
                                               sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
              "reading timestamps"));
    const uint32_t bits = context.physical().timestamp_bits;
    const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const double seconds_per_tick = 1e-9 * context.physical().properties.limits.timestampPeriod;
    std::vector<double> seconds;
    for (uint32_t i = 1; i < count; ++i)
        seconds.push_back(static_cast<double>((ticks[i] - ticks[i - 1]) & mask) * seconds_per_tick);
    return seconds;
}

Result<StepTimer> StepTimer::create(const Context& context, size_t entries) {
    StepTimer timer;
    timer.seconds_per_step_.resize(entries);
    if (context.physical().timestamp_bits == 0) return timer;
    const DeviceFunctions& vk = context.vk();
    TRY(timer.pool_, create_command_pool(context));
    TRY(timer.queries_, create_timestamps(context, 2 * slot_count));
    timer.slots_.resize(slot_count);
    for (uint32_t i = 0; i < slot_count; ++i) {
        Slot& slot = timer.slots_[i];
        TRY(slot.opening, allocate_commands(context, timer.pool_.get()));
        TRY(slot.closing, allocate_commands(context, timer.pool_.get()));
        TRY(begin_commands(vk, slot.opening, 0));
        vk.CmdResetQueryPool(slot.opening, timer.queries_.get(), 2 * i, 2);
        // Bottom of pipe: when everything before has finished, so that the chunk ahead in the queue is not counted in.
        vk.CmdWriteTimestamp(slot.opening, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timer.queries_.get(), 2 * i);
        TRY(end_commands(vk, slot.opening));
        TRY(begin_commands(vk, slot.closing, 0));
        vk.CmdWriteTimestamp(slot.closing, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timer.queries_.get(), 2 * i + 1);
        TRY(end_commands(vk, slot.closing));
    }
    return timer;
}

uint32_t StepTimer::chunk_steps(uint32_t entry) const {
    const double seconds = seconds_per_step_[entry];
    if (seconds == 0) return unmeasured_steps;
    return static_cast<uint32_t>(std::clamp(chunk_seconds / seconds, 1.0, static_cast<double>(max_steps)));
}

std::optional<uint32_t> StepTimer::acquire() {
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].busy) continue;
        slots_[i].busy = true;
        return i;
    }
    return std::nullopt;
}

void StepTimer::finished(const Context& context, uint32_t slot, uint32_t entry, uint32_t steps) {
    slots_[slot].busy = false;
    const Result<std::vector<double>> interval = read_intervals(context, queries_.get(), 2 * slot, 2);
    if (!interval) return;  // the next wait() meets the device's error
    // Not zero, which means "not measured"; the newest measurement counts, since clocks and caches warm up.
    seconds_per_step_[entry] = std::max(interval->front() / steps, 1e-9);
}

}  // namespace darner::vulkan
