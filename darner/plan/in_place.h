// SPDX-License-Identifier: MIT
// In place: an output of an elementwise kernel takes the memory of an operand that dies there, when the kernel reads of it only
// the element that it writes. Scratch alone is given away: inputs keep what the host wrote, and params have updates for that.
#pragma once

#include "darner/plan/windows.h"

namespace darner::plan {

// Decides group after group, in an order in which every operand has its buffer before its readers ask for it.
class InPlace {
public:
    // `readers`: by stored node, the groups that read it. `kept`: scratch whose value must last, since a copy reads it.
    InPlace(const Graph& graph, const Grouping& grouping, const std::vector<std::vector<uint32_t>>& readers,
            const std::vector<CopyTask>& copies, GroupOrder& order);

    const std::vector<uint32_t>& groups() const { return groups_; }

    // The buffer that output `id` of `group` may take; invalid where it needs one of its own. Everyone else who uses the buffer
    // is ordered before the group.
    BufferId take(uint32_t group, NodeId id, const NodeBuffers& node_buffers, const std::vector<Buffer>& buffers);

private:
    bool dies_in(uint32_t group, NodeId operand) const;

    const Graph& graph_;
    const Grouping& grouping_;
    const std::vector<std::vector<uint32_t>>& readers_;
    GroupOrder& order_;
    std::vector<uint32_t> groups_;                                   // alive ones, each behind those it waits for
    std::vector<uint32_t> level_;                                    // by group
    std::vector<BufferId> kept_;                                     // sorted
    std::vector<std::pair<BufferId, std::vector<uint32_t>>> taken_;  // with the groups that used a buffer before
};

}  // namespace darner::plan
