// SPDX-License-Identifier: MIT
// What a graph needs, and the graph without the rest.
#pragma once

#include "darner/graph/graph.h"

#include <vector>

namespace darner {

// By node: do `roots` need it?
std::vector<bool> needed_nodes(const Graph& graph, std::vector<bool> roots);

// Without ops and constants that no output, update or init expression needs. Inputs and params are the graph's signature
// and stay.
Result<Graph> remove_dead_code(const Graph& graph);

}  // namespace darner
