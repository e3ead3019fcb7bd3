// SPDX-License-Identifier: MIT
// What the host calls on a loaded Program: writes, submission, progress, read-back.
#include "darner/device/vulkan/executable.h"

#include "darner/program/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace darner::vulkan {
namespace {

constexpr uint64_t read_back_bytes = 16u << 20;

std::string group_text(const BarrierGroup& group) {
    std::string text;
    for (const Member& member : group) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", label_of(member));
    return text;
}

}  // namespace

Result<void> VulkanExecutable::write(TensorId tensor, std::span<const std::byte> bytes, uint32_t ahead) {
    TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "write"));
    TRY(const Run run, rings_->find_write(tensor, ahead));
    TRY(poll());
    Target target{.buffer = &segments_.of(t->segment, run.slot)};
    if (t->per_step) {
        const uint32_t slots = rings_->slots(run.entry);
        if (run.number >= slots) TRY(wait_for(rings_->run(run.entry, run.number - slots)));
        target.free_slot = true;
        target.again = rings_->is_written(tensor, run);
        // Each run waits for its own inputs alone, so those of different runs travel apart.
        if (has_transfer_queue() && (arriving_.entry != run.entry || arriving_.number != run.number)) TRY(submit_transfers());
        arriving_ = run;
    }
    TRY(write_range(target, t->offset, bytes));
    // Kernels read packed dtypes as whole words: what lies behind the last element is zero, not what was there before.
    constexpr std::byte zeros[4] = {};
    if (const uint64_t tail = bytes.size() % 4; tail != 0)
        TRY(write_range(target, t->offset + bytes.size(), std::span(zeros).first(4 - tail)));
    rings_->written(tensor, run);
    return {};
}

Result<void> VulkanExecutable::write_range(const Target& target, uint64_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return {};
    const bool idle = timeline_->idle() && !uploads_.pending();
    if (!target.buffer->mapped() || !(idle || target.free_slot)) return stage(target, offset, bytes);
    std::memcpy(target.buffer->mapped() + offset, bytes.data(), bytes.size());
    return {};
}

Result<void> VulkanExecutable::stage(const Target& target, uint64_t offset, std::span<const std::byte> bytes) {
    Uploads& uploads = target.free_slot ? ring_uploads_ : uploads_;
    const bool beside = target.free_slot && has_transfer_queue();
    const auto send = [&] { return beside ? submit_transfers() : submit_commands({}); };
    while (!bytes.empty()) {
        const std::span<const std::byte> piece = bytes.first(std::min<size_t>(bytes.size(), Uploads::max_piece_bytes));
        while (uploads.staging_bytes() != 0 && uploads.staging_bytes() + piece.size() > Uploads::max_staging_bytes) {
            if (uploads.pending()) TRY(send());
            Timeline& timeline = beside ? *transfer_timeline_ : *timeline_;
            if (const VkResult r = timeline.wait(*context_, uploads.oldest()); r != VK_SUCCESS)
                return failure(r, "waiting for an upload");
            note_progress();
        }
        TRY(uploads.stage(*context_, target.buffer->get(), offset, piece, target.again));
        // A large upload is under way while the next piece is copied into staging.
        if (piece.size() == Uploads::max_piece_bytes || uploads.full()) TRY(send());
        offset += piece.size();
        bytes = bytes.subspan(piece.size());
    }
    return {};
}

Result<void> VulkanExecutable::read(TensorId tensor, std::span<std::byte> bytes, uint32_t ago) {
    TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "read"));
    TRY(const Run run, rings_->find_read(tensor, ago));
    const Buffer& source = segments_.of(t->segment, run.slot);
    if (t->per_step) {
        TRY(wait_for(run));
    } else if (source.mapped() || bytes.empty()) {
        TRY(wait());
    }
    if (bytes.empty()) return {};
    if (source.mapped()) {
        std::memcpy(bytes.data(), source.mapped() + t->offset, bytes.size());
    } else if (t->per_step) {
        const LoadedEntry& entry = entries_[run.entry];
        const auto found = std::find_if(entry.deliveries.begin(), entry.deliveries.end(),
                                        [&](const auto& delivery) { return delivery.first == tensor; });
        if (found == entry.deliveries.end()) return read_staged(source, t->offset, bytes);  // an input
        TRY(entry.delivered[run.slot].invalidate(*context_));
        std::memcpy(bytes.data(), entry.delivered[run.slot].mapped() + found->second.target_offset, bytes.size());
    } else {
        TRY(read_staged(source, t->offset, bytes));
    }
    return context_->instance().take_validation_messages();
}

