// SPDX-License-Identifier: MIT
// Loads a Program on a Vulkan device: memory, pipelines, recordings. What the host then calls is in executable_calls.cpp.
#include "darner/device/vulkan/executable.h"

#include "darner/program/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace darner::vulkan {
namespace {

constexpr uint64_t delivery_alignment = 16;

void mark_kernels(const std::vector<Item>& items, std::vector<bool>& used) {
    for (const Item& item : items) {
        if (const Dispatch* d = std::get_if<Dispatch>(&item)) used[d->kernel.value] = true;
        if (const Repeat* r = std::get_if<Repeat>(&item)) mark_kernels(r->body, used);
    }
}

Result<void> check_budget(const Context& context, const Program& program) {
    const uint64_t free = free_memory(context.instance(), context.physical());
    const uint64_t budget = free ? free : context.physical().info.caps.memory_bytes;
    const uint64_t needed = needed_bytes(program);
    if (budget == 0 || needed <= budget) return {};
    std::string list;
    for (const Segment& s : program.segments) {
        list += fmt::format("{}{} {}", list.empty() ? "" : ", ", to_string(s.kind), s.bytes);
        if (s.slots != 1) list += fmt::format(" x {}", s.slots);
    }
    return limit_error(
        fmt::format("[vulkan] the program needs {} bytes of device memory, {} are free (segments: {})", needed, budget, list));
}

}  // namespace

Result<std::unique_ptr<Executable>> VulkanExecutable::load(std::shared_ptr<Context> context,
                                                           std::shared_ptr<const Program> program) {
    TRY(verify(*program, context->physical().info.caps));
    TRY(check_budget(*context, *program));
    std::unique_ptr<VulkanExecutable> executable(new VulkanExecutable(std::move(context), std::move(program)));
    const auto prepare = [&]() -> Result<void> {
        TRY(executable->allocate());
        TRY(executable->record());
        return executable->fill();
    };
    const Result<void> prepared = prepare();
    // What the layer says of a load that fails is why, and nothing for the next one to hear.
    TRY(executable->context_->instance().take_validation_messages());
    TRY(prepared);
    return std::unique_ptr<Executable>(std::move(executable));
}

Result<void> VulkanExecutable::allocate() {
    const Context& context = *context_;
    TRY(rings_, Rings::create(*program_));
    // On unified memory the host reaches tensors in place, where there is memory for it.
    const bool in_place = context.physical().unified_memory() && std::getenv("DARNER_STAGING") == nullptr;
    bool staged_rings = false;
    for (size_t i = 0; i < program_->segments.size(); ++i) {
        const Segment& s = program_->segments[i];
        std::vector<Buffer> slots;
        for (uint32_t slot = 0; slot < s.slots; ++slot) {
            const std::string number = s.slots == 1 ? "" : fmt::format(", slot {}", slot);
            const std::string name = fmt::format("{} segment {}{}", to_string(s.kind), i, number);
            const MemoryUse use = in_place ? MemoryUse::device_mapped : MemoryUse::device;
            const bool shared = s.kind == SegmentKind::io;  // rings, of one slot too, take inputs from the transfer queue
            Result<Buffer> buffer = Buffer::create(context, s.bytes, use, name, shared);
            if (!buffer && buffer.error().kind == ErrorKind::unsupported)
                buffer = Buffer::create(context, s.bytes, MemoryUse::device, name, shared);
            if (!buffer) return buffer.error();
            slots.push_back(std::move(*buffer));
        }
        segments_.add(std::move(slots));
    }
    for (const ProgramTensor& t : program_->tensors) staged_rings |= t.per_step && !segments_.of(t.segment, 0).mapped();
    const uint32_t family = context.physical().queue_family;
    const uint32_t ring_family = context.physical().transfer_family.value_or(family);
    TRY(timeline_, Timeline::create(context));
    if (staged_rings && ring_family != family) {
        TRY(transfer_timeline_, Timeline::create(context));
    }
    TRY(uploads_, Uploads::create(context, family, Uploads::Order::in_order));
    TRY(ring_uploads_, Uploads::create(context, ring_family, Uploads::Order::anything));
    TRY(pool_, create_command_pool(context, family));
    TRY(scratch_commands_, allocate_commands(context, pool_.get()));
    TRY(timer_, StepTimer::create(context, program_->entries.size()));
    return {};
}

// Memory that the host reads per-step outputs from, where it cannot reach their ring.
Result<void> VulkanExecutable::allocate_deliveries(uint32_t index) {
    LoadedEntry& entry = entries_[index];
    uint64_t bytes = 0;
    for (TensorId id : program_->entries[index].outputs) {
        const ProgramTensor& t = program_->tensor(id);
        if (!t.per_step || t.bytes == 0 || segments_.of(t.segment, 0).mapped()) continue;
        entry.deliveries.emplace_back(id, Delivery{t.segment, t.offset, t.bytes, bytes});
        bytes += (t.bytes + delivery_alignment - 1) / delivery_alignment * delivery_alignment;
    }
    for (uint32_t slot = 0; bytes != 0 && slot < rings_->slots(index); ++slot) {
        const std::string name = fmt::format("outputs of entry '{}', slot {}", program_->entries[index].name, slot);
        TRY(Buffer buffer, Buffer::create(*context_, bytes, MemoryUse::read_back, name));
        entry.delivered.push_back(std::move(buffer));
    }
    return {};
}

