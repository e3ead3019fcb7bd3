// SPDX-License-Identifier: MIT
#include "darner/plan/prepare.h"

#include "darner/base/reasons.h"
#include "darner/graph/builder.h"
#include "darner/plan/long_reductions.h"
#include "darner/plan/split.h"
#include "darner/plan/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace darner::plan {

namespace {

Result<void> check(const Graph& graph) {
    Reasons reasons;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        const std::string what = graph.describe(NodeId(i));
        if (!node.type.is_concrete())
            reasons.add(what + " has symbolic dims; bind them first");
        else if (!storage_of(node.type.dtype))
            reasons.add(
                fmt::format("{} is {}, which kernels do not have; cast it to a 32-bit dtype", what, to_string(node.type.dtype)));
        else if (node.type.count() > 0x7fffffff)
            reasons.add(what + " has more than 2^31 - 1 elements");
        if (is_composite(node)) reasons.add(what + " is composite; expand the graph first");
    }
    if (reasons.empty()) return {};
    return unsupported(fmt::format("[plan] graph {} cannot be planned: {}", graph.name, reasons.text()));
}

// The node whose memory a root would share: through materialize and reshapes.
NodeId behind_aliases(const Graph& graph, NodeId id) {
    for (;;) {
        const Node& node = graph.node(id);
        if (node.kind != NodeKind::op) return id;
        const auto* view = std::get_if<ViewLower>(&node.op->lower);
        const auto* kernel = std::get_if<KernelLower>(&node.op->lower);
        if (!(view != nullptr && view->alias) && !(kernel != nullptr && kernel->name == "materialize")) return id;
        id = node.operands[0];
    }
}

bool needs_own_node(const Graph& graph, NodeId root) {
    const Node& owner = graph.node(behind_aliases(graph, root));
    if (owner.kind != NodeKind::op) return true;
    return byte_size(owner.type.dtype) < 4 && !owner.op->is_map();
}

Value own_node(Builder& builder, const Value& value) { return builder.call("cast", {value}, {{"dtype", value.dtype()}}); }

// A variadic op is associative (op_def.h): in parts of a size that a kernel binds, each kept in memory, then whole.
Value split_variadic(Builder& builder, const Node& node, std::vector<Value> operands, size_t limit) {
    while (operands.size() > limit) {
        std::vector<Value> parts;
        for (size_t first = 0; first < operands.size(); first += limit) {
            const size_t count = std::min(limit, operands.size() - first);
            const Value part = builder.call_exact(*node.op, std::span(operands).subspan(first, count), node.attrs);
            parts.push_back(builder.call("materialize", {part}));
        }
        operands = std::move(parts);
    }
    return builder.call_exact(*node.op, operands, node.attrs);
}

// Operands of a kernel that binds more tensors than the device does: those of one dtype that are larger than a number lie in one
// tensor behind each other. Kernels that share their operands share that, too.
class OperandPacker {
public:
    OperandPacker(Builder& builder, const Graph& graph, const Caps& caps) : b_(builder), graph_(graph), caps_(caps) {}

    // Invalid where the node binds few enough.
    Value packed(const Node& node, const std::vector<Value>& operands) {
        const auto* kernel = std::get_if<KernelLower>(&node.op->lower);
        if (kernel == nullptr || !kernel->reads_again) return {};
        const auto given =
            static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [](const Value& v) { return v.valid(); }));
        if (given + 1 <= caps_.max_storage_bindings) return {};
        std::vector<Value>& together = packed_[node.operands];
        if (together.empty()) together = pack(node, operands);
        return b_.call_exact(*node.op, together, node.attrs);
    }

private:
    std::vector<Value> pack(const Node& node, std::vector<Value> operands) {
        const DType dtype = graph_.type(node.operands[0]).dtype;
        std::vector<Value> parts;
        std::vector<size_t> which;
        for (size_t i = 0; i < operands.size(); ++i) {
            if (!operands[i].valid() || operands[i].dtype() != dtype) continue;
            which.push_back(i);
            parts.push_back(b_.call("reshape", {operands[i]}, {{"shape", Dims{operands[i].type().count()}}}));
        }
        const size_t limit = std::max<size_t>(2, caps_.max_storage_bindings - 1);
        const OpDef& concat = *op_registry().find("concat");
        Node whole;
        whole.op = &concat;
        whole.attrs = {int64_t{0}};
        const Value all = b_.call("materialize", {split_variadic(b_, whole, parts, limit)});
        int64_t first = 0;
        for (const size_t i : which) {
            const Type type = operands[i].type();
            const std::vector<int64_t> start = {first}, stop = {first + type.count()};
            operands[i] =
                b_.call("reshape", {b_.call("slice", {all}, {{"start", start}, {"stop", stop}})}, {{"shape", type.dims}});
            first = stop[0];
        }
        return operands;
    }

    Builder& b_;
    const Graph& graph_;
    const Caps& caps_;
    std::map<std::vector<NodeId>, std::vector<Value>> packed_;
};

