// SPDX-License-Identifier: MIT
// Builder and Value: how programs are written in C++. The Builder is sticky: the first error is kept with the caller's file
// and line, later calls do nothing, finish() returns it. So user code needs no checks between.
#pragma once

#include "darner/graph/graph.h"

#include <deque>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace darner {

// The caller's place, taken by default arguments.
struct Where {
    const char* file = "";
    int line = 0;
    static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

class Builder;

// A node of a graph under construction. Cheap to copy. An invalid Value stands for "left out" or for an earlier error.
struct Value {
    Builder* builder = nullptr;
    NodeId id = {};

    bool valid() const { return builder != nullptr && id.valid(); }
    const Type& type() const;  // of an invalid value: f32[]. Stays where it is as the graph grows.
    DType dtype() const { return type().dtype; }
    const Dims& dims() const { return type().dims; }
    size_t rank() const { return type().rank(); }
};

using NamedAttr = std::pair<std::string_view, AttrValue>;

struct ParamOptions {
    Value init = {};
    bool trainable = true;
    Role role = Role::param;
};

class Builder {
public:
    explicit Builder(std::string graph_name = "main");
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;

    Value input(std::string_view name, Type type, Where where = Where::here());
    Value input_per_step(std::string_view name, Type type, Where where = Where::here());
    // The name gets the current scope in front: "layers.0.weight".
    Value param(std::string_view name, Type type, ParamOptions options = {}, Where where = Where::here());
    Value constant(Tensor value, Where where = Where::here());
    // Values are rounded to the dtype; a finite one that overflows it, and a number that is no value of an integer dtype, are
    // errors. A tensor of one element with another type's count is a splat of it.
    Value constant(Type type, double splat, Where where = Where::here());
    Value constant(Type type, Tensor value, Where where = Where::here());
    Value iota(Type type, int64_t axis = 0, Where where = Where::here());

    // Any op by name. Operands of elementwise ops are broadcast to each other (NumPy's rule) when `broadcast` is set.
    Value call(std::string_view op, std::span<const Value> operands, std::span<const NamedAttr> attrs = {},
               Where where = Where::here());
    Value call(std::string_view op, std::initializer_list<Value> operands, std::initializer_list<NamedAttr> attrs = {},
               Where where = Where::here());
    // The same with attributes complete and in order; what transforms use to copy a node.
    Value call_exact(const OpDef& op, std::span<const Value> operands, std::vector<AttrValue> attrs, Where where = {});

    // NumPy broadcasting by explicit nodes.
    Value broadcast_to(Value v, const Dims& dims, Where where = Where::here());

    void output(std::string_view name, Value v, Where where = Where::here());
    void output_per_step(std::string_view name, Value v, Where where = Where::here());
    void update(Value param, Value value, Where where = Where::here());  // simultaneous; once a param

    // Name scope: prefix of param names and provenance while the object lives.
    class Scope {
    public:
        Scope(Builder& builder, std::string_view name);
        ~Scope();
        Scope(const Scope&) = delete;

    private:
        Builder& builder_;
        size_t length_;
    };
    Scope scope(std::string_view name) { return Scope(*this, name); }
    const std::string& current_scope() const { return scope_; }
    std::string scoped(std::string_view name) const;

    // What random ops read: the module's `seed: u32[2]` and `step: u32` params, made at first use.
    Value seed();
    Value step();

    // While the object lives, nodes and errors have this place instead of their caller's: for library code that builds on
    // behalf of its own caller, or of nobody (Where{}). Of nested ones the outermost counts.
    class Place {
    public:
        Place(Builder& builder, Where where);
        ~Place();
        Place(const Place&) = delete;

    private:
        Builder& builder_;
        bool outermost_;
    };
    Place place(Where where) { return Place(*this, where); }

