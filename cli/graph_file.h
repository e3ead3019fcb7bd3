// SPDX-License-Identifier: MIT
// Graphs from .dg files, as the commands take them: FILE, and --graph where a file holds several.
#pragma once

#include "darner/graph/graph.h"

#include <string>

namespace darner::cli {

Result<Module> read_module(const std::string& path);

// The graph of that name; with an empty name the file's only graph (an `init` graph beside it does not count).
Result<Graph> pick_graph(const Module& module, const std::string& name, const std::string& path);

}  // namespace darner::cli
