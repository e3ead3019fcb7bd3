// SPDX-License-Identifier: MIT
// The training step.
#include "darner/nn/training.h"

#include "darner/graph/verify.h"
#include "darner/ops/ops.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace darner {
namespace {

std::vector<TrainedParam> trainable_params(Builder& b) {
    std::vector<TrainedParam> params;
    for (const GraphParam& param : b.graph().params)
        if (param.trainable && is_float(b.graph().type(param.node).dtype)) params.push_back({param.name, {&b, param.node}, {}});
    return params;
}

bool is_updated(const Graph& graph, NodeId param) {
    return std::any_of(graph.updates.begin(), graph.updates.end(), [&](const GraphUpdate& u) { return u.param == param; });
}

void add_output(Builder& b, const std::string& name, Value value, Where where) {
    const GraphOutput* there = b.graph().find_output(name);
    if (there == nullptr || there->node != value.id) b.output(name, value, where);
}

}  // namespace

Result<Graph> training_graph(Value loss, const Optimizer& optimizer, const TrainingOptions& options, Where where) {
    if (loss.builder == nullptr) return invalid("[training] the loss is missing");
    Builder& b = *loss.builder;
    if (b.failed()) return b.error();
    if (loss.rank() != 0 || !is_float(loss.dtype()))
        return invalid(fmt::format("[training] the loss must be one float: got {}", b.graph().describe(loss.id)));
    std::vector<TrainedParam> params = trainable_params(b);
    if (params.empty()) return invalid("[training] there is no trainable float param");

    std::vector<Value> values;
    for (const TrainedParam& param : params) values.push_back(param.param);
    const std::vector<Value> found = gradients(loss, values);
    // In memory of their own, gradients can lie side by side, and the optimizer runs once over many.
    for (size_t i = 0; i < params.size(); ++i) params[i].gradient = materialize(found[i], where);
    const Value step = b.step();
    for (const StateUpdate& update : optimizer.updates(b, params, step)) b.update(update.param, update.value, where);
    if (step.valid() && !is_updated(b.graph(), step.id)) b.update(step, ValueAt(step, where) + 1.0, where);

    add_output(b, "loss", loss, where);
    for (const auto& [name, value] : options.outputs) add_output(b, name, value, where);
    TRY(Graph graph, b.finish());
    graph.name = options.graph;
    return graph;
}

Result<Module> make_module(std::vector<Graph> graphs) {
    std::set<std::string> names;
    for (const Graph& graph : graphs)
        if (!names.insert(graph.name).second) return invalid(fmt::format("[module] two graphs are named {}", graph.name));
    Module module;
    module.graphs = std::move(graphs);
    TRY(Module with_init, extract_init(std::move(module)));
    TRY(verify(with_init));
    return with_init;
}

Result<Module> training_step(Value loss, const Optimizer& optimizer, const TrainingOptions& options, Where where) {
    TRY(Graph graph, training_graph(loss, optimizer, options, where));
    std::vector<Graph> graphs;
    graphs.push_back(std::move(graph));
    return make_module(std::move(graphs));
}

}  // namespace darner
