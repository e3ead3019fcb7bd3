// SPDX-License-Identifier: MIT
// Local simplifications of one node, looking at its operands only: constants of one value through elementwise ops and views,
// exact identities, views that do nothing or follow each other. Algebra that has to choose belongs to the rewrite rules.
#pragma once

#include "darner/graph/graph.h"

#include <optional>

namespace darner {

// At most one is set; none: the node stays as it is. The type is the node's own in each case.
struct Simplified {
    NodeId value = {};            // this node of the graph
    std::optional<Node> node;     // another op on nodes of the graph
    std::optional<Tensor> splat;  // a constant of this one element everywhere
};

// `node` is an op whose operands are nodes of `graph`; it need not stand in it.
Simplified simplify(const Graph& graph, const Node& node);

// `materialize` asks for a place in memory of its own: it is neither folded nor merged.
bool keeps_its_place(const OpDef& op);

}  // namespace darner
