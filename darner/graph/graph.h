// SPDX-License-Identifier: MIT
// Graph and Module: plain data. Nodes are in topological order (operands have lower ids). Graphs are made by Builder or the
// parser and never changed in place: a transform builds a new one.
#pragma once

#include "darner/base/ids.h"
#include "darner/graph/op_def.h"

#include <memory>
#include <string>
#include <vector>

namespace darner {

struct NodeTag;
using NodeId = Id<NodeTag>;

enum class NodeKind : uint8_t { input, param, constant, op };

// Where a node comes from: the user's file and line and the name scope ("layers.0"); errors, traces and reports show it.
struct Provenance {
    std::string scope, file;
    int line = 0;
    std::string text() const;  // "layers.0 at model.cpp:12", "" when nothing is known
    bool operator==(const Provenance&) const = default;
};

struct Node {
    NodeKind kind = NodeKind::op;
    const OpDef* op = nullptr;     // of kind op
    std::vector<NodeId> operands;  // an invalid id where an optional operand was left out
    std::vector<AttrValue> attrs;  // in the order of op->attrs
    Type type;
    uint32_t leaf = 0;        // index into Graph::inputs, params or constants
    uint32_t provenance = 0;  // index into Graph::provenances
};

// Whether expand() puts other nodes in its place: composites, and contractions with more operands than the two factors.
bool is_composite(const Node& node);

enum class Role : uint8_t { param, moment, statistic, counter, data };
const char* to_string(Role role);
std::optional<Role> parse_role(std::string_view text);

struct GraphInput {
    std::string name;
    NodeId node;
    bool per_step = false;  // a ring read at the current step
};
struct GraphParam {
    std::string name;
    NodeId node;
    NodeId init;  // an expression of this graph, compiled into the `init` graph; invalid: set by the host
    bool trainable = true;
    Role role = Role::param;
};
struct GraphOutput {
    std::string name;
    NodeId node;
    bool per_step = false;  // a ring written at the current step: the values of the last few steps can be read
};
// param <- value, simultaneous: every read in a step sees the old value.
struct GraphUpdate {
    NodeId param, value;
};

struct Graph {
    std::string name = "main";
    std::vector<Node> nodes;
    std::vector<GraphInput> inputs;
    std::vector<GraphParam> params;
    std::vector<std::shared_ptr<const Tensor>> constants;  // one element of any shape: a splat
    std::vector<GraphOutput> outputs;
    std::vector<GraphUpdate> updates;
    std::vector<Provenance> provenances = {{}};
    std::vector<std::string> names;  // of nodes, as the user wrote them; empty: none. Size of nodes.

    const Node& node(NodeId id) const { return nodes[id.value]; }
    const Type& type(NodeId id) const { return nodes[id.value].type; }
    const Tensor& constant(const Node& node) const { return *constants[node.leaf]; }
    bool is_splat(const Node& node) const;  // a constant of one value
    const GraphParam* find_param(std::string_view name) const;
    const GraphInput* find_input(std::string_view name) const;
    const GraphOutput* find_output(std::string_view name) const;
    const Provenance& provenance(NodeId id) const { return provenances[nodes[id.value].provenance]; }
    std::string describe(NodeId id) const;  // "relu f32[64,128] (fc1 at model.cpp:12)": for messages
};

// The operand types of a node and a Call that views it. Keep it alive while the Call is used.
struct NodeCall {
    NodeCall(const Graph& graph, NodeId id);
    NodeCall(const NodeCall&) = delete;
    const Call& operator*() const { return call_; }
    const Call* operator->() const { return &call_; }

private:
    std::vector<const Type*> types_;
    Call call_;
};

// Named graphs over one State: params of one name are one tensor and must agree in type.
struct Module {
    std::vector<Graph> graphs;
    const Graph* find(std::string_view name) const;
};

}  // namespace darner
