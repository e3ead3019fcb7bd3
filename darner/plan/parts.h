// SPDX-License-Identifier: MIT
// A group's dispatches. Most groups are one kernel run once; where a tensor is larger than the device binds at once, the kernel
// is cut into parts over windows (kernels/windows.h), written for smaller workgroups where larger ones reach too far.
#pragma once

#include "darner/plan/emit_group.h"

namespace darner::plan {

// Dispatches that are independent of each other.
struct Stage {
    struct Part {
        size_t kernel = 0;  // index into kernels
        std::array<uint32_t, 3> groups = {1, 1, 1};
        std::vector<uint32_t> params;
        std::vector<Use> uses;
        uint64_t flops = 0;
    };
    std::vector<kir::Kernel> kernels;
    std::vector<Part> parts;
};

// The group itself and, where it sums columns, the sums of the partials. Partials are appended to `buffers`. Refused when some
// workgroup touches more than the device's bindings reach.
Result<std::vector<Stage>> emit_stages(const Graph& graph, const Grouping& grouping, const Group& group,
                                       const NodeBuffers& node_buffers, std::vector<Buffer>& buffers, const Caps& caps);

// Whether emit_stages can do it, asked before there are buffers.
bool fits_windows(const Graph& graph, const Grouping& grouping, const Group& group, const Caps& caps);

}  // namespace darner::plan
