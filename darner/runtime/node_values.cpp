// SPDX-License-Identifier: MIT
#include "darner/runtime/node_values.h"

#include "darner/graph/builder.h"
#include "darner/runtime/devices.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace darner {
namespace {

std::string output_name(size_t node) { return fmt::format("node {}", node); }

Array to_array(const Tensor& t) { return {to_string(t.dtype), t.dims, t.bytes()}; }

Result<Tensor> to_tensor(const Array& array) {
    const std::optional<DType> dtype = parse_dtype(array.dtype);
    CHECK(dtype.has_value(), "an array of dtype " + array.dtype);
    return Tensor::from_bytes(*dtype, array.dims, array.data);
}

Result<const Tensor*> find_leaf(const NamedTensors& leaves, const std::string& name) {
    const auto found = leaves.find(name);
    if (found == leaves.end()) return invalid(fmt::format("there is no value for {}", name));
    return &found->second;
}

// The same graph with an output a node and nothing else.
Result<Graph> with_every_output(const Graph& graph) {
    Builder b(graph.name);
    const Builder::Place place = b.place({});
    GraphCopier copier(graph, b);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        copier.copy(NodeId(i));
        if (graph.nodes[i].kind == NodeKind::op) b.output(output_name(i), copier[NodeId(i)]);
    }
    return b.finish();
}

struct Ran {
    Session session;
    NamedArrays outputs;
};

Result<Ran> run_once(const Graph& graph, const NamedTensors& leaves, CompileOptions options) {
    options.run_init = false;
    Module module;
    module.graphs.push_back(graph);
    for (GraphParam& param : module.graphs[0].params) param.init = {};
    TRY(Session session, compile(module, options));
    const std::vector<std::string> state = session.state();
    for (const GraphParam& param : graph.params) {
        if (std::find(state.begin(), state.end(), param.name) == state.end()) continue;  // nothing reads it
        TRY(const Tensor* value, find_leaf(leaves, param.name));
        TRY(session.write(param.name, to_array(*value)));
    }
    NamedArrays inputs;
    for (const std::string& name : session.inputs(graph.name)) {
        TRY(const Tensor* value, find_leaf(leaves, name));
        inputs.emplace(name, to_array(*value));
    }
    TRY(NamedArrays outputs, session.run(graph.name, inputs));
    return Ran{std::move(session), std::move(outputs)};
}

// Each op's value; a graph of leaves alone runs nothing.
Result<DeviceInfo> run_ops(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options, NamedArrays& outputs) {
    const auto is_op = [](const Node& node) { return node.kind == NodeKind::op; };
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_op)) {
        TRY(const Graph open, with_every_output(graph));
        TRY(Ran ran, run_once(open, leaves, options));
        outputs = std::move(ran.outputs);
        return ran.session.device();
    }
    if (options.open != nullptr) return options.open->info();
    TRY(const std::unique_ptr<Device> device, open_device(options.device));
    return device->info();
}

}  // namespace

Result<NodeValues> run_every_node(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options) {
    NodeValues result;
    Graph bare = graph;
    for (GraphParam& param : bare.params) param.init = {};
    TRY(const Graph expanded, expand(bare));
    TRY(result.graph, cleanup(expanded));
    NamedArrays outputs;
    TRY(result.device, run_ops(result.graph, leaves, options, outputs));
    // The evaluator gives leaves and constants; each op's value is the device's.
    const OnValue take = [&](NodeId id, std::span<const Tensor* const>, Tensor& value) -> Result<void> {
        const auto found = outputs.find(output_name(id.value));
        CHECK(found != outputs.end(), "the run gave no value of " + result.graph.describe(id));
        TRY(value, to_tensor(found->second));
        return {};
    };
    TRY(result.values, eval_nodes(result.graph, leaves, take));
    return result;
}

Result<StepValues> run_step(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options) {
    TRY(Ran ran, run_once(graph, leaves, options));
    StepValues result;
    for (const auto& [name, array] : ran.outputs) {
        TRY(result.outputs[name], to_tensor(array));
    }
    for (const GraphUpdate& update : graph.updates) {
        const std::string& name = graph.params[graph.node(update.param).leaf].name;
        TRY(const Array array, ran.session.read(name));
        TRY(result.updates[name], to_tensor(array));
    }
    return result;
}

ValueRange value_range(std::string what, const Tensor& value) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    ValueRange range{std::move(what), none, none, value.count()};
    for (int64_t i = 0; i < value.count(); ++i) {
        const double v = value.at(i);
        if (std::isnan(v)) ++range.nans;
        if (std::isinf(v)) ++range.infinities;
        if (!std::isfinite(v)) continue;
        range.min = std::isnan(range.min) ? v : std::min(range.min, v);
        range.max = std::isnan(range.max) ? v : std::max(range.max, v);
    }
    return range;
}

std::vector<ValueRange> operand_ranges(const Graph& graph, NodeId node, const std::vector<Tensor>& values) {
    std::vector<ValueRange> ranges;
    const Node& n = graph.node(node);
    for (size_t i = 0; i < n.operands.size(); ++i) {
        if (!n.operands[i].valid()) continue;
        const OperandDef& def = n.op->operands[std::min(i, n.op->operands.size() - 1)];
        ranges.push_back(
            value_range(fmt::format("{}: {}", def.name, graph.describe(n.operands[i])), values[n.operands[i].value]));
    }
    return ranges;
}

std::string to_text(const ValueRange& range) {
    std::string text = range.what;
    if (range.count == 0) return text + ", no elements";
    text += std::isnan(range.min) ? ", none finite" : fmt::format(", {:.9g} to {:.9g}", range.min, range.max);
    if (range.nans > 0) text += fmt::format(", {} NaN", range.nans);
    if (range.infinities > 0) text += fmt::format(", {} infinite", range.infinities);
    return text;
}

}  // namespace darner
