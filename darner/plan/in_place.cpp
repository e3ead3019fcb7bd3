// SPDX-License-Identifier: MIT
#include "darner/plan/in_place.h"

#include "darner/base/fault.h"
#include "darner/plan/storage.h"

#include <algorithm>

namespace darner::plan {

InPlace::InPlace(const Graph& graph, const Grouping& grouping, const std::vector<std::vector<uint32_t>>& readers,
                 const std::vector<CopyTask>& copies, GroupOrder& order)
    : graph_(graph), grouping_(grouping), readers_(readers), order_(order), level_(grouping.groups.size(), 0) {
    for (const CopyTask& copy : copies) kept_.push_back(copy.source);
    std::sort(kept_.begin(), kept_.end());

    struct Edge {
        uint32_t to, steps;
    };
    std::vector<std::vector<Edge>> next(grouping.groups.size());
    std::vector<size_t> waiting(grouping.groups.size(), 0);
    const auto edge = [&](uint32_t from, uint32_t to, uint32_t steps) {
        next[from].push_back({to, steps});
        ++waiting[to];
    };
    for (uint32_t g = 0; g < grouping.groups.size(); ++g)
        for (NodeId id : grouping.groups[g].nodes)
            for (NodeId source : grouping.sources[id.value]) {
                const uint32_t from = grouping.group_of[source.value];
                if (from == Grouping::none || from == g) continue;
                // Sums over rows take a second kernel.
                edge(from, g, grouping.groups[from].place(source) == Place::column ? 2 : 1);
            }
    for (const auto& [before, after] : order.edges()) edge(before, after, 1);
    for (uint32_t g = 0; g < grouping.groups.size(); ++g)
        if (grouping.groups[g].alive && waiting[g] == 0) groups_.push_back(g);
    for (size_t done = 0; done < groups_.size(); ++done)
        for (const Edge& e : next[groups_[done]]) {
            level_[e.to] = std::max(level_[e.to], level_[groups_[done]] + e.steps);
            if (--waiting[e.to] == 0) groups_.push_back(e.to);
        }
}

// Its other readers come earlier on every schedule's critical path, so that waiting for them makes no plan longer.
bool InPlace::dies_in(uint32_t group, NodeId operand) const {
    return std::all_of(readers_[operand.value].begin(), readers_[operand.value].end(),
                       [&](uint32_t reader) { return reader == group || level_[reader] < level_[group]; });
}

BufferId InPlace::take(uint32_t group, NodeId id, const NodeBuffers& node_buffers, const std::vector<Buffer>& buffers) {
    const Group& g = grouping_.groups[group];
    if (g.kind != GroupKind::map) return {};
    const auto storage = storage_of(graph_.type(id).dtype);
    const uint64_t elements = static_cast<uint64_t>(graph_.type(id).count());
    for (NodeId node : g.nodes)
        for (NodeId operand : grouping_.sources[node.value]) {
            const BufferId buffer = node_buffers.of[operand.value];
            if (g.find(operand) || !buffer.valid()) continue;
            const Buffer& memory = buffers[buffer.value];
            const bool taken = std::any_of(g.stored.begin(), g.stored.end(),
                                           [&](NodeId other) { return node_buffers.of[other.value] == buffer; });
            if (memory.placed || memory.storage != storage || memory.elements != elements || elements <= 1 || taken ||
                std::binary_search(kept_.begin(), kept_.end(), buffer) || !dies_in(group, operand) ||
                (!reads_only_own_element(graph_, grouping_, g, operand) && !fault(15)))
                continue;
            auto at = std::find_if(taken_.begin(), taken_.end(), [&](const auto& t) { return t.first == buffer; });
            if (at == taken_.end()) at = taken_.insert(at, {buffer, {grouping_.group_of[operand.value]}});
            std::vector<uint32_t>& users = at->second;
            users.insert(users.end(), readers_[operand.value].begin(), readers_[operand.value].end());
            std::sort(users.begin(), users.end());
            users.erase(std::unique(users.begin(), users.end()), users.end());
            for (uint32_t user : users)
                if (user != group) order_.add_edge(user, group);
            return buffer;
        }
    return {};
}

}  // namespace darner::plan
