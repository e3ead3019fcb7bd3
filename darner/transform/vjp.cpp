// SPDX-License-Identifier: MIT
// Reverse-mode differentiation. The tape is the list of nodes between `wrt` and `of` in topological order; a composite
// without a rule of its own stands in it as its expansion, followed by an alias that hands the cotangent to the
// expansion's result. The pass walks the tape backwards and sums the cotangents of each value in that order, so the
// result does not depend on anything but the graph. The expansion of the forward composite itself is equal node by node
// and merges with the tape's in `cleanup`.
#include "darner/transform/vjp.h"

#include "darner/base/fault.h"
#include "darner/graph/build_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace darner {
namespace {

std::string_view missing_rule(const OpDef& op) {
    struct Visitor {
        const OpDef& op;
        std::string_view operator()(const ZeroGrad&) const { return {}; }
        std::string_view operator()(const Deriv& g) const { return g.derivative ? "" : "derivative"; }
        std::string_view operator()(const Linear& g) const { return g.transpose ? "" : "transpose"; }
        std::string_view operator()(const Bilinear& g) const { return g.transpose ? "" : "transpose"; }
        std::string_view operator()(const CustomGrad& g) const { return g.vjp ? "" : "vjp"; }
        std::string_view operator()(const ByExpansion&) const { return op.expansion() ? "" : "expansion"; }
    };
    return std::visit(Visitor{op}, op.grad);
}

class ReversePass {
public:
    ReversePass(Builder& builder, Value of, std::span<const Value> wrt) : builder_(builder), of_(of.id) {
        const size_t count = of.id.value + size_t{1};
        depends_.assign(builder.graph().nodes.size(), false);
        for (const Value& v : wrt)
            if (is_float(v.dtype())) depends_[v.id.value] = true;
        for (size_t i = 0; i < count; ++i)
            if (!depends_[i]) depends_[i] = depends_on_operands(NodeId(i));
        mark_reaching(count);
    }

    // Fills the cotangents of all values on the tape. False when the builder has failed.
    bool run(Value cotangent) {
        if (!depends_[of_.value]) return true;
        build_tape();
        if (builder_.failed() || !check_rules()) return false;
        cotangents_.assign(builder_.graph().nodes.size(), {});
        cotangents_[of_.value] = cotangent;
        for (size_t i = tape_.size(); i-- > 0 && !builder_.failed();) step(tape_[i]);
        builder_.set_provenance(Id<void>::none);
        return !builder_.failed();
    }

    // Invalid: the value does not reach `of`.
    Value cotangent(NodeId id) const { return id.value < cotangents_.size() ? cotangents_[id.value] : Value{}; }

private:
    struct Entry {
        NodeId node;
        NodeId alias = {};  // the value that stands for `node`: its cotangent goes there
    };

    const Graph& graph() const { return builder_.graph(); }

    // Does a float operand of an op that has a derivative depend on wrt?
    bool depends_on_operands(NodeId id) const {
        const Node& node = graph().node(id);
        if (node.kind != NodeKind::op || !is_float(node.type.dtype) || std::holds_alternative<ZeroGrad>(node.op->grad))
            return false;
        return std::any_of(node.operands.begin(), node.operands.end(),
                           [&](NodeId operand) { return operand.valid() && depends_[operand.value]; });
    }

    void mark_reaching(size_t count) {
        reaches_.assign(count, false);
        reaches_[of_.value] = true;
        for (size_t i = count; i-- > 0;) {
            if (!reaches_[i] || !depends_[i]) continue;
            for (NodeId operand : graph().nodes[i].operands)
                if (operand.valid() && !(fault(3) && operand == graph().nodes[i].operands.back() && i + 1 < count))
                    reaches_[operand.value] = true;
        }
    }

    void build_tape() {
        for (size_t i = 0; i < reaches_.size() && !builder_.failed(); ++i)
            if (reaches_[i] && depends_[i]) append(NodeId(i));
    }

    // Recursion is as deep as composites nest in each other.
    void append(NodeId id) {
        const Node& node = graph().node(id);
        if (node.kind != NodeKind::op || !depends_on_operands(id)) return;
        if (!std::holds_alternative<ByExpansion>(node.op->grad) || !missing_rule(*node.op).empty()) {
            tape_.push_back({id});
            return;
        }
        const size_t first = graph().nodes.size();
        builder_.set_provenance(node.provenance);
        const Value expansion = expand_call(HeldCall(builder_, node, values_of(builder_, node.operands)));
        const size_t end = graph().nodes.size();
        depends_.resize(end, false);
        for (size_t i = first; i < end; ++i) depends_[i] = depends_on_operands(NodeId(i));
        for (size_t i = first; i < end && !builder_.failed(); ++i)
            if (depends_[i]) append(NodeId(i));
        if (!builder_.failed()) tape_.push_back({id, expansion.id});
    }

