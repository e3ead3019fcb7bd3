// SPDX-License-Identifier: MIT
// Timestamps and the estimate of a step's time.
#include "darner/device/vulkan/timing.h"

#include "darner/device/vulkan/recorder.h"
#include "darner/device/vulkan/transfers.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace darner::vulkan {
namespace {

constexpr uint32_t slot_count = 16;
constexpr uint64_t slot_bytes = 2 * sizeof(uint64_t);

double seconds_between(const Context& context, uint64_t from, uint64_t to) {
    const uint32_t bits = context.physical().timestamp_bits;
    const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return static_cast<double>((to - from) & mask) * 1e-9 * context.physical().properties.limits.timestampPeriod;
}

}  // namespace

Result<Handle<VkQueryPool>> create_timestamps(const Context& context, uint32_t count) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = count;
    VkQueryPool pool = VK_NULL_HANDLE;
    TRY(check(context.vk().CreateQueryPool(context.device(), &info, nullptr, &pool), "creating timestamps"));
    return Handle<VkQueryPool>(context.device(), pool, context.vk().DestroyQueryPool);
}

Result<std::vector<double>> read_intervals(const Context& context, VkQueryPool pool, uint32_t count) {
    std::vector<uint64_t> ticks(count);
    TRY(check(context.vk().GetQueryPoolResults(context.device(), pool, 0, count, count * sizeof(uint64_t), ticks.data(),
                                               sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
              "reading timestamps"));
    std::vector<double> seconds;
    for (uint32_t i = 1; i < count; ++i) seconds.push_back(seconds_between(context, ticks[i - 1], ticks[i]));
    return seconds;
}

Result<StepTimer> StepTimer::create(const Context& context, size_t entries) {
    StepTimer timer;
    timer.seconds_per_step_.resize(entries);
    if (context.physical().timestamp_bits == 0) return timer;
    const DeviceFunctions& vk = context.vk();
    TRY(timer.pool_, create_command_pool(context, context.physical().queue_family));
    TRY(timer.queries_, create_timestamps(context, 2 * slot_count));
    TRY(timer.ticks_, Buffer::create(context, slot_count * slot_bytes, MemoryUse::read_back, "timestamps"));
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
        vk.CmdCopyQueryPoolResults(slot.closing, timer.queries_.get(), 2 * i, 2, timer.ticks_.get(), i * slot_bytes,
                                   sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
        host_read_barrier(vk, slot.closing);
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
    if (!ticks_.invalidate(context)) return;  // the next wait() meets the device's error
    std::array<uint64_t, 2> ticks;
    std::memcpy(ticks.data(), ticks_.mapped() + slot * slot_bytes, slot_bytes);
    // Not zero, which means "not measured"; the newest measurement counts, since clocks and caches warm up.
    seconds_per_step_[entry] = std::max(seconds_between(context, ticks[0], ticks[1]) / steps, 1e-9);
}

}  // namespace darner::vulkan
