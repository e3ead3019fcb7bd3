// SPDX-License-Identifier: MIT
// The verifier reads a graph as if it came from anywhere: a node is looked into only after its indices have been checked.
#include "darner/graph/verify.h"

#include "darner/graph/attr.h"

#include "darner/base/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace darner {

namespace {

class Verifier {
public:
    explicit Verifier(const Graph& graph) : graph_(graph) {}

    Result<void> run() {
        if (graph_.names.size() != graph_.nodes.size())
            return invalid(
                fmt::format("[verify] graph {}: {} names for {} nodes", graph_.name, graph_.names.size(), graph_.nodes.size()));
        for (size_t i = 0; i < graph_.nodes.size(); ++i) check_node(NodeId(i));
        check_leaves();
        check_results();
        if (violations_.empty()) return {};
        return invalid(fmt::format("[verify] graph {}: {}", graph_.name, violations_.text()));
    }

private:
    template <class... Args>
    void report(fmt::format_string<Args...> format, Args&&... args) {
        violations_.add(fmt::format(format, std::forward<Args>(args)...));
        ++count_;
    }
    bool exists(NodeId id) const { return id.valid() && id.value < graph_.nodes.size(); }

    void check_node(NodeId id) {
        const Node& node = graph_.node(id);
        if (node.provenance >= graph_.provenances.size()) return report("node {}: no provenance {}", id.value, node.provenance);
        if (Result<void> checked = check_type(node.type); !checked) report("node {}: {}", id.value, checked.error().message);
        const auto leaf_is = [&](const auto& table) {
            if (node.leaf >= table.size() || table[node.leaf].node != id)
                report("node {}: not in the table of its kind", id.value);
        };
        switch (node.kind) {
            case NodeKind::input: return leaf_is(graph_.inputs);
            case NodeKind::param: return leaf_is(graph_.params);
            case NodeKind::constant: return check_constant(id, node);
            case NodeKind::op: return check_op(id, node);
        }
    }

    void check_constant(NodeId id, const Node& node) {
        if (node.leaf >= graph_.constants.size() || !graph_.constants[node.leaf])
            return report("node {}: no constant {}", id.value, node.leaf);
        const Tensor& value = graph_.constant(node);
        const size_t other = is_float(value.dtype) ? value.integer.size() : value.real.size();
        if (value.dtype != node.type.dtype || other != 0)
            return report("{}: its values are {}", graph_.describe(id), to_string(value.dtype));
        if (value.count() != 1 && (!node.type.is_concrete() || value.count() != node.type.count()))
            report("{}: it has {} values", graph_.describe(id), value.count());
    }

    void check_op(NodeId id, const Node& node) {
        if (!node.op) return report("node {}: no op", id.value);
        const OpDef& op = *node.op;
        const size_t before = count_;
        const bool variadic = !op.operands.empty() && op.operands.back().variadic;
        if (node.operands.size() < op.operands.size() || (node.operands.size() > op.operands.size() && !variadic))
            return report("node {} ({}): got {} operands, expected {}", id.value, op.name, node.operands.size(),
                          op.operands.size());
        for (size_t i = 0; i < node.operands.size(); ++i) {
            const OperandDef& def = op.operands[std::min(i, op.operands.size() - 1)];
            const NodeId operand = node.operands[i];
            if (!operand.valid() && !def.optional)
                report("node {} ({}): the operand \"{}\" is missing", id.value, op.name, def.name);
            if (operand.valid() && operand.value >= id.value)
                report("node {} ({}): the operand \"{}\" is node {}, which does not come before it", id.value, op.name, def.name,
                       operand.value);
        }
        if (node.attrs.size() != op.attrs.size())
            return report("node {} ({}): got {} attributes, expected {}", id.value, op.name, node.attrs.size(), op.attrs.size());
        for (size_t i = 0; i < node.attrs.size(); ++i)
            if (!fits(op.attrs[i], node.attrs[i]))
                report("node {} ({}): wrong value of \"{}\": got {}, expected {}", id.value, op.name, op.attrs[i].name,
                       to_text(node.attrs[i]), expected_text(op.attrs[i]));
        if (count_ == before) check_inference(id, node);
    }

