// SPDX-License-Identifier: MIT
// What of an entry must come after what, and which memory it touches: the graph that schedules are made on. Items are the tasks,
// then the copies.
#pragma once

#include "darner/plan/tasks.h"

namespace darner::plan {

struct Dependence {
    std::vector<std::vector<uint32_t>> before, after;  // by item: items that it waits for; items that wait for it
    std::vector<std::vector<uint32_t>> touches;        // by item: scratch buffers, each once
    std::vector<std::vector<uint32_t>> touched_by;     // by buffer: items, each once; empty for placed buffers
    std::vector<uint32_t> order;                       // of items: each behind what it waits for

    size_t items() const { return before.size(); }
};

// A reader of scratch and of outputs waits for who writes the bytes that it reads, unless it is one that an in-place writer waits
// for. Readers of state see the value from before the step: who overwrites it waits for them. A copy waits for every task that
// writes its source or touches its target, and for the copies before it in the list that it conflicts with.
Dependence dependence_of(const EntryPlan& plan);

}  // namespace darner::plan
