// SPDX-License-Identifier: MIT
// darner run: one run of a graph from a file on a device. Inputs, and params that have no `init`, come from .npy files or
// are filled; params with `init` are initialised by the device. Outputs go to .npy files or are summed up on stdout. New
// values of updated params are shown; the file and the given arrays are never changed.
#include "cli/command.h"
#include "cli/graph_file.h"
#include "cli/values.h"
#include "darner/base/files.h"
#include "darner/base/nearest.h"
#include "darner/runtime/session.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace darner::cli {
namespace {

struct RunOptions {
    std::string file, graph, fill, out_dir, device;
    std::vector<std::string> sets, dims;
    uint64_t seed = 0;
    bool json = false;
};

// An input or a param of the graph.
struct Leaf {
    std::string name;
    Type type;
    bool is_param = false;
    bool may_stay_unset = false;  // a param that the device initialises
};

struct Given {
    NamedArrays inputs, params;
    std::optional<Fill> fill;
    std::vector<Leaf> to_fill;
};

Result<std::pair<std::string, std::string>> split_pair(const std::string& option, const std::string& text, const char* form) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
        return invalid(fmt::format("[{}] expected {}, got \"{}\"", option, form, text));
    return std::pair{text.substr(0, at), text.substr(at + 1)};
}

