// SPDX-License-Identifier: MIT
// Loads, feeds and runs a Program on a Vulkan device.
#include "darner/device/vulkan/executable.h"

#include "darner/program/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace darner::vulkan {
namespace {

constexpr uint64_t read_back_bytes = 16u << 20;

void mark_kernels(const std::vector<Item>& items, std::vector<bool>& used) {
    for (const Item& item : items) {
        if (const Dispatch* d = std::get_if<Dispatch>(&item)) used[d->kernel.value] = true;
        if (const Repeat* r = std::get_if<Repeat>(&item)) mark_kernels(r->body, used);
    }
}

Result<void> check_budget(const Context& context, const Program& program) {
    const uint64_t free = free_memory(context.instance(), context.physical());
    const uint64_t budget = free ? free : context.physical().info.caps.memory_bytes;
    uint64_t needed = 0;
    std::string list;
    for (size_t i = 0; i < program.segments.size(); ++i) {
        needed += program.segments[i].bytes;
        list += fmt::format("{}{} {}", i ? ", " : "", to_string(program.segments[i].kind), program.segments[i].bytes);
    }
    if (budget == 0 || needed <= budget) return {};
    return limit_error(
        fmt::format("[vulkan] the program needs {} bytes of device memory, {} are free (segments: {})", needed, budget, list));
}

std::string group_text(const BarrierGroup& group) {
    std::string text;
    for (const Member& member : group)
        text += fmt::format("{}'{}'", text.empty() ? "" : ", ", member.dispatch ? member.dispatch->label : "copy");
    return text;
}

}  // namespace

Result<std::unique_ptr<Executable>> VulkanExecutable::load(std::shared_ptr<Context> context,
                                                           std::shared_ptr<const Program> program) {
    TRY(verify(*program, context->physical().info.caps));
    TRY(check_budget(*context, *program));
    std::unique_ptr<VulkanExecutable> executable(new VulkanExecutable(std::move(context), std::move(program)));
    TRY(executable->allocate());
    TRY(executable->record());
    TRY(executable->fill());
    TRY(executable->context_->instance().take_validation_messages());
    return std::unique_ptr<Executable>(std::move(executable));
}

Result<void> VulkanExecutable::allocate() {
    const Context& context = *context_;
    const DeviceFunctions& vk = context.vk();
    // On unified memory the host reaches tensors in place, where there is memory for it.
    const bool in_place = context.physical().unified_memory() && std::getenv("DARNER_STAGING") == nullptr;
    for (size_t i = 0; i < program_->segments.size(); ++i) {
        const Segment& s = program_->segments[i];
        const std::string name = fmt::format("{} segment {}", to_string(s.kind), i);
        Result<Buffer> buffer = Buffer::create(context, s.bytes, in_place ? MemoryUse::device_mapped : MemoryUse::device, name);
        if (!buffer && buffer.error().kind == ErrorKind::unsupported)
            buffer = Buffer::create(context, s.bytes, MemoryUse::device, name);
        if (!buffer) return buffer.error();
        segments_.push_back(std::move(*buffer));
    }
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    info.pNext = &type;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    TRY(check(vk.CreateSemaphore(context.device(), &info, nullptr, &semaphore), "creating a timeline semaphore"));
    timeline_ = Handle<VkSemaphore>(context.device(), semaphore, vk.DestroySemaphore);
    TRY(uploads_, Uploads::create(context));
    TRY(pool_, create_command_pool(context));
    TRY(scratch_commands_, allocate_commands(context, pool_.get()));
    TRY(timer_, StepTimer::create(context, program_->entries.size()));
    return {};
}

Result<void> VulkanExecutable::record() {
    std::vector<bool> used(program_->kernels.size());
    for (const Entry& entry : program_->entries) mark_kernels(entry.body, used);
    TRY(pipelines_, Pipelines::create(*context_, *program_, used));
    TRY(sets_, DescriptorSets::create(*context_, *program_, *pipelines_, segments_));
    for (const Buffer& segment : segments_) options_.visible_to_host |= segment.mapped() != nullptr;
    options_.poison_scratch = std::getenv("DARNER_POISON") != nullptr;
    if (std::getenv("DARNER_BREADCRUMBS") != nullptr) {
        TRY(breadcrumbs_, Buffer::create(*context_, 4, MemoryUse::read_back, "breadcrumbs"));
        options_.breadcrumbs = breadcrumbs_.get();
    }
    for (const Entry& entry : program_->entries) {
        TRY(std::vector<BarrierGroup> groups, barrier_groups(entry));
        TRY(const VkCommandBuffer commands, allocate_commands(*context_, pool_.get()));
        TRY(recorder().record(commands, groups, options_));
        groups_.push_back(std::move(groups));
        recorded_.push_back(commands);
    }
    return {};
}

