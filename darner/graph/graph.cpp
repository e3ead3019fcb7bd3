// SPDX-License-Identifier: MIT
// Look-ups in graphs and the lines that messages show for nodes.
#include "darner/graph/graph.h"

#include <fmt/format.h>

namespace darner {

std::string Provenance::text() const {
    if (file.empty()) return scope;
    const std::string_view path = file;
    const std::string place = fmt::format("{}:{}", path.substr(path.find_last_of("/\\") + 1), line);
    return scope.empty() ? place : fmt::format("{} at {}", scope, place);
}

bool is_composite(const Node& node) {
    if (node.kind != NodeKind::op) return false;
    const auto* contract = std::get_if<ContractLower>(&node.op->lower);
    if (contract == nullptr) return node.op->is_composite();
    for (size_t i = 0; i < node.operands.size(); ++i)
        if (node.operands[i].valid() && i != contract->a && i != contract->b) return true;
    return false;
}

const char* to_string(Role role) {
    switch (role) {
        case Role::param: return "param";
        case Role::moment: return "moment";
        case Role::statistic: return "statistic";
        case Role::counter: return "counter";
        case Role::data: return "data";
    }
    return "?";
}

std::optional<Role> parse_role(std::string_view text) {
    for (Role role : {Role::param, Role::moment, Role::statistic, Role::counter, Role::data})
        if (text == to_string(role)) return role;
    return std::nullopt;
}

bool Graph::is_splat(const Node& node) const { return node.kind == NodeKind::constant && constant(node).count() == 1; }

const GraphParam* Graph::find_param(std::string_view wanted) const {
    for (const GraphParam& param : params)
        if (param.name == wanted) return &param;
    return nullptr;
}

const GraphInput* Graph::find_input(std::string_view wanted) const {
    for (const GraphInput& input : inputs)
        if (input.name == wanted) return &input;
    return nullptr;
}

const GraphOutput* Graph::find_output(std::string_view wanted) const {
    for (const GraphOutput& output : outputs)
        if (output.name == wanted) return &output;
    return nullptr;
}

std::string Graph::describe(NodeId id) const {
    const Node& n = node(id);
    std::string what;
    switch (n.kind) {
        case NodeKind::input: what = fmt::format("input {}", inputs[n.leaf].name); break;
        case NodeKind::param: what = fmt::format("param {}", params[n.leaf].name); break;
        case NodeKind::constant: what = "constant"; break;
        case NodeKind::op: what = n.op->name; break;
    }
    const std::string& given = names[id.value];
    const std::string from = provenance(id).text();
    return fmt::format("{}{} {}{}", given.empty() ? "" : given + " = ", what, to_string(n.type),
                       from.empty() ? "" : fmt::format(" ({})", from));
}

NodeCall::NodeCall(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    types_.reserve(node.operands.size());
    for (NodeId operand : node.operands) types_.push_back(operand.valid() ? &graph.type(operand) : nullptr);
    call_.op = node.op;
    call_.types = types_;
    call_.attrs = node.attrs;
    call_.out = &node.type;
}

const Graph* Module::find(std::string_view name) const {
    for (const Graph& graph : graphs)
        if (graph.name == name) return &graph;
    return nullptr;
}

}  // namespace darner