Result<SymbolBindings> parse_dims(const std::vector<std::string>& dims) {
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

// A binding of a symbol that neither graph has is a slip.
Result<void> check_dims(const SymbolBindings& bindings, const Graph& graph, const Graph* init) {
    std::set<std::string> symbols;
    add_symbols(graph, symbols);
    if (init != nullptr) add_symbols(*init, symbols);
    for (const auto& [name, value] : bindings) {
        if (symbols.contains(name)) continue;
        const std::string known =
            symbols.empty() ? "all its dims are numbers" : fmt::format("it has {}", fmt::join(symbols, ", "));
        return with_hint(invalid(fmt::format("[--dim] the graph has no symbol \"{}\"", name)), known);
    }
    return {};
}

bool updates_param(const Graph& graph, std::string_view name) {
    return std::any_of(graph.updates.begin(), graph.updates.end(),
                       [&](const GraphUpdate& update) { return graph.params[graph.node(update.param).leaf].name == name; });
}

// `init` is the file's own graph of that name, if it has one: what it updates is initialised.
std::vector<Leaf> leaves_of(const Graph& graph, const Graph* init) {
    std::vector<Leaf> leaves;
    for (const GraphInput& input : graph.inputs) leaves.push_back({input.name, graph.type(input.node), false, false});
    for (const GraphParam& param : graph.params) {
        const bool is_seed = param.name == "seed" && param.role == Role::counter;  // written by compile()
        const bool has_init = param.init.valid() || (init != nullptr && updates_param(*init, param.name));
        leaves.push_back({param.name, graph.type(param.node), true, has_init || is_seed});
    }
    return leaves;
}

Result<std::map<std::string, std::string>> parse_sets(const std::vector<std::string>& sets, const std::vector<Leaf>& leaves) {
    std::map<std::string, std::string> files;
    std::vector<std::string> names;
    for (const Leaf& leaf : leaves) names.push_back(leaf.name);
    for (const std::string& text : sets) {
        TRY(auto pair, split_pair("--set", text, "NAME=FILE.npy"));
        if (std::find(names.begin(), names.end(), pair.first) == names.end()) {
            const std::string near = did_you_mean(pair.first, names);
            return with_hint(invalid(fmt::format("[--set] the graph has no input or param \"{}\"", pair.first)),
                             near.empty() ? fmt::format("it has {}", fmt::join(names, ", ")) : near);
        }
        if (!files.emplace(pair).second) return invalid(fmt::format("[--set] \"{}\" is given twice", pair.first));
    }
    return files;
}

Result<Given> gather_values(const RunOptions& options, const std::vector<Leaf>& leaves) {
    TRY(const auto files, parse_sets(options.sets, leaves));
    Given given;
    if (!options.fill.empty()) {
        TRY(given.fill, parse_fill(options.fill));
    }
    std::vector<std::string> unset;
    for (const Leaf& leaf : leaves) {
        NamedArrays& values = leaf.is_param ? given.params : given.inputs;
        if (const auto file = files.find(leaf.name); file != files.end()) {
            TRY(values[leaf.name], read_value(file->second, leaf.name, leaf.type));
        } else if (leaf.may_stay_unset) {
            continue;
        } else if (given.fill) {
            given.to_fill.push_back(leaf);
        } else {
            unset.push_back(fmt::format("{} ({} {})", leaf.name, leaf.is_param ? "param" : "input", to_string(leaf.type)));
        }
    }
    if (unset.empty()) return given;
    return with_hint(invalid(fmt::format("[run] {} {} not set: {}", unset.size(), unset.size() == 1 ? "value is" : "values are",
                                         fmt::join(unset, ", "))),
                     "set each with --set NAME=FILE.npy, or all the rest with --fill random:SEED");
}

// Values are made after the device has accepted the graph: one that is too large is refused before memory is spent on it.
Result<void> fill_values(Given& given) {
    for (const Leaf& leaf : given.to_fill) {
        NamedArrays& values = leaf.is_param ? given.params : given.inputs;
        TRY(values[leaf.name], fill(*given.fill, leaf.name, leaf.type));
    }
    return {};
}

// The graph with its init expressions moved into a graph `init`.
Result<Module> with_init(const Graph& graph, const Graph* init, const SymbolBindings& bindings) {
    Module module;
    if (init != nullptr) {
        TRY(Graph bound, bind_symbols(*init, bindings));
        module.graphs.push_back(std::move(bound));
    }
    module.graphs.push_back(graph);
    return extract_init(std::move(module));
}

struct Shown {
    std::string name, file;
    Array value;
    bool is_update = false;
};

Result<void> write_files(const std::string& folder, std::vector<Shown>& results) {
    TRY(make_folder(folder));
    for (Shown& shown : results) {
        if (shown.is_update) continue;
        shown.file = folder + "/" + file_name(shown.name);
        TRY(write_value(shown.file, shown.value));
    }
    return {};
}

Result<void> print_text(const std::string& graph, const DeviceInfo& device, const std::vector<Shown>& results) {
    size_t width = 0;
    for (const Shown& shown : results) width = std::max(width, printable(shown.name).size());
    fmt::print("{} on {} ({})\n", printable(graph), device.name, device.id);
    for (const Shown& shown : results) {
        TRY(const Summary summary, summarize(shown.value));
        fmt::print("{:<{}}  {}  {}{}{}\n", printable(shown.name), width, type_text(shown.value),
                   shown.is_update ? "becomes " : "", to_text(summary),
                   shown.file.empty() ? "" : "  -> " + printable(shown.file));
    }
    return {};
}

Result<void> print_json(const std::string& graph, const DeviceInfo& device, const std::vector<Shown>& results) {
    using Json = nlohmann::ordered_json;
    Json out{{"graph", graph}, {"device", device.id}, {"outputs", Json::array()}, {"updates", Json::array()}};
    for (const Shown& shown : results) {
        TRY(const Summary summary, summarize(shown.value));
        Json item{
            {"name", shown.name}, {"dtype", shown.value.dtype}, {"shape", shown.value.dims}, {"first", summary.first},
            {"min", summary.min}, {"max", summary.max},         {"mean", summary.mean},      {"not_finite", summary.not_finite}};
        if (!shown.file.empty()) item["file"] = shown.file;
        out[shown.is_update ? "updates" : "outputs"].push_back(std::move(item));
    }
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
}

Result<void> write_params(Session& session, const NamedArrays& params) {
    const std::vector<std::string> state = session.state();
    for (const auto& [name, value] : params)
        if (std::find(state.begin(), state.end(), name) != state.end()) TRY(session.write(name, value));  // else nothing reads it
    return {};
}

Result<std::vector<Shown>> run_once(Session& session, const Graph& graph, bool has_init, const Given& given) {
    TRY(write_params(session, given.params));
    if (has_init) {
        // An init expression may read a given param, and a given param may have an init expression: given values win.
        TRY(session.run("init"));
        TRY(write_params(session, given.params));
    }
    const std::vector<std::string> used = session.inputs(graph.name);
    NamedArrays inputs;
    for (const auto& [name, value] : given.inputs)
        if (std::find(used.begin(), used.end(), name) != used.end()) inputs.emplace(name, value);
    TRY(const NamedArrays outputs, session.run(graph.name, inputs));

    std::vector<Shown> results;
    for (const GraphOutput& output : graph.outputs) {
        const auto found = outputs.find(output.name);
        CHECK(found != outputs.end(), "the run gave no output " + output.name);
        results.push_back({output.name, "", found->second, false});
    }
    for (const GraphUpdate& update : graph.updates) {
        const std::string& name = graph.params[graph.node(update.param).leaf].name;
        TRY(Array value, session.read(name));
        results.push_back({name, "", std::move(value), true});
    }
    return results;
}

Result<void> run_graph(const RunOptions& options) {
    TRY(const Module module, read_module(options.file));
    TRY(const Graph picked, pick_graph(module, options.graph, options.file));
    TRY(const SymbolBindings bindings, parse_dims(options.dims));
    const Graph* init = picked.name == "init" ? nullptr : module.find("init");
    TRY(check_dims(bindings, picked, init));
    TRY(const Graph graph, bind_symbols(picked, bindings));
    TRY(Given given, gather_values(options, leaves_of(graph, init)));

    TRY(const Module compiled, with_init(graph, init, bindings));
    CompileOptions compile_options;
    compile_options.device = options.device;
    compile_options.seed = options.seed;
    compile_options.run_init = false;
    TRY(Session session, compile(compiled, compile_options));
    TRY(fill_values(given));
    TRY(std::vector<Shown> results, run_once(session, graph, graph.name != "init" && compiled.find("init") != nullptr, given));
    if (!options.out_dir.empty()) TRY(write_files(options.out_dir, results));
    return options.json ? print_json(graph.name, session.device(), results) : print_text(graph.name, session.device(), results);
}

}  // namespace

void add_run(CommandLine& line) {
    auto options = std::make_shared<RunOptions>();
    CLI::App& command = line.add(line.app, "run", "Run a graph from a file once and show or save its outputs",
                                 "darner run model.dg --set x=x.npy --fill random:1 --out-dir out\n"
                                 "darner run model.dg --fill ones --device interp");
    command.add_option("FILE", options->file, "Graph file (.dg)")->required()->type_name("");
    command.add_option("--graph", options->graph, "Which graph, where the file holds several")->type_name("NAME");
    command.add_option("--set", options->sets, "Value of an input or param; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=FILE.npy");
    command
        .add_option("--fill", options->fill,
                    "Values of all inputs, and params without init, that are not set: random:SEED (normal floats; 0 or 1 for "
                    "integers), zeros or ones")
        ->type_name("HOW");
    command.add_option("--dim", options->dims, "Value of a symbol in the dims; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=N");
    command.add_option("--seed", options->seed, "Seed of the graph's random ops and of init")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--out-dir", options->out_dir, "Write each output to DIR/NAME.npy; DIR is made if need be")
        ->type_name("DIR");
    add_device(command, options->device);
    add_json(command, options->json);
    line.on_run(command, [options] { return run_graph(*options); });
}

}  // namespace darner::cli
