// SPDX-License-Identifier: MIT
// GraphCopier: nodes of one graph in another builder, with an explicit stack where it follows operands.
#include "darner/graph/builder.h"

#include <fmt/format.h>

namespace darner {

GraphCopier::GraphCopier(const Graph& source, Builder& target)
    : source_(source), target_(target), map_(source.nodes.size()), provenance_(source.provenances.size(), Id<void>::none) {}

std::vector<Value> GraphCopier::operands(const Node& node) const {
    std::vector<Value> values;
    values.reserve(node.operands.size());
    for (NodeId operand : node.operands) values.push_back(operand.valid() ? map_[operand.value] : Value{});
    return values;
}

Value GraphCopier::copy(NodeId id) {
    if (map_[id.value].valid()) return map_[id.value];
    const Node& node = source_.node(id);
    uint32_t& provenance = provenance_[node.provenance];
    if (provenance == Id<void>::none) provenance = target_.add_provenance(source_.provenances[node.provenance]);
    const uint32_t before = target_.copied_provenance_;
    target_.copied_provenance_ = provenance;
    Value v;
    switch (node.kind) {
        case NodeKind::input: v = target_.add_input(source_.inputs[node.leaf], node.type, {}, true); break;
        case NodeKind::param: {
            GraphParam param = source_.params[node.leaf];
            if (param.init.valid())
                param.init = copy_deep(param.init).id;  // on a stack of its own: inits come before their params
            v = target_.add_param(std::move(param), node.type, {}, true);
            break;
        }
        case NodeKind::constant:
            // The tensor is shared: it has been checked when its node was made.
            if (!target_.failed_) {
                Node copied = node;
                copied.leaf = static_cast<uint32_t>(target_.graph_.constants.size());
                target_.graph_.constants.push_back(source_.constants[node.leaf]);
                v = target_.add_node(std::move(copied), {});
            }
            break;
        case NodeKind::op: v = target_.call_exact(*node.op, operands(node), node.attrs); break;
    }
    target_.copied_provenance_ = before;
    if (v.valid() && !source_.names[id.value].empty()) target_.set_name(v, source_.names[id.value]);
    return map_[id.value] = v;
}

Value GraphCopier::copy_deep(NodeId id) {
    std::vector<NodeId> stack = {id};
    while (!stack.empty() && !target_.failed()) {
        const NodeId top = stack.back();
        const size_t height = stack.size();
        const auto need = [&](NodeId operand) {
            if (operand.valid() && !map_[operand.value].valid()) stack.push_back(operand);
        };
        if (map_[top.value].valid()) {
            stack.pop_back();
            continue;
        }
        const Node& node = source_.node(top);
        for (size_t i = node.operands.size(); i-- > 0;) need(node.operands[i]);
        if (node.kind == NodeKind::param) need(source_.params[node.leaf].init);
        if (stack.size() > height) continue;
        copy(top);
        stack.pop_back();
    }
    return map_[id.value];
}

void GraphCopier::copy_outputs() {
    for (const GraphOutput& output : source_.outputs) {
        const Value value = copy_deep(output.node);
        output.per_step ? target_.output_per_step(output.name, value, Where{}) : target_.output(output.name, value, Where{});
    }
}

void GraphCopier::copy_updates() {
    for (const GraphUpdate& update : source_.updates) {
        const Value param = copy_deep(update.param);
        target_.update(param, copy_deep(update.value), Where{});
    }
}

}  // namespace darner
