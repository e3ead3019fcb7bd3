// SPDX-License-Identifier: MIT
// darner run: one run on a device of a graph from a file, or of a compiled program (run_program.cpp). Inputs, and params that
// have no `init`, come from .npy files or are filled; params with `init` are initialised by the device. Outputs go to .npy files
// or are summed up on stdout. New values of updated params are shown; the file and the given arrays are never changed.
#include "cli/run.h"
#include "cli/command.h"
#include "cli/graph_file.h"
#include "darner/base/bytes.h"
#include "darner/program/dp.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>
#include <algorithm>

namespace darner::cli {
namespace {

bool updates_param(const Graph& graph, std::string_view name) {
    return std::any_of(graph.updates.begin(), graph.updates.end(),
                       [&](const GraphUpdate& update) { return graph.params[graph.node(update.param).leaf].name == name; });
}

// `init` is the file's own graph of that name, if it has one: what it updates is initialised.
std::vector<Leaf> leaves_of(const Graph& graph, const Graph* init) {
    std::vector<Leaf> leaves;
    for (const GraphInput& input : graph.inputs) leaves.push_back({input.name, graph.type(input.node), false, false});
    for (const GraphParam& param : graph.params) {
        const bool is_seed = param.name == "seed" && graph.type(param.node) == Type{DType::u32, {2}};  // written by compile()
        const bool has_init = param.init.valid() || (init != nullptr && updates_param(*init, param.name));
        leaves.push_back({param.name, graph.type(param.node), true, has_init || is_seed});
    }
    return leaves;
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

Result<std::vector<Shown>> run_once(Session& session, const Graph& graph, const Given& given) {
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

Result<void> run_graph(const RunOptions& options, const Module& module) {
    TRY(PreparedRun run, prepare_run(options, module));
    TRY(std::vector<Shown> results, run_once(run.session, run.graph, run.given));
    return show_results(options, run.graph.name, run.session.device(), std::move(results));
}

Result<void> run_file(const RunOptions& options) {
    TRY(const std::vector<std::byte> contents, read_input(options.file));
    if (is_dp(contents) && options.find_nan)
        return with_hint(invalid("[run] --find-nan looks at the nodes of a graph, and the file is a compiled program"),
                         "give the graph file (.dg) that it was compiled from");
    if (is_dp(contents)) return run_program(options, contents);
    TRY(const Module module, parse_module_file(contents, options.file));
    return options.find_nan ? find_nan_in(options, module) : run_graph(options, module);
}

}  // namespace

Result<PreparedRun> prepare_run(const RunOptions& options, const Module& module) {
    TRY(const Graph picked, pick_graph(module, options.graph, options.file));
    TRY(const SymbolBindings bindings, parse_dim_options(options.dims));
    const Graph* init = picked.name == "init" ? nullptr : module.find("init");
    const Graph* const graphs[] = {&picked, init};
    TRY(check_dims(bindings, std::span(graphs).first(init == nullptr ? 1 : 2)));
    TRY(Graph graph, bind_symbols(picked, bindings));
    TRY(Given given, gather_values(options, leaves_of(graph, init)));

    TRY(const Module compiled, with_init(graph, init, bindings));
    TRY(Session session, compile(compiled, {.device = options.device, .run_init = false, .seed = options.seed.value_or(0)}));
    TRY(fill_values(given));
    TRY(set_state(session, options, given, graph.name != "init" && compiled.find("init") != nullptr));
    return PreparedRun{std::move(graph), std::move(session), std::move(given)};
}

Result<NamedTensors> leaf_values(PreparedRun& run) {
    NamedTensors leaves;
    const auto add = [&](const std::string& name, const Array& value) -> Result<void> {
        const std::optional<DType> dtype = parse_dtype(value.dtype);
        CHECK(dtype.has_value(), "an array of dtype " + value.dtype);
        TRY(leaves[name], Tensor::from_bytes(*dtype, value.dims, value.data));
        return {};
    };
    for (const NamedArrays* values : {&run.given.inputs, &run.given.params})
        for (const auto& [name, value] : *values) TRY(add(name, value));
    for (const std::string& name : run.session.state()) {
        if (run.graph.find_param(name) == nullptr) continue;
        TRY(const Array value, run.session.read(name));
        TRY(add(name, value));
    }
    // What nothing reads has no place on the device; its value does not matter.
    for (const GraphParam& param : run.graph.params)
        if (const Type& type = run.graph.type(param.node); !leaves.contains(param.name))
            leaves[param.name] = Tensor::zeros(type.dtype, type.shape());
    return leaves;
}

void add_run_options(CLI::App& command, RunOptions& options, const char* file_doc) {
    command.add_option("FILE", options.file, file_doc)->required()->type_name("");
    command.add_option("--graph", options.graph, "Which graph, where the file holds several")->type_name("NAME");
    command.add_option("--set", options.sets, "Value of an input or param; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=FILE.npy");
    command
        .add_option("--fill", options.fill,
                    "Values of all inputs, and params without init, that are not set: random:SEED (normal floats; 0 or 1 for "
                    "integers), zeros or ones")
        ->type_name("HOW");
    command.add_option("--dim", options.dims, "Value of a symbol in the dims; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=N");
    command.add_option("--seed", options.seed, "Seed of random ops and of init; 0, or what the graph's init says, if left out")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N");
    add_device(command, options.device);
    add_json(command, options.json);
}

void add_run(CommandLine& line) {
    auto options = std::make_shared<RunOptions>();
    CLI::App& command = line.add(line.app, "run", "Run a graph or a compiled program once and show or save its outputs",
                                 "darner run model.dg --set x=x.npy --fill random:1 --out-dir out\n"
                                 "darner run model.dg --fill ones --find-nan\n"
                                 "darner run model.dp --graph step --fill random:1");
    add_run_options(command, *options, "Graph file (.dg) or compiled program (.dp); - is standard input");
    command.add_option("--out-dir", options->out_dir, "Write each output to DIR/NAME.npy; DIR is made if need be")
        ->type_name("DIR");
    command.add_flag("--find-nan", options->find_nan,
                     "Run node by node instead and name the first whose value is not finite, with what it was computed from");
    line.on_run(command, [options] { return run_file(*options); });
}

}  // namespace darner::cli
