// SPDX-License-Identifier: MIT
// Graphs from .dg files, as the commands take them: FILE or - for standard input, --graph where a file holds several, and
// --dim for the symbols in their dims.
#pragma once

#include "darner/graph/graph.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace darner::cli {

// All of the file, or of standard input for "-".
Result<std::vector<std::byte>> read_input(const std::string& path);
// A program file in place of graphs is told as such.
Result<Module> read_module(const std::string& path);
Result<Module> parse_module_file(std::span<const std::byte> contents, const std::string& path);

// The graph of that name; with an empty name the file's only graph (an `init` graph beside it does not count).
Result<Graph> pick_graph(const Module& module, const std::string& name, const std::string& path);

// "NAME=VALUE", each part at least a character; `form` says in the error what the option wants.
Result<std::pair<std::string, std::string>> split_pair(const std::string& option, const std::string& text, const char* form);

// NAME=N of each --dim.
Result<SymbolBindings> parse_dim_options(const std::vector<std::string>& dims);
// A binding of a symbol that none of the graphs has is a slip.
Result<void> check_dims(const SymbolBindings& bindings, std::span<const Graph* const> graphs);
// All graphs of the module, bound. What stays unbound is an error of who needs numbers.
Result<Module> bind_module(const Module& module, const SymbolBindings& bindings);

}  // namespace darner::cli
