// SPDX-License-Identifier: MIT
// Hazards: once buffers are placed, byte ranges decide where barriers stand.
#pragma once

#include "darner/plan/tasks.h"

#include <map>

namespace darner::plan {

// Bytes of segments that were read and written; overlapping ranges are one.
class Hazards {
public:
    // Read after write, write after read or write after write on any byte.
    bool conflicts(const BindingWindow& window) const;
    void add(const BindingWindow& window);
    void clear() { segments_.clear(); }

private:
    using Ranges = std::map<uint64_t, uint64_t>;  // disjoint: start to end
    struct Touched {
        Ranges read, written;
    };
    static bool overlaps(const Ranges& ranges, const BindingWindow& window);
    static void merge(Ranges& ranges, const BindingWindow& window);

    std::map<uint32_t, Touched> segments_;
};

// Window of a use once buffers are placed.
BindingWindow window_of(const EntryPlan& plan, const Use& use);

// Dispatches and copies by level, with a barrier before each that conflicts (aliasing included) with one since the last barrier:
// for this order no fewer barriers do.
std::vector<Item> emit_items(const EntryPlan& plan);

}  // namespace darner::plan