    void set_name(Value v, std::string_view name);  // shown by the text form
    // Gives the nodes that follow a provenance of add_provenance(), whatever their caller; Id<void>::none ends it.
    void set_provenance(uint32_t provenance) { copied_provenance_ = provenance; }
    void set_provenance_since(size_t first_node, uint32_t provenance);  // of nodes made already, from this id on
    uint32_t add_provenance(Provenance provenance);
    void fail(Error error);  // kept when it is the first
    bool failed() const { return failed_; }
    const Error& error() const { return error_; }
    const Graph& graph() const { return graph_; }
    uint32_t new_stream() { return next_stream_++; }

    // The verified graph, or the first error. The builder is spent afterwards.
    Result<Graph> finish();

private:
    friend struct Value;
    friend class GraphCopier;
    // Leaves under their full names. A leaf of the same name, kind and type is the same leaf: what copies rely on.
    Value add_input(GraphInput input, Type type, Where where, bool share);
    Value add_param(GraphParam param, Type type, Where where, bool share);
    Value add_node(Node node, Where where);
    Value find_or_add_state(std::string_view name, Type type, bool starts_at_zero);
    Value call_resolved(const OpDef& op, std::vector<Value> operands, std::vector<AttrValue> attrs, Where where);
    bool resolve_attrs(const OpDef& op, std::span<const NamedAttr> given, std::vector<AttrValue>& attrs, Where where);
    bool check_operands(const OpDef& op, std::vector<Value>& operands, Where where);
    bool check_attr_dims(const OpDef& op, const std::vector<AttrValue>& attrs, Where where);
    bool broadcast_operands(const OpDef& op, std::vector<Value>& operands, Where where);
    bool check_owner(std::string_view what, Value v, Where where);
    bool check_leaf(std::string_view kind, std::string_view name, const Type& type, Where where);
    uint32_t provenance_of(Where where);
    Value fail_at(Where where, std::string message, std::string hint = {});

    Graph graph_;
    std::deque<Type> types_;  // of all nodes, at addresses that stay
    std::unordered_map<std::string, NodeId> leaves_;
    std::unordered_map<std::string, NodeId> outputs_;
    std::vector<bool> updated_;  // by param
    std::string scope_;
    Error error_;
    bool failed_ = false;
    uint32_t next_stream_ = 0;
    uint32_t copied_provenance_ = Id<void>::none;  // set while a transform copies nodes
    std::optional<Where> place_;
    std::unordered_map<std::string, uint32_t> provenance_ids_;
};

// The location of an operator's use comes with its left operand.
struct ValueAt {
    Value value;
    Where where;
    ValueAt(Value v, Where w = Where::here()) : value(v), where(w) {}
};

Value operator+(ValueAt a, Value b);
Value operator-(ValueAt a, Value b);
Value operator*(ValueAt a, Value b);
Value operator/(ValueAt a, Value b);
Value operator%(ValueAt a, Value b);
Value operator-(ValueAt a);
Value operator<(ValueAt a, Value b);
Value operator<=(ValueAt a, Value b);
Value operator>(ValueAt a, Value b);
Value operator>=(ValueAt a, Value b);
// A number becomes a constant of the other side's dtype and shape.
Value operator+(ValueAt a, double b);
Value operator-(ValueAt a, double b);
Value operator*(ValueAt a, double b);
Value operator/(ValueAt a, double b);
Value operator+(double a, ValueAt b);
Value operator-(double a, ValueAt b);
Value operator*(double a, ValueAt b);
Value operator/(double a, ValueAt b);

// Copies nodes of one graph into a builder: the backbone of transforms. `map` holds the new value of each old node (invalid:
// not copied yet); leaves, names, provenance and attributes are kept.
class GraphCopier {
public:
    GraphCopier(const Graph& source, Builder& target);
    Value& operator[](NodeId id) { return map_[id.value]; }
    Value copy(NodeId id);       // its operands must have been copied
    Value copy_deep(NodeId id);  // and all that it needs, without recursion
    std::vector<Value> operands(const Node& node) const;
    void copy_outputs();
    void copy_updates();

private:
    const Graph& source_;
    Builder& target_;
    std::vector<Value> map_;
    std::vector<uint32_t> provenance_;
};

}  // namespace darner
