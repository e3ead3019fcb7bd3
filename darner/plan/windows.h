// SPDX-License-Identifier: MIT
// Windows: equal in-place updates of tensors that lie side by side become one dispatch over the memory from the first to the
// last (the optimizer: one dispatch, not one a parameter). A run of groups may merge when
//   their kernels are equal but for the tensors, each element is computed from its own element and shared scalars alone, and
//   not from its position;
//   zeros give zeros, so that the gaps between tensors stay zero;
//   every slot's tensors lie at the same distances (scratch is laid out to match: a Bundle), no tensor is in two slots, and none
//   in two bundles;
//   nobody reads the new values in this step, and no path through other groups joins two members.
#pragma once

#include "darner/plan/emit_group.h"

#include <set>

namespace darner::plan {

// Which groups come after which: through data, and where a group overwrites memory that others read before.
class GroupOrder {
public:
    explicit GroupOrder(const Grouping& grouping) : grouping_(grouping), before_(grouping.groups.size()) {}

    void add_edge(uint32_t before, uint32_t after);
    const std::vector<std::pair<uint32_t, uint32_t>>& edges() const { return edges_; }
    bool comes_after(uint32_t late, uint32_t early) const { return ancestors({late}).contains(early); }
    // From now on these groups run as one: what one waits for, all wait for.
    void join(const std::vector<uint32_t>& groups);
    // All groups that must be done before any of these starts, themselves included.
    std::set<uint32_t> ancestors(const std::vector<uint32_t>& groups) const;

private:
    const Grouping& grouping_;
    std::vector<std::vector<uint32_t>> before_;  // by group: groups that it overwrites memory of
    std::vector<std::pair<uint32_t, uint32_t>> edges_;
    std::vector<std::vector<uint32_t>> joined_;
    std::vector<uint32_t> joined_in_;  // by group: index into joined_ plus 1, 0 for none
};

struct Window {
    std::vector<uint32_t> groups;              // ascending in memory
    std::vector<std::vector<BufferId>> slots;  // by binding: one buffer a group, or one shared scalar
    std::vector<Bundle> bundles;
    uint64_t count = 0;  // elements from the first's start to the last's end
};

struct WindowInput {
    const Graph& graph;
    const Grouping& grouping;
    const NodeBuffers& node_buffers;
    const std::vector<Buffer>& buffers;
    const std::vector<std::vector<uint32_t>>& readers;  // by stored node: other groups that read it
    const Caps& caps;
};

// Joins the members of each window in `order`.
Result<std::vector<Window>> find_windows(const WindowInput& input, GroupOrder& order);

}  // namespace darner::plan
