// SPDX-License-Identifier: MIT
#include "cli/graph_file.h"

#include "cli/command.h"
#include "darner/base/bytes.h"
#include "darner/base/files.h"
#include "darner/base/nearest.h"
#include "darner/graph/text.h"
#include "darner/program/dp.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace darner::cli {

namespace {

constexpr uint64_t max_file_bytes = uint64_t{1} << 30;

// The names in a dim's text, a polynomial such as 2*n+1.
void add_symbols(const Dims& dims, std::set<std::string>& symbols) {
    for (const Dim& dim : dims) {
        if (dim.is_constant()) continue;
        const std::string text = dim.text();
        const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
        for (auto at = text.begin(); at != text.end();) {
            const auto begin = std::find_if(at, text.end(), in_word);
            at = std::find_if_not(begin, text.end(), in_word);
            if (begin != at && std::isdigit(static_cast<unsigned char>(*begin)) == 0) symbols.emplace(begin, at);
        }
    }
}

void add_symbols(const Graph& graph, std::set<std::string>& symbols) {
    for (const Node& node : graph.nodes) {
        add_symbols(node.type.dims, symbols);
        for (const AttrValue& attr : node.attrs)
            if (const Dims* dims = std::get_if<Dims>(&attr)) add_symbols(*dims, symbols);
    }
}

}  // namespace

Result<std::vector<std::byte>> read_input(const std::string& path) {
    return read_file(path == "-" ? "/dev/stdin" : path, default_max_file_bytes);
}

Result<Module> read_module(const std::string& path) {
    TRY(const std::vector<std::byte> contents, read_input(path));
    return parse_module_file(contents, path);
}

Result<Module> parse_module_file(std::span<const std::byte> contents, const std::string& path) {
    const std::string name = path == "-" ? "standard input" : path;
    if (is_dp(contents))
        return with_hint(invalid("this is a compiled program (.dp), expected graphs (.dg)", name), "darner run runs it");
    if (contents.size() > max_file_bytes)
        return limit_error(fmt::format("{} bytes of graphs, the limit is {}", contents.size(), max_file_bytes), name);
    return parse_module(text_of(contents), name);
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

Result<std::pair<std::string, std::string>> split_pair(const std::string& option, const std::string& text, const char* form) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
        return invalid(fmt::format("[{}] expected {}, got \"{}\"", option, form, text));
    return std::pair{text.substr(0, at), text.substr(at + 1)};
}

Result<SymbolBindings> parse_dim_options(const std::vector<std::string>& dims) {
    SymbolBindings bindings;
    for (const std::string& text : dims) {
        TRY(const auto pair, split_pair("--dim", text, "NAME=N"));
        const std::string& digits = pair.second;
        int64_t value = 0;
        const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (code != std::errc() || stop != digits.data() + digits.size() || value < 0)
            return invalid(fmt::format("[--dim] {} wants a whole number, got \"{}\"", pair.first, digits));
        if (!bindings.emplace(pair.first, value).second) return invalid(fmt::format("[--dim] {} is given twice", pair.first));
    }
    return bindings;
}

Result<void> check_dims(const SymbolBindings& bindings, std::span<const Graph* const> graphs) {
    std::set<std::string> symbols;
    for (const Graph* graph : graphs) add_symbols(*graph, symbols);
    for (const auto& [name, value] : bindings) {
        if (symbols.contains(name)) continue;
        const std::string known =
            symbols.empty() ? "all its dims are numbers" : fmt::format("it has {}", fmt::join(symbols, ", "));
        return with_hint(invalid(fmt::format("[--dim] the graph has no symbol \"{}\"", name)), known);
    }
    return {};
}

Result<Module> bind_module(const Module& module, const SymbolBindings& bindings) {
    std::vector<const Graph*> graphs;
    for (const Graph& graph : module.graphs) graphs.push_back(&graph);
    TRY(check_dims(bindings, graphs));
    Module bound;
    for (const Graph& graph : module.graphs) {
        TRY(Graph numbers, bind_symbols(graph, bindings));
        bound.graphs.push_back(std::move(numbers));
    }
    return bound;
}

}  // namespace darner::cli
