// SPDX-License-Identifier: MIT
// Simplifications of one node. What is exact for floating point stands here: x + 0 and x * 1 give x (the sign of a zero
// aside), but x * 0 and x - x do not give 0 for infinities and NaN.
#include "darner/transform/simplify.h"

#include "darner/graph/builder.h"
#include "darner/graph/eval.h"

#include <cmath>

namespace darner {
namespace {

// op(x, value) or op(value, x) is x.
struct Identity {
    std::string_view op;
    size_t constant_operand;
    double value;
};
constexpr Identity identities[] = {
    {"add", 0, 0}, {"add", 1, 0},         {"sub", 1, 0},         {"mul", 0, 1},        {"mul", 1, 1},        {"div", 1, 1},
    {"pow", 1, 1}, {"logical_and", 0, 1}, {"logical_and", 1, 1}, {"logical_or", 0, 0}, {"logical_or", 1, 0},
};

// op(op(x)) is x.
constexpr std::string_view involutions[] = {"neg", "logical_not"};

bool is_op(const Node& node, std::string_view name) { return node.kind == NodeKind::op && node.op->name == name; }

// Attribute access by name.
Call attrs_of(const Node& node) {
    Call call;
    call.op = node.op;
    call.attrs = node.attrs;
    call.out = &node.type;
    return call;
}

const Node* splat_operand(const Graph& graph, const Node& node, size_t i) {
    if (i >= node.operands.size() || !node.operands[i].valid()) return nullptr;
    const Node& operand = graph.node(node.operands[i]);
    return graph.is_splat(operand) ? &operand : nullptr;
}

Simplified existing(NodeId id) { return {.value = id}; }

// --- constants ------------------------------------------------------------------------------------------------------

// The one value of an elementwise op on constants of one value, as the reference evaluator has it, rounded like the values
// that a device holds. Nothing when that is not finite: then the device computes it.
std::optional<Tensor> fold_elementwise(const Graph& graph, const Node& node) {
    Builder builder;
    std::vector<Value> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
        const Node* operand = splat_operand(graph, node, i);
        if (operand == nullptr) return std::nullopt;
        const Tensor& value = graph.constant(*operand);
        operands.push_back(builder.constant(Type{value.dtype, {}}, value));
    }
    builder.output("value", builder.call_exact(*node.op, operands, node.attrs));
    const Result<Graph> one_node = builder.finish();
    if (!one_node) return std::nullopt;
    Result<EvalResult> result = eval(*one_node, {});
    if (!result) return std::nullopt;
    Tensor value = std::move(result->outputs.at("value"));
    if (is_float(value.dtype)) {
        value.real[0] = round_to(value.dtype, value.real[0]);
        if (!std::isfinite(value.real[0])) return std::nullopt;
    }
    return value;
}

Simplified fold_constants(const Graph& graph, const Node& node) {
    if (node.operands.empty()) return {};
    if (node.op->is_map()) return {.splat = fold_elementwise(graph, node)};
    if (!std::holds_alternative<ViewLower>(node.op->lower)) return {};
    // A view shows some of its operand's elements, and they are all the same.
    const Node* operand = splat_operand(graph, node, 0);
    if (operand == nullptr) return {};
    return {.splat = graph.constant(*operand)};
}

// --- identities -----------------------------------------------------------------------------------------------------

Simplified apply_identities(const Graph& graph, const Node& node) {
    for (const Identity& identity : identities) {
        if (!is_op(node, identity.op)) continue;
        const Node* constant = splat_operand(graph, node, identity.constant_operand);
        if (constant != nullptr && graph.constant(*constant).at(0) == identity.value)
            return existing(node.operands[1 - identity.constant_operand]);
    }
    for (std::string_view name : involutions)
        if (is_op(node, name) && is_op(graph.node(node.operands[0]), name))
            return existing(graph.node(node.operands[0]).operands[0]);
    if (is_op(node, "select")) {
        if (const Node* condition = splat_operand(graph, node, 0))
            return existing(node.operands[graph.constant(*condition).at(0) != 0 ? 1 : 2]);
        if (node.operands[1] == node.operands[2]) return existing(node.operands[1]);
    }
    if (is_op(node, "cast") && graph.type(node.operands[0]) == node.type) return existing(node.operands[0]);
    return {};
}

// --- views ----------------------------------------------------------------------------------------------------------

bool is_identity_order(const std::vector<int64_t>& axes) {
    for (size_t i = 0; i < axes.size(); ++i)
        if (axes[i] != static_cast<int64_t>(i)) return false;
    return true;
}

bool does_nothing(const Graph& graph, const Node& node) {
    if (node.operands.size() != 1 || graph.type(node.operands[0]) != node.type) return false;
    const Call call = attrs_of(node);
    if (const auto* view = std::get_if<ViewLower>(&node.op->lower); view != nullptr && view->alias) return true;
    if (is_op(node, "transpose")) return is_identity_order(call.integers("perm"));
    if (is_op(node, "broadcast")) return is_identity_order(call.integers("axes"));
    if (is_op(node, "slice")) {
        // With as many elements as before and no reversal nothing is left out.
        for (int64_t step : call.integers("step"))
            if (step <= 0) return false;
        return true;
    }
    return false;
}

// inner[outer[i]] for all i; nothing when an index does not point into `inner`.
std::optional<std::vector<int64_t>> compose(const std::vector<int64_t>& inner, const std::vector<int64_t>& outer) {
    std::vector<int64_t> result;
    for (int64_t axis : outer) {
        if (axis < 0 || axis >= static_cast<int64_t>(inner.size())) return std::nullopt;
        result.push_back(inner[axis]);
    }
    return result;
}

void set_attr(Node& node, std::string_view name, AttrValue value) {
    for (size_t i = 0; i < node.op->attrs.size(); ++i)
        if (node.op->attrs[i].name == name) node.attrs[i] = std::move(value);
}

// Two views of one kind behind each other are one.
Simplified merge_views(const Graph& graph, const Node& node) {
    if (node.operands.size() != 1) return {};
    const Node& inner = graph.node(node.operands[0]);
    if (inner.kind != NodeKind::op || inner.op != node.op) return {};
    Node merged = node;
    merged.operands = inner.operands;
    const auto* view = std::get_if<ViewLower>(&node.op->lower);
    if (view != nullptr && view->alias) return {.node = std::move(merged)};
    if (is_op(node, "transpose")) {
        auto perm = compose(attrs_of(inner).integers("perm"), attrs_of(node).integers("perm"));
        if (!perm) return {};
        set_attr(merged, "perm", std::move(*perm));
        return {.node = std::move(merged)};
    }
    if (is_op(node, "broadcast")) {
        auto axes = compose(attrs_of(node).integers("axes"), attrs_of(inner).integers("axes"));
        if (!axes) return {};
        set_attr(merged, "axes", std::move(*axes));
        return {.node = std::move(merged)};
    }
    return {};
}

}  // namespace

bool keeps_its_place(const OpDef& op) { return op.name == "materialize"; }

Simplified simplify(const Graph& graph, const Node& node) {
    if (keeps_its_place(*node.op)) return {};
    // Without elements nothing of what it is computed from is read.
    if (node.type.is_concrete() && node.type.count() == 0) return {.splat = Tensor::scalar(node.type.dtype, 0)};
    using Rule = Simplified (*)(const Graph&, const Node&);
    for (Rule rule : {Rule{fold_constants}, Rule{apply_identities}}) {
        Simplified result = rule(graph, node);
        if (result.value.valid() || result.node || result.splat) return result;
    }
    if (does_nothing(graph, node)) return existing(node.operands[0]);
    return merge_views(graph, node);
}

}  // namespace darner
