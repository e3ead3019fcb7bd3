// SPDX-License-Identifier: MIT
#include "cli/graph_file.h"

#include "darner/base/files.h"
#include "darner/base/nearest.h"
#include "darner/graph/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace darner::cli {

Result<Module> read_module(const std::string& path) {
    constexpr uint64_t max_bytes = uint64_t{1} << 30;
    TRY(const std::string text, read_text_file(path, max_bytes));
    return parse_module(text, path);
}

Result<Graph> pick_graph(const Module& module, const std::string& name, const std::string& path) {
    std::vector<std::string> names;
    const Graph* only = nullptr;
    size_t candidates = 0;
    for (const Graph& graph : module.graphs) {
        names.push_back(graph.name);
        if (graph.name == "init" && module.graphs.size() > 1) continue;
        only = &graph;
        ++candidates;
    }
    if (names.empty()) return invalid("there is no graph in the file", path);
    if (name.empty() && candidates == 1) return *only;
    if (name.empty()) {
        Error error = invalid(fmt::format("the file holds {} graphs: {}", names.size(), fmt::join(names, ", ")), path);
        error.hint = "name one with --graph NAME";
        return error;
    }
    if (const Graph* found = module.find(name)) return *found;
    Error error = invalid(fmt::format("there is no graph \"{}\"; the file holds {}", name, fmt::join(names, ", ")), path);
    error.hint = did_you_mean(name, names);
    return error;
}

}  // namespace darner::cli
