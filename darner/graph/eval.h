// SPDX-License-Identifier: MIT
// The reference evaluator: the oracle that every device is compared with. Floating point in double, integers exactly with
// wrap-around, `cast` rounds to its target and nothing else does. Obvious, not fast.
#pragma once

#include "darner/graph/graph.h"

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
// Values of all nodes, for tests that look inside (index: node id).
Result<std::vector<Tensor>> eval_nodes(const Graph& graph, const NamedTensors& leaves);

}  // namespace darner