    void check_inference(NodeId id, const Node& node) {
        const NodeCall call(graph_, id);
        Result<Type> inferred = node.op->infer(*call);
        if (!inferred) return report("node {}: {}", id.value, inferred.error().message);
        if (*inferred != node.type) report("{}: wrong type: inference gives {}", graph_.describe(id), to_string(*inferred));
    }

    void check_leaves() {
        std::unordered_set<std::string> names;
        const auto check = [&](const std::string& name, NodeId node, NodeKind kind, size_t index) {
            if (name.empty()) report("a leaf without a name");
            if (!names.insert(name).second) report("two leaves are called \"{}\"", name);
            if (!exists(node) || graph_.node(node).kind != kind || graph_.node(node).leaf != index)
                report("the leaf \"{}\" has no node of its own", name);
        };
        for (size_t i = 0; i < graph_.inputs.size(); ++i) check(graph_.inputs[i].name, graph_.inputs[i].node, NodeKind::input, i);
        for (size_t i = 0; i < graph_.params.size(); ++i) {
            const GraphParam& param = graph_.params[i];
            check(param.name, param.node, NodeKind::param, i);
            if (!param.init.valid() || !exists(param.node)) continue;
            // The order keeps init expressions free of cycles.
            if (!exists(param.init) || param.init.value >= param.node.value) {
                report("the init of \"{}\" does not come before it", param.name);
            } else if (graph_.type(param.init) != graph_.type(param.node)) {
                report("the init of \"{}\" is {} but the param {}", param.name, to_string(graph_.type(param.init)),
                       to_string(graph_.type(param.node)));
            }
        }
    }

    void check_results() {
        if (graph_.outputs.empty() && graph_.updates.empty()) report("there is neither an output nor an update");
        std::unordered_set<std::string> names;
        for (const GraphOutput& output : graph_.outputs) {
            if (output.name.empty()) report("an output without a name");
            if (!names.insert(output.name).second) report("two outputs are called \"{}\"", output.name);
            if (!exists(output.node)) report("the output \"{}\" has no node", output.name);
        }
        std::unordered_set<uint32_t> updated;
        for (const GraphUpdate& update : graph_.updates) {
            if (!exists(update.param) || graph_.node(update.param).kind != NodeKind::param || !exists(update.value)) {
                report("an update needs a param and a value");
                continue;
            }
            const Node& param = graph_.node(update.param);
            const std::string name = param.leaf < graph_.params.size() ? graph_.params[param.leaf].name : "?";
            if (!updated.insert(update.param.value).second) report("\"{}\" is updated twice", name);
            if (param.type != graph_.type(update.value))
                report("the new value of \"{}\" is {} but the param {}", name, to_string(graph_.type(update.value)),
                       to_string(param.type));
        }
    }

    const Graph& graph_;
    Reasons violations_;
    size_t count_ = 0;
};

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph).run(); }

Result<void> verify(const Module& module) {
    Reasons violations;
    std::unordered_set<std::string> graph_names;
    struct First {
        const Graph* graph;
        const GraphParam* param;
    };
    std::unordered_map<std::string, First> params;
    for (const Graph& graph : module.graphs) {
        if (!graph_names.insert(graph.name).second) violations.add(fmt::format("two graphs are called \"{}\"", graph.name));
        if (Result<void> checked = verify(graph); !checked) {
            violations.add(checked.error().message);
            continue;
        }
        for (const GraphParam& param : graph.params) {
            const auto [entry, is_new] = params.try_emplace(param.name, First{&graph, &param});
            if (is_new) continue;
            const auto& [other_graph, other] = entry->second;
            const Type &a = other_graph->type(other->node), &b = graph.type(param.node);
            if (a != b)
                violations.add(fmt::format("the param \"{}\" is {} in graph {} but {} in graph {}", param.name, to_string(a),
                                           other_graph->name, to_string(b), graph.name));
        }
    }
    for (const Graph& graph : module.graphs)
        for (const GraphInput& input : graph.inputs)
            if (const auto param = params.find(input.name); param != params.end() && param->second.graph != &graph)
                violations.add(fmt::format("\"{}\" is an input of graph {} but a param of graph {}", input.name, graph.name,
                                           param->second.graph->name));
    if (violations.empty()) return {};
    return invalid("[verify] " + violations.text());
}

}  // namespace darner
