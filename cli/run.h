// SPDX-License-Identifier: MIT
// What commands that run a graph from a file share: the options that give it values, and the graph loaded with its state at its
// start.
#pragma once

#include "cli/command.h"
#include "cli/run_values.h"
#include "darner/graph/eval.h"

namespace darner::cli {

// FILE, --graph, --set, --fill, --dim, --seed, --device, --json.
void add_run_options(CLI::App& command, RunOptions& options, const char* file_doc);

struct PreparedRun {
    Graph graph;  // its dims bound
    Session session;
    Given given;
};
Result<PreparedRun> prepare_run(const RunOptions& options, const Module& module);
// All inputs and params of the graph, as the device is about to read them.
Result<NamedTensors> leaf_values(PreparedRun& run);

// darner run --find-nan.
Result<void> find_nan_in(const RunOptions& options, const Module& module);

}  // namespace darner::cli
