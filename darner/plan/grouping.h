// SPDX-License-Identifier: MIT
// Grouping: which nodes become one kernel. Every node that computes starts as a group of its own; groups then merge along
// producer -> consumer edges where one archetype can run both, no cycle arises, and no expensive value is computed twice.
// Views and cheap index nodes are in no group: whoever reads through them pulls through them.
#pragma once

#include "darner/graph/graph.h"
#include "darner/kernels/row.h"
#include "darner/plan/plan.h"

#include <optional>
#include <vector>

namespace darner::plan {

enum class GroupKind : uint8_t { map, row, contract, kernel };
const char* to_string(GroupKind kind);

// How a node is computed in its group.
//   full        once per element of the group's space
//   row         once per row of a row space
//   column      summed over the rows into one value a column (row groups; through partials)
//   inlined     wherever another node asks for it, at any index; never stored
enum class Place : uint8_t { full, row, column, inlined };

// The space of a group: all elements of `dims`, split for row groups into rows (the axes kept) and columns (`reduced`).
// Canonical: axes of extent 1 are dropped and neighbours of one kind are one axis, so equal spaces compare equal.
struct Space {
    std::vector<int64_t> dims;
    std::vector<size_t> reduced;  // ascending; empty unless row
    uint64_t rows = 1, cols = 1;  // of a map or contraction: rows = 1, cols = count
    uint64_t count() const { return rows * cols; }
    bool operator==(const Space&) const = default;
    static Space map(const Type& type);
    static Space row(const Type& operand, const std::vector<size_t>& axes);
    Space swapped() const;  // rows for columns
};

struct Group {
    GroupKind kind = GroupKind::map;
    Space space;
    std::vector<NodeId> nodes;     // ascending: topological
    std::vector<Place> places;     // of nodes
    std::vector<uint32_t> stages;  // of reductions with place row; else 0
    std::vector<NodeId> stored;    // nodes of this group that others read or that leave the graph, ascending
    bool alive = true;

    std::optional<size_t> find(NodeId node) const;
    Place place(NodeId node) const { return places[*find(node)]; }
};

struct Grouping {
    std::vector<Group> groups;                 // the alive ones are the kernels
    std::vector<uint32_t> group_of;            // by node; none for leaves and pulled-through nodes
    std::vector<std::vector<NodeId>> sources;  // by computing node: stored leaves and computing nodes that it reads
    std::vector<NodeId> storage;               // by node: whose memory holds its value (looks through materialize and aliases)

    static constexpr uint32_t none = 0xffffffffu;
    bool computes(NodeId node) const { return group_of[node.value] != none; }
};

Result<Grouping> group_nodes(const Graph& graph, const Caps& caps, const PlanOptions& options);

// Nodes that no kernel can compute even alone, because it would touch more at once than the device's bindings reach.
std::vector<NodeId> nodes_beyond_windows(const Graph& graph, const Caps& caps);

// Whether every read of a stored node by a group is at the very element of the space that it computes: then an output may
// take that node's memory.
bool reads_only_own_element(const Graph& graph, const Grouping& grouping, const Group& group, NodeId stored);

}  // namespace darner::plan