Result<void> VulkanExecutable::record() {
    std::vector<bool> used(program_->kernels.size());
    for (const Entry& entry : program_->entries) mark_kernels(entry.body, used);
    TRY(pipelines_, Pipelines::create(*context_, *program_, used));
    TRY(sets_, DescriptorSets::create(*context_, *program_, *pipelines_, segments_, *rings_));
    for (size_t i = 0; i < program_->segments.size(); ++i)
        options_.visible_to_host |= segments_.of(SegmentId(i), 0).mapped() != nullptr;
    options_.poison_scratch = std::getenv("DARNER_POISON") != nullptr;
    if (std::getenv("DARNER_BREADCRUMBS") != nullptr) {
        TRY(breadcrumbs_, Buffer::create(*context_, 4, MemoryUse::read_back, "breadcrumbs"));
        options_.breadcrumbs = breadcrumbs_.get();
    }
    entries_.resize(program_->entries.size());
    for (uint32_t e = 0; e < entries_.size(); ++e) {
        LoadedEntry& entry = entries_[e];
        TRY(entry.groups, barrier_groups(program_->entries[e]));
        TRY(allocate_deliveries(e));
        entry.arrivals.resize(rings_->slots(e));
        for (uint32_t slot = 0; slot < rings_->slots(e); ++slot) {
            TRY(const VkCommandBuffer commands, allocate_commands(*context_, pool_.get()));
            TRY(record_entry(commands, e, slot, options_));
            entry.recorded.push_back(commands);
        }
    }
    return {};
}

Result<void> VulkanExecutable::record_entry(VkCommandBuffer commands, uint32_t index, uint32_t slot,
                                            RecordOptions options) const {
    const LoadedEntry& entry = entries_[index];
    for (const auto& [tensor, delivery] : entry.deliveries) options.deliveries.push_back(delivery);
    if (!entry.delivered.empty()) options.delivered = entry.delivered[slot].get();
    const Recorder recorder{*context_, *program_, *pipelines_, sets_, segments_, slot};
    return recorder.record(commands, entry.groups, options);
}

// Zeros and constants. State starts at zero even where the Program does not ask for it: a run must not depend on what was
// in memory before.
Result<void> VulkanExecutable::fill() {
    const DeviceFunctions& vk = context_->vk();
    TRY(begin_commands(vk, scratch_commands_, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    for (size_t i = 0; i < program_->segments.size(); ++i) {
        const Segment& s = program_->segments[i];
        if (s.bytes == 0 || (!s.zeroed && s.kind == SegmentKind::scratch)) continue;
        for (uint32_t slot = 0; slot < s.slots; ++slot)
            vk.CmdFillBuffer(scratch_commands_, segments_.of(SegmentId(i), slot).get(), 0, s.bytes, 0);
    }
    memory_barrier(vk, scratch_commands_, {.compute = false}, {});
    TRY(end_commands(vk, scratch_commands_));
    TRY(submit_commands({&scratch_commands_, 1}));
    TRY(wait_for(timeline_->submitted()));
    for (const Constant& c : program_->constants) TRY(write_range({.buffer = &segments_.of(c.segment, 0)}, c.offset, c.bytes));
    return {};
}

Result<std::vector<DispatchTime>> VulkanExecutable::profile(uint32_t index) {
    TRY(check_entry(*program_, index));
    TRY(rings_->check_inputs(index, 1));
    if (context_->physical().timestamp_bits == 0)
        return unsupported(fmt::format("[profile] {} has no timestamps", context_->physical().info.name));
    const LoadedEntry& entry = entries_[index];
    uint32_t count = 1;
    for (const BarrierGroup& group : entry.groups) count += static_cast<uint32_t>(group.size());
    TRY(const Handle<VkQueryPool> pool, create_timestamps(*context_, count));
    RecordOptions options = options_;
    options.usage = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    options.timestamps = pool.get();
    const Run run = rings_->run(index, rings_->submitted(index));
    TRY(record_entry(scratch_commands_, index, run.slot, options));
    TRY(submit_flight({.entry = index, .steps = 1}, {&scratch_commands_, 1}));
    TRY(wait());
    TRY(const std::vector<double> seconds, read_intervals(*context_, pool.get(), count));
    std::vector<DispatchTime> times;
    for (const BarrierGroup& group : entry.groups)
        for (const Member& member : group) times.push_back({label_of(member), seconds[times.size()]});
    return times;
}

VulkanExecutable::~VulkanExecutable() {
    // Memory may be freed only when nothing runs on it; an error here has nowhere to go.
    for (std::optional<Timeline>* timeline : {&timeline_, &transfer_timeline_})
        if (*timeline && (*timeline)->submitted() != 0) (void)(*timeline)->wait(*context_, (*timeline)->submitted());
}

}  // namespace darner::vulkan
