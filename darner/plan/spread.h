// SPDX-License-Identifier: MIT
// Where a device tracks hazards by buffer (Caps::hazard), scratch is spread over several pools, each a buffer: items that could
// run side by side write different ones, and a dispatch does not read and write in one. Found by search on the model of such
// a device (program/buffer_barriers.h), so what is counted is what gets better.
#pragma once

#include "darner/plan/schedule.h"

namespace darner::plan {

// By buffer, for those that are not placed yet: which of the pools it goes to. `pools`: the segment of each, where it has one
// already. `bytes`: by buffer, what its memory takes. What the pools take together stays near what one would take.
std::vector<uint32_t> spread(const EntryPlan& plan, const Dependence& dependence, const Schedule& schedule,
                             const std::vector<SegmentId>& pools, const std::vector<uint64_t>& bytes);

// A read binding in a buffer that its dispatch also writes is declared so in the kernel (kir::Binding); kernels that no dispatch
// runs any more are dropped.
void declare_written_buffers(Program& program, KernelTable& kernels);

}  // namespace darner::plan
