// SPDX-License-Identifier: MIT
// What every device checks of the host's calls, and what it fills dead memory with.
#pragma once

#include "darner/program/program.h"

namespace darner {

// A NaN as f32, as two f16 and as two bf16: scratch holds it where a device poisons what no kernel of the step has written.
inline constexpr uint32_t poison_word = 0x7fff7fff;
// Zeroed scratch is not poisoned: it holds tensors with gaps that a window spans, and the gaps stay zero.
inline bool is_poisoned(const Segment& segment) { return segment.kind == SegmentKind::scratch && !segment.zeroed; }

Result<void> check_entry(const Program& program, uint32_t entry);
// The tensor that `call` ("read", "write") names, when `bytes` is its size.
Result<const ProgramTensor*> find_tensor(const Program& program, TensorId id, size_t bytes, const char* call);

}  // namespace darner