Result<void> VulkanExecutable::read_staged(const Buffer& source, uint64_t offset, std::span<std::byte> bytes) {
    if (read_back_.bytes() < std::min<uint64_t>(bytes.size(), read_back_bytes)) {
        TRY(read_back_, Buffer::create(*context_, std::min<uint64_t>(std::max<uint64_t>(bytes.size(), 1u << 16), read_back_bytes),
                                       MemoryUse::read_back, "read-back memory"));
    }
    const DeviceFunctions& vk = context_->vk();
    while (!bytes.empty()) {
        const std::span<std::byte> piece = bytes.first(std::min<size_t>(bytes.size(), read_back_.bytes()));
        TRY(begin_commands(vk, scratch_commands_, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
        memory_barrier(vk, scratch_commands_, {}, {.compute = false});
        const VkBufferCopy region{offset, 0, piece.size()};
        vk.CmdCopyBuffer(scratch_commands_, source.get(), read_back_.get(), 1, &region);
        host_read_barrier(vk, scratch_commands_);
        TRY(end_commands(vk, scratch_commands_));
        TRY(submit_commands({&scratch_commands_, 1}));
        TRY(wait_for(timeline_->submitted()));
        TRY(read_back_.invalidate(*context_));
        std::memcpy(piece.data(), read_back_.mapped(), piece.size());
        offset += piece.size();
        bytes = bytes.subspan(piece.size());
    }
    return {};
}

Result<void> VulkanExecutable::submit(uint32_t entry, uint32_t steps) {
    TRY(check_entry(*program_, entry));
    TRY(rings_->check_inputs(entry, steps));
    std::vector<VkCommandBuffer> commands;
    while (steps != 0) {
        TRY(poll());
        if (flights_.size() >= max_flights) TRY(wait_for(flights_.front().value));
        Flight flight{.entry = entry, .steps = std::min(steps, timer_.chunk_steps(entry)), .timer_slot = timer_.acquire()};
        commands.clear();
        if (flight.timer_slot) commands.push_back(timer_.opening(*flight.timer_slot));
        for (uint32_t step = 0; step < flight.steps; ++step)
            commands.push_back(entries_[entry].recorded[rings_->run(entry, rings_->submitted(entry) + step).slot]);
        if (flight.timer_slot) commands.push_back(timer_.closing(*flight.timer_slot));
        TRY(submit_flight(flight, commands));
        steps -= flight.steps;
    }
    return context_->instance().take_validation_messages();
}

Result<void> VulkanExecutable::submit_flight(Flight flight, std::span<const VkCommandBuffer> commands) {
    LoadedEntry& entry = entries_[flight.entry];
    flight.first_run = rings_->submitted(flight.entry);
    flight.value = timeline_->submitted() + 1;
    uint64_t arrival = 0;
    if (has_transfer_queue()) {
        TRY(submit_transfers());
        // More runs than slots have no inputs in the ring.
        for (uint64_t run = 0; run < std::min<uint64_t>(flight.steps, entry.arrivals.size()); ++run)
            arrival = std::max(arrival, entry.arrivals[rings_->run(flight.entry, flight.first_run + run).slot]);
    }
    flights_.push_back(flight);  // now, so that an error names the entry
    const Result<void> done = submit_commands(commands, arrival);
    if (!done) {
        flights_.pop_back();
        if (flight.timer_slot) timer_.release(*flight.timer_slot);
        return done;
    }
    rings_->submit(flight.entry, flight.steps);
    return {};
}

Result<void> VulkanExecutable::submit_commands(std::span<const VkCommandBuffer> commands, uint64_t arrival) {
    if (failed_) return *failed_;
    const uint64_t value = timeline_->submitted() + 1;
    std::vector<VkCommandBuffer> all;
    for (Uploads* uploads : {&uploads_, &ring_uploads_}) {
        if (!uploads->pending() || (uploads == &ring_uploads_ && has_transfer_queue())) continue;
        TRY(const VkCommandBuffer upload, uploads->record(*context_, value));
        all.push_back(upload);
    }
    all.insert(all.end(), commands.begin(), commands.end());
    VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    const VkSemaphore semaphore = timeline_->semaphore();
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.pNext = &timeline;
    info.commandBufferCount = static_cast<uint32_t>(all.size());
    info.pCommandBuffers = all.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore;
    VkSemaphore transfers = VK_NULL_HANDLE;
    constexpr VkPipelineStageFlags everything = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    if (arrival > awaited_) {
        transfers = transfer_timeline_->semaphore();
        timeline.waitSemaphoreValueCount = info.waitSemaphoreCount = 1;
        timeline.pWaitSemaphoreValues = &arrival;
        info.pWaitSemaphores = &transfers;
        info.pWaitDstStageMask = &everything;
    }
    if (const VkResult r = context_->submit(info); r != VK_SUCCESS) return failure(r, "submitting work");
    awaited_ = std::max(awaited_, arrival);
    timeline_->submit();
    return {};
}

Result<void> VulkanExecutable::submit_transfers() {
    if (failed_) return *failed_;
    if (!ring_uploads_.pending()) return {};
    const uint64_t value = transfer_timeline_->submitted() + 1;
    TRY(const VkCommandBuffer commands, ring_uploads_.record(*context_, value));
    VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    const VkSemaphore semaphore = transfer_timeline_->semaphore();
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.pNext = &timeline;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &semaphore;
    if (const VkResult r = context_->submit_transfer(info); r != VK_SUCCESS) return failure(r, "submitting an upload");
    transfer_timeline_->submit();
    entries_[arriving_.entry].arrivals[arriving_.slot] = value;
    return {};
}

Result<void> VulkanExecutable::poll() {
    if (failed_) return *failed_;
    if (const VkResult r = timeline_->poll(*context_); r != VK_SUCCESS) return failure(r, "asking for progress");
    if (transfer_timeline_)
        if (const VkResult r = transfer_timeline_->poll(*context_); r != VK_SUCCESS) return failure(r, "asking for progress");
    note_progress();
    return {};
}

void VulkanExecutable::note_progress() {
    const uint64_t completed = timeline_->completed();
    while (!flights_.empty() && flights_.front().value <= completed) {
        const Flight& flight = flights_.front();
        entries_[flight.entry].finished = flight.first_run + flight.steps;
        if (flight.timer_slot) timer_.finished(*context_, *flight.timer_slot, flight.entry, flight.steps);
        flights_.pop_front();
    }
    uploads_.completed(completed);
    ring_uploads_.completed(transfer_timeline_ ? transfer_timeline_->completed() : completed);
}

Result<uint64_t> VulkanExecutable::finished(uint32_t entry) {
    TRY(check_entry(*program_, entry));
    TRY(poll());
    return entries_[entry].finished;
}

Result<void> VulkanExecutable::wait_for(uint64_t value) {
    if (failed_) return *failed_;
    if (const VkResult r = timeline_->wait(*context_, value); r != VK_SUCCESS) return failure(r, "waiting for the device");
    note_progress();
    return {};
}

Result<void> VulkanExecutable::wait_for(const Run& run) {
    for (const Flight& flight : flights_)
        if (flight.entry == run.entry && run.number - flight.first_run < flight.steps) return wait_for(flight.value);
    return poll();  // it has finished
}

Result<void> VulkanExecutable::wait() {
    if (uploads_.pending() || (ring_uploads_.pending() && !has_transfer_queue())) TRY(submit_commands({}));
    if (has_transfer_queue()) {
        TRY(submit_transfers());
        if (const VkResult r = transfer_timeline_->wait(*context_, transfer_timeline_->submitted()); r != VK_SUCCESS)
            return failure(r, "waiting for an upload");
    }
    TRY(wait_for(timeline_->submitted()));
    return context_->instance().take_validation_messages();
}

Error VulkanExecutable::failure(VkResult result, const char* what) {
    Error error = vulkan_error(result, what);
    if (!flights_.empty()) {
        const Flight& flight = flights_.front();
        error.message += fmt::format(", while entry '{}' ran", program_->entries[flight.entry].name);
        if (result == VK_ERROR_DEVICE_LOST) {
            error.hint = "a step that runs for seconds can make a driver's watchdog stop the device";
            if (!breadcrumbs_.mapped()) {
                error.hint += "; DARNER_BREADCRUMBS=1 names the dispatch";
            } else {
                uint32_t group = 0;
                std::memcpy(&group, breadcrumbs_.mapped(), sizeof group);
                const std::vector<BarrierGroup>& groups = entries_[flight.entry].groups;
                if (group < groups.size())
                    error.message += fmt::format(", in the barrier group of {}", group_text(groups[group]));
            }
        }
    }
    failed_ = error;
    return error;
}

}  // namespace darner::vulkan