    bool check_rules() {
        std::vector<std::string> missing;
        std::string where;
        for (const Entry& entry : tape_) {
            if (entry.alias.valid()) continue;
            const OpDef& op = *graph().node(entry.node).op;
            const std::string_view rule = missing_rule(op);
            if (rule.empty()) continue;
            if (missing.empty()) where = graph().provenance(entry.node).text();
            missing.push_back(fmt::format("{} has no {} rule", graph().describe(entry.node), rule));
        }
        if (missing.empty()) return true;
        builder_.set_provenance(Id<void>::none);
        builder_.fail(unsupported(fmt::format("[gradients] cannot differentiate: {}", fmt::join(missing, "; ")), where));
        return false;
    }

    void accumulate(NodeId id, Value contribution) {
        Value& sum = cotangents_[id.value];
        sum = sum.valid() && !fault(1) ? builder_.call("add", {sum, contribution}) : contribution;
    }

    void step(const Entry& entry) {
        const Value dy = cotangents_[entry.node.value];
        if (!dy.valid()) return;
        builder_.set_provenance(graph().node(entry.node).provenance);
        if (entry.alias.valid()) {
            if (depends_[entry.alias.value]) accumulate(entry.alias, dy);
            return;
        }
        const Node& node = graph().node(entry.node);
        const HeldCall call(builder_, node, values_of(builder_, node.operands), Value{&builder_, entry.node});
        for (size_t i = 0; i < call.operand_count() && !builder_.failed(); ++i) {
            const Value operand = call.operand(i);
            if (!operand.valid() || !is_float(operand.dtype()) || !depends_[operand.id.value]) continue;
            const Value contribution = operand_cotangent(*call, i, dy);
            if (builder_.failed() || !contribution.valid()) continue;
            CHECK(contribution.type() == operand.type(),
                  fmt::format("the gradient rule of {} gave {} for operand {} of type {}", call->op->name,
                              to_string(contribution.type()), i, to_string(operand.type())));
            accumulate(operand.id, contribution);
        }
    }

    Value operand_cotangent(const BuildCall& call, size_t operand, Value dy) {
        struct Visitor {
            Builder& builder;
            const BuildCall& call;
            size_t operand;
            Value dy;
            Value operator()(const ZeroGrad&) const { return {}; }
            Value operator()(const Deriv& g) const {
                const Value slope = g.derivative(call, operand);
                if (fault(2)) return slope;
                return slope.valid() ? builder.call("mul", {dy, slope}) : Value{};
            }
            Value operator()(const Linear& g) const { return g.transpose(call, operand, dy); }
            Value operator()(const Bilinear& g) const { return g.transpose(call, operand, dy); }
            Value operator()(const CustomGrad& g) const { return g.vjp(call, operand, dy); }
            Value operator()(const ByExpansion&) const {
                bug(__FILE__, __LINE__, "a composite on the tape without its expansion");
            }
        };
        return std::visit(Visitor{builder_, call, operand, dy}, call.op->grad);
    }

    Builder& builder_;
    NodeId of_;
    std::vector<bool> depends_;  // by node: on a float value of wrt, through float values
    std::vector<bool> reaches_;  // by node up to `of`
    std::vector<Entry> tape_;
    std::vector<Value> cotangents_;
};

// A constant that stands for a value's derivative and so has the value's place.
Value constant_like(Value like, double splat) {
    Builder& builder = *like.builder;
    builder.set_provenance(builder.graph().node(like.id).provenance);
    const Value constant = builder.constant(like.type(), splat);
    builder.set_provenance(Id<void>::none);
    return constant;
}

}  // namespace

