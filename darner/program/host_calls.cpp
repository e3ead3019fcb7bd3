// SPDX-License-Identifier: MIT
// Checks of the host's calls.
#include "darner/program/host_calls.h"

#include "darner/base/checked.h"

#include <fmt/format.h>

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

std::vector<ByteRange> dead_ranges(const Segment& segment) {
    std::vector<ByteRange> ranges;
    if (segment.kind != SegmentKind::scratch) return ranges;
    uint64_t start = 0;
    const auto dead_until = [&](uint64_t end) {
        if (end > start) ranges.push_back({start, end - start});
    };
    for (const ByteRange& zeros : segment.kept_zero) {
        dead_until(zeros.offset);
        start = zeros.offset + zeros.bytes;
    }
    dead_until(segment.bytes);
    return ranges;
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
