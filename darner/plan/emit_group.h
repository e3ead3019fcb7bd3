// SPDX-License-Identifier: MIT
// From a group to its kernel: chooses the archetype's shape, declares bindings in the order in which the kernel first uses
// them (so isomorphic groups give equal kernels), and fills the archetype's callbacks by pulling.
#pragma once

#include "darner/plan/grouping.h"
#include "darner/plan/tasks.h"

namespace darner::plan {

// Where nodes of the graph lie: by node id, the buffer that holds its value (through materialize and aliases).
struct NodeBuffers {
    std::vector<BufferId> of;
    BufferId at(const Grouping& grouping, NodeId node) const { return of[grouping.storage[node.value].value]; }
};

struct EmittedKernel {
    kir::Kernel kernel;
    kernels::Grid grid;
    std::vector<std::pair<BufferId, kir::Access>> bindings;
    uint64_t flops = 0;
    std::vector<BufferId> partials;  // of column sums, one a column node in ascending order; appended to `buffers`
    uint32_t partial_blocks = 0;
};

// `count_override` (map groups): emit for that many elements instead of the space's: one kernel over a window, or a common
// size to compare structures by.
Result<EmittedKernel> emit_group(const Graph& graph, const Grouping& grouping, const Group& group,
                                 const NodeBuffers& node_buffers, std::vector<Buffer>& buffers, const Caps& caps,
                                 uint64_t count_override = 0);

// The kernel that adds the blocks of partials, in order, into the columns' sums.
Result<EmittedKernel> emit_partial_sums(const std::vector<BufferId>& partials, const std::vector<BufferId>& sums, uint32_t blocks,
                                        uint32_t cols, const std::vector<Buffer>& buffers, const Caps& caps);

// "rms_norm.dx [softmax, mul, ...] (layers.0 at model.cpp:12)": the ops and provenance of a group.
std::string describe(const Graph& graph, const Group& group);

}  // namespace darner::plan
