// SPDX-License-Identifier: MIT
// From a loss to a module that trains: forward, gradients, optimizer and step counter are one graph.
#pragma once

#include "darner/nn/optimizers.h"

#include <string>
#include <utility>
#include <vector>

namespace darner {

struct TrainingOptions {
    std::string graph = "step";
    std::vector<std::pair<std::string, Value>> outputs = {};  // besides `loss` and those of the builder
};

// The graph of one step over the trainable params of the loss's builder: output `loss`, updates of the params, the moments
// and `step`. Spends the builder. The error is the first of the builder's.
Result<Graph> training_graph(Value loss, const Optimizer& optimizer, const TrainingOptions& options = {},
                             Where where = Where::here());

// Graphs of different names as a module; init expressions go into its graph `init`.
Result<Module> make_module(std::vector<Graph> graphs);

// training_graph() as a module.
Result<Module> training_step(Value loss, const Optimizer& optimizer, const TrainingOptions& options = {},
                             Where where = Where::here());

}  // namespace darner
