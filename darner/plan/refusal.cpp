// SPDX-License-Identifier: MIT
#include "darner/plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace darner::plan {

namespace {

constexpr size_t max_listed = 8;

struct Line {
    std::string what;
    uint64_t bytes = 0;
};

uint64_t bytes_of(const Program& program, SegmentKind kind) {
    uint64_t total = 0;
    for (const Segment& segment : program.segments)
        if (segment.kind == kind) total += segment.bytes * segment.slots;
    return total;
}

// The buffers alive in the fullest barrier group of the entry that needs the most.
std::vector<Line> scratch_at_peak(const Program& program, std::span<const EntryPlan> plans, std::span<const Layout> layouts) {
    size_t entry = 0;
    for (size_t e = 0; e < layouts.size(); ++e)
        if (layouts[e].report.peak > layouts[entry].report.peak) entry = e;
    const EntryPlan& plan = plans[entry];
    const Schedule& schedule = layouts[entry].schedule;
    const Dependence dependence = dependence_of(plan);
    std::vector<Block> lives(plan.buffers.size());
    std::vector<uint64_t> live(schedule.size() + 1, 0);
    for (uint32_t b = 0; b < lives.size(); ++b) {
        const std::vector<uint32_t>& items = dependence.touched_by[b];
        if (items.empty()) continue;
        const auto by_level = [&](uint32_t x, uint32_t y) { return schedule[x] < schedule[y]; };
        const auto [first, last] = std::minmax_element(items.begin(), items.end(), by_level);
        lives[b] = {plan.buffers[b].bytes(), schedule[*first], schedule[*last]};
        for (uint32_t l = lives[b].first; l <= lives[b].last; ++l) live[l] += lives[b].bytes;
    }
    const uint32_t peak = static_cast<uint32_t>(std::max_element(live.begin(), live.end()) - live.begin());
    std::vector<Line> lines;
    for (uint32_t b = 0; b < lives.size(); ++b)
        if (lives[b].bytes != 0 && lives[b].first <= peak && peak <= lives[b].last)
            lines.push_back({"scratch of " + program.entries[entry].name + ": " + plan.buffers[b].label, lives[b].bytes});
    return lines;
}

const char* advice(const std::array<uint64_t, 3>& by_use) {
    switch (std::max_element(by_use.begin(), by_use.end()) - by_use.begin()) {
        case 0: return "a smaller model, an optimizer that keeps less state per param, or a device with more memory";
        case 1: return "smaller inputs and outputs, fewer runs in flight at once, or a device with more memory";
        default: return "a smaller batch, a shorter sequence, or a device with more memory";
    }
}

}  // namespace

uint64_t lasting_bytes(const Program& program) {
    return bytes_of(program, SegmentKind::state) + bytes_of(program, SegmentKind::io) + bytes_of(program, SegmentKind::constant);
}

Error memory_error(const Program& program, std::span<const EntryPlan> plans, std::span<const Layout> layouts,
                   uint64_t scratch_bytes) {
    std::vector<Line> lines = layouts.empty() ? std::vector<Line>() : scratch_at_peak(program, plans, layouts);
    for (const ProgramTensor& tensor : program.tensors) {
        const Segment& segment = program.segment(tensor.segment);
        const bool state = segment.kind == SegmentKind::state;
        lines.push_back(
            {fmt::format("{} {} {}[{}]{}", state ? tensor.role : "input or output", tensor.name, tensor.dtype,
                         fmt::join(tensor.dims, ","), segment.slots > 1 ? fmt::format(" in {} slots", segment.slots) : ""),
             tensor.bytes * segment.slots});
    }
    for (const Constant& constant : program.constants) lines.push_back({"constant", constant.bytes.size()});
    std::stable_sort(lines.begin(), lines.end(), [](const Line& x, const Line& y) { return x.bytes > y.bytes; });
    const size_t more = lines.size() > max_listed ? lines.size() - max_listed : 0;
    lines.resize(lines.size() - more);
    std::vector<std::string> listed;
    for (const Line& line : lines) listed.push_back(fmt::format("{} ({} bytes)", line.what, line.bytes));

    const uint64_t state = bytes_of(program, SegmentKind::state), io = bytes_of(program, SegmentKind::io),
                   constant = bytes_of(program, SegmentKind::constant);
    Error error = limit_error(fmt::format(
        "[plan] the program needs {} bytes, the device has {}: state {}, inputs and outputs {}, constants {}, scratch {}; "
        "largest tensors: {}{}",
        lasting_bytes(program) + scratch_bytes, program.caps.memory_bytes, state, io, constant, scratch_bytes,
        fmt::join(listed, ", "), more > 0 ? fmt::format(" and {} smaller ones", more) : ""));
    error.hint = advice({state + constant, io, scratch_bytes});
    return error;
}

}  // namespace darner::plan