// Zeros and constants. State starts at zero even where the Program does not ask for it: a run must not depend on what was
// in memory before.
Result<void> VulkanExecutable::fill() {
    const DeviceFunctions& vk = context_->vk();
    TRY(begin_commands(vk, scratch_commands_, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    for (size_t i = 0; i < segments_.size(); ++i) {
        const Segment& s = program_->segments[i];
        if (s.bytes != 0 && (s.zeroed || s.kind != SegmentKind::scratch))
            vk.CmdFillBuffer(scratch_commands_, segments_[i].get(), 0, s.bytes, 0);
    }
    memory_barrier(vk, scratch_commands_, {.compute = false}, {});
    TRY(end_commands(vk, scratch_commands_));
    TRY(submit_commands({&scratch_commands_, 1}));
    TRY(wait_for(submitted_));
    for (const Constant& c : program_->constants) TRY(write_segment(c.segment, c.offset, c.bytes));
    return {};
}

Result<void> VulkanExecutable::write(TensorId tensor, std::span<const std::byte> bytes) {
    TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "write"));
    TRY(write_segment(t->segment, t->offset, bytes));
    const uint64_t tail = bytes.size() % 4;
    if (tail == 0) return {};
    // Kernels read packed dtypes as whole words: what lies behind the last element is zero, not what was there before.
    constexpr std::byte zeros[4] = {};
    return write_segment(t->segment, t->offset + bytes.size(), std::span(zeros).first(4 - tail));
}

Result<void> VulkanExecutable::write_segment(SegmentId segment, uint64_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return {};
    TRY(poll());
    const Buffer& target = segments_[segment.value];
    if (target.mapped() && completed_ == submitted_ && !uploads_.pending()) {
        std::memcpy(target.mapped() + offset, bytes.data(), bytes.size());
        return {};
    }
    while (!bytes.empty()) {
        const std::span<const std::byte> piece = bytes.first(std::min<size_t>(bytes.size(), Uploads::max_piece_bytes));
        while (uploads_.staging_bytes() != 0 && uploads_.staging_bytes() + piece.size() > Uploads::max_staging_bytes) {
            if (uploads_.pending()) TRY(submit_commands({}));
            TRY(wait_for(uploads_.oldest()));
        }
        TRY(uploads_.stage(*context_, target.get(), offset, piece));
        // A large upload is under way while the next piece is copied into staging.
        if (piece.size() == Uploads::max_piece_bytes) TRY(submit_commands({}));
        offset += piece.size();
        bytes = bytes.subspan(piece.size());
    }
    return {};
}

