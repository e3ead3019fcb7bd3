// SPDX-License-Identifier: MIT
// Reverse-mode differentiation inside a graph under construction. Reads only OpDef::grad: the engine multiplies by the
// cotangent, sums over uses, and gives zeros for what has no derivative (integers, comparisons, random bits). An op that
// cannot be differentiated is an error that names the node and its provenance.
#pragma once

#include "darner/graph/builder.h"

namespace darner {

// d(of)/d(wrt) contracted with `cotangent` (typed like `of`; left out: of is a scalar and the cotangent is 1).
// Errors go to the builder, as with any call; the values are then invalid.
std::vector<Value> gradients(Value of, std::span<const Value> wrt, Value cotangent = {});

// The graph with its outputs and `d_NAME` for each name in `wrt` (inputs or params; empty: all float leaves). `of` names an
// output (empty: the only scalar one); one that is no scalar gets a cotangent input `d_OF`.
Result<Graph> gradient_graph(const Graph& graph, std::string_view of, std::span<const std::string> wrt);

}  // namespace darner
