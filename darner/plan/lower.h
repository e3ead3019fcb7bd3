// SPDX-License-Identifier: MIT
// From groups to tasks: gives every stored value a buffer, decides which updates may write their param in place, merges equal
// updates of role-contiguous params into one dispatch per window, and emits the kernels.
#pragma once

#include "darner/base/hash.h"
#include "darner/plan/emit_group.h"

#include <functional>
#include <map>

namespace darner::plan {

// Memory that entries share: placed state and constants by name, and where constants of the graph go.
struct SharedMemory {
    struct Placed {
        SegmentId segment;
        uint64_t offset = 0;
    };
    std::map<std::string, Placed, std::less<>> state;
    // Gives a non-splat constant its place (equal bytes share one).
    std::function<Placed(const Tensor&)> constant;
    // Gives an input or output of this entry its place.
    std::function<Placed(const std::string& name, const Type& type, bool output, bool per_step)> io;
};

Result<EntryPlan> lower_entry(const Graph& graph, const Grouping& grouping, const SharedMemory& memory, KernelTable& kernels,
                              const Caps& caps, const PlanOptions& options);

}  // namespace darner::plan