// What stands for a node that kernels do not compute as it is; invalid where they do.
Value in_other_form(Builder& builder, const Graph& graph, NodeId id, GraphCopier& copier, const Caps& caps) {
    const Node& node = graph.node(id);
    if (node.kind != NodeKind::op) return {};
    // What lies in memory, or in the code, as it is.
    const auto* kernel = std::get_if<KernelLower>(&node.op->lower);
    const bool stored = kernel != nullptr && kernel->name == "materialize";
    if (stored && graph.node(behind_aliases(graph, id)).kind != NodeKind::op) return copier[node.operands[0]];
    if (stored && needs_own_node(graph, id)) return builder.call("materialize", {own_node(builder, copier[node.operands[0]])});
    const size_t limit = std::max<size_t>(2, caps.max_storage_bindings - 1);
    if (!node.op->operands.empty() && node.op->operands.back().variadic && node.operands.size() > limit)
        return split_variadic(builder, node, copier.operands(node), limit);
    if (std::holds_alternative<ContractLower>(node.op->lower))
        return contract_in_pieces(builder, graph, id, copier.operands(node), caps);
    if (!std::holds_alternative<ReduceLower>(node.op->lower)) return {};
    if (graph.type(node.operands[0]).count() == 0) return builder.constant(node.type, 0);
    return reduce_in_two_stages(builder, graph, id, copier[node.operands[0]], caps);
}

}  // namespace

namespace {

// Other forms may join more parts than a kernel binds (the pieces of a long sum).
Result<Graph> split_wide(Graph graph, const Caps& caps) {
    const size_t limit = std::max<size_t>(2, caps.max_storage_bindings - 1);
    const auto is_wide = [&](const Node& node) {
        return node.kind == NodeKind::op && !node.op->operands.empty() && node.op->operands.back().variadic &&
               node.operands.size() > limit;
    };
    if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_wide)) return graph;
    Builder builder(graph.name);
    const Builder::Place nowhere = builder.place({});
    GraphCopier copier(graph, builder);
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        if (!is_wide(graph.nodes[i])) {
            copier.copy(NodeId(i));
            continue;
        }
        const size_t before = builder.graph().nodes.size();
        copier[NodeId(i)] = split_variadic(builder, graph.nodes[i], copier.operands(graph.nodes[i]), limit);
        builder.set_provenance_since(before, builder.add_provenance(graph.provenance(NodeId(i))));
    }
    copier.copy_outputs();
    copier.copy_updates();
    return builder.finish();
}

}  // namespace

Result<Graph> prepare(const Graph& graph, const Caps& caps) {
    TRY(check(graph));
    Builder builder(graph.name);
    const Builder::Place nowhere = builder.place({});  // not our own lines
    GraphCopier copier(graph, builder);
    OperandPacker packer(builder, graph, caps);
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        const size_t before = builder.graph().nodes.size();
        Value other = in_other_form(builder, graph, NodeId(i), copier, caps);
        const Node& node = graph.nodes[i];
        if (!other.valid() && node.kind == NodeKind::op) other = packer.packed(node, copier.operands(node));
        if (!other.valid()) {
            copier.copy(NodeId(i));
            continue;
        }
        copier[NodeId(i)] = other;
        builder.set_provenance_since(before, builder.add_provenance(graph.provenance(NodeId(i))));
    }
    const auto own = [&](NodeId id) {
        const Value value = copier[id];
        return needs_own_node(builder.graph(), value.id) ? own_node(builder, value) : value;
    };
    for (const auto& output : graph.outputs) {
        const Value value = own(output.node);
        output.per_step ? builder.output_per_step(output.name, value) : builder.output(output.name, value);
    }
    for (const auto& update : graph.updates) builder.update(copier[update.param], own(update.value));
    TRY(Graph prepared, builder.finish());
    TRY(prepared, split_wide(std::move(prepared), caps));
    return split_beyond_windows(std::move(prepared), caps);
}

}  // namespace darner::plan
