// SPDX-License-Identifier: MIT
// How much rounding can change what a graph computes: the graph in f64 with each inexact result moved, element by element, by
// about the error that its op may have, up or down. The spread of a few such runs bounds the error of f32 and half-precision
// arithmetic of the same formula, cancellation included, which no tolerance that looks at results alone can know.
#pragma once

#include "darner/graph/eval.h"

namespace darner {

// The error of each element that an op may have of its own on a device, its operands being exact: ULP of f32 for elementwise
// ops, one rounding of the sum of magnitudes for sums and products, and the rounding of a storage narrower than f32. Zeros
// for what only moves or chooses values, and for integers; for a kernel with an expansion what the rounding of its steps changes.
// `value` is the op's result.
Result<std::vector<double>> rounding_error(const Call& call, std::span<const Tensor* const> operands, const Tensor& value);

class RoundingModel {
public:
    static Result<RoundingModel> of(const Graph& graph);
    // The graph with its composites expanded: what node ids below refer to.
    const Graph& graph() const { return graph_; }
    // Values of all nodes, floats in f64. `seed` chooses the errors, `amplitude` multiplies them; 0 moves nothing.
    Result<std::vector<Tensor>> values(const NamedTensors& leaves, uint32_t seed, double amplitude) const;

    // By node: the largest change of each element of a float over a few seeds. Empty for integers.
    Result<std::vector<std::vector<double>>> spread(const NamedTensors& leaves, uint32_t seeds) const;

private:
    Graph graph_, wide_;
};

// By output: the largest change over a few seeds, for each element of the float outputs.
Result<NamedTensors> rounding_spread(const Graph& graph, const NamedTensors& leaves);

}  // namespace darner
