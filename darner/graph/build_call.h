// SPDX-License-Identifier: MIT
// HeldCall: a BuildCall of a node in a graph that keeps growing. It owns copies of the types and attributes, because the
// rules it is handed to add nodes, which moves the graph's own.
#pragma once

#include "darner/graph/builder.h"

#include <vector>

namespace darner {

class HeldCall {
public:
    // `node` is read now only; `operands` and `result` are values of `builder`.
    HeldCall(Builder& builder, const Node& node, std::vector<Value> operands, Value result = {});
    HeldCall(const HeldCall&) = delete;
    HeldCall& operator=(const HeldCall&) = delete;

    const BuildCall& operator*() const { return call_; }
    const BuildCall* operator->() const { return &call_; }
    const Type& result_type() const { return out_; }
    Value operand(size_t i) const { return operands_[i]; }
    size_t operand_count() const { return operands_.size(); }

private:
    std::vector<Value> operands_;
    std::vector<Type> types_;
    std::vector<const Type*> type_pointers_;
    std::vector<AttrValue> attrs_;
    Type out_;
    Value result_;
    BuildCall call_;
};

// The op's expansion in `call`'s builder. It has the type of the op's result; anything else is a fault of the op's entry.
// Invalid when the builder has failed.
Value expand_call(const HeldCall& call);

// Values of a graph's nodes in a builder that holds the same ids.
std::vector<Value> values_of(Builder& builder, const std::vector<NodeId>& ids);

}  // namespace darner
