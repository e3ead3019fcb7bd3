// SPDX-License-Identifier: MIT
// What every device checks of the host's calls, what it fills dead memory with, and how it names what it runs.
#pragma once

#include "darner/program/groups.h"

#include <string>

namespace darner {

// A NaN as f32, as two f16 and as two bf16: scratch holds it where a device poisons what no kernel of the step has written.
inline constexpr uint32_t poison_word = 0x7fff7fff;
// What of a segment is dead between steps: scratch but for the gaps that stay zero. Ascending; none of them is empty.
std::vector<ByteRange> dead_ranges(const Segment& segment);

// What of a segment stays zero: gaps between tensors that kernels may run over. Ascending.
std::vector<ByteRange> zero_ranges(const Program& program, SegmentId segment);

// All segments with all slots of rings; UINT64_MAX when the sum does not fit.
uint64_t needed_bytes(const Program& program);

// A dispatch's label, else "copy" or "counter": for errors and times.
std::string label_of(const Member& member);

Result<void> check_entry(const Program& program, uint32_t entry);
// The tensor that `call` ("read", "write") names, when `bytes` is its size.
Result<const ProgramTensor*> find_tensor(const Program& program, TensorId id, size_t bytes, const char* call);

}  // namespace darner
