// SPDX-License-Identifier: MIT
// diff(): runs a graph on a device and holds each node to the f64 reference. A node is judged by itself: the reference computes
// it from the device's own operands, so the first one outside its bound is where the error starts, not where it shows. Then the
// graph as it is, with all that is fused and reused, is compared from end to end.
#pragma once

#include "darner/runtime/node_values.h"

namespace darner {

struct Difference {
    std::string what;     // "mul f32[64] (fc1 at model.cpp:12)", "output loss", "new value of w"
    int64_t element = 0;  // of those outside the one with the largest error in units of its bound
    double got = 0, want = 0, bound = 0;
    int64_t outside = 0, count = 0;    // elements
    std::vector<ValueRange> operands;  // of a node
};

struct DiffReport {
    DeviceInfo device;
    size_t nodes = 0;                 // compared
    double worst_ratio = 0;           // the largest error of a node that has a bound, in units of it
    std::vector<Difference> outside;  // nodes in the order of the graph
    std::vector<Difference> results;  // outputs and updates of the graph as it is
    bool ok() const { return outside.empty() && results.empty(); }
};
// As run_every_node().
Result<DiffReport> diff(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options);

}  // namespace darner