std::vector<Value> gradients(Value of, std::span<const Value> wrt, Value cotangent) {
    std::vector<Value> result(wrt.size());
    if (!of.valid() || of.builder->failed()) return result;
    Builder& builder = *of.builder;
    for (const Value& v : wrt) {
        if (v.valid() && v.builder == &builder) continue;
        builder.fail(invalid("[gradients] a value of `wrt` is not of this graph"));
        return result;
    }
    if (!cotangent.valid() && of.rank() != 0) {
        builder.fail(invalid(
            fmt::format("[gradients] {} is no scalar: a cotangent of its type is needed", builder.graph().describe(of.id)),
            builder.graph().provenance(of.id).text()));
        return result;
    }
    if (cotangent.valid() && (cotangent.builder != &builder || cotangent.type() != of.type())) {
        builder.fail(invalid(fmt::format("[gradients] the cotangent does not fit: got {}, expected {}",
                                         to_string(cotangent.type()), to_string(of.type()))));
        return result;
    }
    ReversePass pass(builder, of, wrt);
    if (is_float(of.dtype())) {
        if (!cotangent.valid()) cotangent = constant_like(of, 1.0);
        if (!pass.run(cotangent)) return result;
    }
    for (size_t i = 0; i < wrt.size(); ++i) {
        const Value found = pass.cotangent(wrt[i].id);
        result[i] = found.valid() && is_float(wrt[i].dtype()) ? found : constant_like(wrt[i], 0.0);
    }
    return result;
}

namespace {

Result<std::string> output_to_differentiate(const Graph& graph, std::string_view of) {
    std::vector<std::string> names, scalars;
    for (const GraphOutput& output : graph.outputs) {
        names.push_back(output.name);
        const Type& type = graph.type(output.node);
        if (type.rank() == 0 && is_float(type.dtype)) scalars.push_back(output.name);
    }
    if (!of.empty()) {
        if (std::find(names.begin(), names.end(), of) != names.end()) return std::string(of);
        return invalid(fmt::format("[grad] graph {} has no output {}: it has {}", graph.name, of, fmt::join(names, ", ")));
    }
    if (scalars.size() == 1) return scalars[0];
    return invalid(fmt::format("[grad] graph {} has {} scalar float outputs ({}): name the one to differentiate", graph.name,
                               scalars.size(), fmt::join(scalars, ", ")));
}

struct NamedLeaf {
    std::string name;
    NodeId node;
};

Result<std::vector<NamedLeaf>> leaves_to_differentiate(const Graph& graph, std::span<const std::string> wrt) {
    std::vector<NamedLeaf> leaves;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (node.kind == NodeKind::input) leaves.push_back({graph.inputs[node.leaf].name, NodeId(i)});
        if (node.kind == NodeKind::param) leaves.push_back({graph.params[node.leaf].name, NodeId(i)});
    }
    std::vector<NamedLeaf> chosen;
    std::vector<std::string> unknown;
    if (wrt.empty()) {
        for (const NamedLeaf& leaf : leaves)
            if (is_float(graph.type(leaf.node).dtype)) chosen.push_back(leaf);
        return chosen;
    }
    for (const std::string& name : wrt) {
        const auto found = std::find_if(leaves.begin(), leaves.end(), [&](const NamedLeaf& leaf) { return leaf.name == name; });
        if (found == leaves.end())
            unknown.push_back(name);
        else
            chosen.push_back(*found);
    }
    if (unknown.empty()) return chosen;
    std::vector<std::string> known;
    for (const NamedLeaf& leaf : leaves) known.push_back(leaf.name);
    return invalid(fmt::format("[grad] graph {} has no input or param {}: it has {}", graph.name, fmt::join(unknown, ", "),
                               fmt::join(known, ", ")));
}

}  // namespace

Result<Graph> gradient_graph(const Graph& graph, std::string_view of, std::span<const std::string> wrt) {
    TRY(const std::string of_name, output_to_differentiate(graph, of));
    TRY(const std::vector<NamedLeaf> leaves, leaves_to_differentiate(graph, wrt));
    Builder builder(graph.name);
    const Builder::Place place = builder.place({});
    GraphCopier copier(graph, builder);
    for (size_t i = 0; i < graph.nodes.size(); ++i) copier.copy(NodeId(i));
    copier.copy_outputs();
    copier.copy_updates();
    const Value target = copier[graph.find_output(of_name)->node];
    Value cotangent;
    if (target.valid() && target.rank() != 0) {
        builder.set_provenance(builder.graph().node(target.id).provenance);
        cotangent = builder.input("d_" + of_name, target.type());
        builder.set_provenance(Id<void>::none);
    }
    std::vector<Value> values;
    for (const NamedLeaf& leaf : leaves) values.push_back(copier[leaf.node]);
    const std::vector<Value> found = gradients(target, values, cotangent);
    for (size_t i = 0; i < leaves.size(); ++i) builder.output("d_" + leaves[i].name, found[i]);
    return builder.finish();
}

}  // namespace darner