Result<void> VulkanExecutable::read(TensorId tensor, std::span<std::byte> bytes) {
    TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "read"));
    if (bytes.empty()) return wait();
    const Buffer& source = segments_[t->segment.value];
    if (source.mapped()) {
        TRY(wait());
        std::memcpy(bytes.data(), source.mapped() + t->offset, bytes.size());
        return {};
    }
    if (read_back_.bytes() < std::min<uint64_t>(bytes.size(), read_back_bytes)) {
        TRY(read_back_, Buffer::create(*context_, std::min<uint64_t>(std::max<uint64_t>(bytes.size(), 1u << 16), read_back_bytes),
                                       MemoryUse::read_back, "read-back memory"));
    }
    const DeviceFunctions& vk = context_->vk();
    uint64_t offset = t->offset;
    while (!bytes.empty()) {
        const std::span<std::byte> piece = bytes.first(std::min<size_t>(bytes.size(), read_back_.bytes()));
        TRY(begin_commands(vk, scratch_commands_, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
        memory_barrier(vk, scratch_commands_, {}, {.compute = false});
        const VkBufferCopy region{offset, 0, piece.size()};
        vk.CmdCopyBuffer(scratch_commands_, source.get(), read_back_.get(), 1, &region);
        host_read_barrier(vk, scratch_commands_);
        TRY(end_commands(vk, scratch_commands_));
        TRY(submit_commands({&scratch_commands_, 1}));
        TRY(wait_for(submitted_));
        TRY(read_back_.invalidate(*context_));
        std::memcpy(piece.data(), read_back_.mapped(), piece.size());
        offset += piece.size();
        bytes = bytes.subspan(piece.size());
    }
    return context_->instance().take_validation_messages();
}

Result<void> VulkanExecutable::submit(uint32_t entry, uint32_t steps) {
    TRY(check_entry(*program_, entry));
    std::vector<VkCommandBuffer> commands;
    while (steps != 0) {
        TRY(poll());
        Flight flight;
        flight.entry = entry;
        flight.steps = std::min(steps, timer_.chunk_steps(entry));
        flight.timer_slot = timer_.acquire();
        commands.assign(flight.steps, recorded_[entry]);
        if (flight.timer_slot) {
            commands.insert(commands.begin(), timer_.opening(*flight.timer_slot));
            commands.push_back(timer_.closing(*flight.timer_slot));
        }
        flight.value = submitted_ + 1;
        flights_.push_back(flight);
        TRY(submit_commands(commands));
        steps -= flight.steps;
    }
    return context_->instance().take_validation_messages();
}

Result<void> VulkanExecutable::submit_commands(std::span<const VkCommandBuffer> commands) {
    const uint64_t value = submitted_ + 1;
    std::vector<VkCommandBuffer> all;
    if (uploads_.pending()) {
        TRY(const VkCommandBuffer upload, uploads_.record(*context_, value));
        all.push_back(upload);
    }
    all.insert(all.end(), commands.begin(), commands.end());
    VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    const VkSemaphore semaphore = timeline_.get();
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.pNext = &timeline;
    info.commandBufferCount = static_cast<uint32_t>(all.size());
    info.pCommandBuffers = all.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore;
    if (const VkResult r = context_->submit(info); r != VK_SUCCESS) return failure(r, "submitting work");
    submitted_ = value;
    return {};
}

Result<void> VulkanExecutable::poll() {
    const VkResult r = context_->vk().GetSemaphoreCounterValue(context_->device(), timeline_.get(), &completed_);
    if (r != VK_SUCCESS) return failure(r, "asking for progress");
    while (!flights_.empty() && flights_.front().value <= completed_) {
        const Flight& flight = flights_.front();
        if (flight.timer_slot) timer_.finished(*context_, *flight.timer_slot, flight.entry, flight.steps);
        flights_.pop_front();
    }
    uploads_.completed(completed_);
    return {};
}

Result<void> VulkanExecutable::wait_for(uint64_t value) {
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    const VkSemaphore semaphore = timeline_.get();
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    const VkResult r = context_->vk().WaitSemaphores(context_->device(), &info, UINT64_MAX);
    if (r != VK_SUCCESS) return failure(r, "waiting for the device");
    return poll();
}

Result<void> VulkanExecutable::wait() {
    if (uploads_.pending()) TRY(submit_commands({}));
    TRY(wait_for(submitted_));
    return context_->instance().take_validation_messages();
}

Result<std::vector<DispatchTime>> VulkanExecutable::profile(uint32_t entry) {
    TRY(check_entry(*program_, entry));
    if (context_->physical().timestamp_bits == 0)
        return unsupported(fmt::format("[profile] {} has no timestamps", context_->physical().info.name));
    uint32_t count = 1;
    for (const BarrierGroup& group : groups_[entry]) count += static_cast<uint32_t>(group.size());
    TRY(const Handle<VkQueryPool> pool, create_timestamps(*context_, count));
    RecordOptions options = options_;
    options.usage = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    options.timestamps = pool.get();
    TRY(recorder().record(scratch_commands_, groups_[entry], options));
    flights_.push_back({submitted_ + 1, entry, 1, std::nullopt});
    TRY(submit_commands({&scratch_commands_, 1}));
    TRY(wait());
    TRY(const std::vector<double> seconds, read_intervals(*context_, pool.get(), 0, count));
    std::vector<DispatchTime> times;
    for (const BarrierGroup& group : groups_[entry])
        for (const Member& member : group) {
            std::string label = member.dispatch ? member.dispatch->label : "copy";
            times.push_back({std::move(label), seconds[times.size()]});
        }
    return times;
}

Error VulkanExecutable::failure(VkResult result, const char* what) const {
    Error error = vulkan_error(result, what);
    if (flights_.empty()) return error;
    const Flight& flight = flights_.front();
    error.message += fmt::format(", while entry '{}' ran", program_->entries[flight.entry].name);
    if (result != VK_ERROR_DEVICE_LOST) return error;
    error.hint = "a step that runs for seconds can make a driver's watchdog stop the device";
    if (!breadcrumbs_.mapped()) {
        error.hint += "; DARNER_BREADCRUMBS=1 names the dispatch";
        return error;
    }
    uint32_t group = 0;
    std::memcpy(&group, breadcrumbs_.mapped(), sizeof group);
    const std::vector<BarrierGroup>& groups = groups_[flight.entry];
    if (group < groups.size()) error.message += fmt::format(", in the barrier group of {}", group_text(groups[group]));
    return error;
}

VulkanExecutable::~VulkanExecutable() {
    // Memory may be freed only when nothing runs on it; an error here has nowhere to go.
    if (timeline_.get() != VK_NULL_HANDLE && submitted_ != 0) (void)wait_for(submitted_);
}

}  // namespace darner::vulkan
