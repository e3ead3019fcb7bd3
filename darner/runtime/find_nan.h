// SPDX-License-Identifier: MIT
// find_nan(): reruns a step on a device with every node's value kept, and names the first that is not finite: the node where a
// NaN or an infinity comes into being, its place in the user's program and the ranges of what it was computed from.
#pragma once

#include "darner/runtime/node_values.h"

#include <optional>

namespace darner {

struct NotFinite {
    std::string what;                  // "log f32[64] (loss at model.cpp:12)"
    int64_t element = 0;               // the first
    double value = 0;                  // of it
    ValueRange range;                  // of the node's value
    std::vector<ValueRange> operands;  // none of a leaf
};

struct FindNanReport {
    DeviceInfo device;
    size_t nodes = 0;                // looked at, leaves included
    std::optional<NotFinite> first;  // in the order of the graph
};
// As run_every_node().
Result<FindNanReport> find_nan(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options);

}  // namespace darner
