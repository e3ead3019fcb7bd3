// SPDX-License-Identifier: MIT
// Checks of the host's calls.
#include "darner/program/host_calls.h"

#include "darner/base/checked.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {

uint64_t needed_bytes(const Program& program) {
    uint64_t total = 0;
    for (const Segment& segment : program.segments) {
        const std::optional<uint64_t> all = checked_mul(segment.bytes, segment.slots);
        const std::optional<uint64_t> sum = all ? checked_add(total, *all) : std::nullopt;
        if (!sum) return UINT64_MAX;
        total = *sum;
    }
    return total;
}

std::string label_of(const Member& member) {
    if (member.dispatch) return member.dispatch->label;
    return member.copy ? "copy" : "counter";
}

namespace {

// What of [0, bytes) lies in none of the ranges, which ascend and do not overlap.
std::vector<ByteRange> between(const std::vector<ByteRange>& ranges, uint64_t bytes) {
    std::vector<ByteRange> gaps;
    uint64_t start = 0;
    const auto gap_until = [&](uint64_t end) {
        if (end > start) gaps.push_back({start, end - start});
    };
    for (const ByteRange& range : ranges) {
        gap_until(range.offset);
        start = range.offset + range.bytes;
    }
    gap_until(bytes);
    return gaps;
}

}  // namespace

std::vector<ByteRange> dead_ranges(const Segment& segment) {
    if (segment.kind != SegmentKind::scratch) return {};
    return between(segment.kept_zero, segment.bytes);
}

std::vector<ByteRange> zero_ranges(const Program& program, SegmentId id) {
    const Segment& segment = program.segment(id);
    if (!segment.zeroed || segment.kind != SegmentKind::state) return segment.kept_zero;
    std::vector<ByteRange> tensors;
    for (const ProgramTensor& tensor : program.tensors)
        if (tensor.segment == id) tensors.push_back({tensor.offset, (tensor.bytes + 3) / 4 * 4});
    if (tensors.empty()) return {};
    std::sort(tensors.begin(), tensors.end(), [](const ByteRange& x, const ByteRange& y) { return x.offset < y.offset; });
    return between(tensors, segment.bytes);
}

Result<void> check_entry(const Program& program, uint32_t entry) {
    if (entry < program.entries.size()) return {};
    return invalid(fmt::format("[device] no entry {}: the program has {}", entry, program.entries.size()));
}

Result<const ProgramTensor*> find_tensor(const Program& program, TensorId id, size_t bytes, const char* call) {
    if (id.value >= program.tensors.size()) return invalid(fmt::format("[{}] no tensor {}", call, id.value));
    const ProgramTensor& tensor = program.tensor(id);
    if (bytes == tensor.bytes) return &tensor;
    return invalid(fmt::format("[{}] tensor '{}': got {} bytes, expected {}", call, tensor.name, bytes, tensor.bytes));
}

}  // namespace darner
