// SPDX-License-Identifier: MIT
// Schedules: the barrier group of every item. The critical path says how many groups there must be; within the freedom that
// leaves, items move to where fewer bytes are alive at the peak. The memory planner packs the candidates and takes the smallest.
#pragma once

#include "darner/plan/dependence.h"

namespace darner::plan {

// By item of a Dependence: its group, above those of all that it waits for.
using Schedule = std::vector<uint32_t>;

// As early as possible comes first; the others have as many groups. `bytes`: by buffer, what its memory takes.
std::vector<Schedule> shortest_schedules(const Dependence& dependence, const std::vector<uint64_t>& bytes);

// One item after another, each chosen by what it allocates and frees: more groups, fewer bytes. For what does not fit otherwise.
std::vector<Schedule> serial_schedules(const Dependence& dependence, const std::vector<uint64_t>& bytes,
                                       const Schedule& shortest);

// Sets the levels of tasks and copies, and sorts both by level, stably.
void apply(const Schedule& schedule, EntryPlan& plan);

}  // namespace darner::plan
