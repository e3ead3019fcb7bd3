// SPDX-License-Identifier: MIT
// darner grad: prints the graph of a file's outputs and gradients as text that the other commands read again.
#include "cli/command.h"
#include "cli/graph_file.h"
#include "darner/graph/text.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

struct GradOptions {
    std::string file, graph, of;
    std::vector<std::string> wrt;
    bool json = false;
};

Result<void> run_grad(const GradOptions& options) {
    TRY(const Module module, read_module(options.file));
    TRY(const Graph graph, pick_graph(module, options.graph, options.file));
    TRY(const Graph raw, gradient_graph(graph, options.of, options.wrt));
    TRY(const Graph gradients, cleanup(raw));
    const std::string text = to_text(gradients);
    if (!options.json) {
        fmt::print("{}", text);
        return {};
    }
    nlohmann::ordered_json out{{"graph", gradients.name}, {"outputs", nlohmann::ordered_json::array()}};
    for (const GraphOutput& output : gradients.outputs)
        out["outputs"].push_back({{"name", output.name}, {"type", to_string(gradients.type(output.node))}});
    out["text"] = text;
    fmt::print("{}\n", out.dump());
    return {};
}

}  // namespace

void add_grad(CommandLine& line) {
    auto options = std::make_shared<GradOptions>();
    CLI::App& command =
        line.add(line.app, "grad", "Print the graph of a file's outputs and their gradients (d_A is the gradient of A)",
                 "darner grad model.dg --of loss --wrt w,b\ndarner grad model.dg > model_grad.dg");
    command.add_option("FILE", options->file, "Graph file (.dg)")->required()->type_name("");
    command.add_option("--graph", options->graph, "Which graph, where the file holds several")->type_name("NAME");
    command
        .add_option(
            "--of", options->of,
            "Output to differentiate; the only scalar output if left out. One that is no scalar gets a cotangent input d_NAME")
        ->type_name("NAME");
    command.add_option("--wrt", options->wrt, "Inputs and params to differentiate by; all that are floating point if left out")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("A,B");
    add_json(command, options->json);
    line.on_run(command, [options] { return run_grad(*options); });
}

}  // namespace darner::cli
