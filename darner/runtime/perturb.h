// SPDX-License-Identifier: MIT
// How much rounding can change what a graph computes: the graph in f64 with the result of each inexact op multiplied by 1 plus
// or minus the op's own error bound. The spread of a few such graphs bounds the error that f32 arithmetic of the same formula
// has, cancellation included, which no tolerance that looks at results alone can know.
#pragma once

#include "darner/graph/eval.h"

namespace darner {

// All floats become f64, composites are expanded. `seed` chooses the signs; 0 changes nothing.
Result<Graph> perturbed(const Graph& graph, uint32_t seed);

// By output: the largest change over a few seeds, for each element of the float outputs.
Result<NamedTensors> rounding_spread(const Graph& graph, const NamedTensors& leaves);

}  // namespace darner
