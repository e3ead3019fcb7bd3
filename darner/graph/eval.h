// SPDX-License-Identifier: MIT
// The reference evaluator: the oracle that every device is compared with. Floating point in double, integers exactly with
// wrap-around, `cast` rounds to its target and nothing else does. Obvious, not fast.
#pragma once

#include "darner/graph/graph.h"

#include <functional>
#include <map>
#include <string>

namespace darner {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

struct EvalResult {
    NamedTensors outputs;
    NamedTensors updates;  // new value by param name
};

// `leaves` gives inputs and params by name; a missing or mistyped one is an error that lists them all.
Result<EvalResult> eval(const Graph& graph, const NamedTensors& leaves);
// Sees each op's value when it is computed and may change it before other nodes read it.
using OnValue = std::function<Result<void>(NodeId, std::span<const Tensor* const> operands, Tensor& value)>;
// Values of all nodes, for what looks inside (index: node id).
Result<std::vector<Tensor>> eval_nodes(const Graph& graph, const NamedTensors& leaves, const OnValue& on_value = {});
// One application of an op; a null pointer for an operand left out.
Result<Tensor> eval_call(const Call& call, std::span<const Tensor* const> operands);

}  // namespace darner
