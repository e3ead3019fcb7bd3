// SPDX-License-Identifier: MIT
// Every value of a graph as a device computes it: what find_nan() and diff() look at. The graph's ops become outputs of their
// own, so nodes that usually share a kernel may be cut apart.
#pragma once

#include "darner/graph/eval.h"
#include "darner/runtime/session.h"

namespace darner {

struct NodeValues {
    Graph graph;                 // expanded and cleaned up: whose nodes are meant
    std::vector<Tensor> values;  // by node, leaves and constants too
    DeviceInfo device;
};
// `leaves` holds all inputs and params by name; init expressions are not run.
Result<NodeValues> run_every_node(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options);

// The graph as it is: outputs, and new values of updated params.
struct StepValues {
    NamedTensors outputs, updates;
};
Result<StepValues> run_step(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options);

// The values of a tensor in short. Without elements or finite values `min` and `max` are NaN.
struct ValueRange {
    std::string what;  // "operand a: mul f32[3] (fc1 at model.cpp:12)"
    double min = 0, max = 0;
    int64_t count = 0, nans = 0, infinities = 0;
};
ValueRange value_range(std::string what, const Tensor& value);
std::vector<ValueRange> operand_ranges(const Graph& graph, NodeId node, const std::vector<Tensor>& values);
std::string to_text(const ValueRange& range);

}  // namespace darner
