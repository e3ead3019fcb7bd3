// SPDX-License-Identifier: MIT
// Why a plan does not fit a device's memory, for the person who has to change something: what needs how much, which tensors are
// the largest, and what would help.
#pragma once

#include "darner/plan/memory.h"

namespace darner::plan {

// `scratch_bytes`: what the layouts (one a plan, in the order of the entries) take together.
Error memory_error(const Program& program, std::span<const EntryPlan> plans, std::span<const Layout> layouts,
                   uint64_t scratch_bytes);

// Bytes of all segments but scratch, rings with all their slots.
uint64_t lasting_bytes(const Program& program);

}  // namespace darner::plan
