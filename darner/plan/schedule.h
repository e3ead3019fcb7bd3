// SPDX-License-Identifier: MIT
// Order: tasks get barrier groups (levels) by dependence; after placement, hazards on byte ranges decide where barriers stand.
#pragma once

#include "darner/plan/tasks.h"

namespace darner::plan {

// Sets each task's level: one more than the highest of what it reads or must come after. Reorders tasks by level, stably.
void order_tasks(EntryPlan& plan);

// Window of a use once buffers are placed.
BindingWindow window_of(const EntryPlan& plan, const Use& use);

// Dispatches in order with a barrier before each that conflicts (read after write, write after read, write after write, on
// byte ranges, aliasing included) with one since the last barrier; then the copies.
std::vector<Item> emit_items(const EntryPlan& plan);

}  // namespace darner::plan
