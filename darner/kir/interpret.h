// SPDX-License-Identifier: MIT
// The checking interpreter: runs one dispatch of a kernel on the CPU, workgroup by workgroup, the invocations of a workgroup in
// lockstep, and reports the first thing that the kernel must not do:
//   accesses outside a binding's window, its declared elements, or an array;
//   reads of workgroup or private memory, or of buffer words, that nothing has written;
//   two unordered accesses of one word of which one writes, by invocations of a workgroup or by two workgroups;
//   barriers, subgroup and cooperative operations in divergent control flow, and their operands where they must be uniform;
//   division by an integer zero, shift counts of 32 and above, loops that cannot end.
// An error names the kernel, the instruction, the workgroup, the invocation and the memory.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"
#include "darner/kir/shadow.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace darner::kir {

// The window of a binding. `data` is aligned to 4 bytes. The shadow is that of the memory in which the window lies at byte
// `shadow_offset` (a multiple of 4); without one all of the window counts as initialised.
struct Buffer {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    Shadow* shadow = nullptr;
    uint64_t shadow_offset = 0;
};

// Per binding: scalars loaded and stored; an atomic counts as both.
struct InterpretStats {
    std::vector<uint64_t> loads, stores;
};

struct InterpretOptions {
    uint32_t subgroup_size = 32;  // the kernel's required size wins
    // Whether a barrier separates this dispatch from those before and behind it. Members of a barrier group say false where it
    // does not: then an access that is unordered with another member's is reported as a race.
    bool after_barrier = true, before_barrier = true;
    InterpretStats* stats = nullptr;  // counts are added
};

Result<void> interpret(const Kernel& kernel, std::array<uint32_t, 3> groups, std::span<Buffer> buffers,
                       std::span<const uint32_t> params, const InterpretOptions& options = {});

}  // namespace darner::kir
