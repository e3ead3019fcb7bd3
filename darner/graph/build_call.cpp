// SPDX-License-Identifier: MIT
// Calls of op rules (expansions, derivatives) on a graph under construction.
#include "darner/graph/build_call.h"

namespace darner {

HeldCall::HeldCall(Builder& builder, const Node& node, std::vector<Value> operands, Value result)
    : operands_(std::move(operands)), attrs_(node.attrs), out_(node.type), result_(result) {
    types_.reserve(operands_.size());
    type_pointers_.reserve(operands_.size());
    for (const Value& operand : operands_) {
        types_.push_back(operand.valid() ? operand.type() : Type{});
        type_pointers_.push_back(operand.valid() ? &types_.back() : nullptr);
    }
    call_.op = node.op;
    call_.types = type_pointers_;
    call_.attrs = attrs_;
    call_.out = &out_;
    call_.builder = &builder;
    call_.operands = operands_;
    call_.result = result_.valid() ? &result_ : nullptr;
}

Value expand_call(const HeldCall& call) {
    const auto* contract = std::get_if<ContractLower>(&call->op->lower);
    const Value value = (contract != nullptr ? contract->expand : call->op->expansion())(*call);
    if (call->builder->failed()) return {};
    CHECK(value.valid() && value.builder == call->builder, "the expansion of " + std::string(call->op->name) + " gave no value");
    CHECK(value.type() == call.result_type(), "the expansion of " + std::string(call->op->name) + " gave " +
                                                  to_string(value.type()) + ", the op has " + to_string(call.result_type()));
    return value;
}

std::vector<Value> values_of(Builder& builder, const std::vector<NodeId>& ids) {
    std::vector<Value> values;
    values.reserve(ids.size());
    for (NodeId id : ids) values.push_back(id.valid() ? Value{&builder, id} : Value{});
    return values;
}

}  // namespace darner
