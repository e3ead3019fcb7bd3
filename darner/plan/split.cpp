// SPDX-License-Identifier: MIT
// Each round halves every node that reaches too far; the halves that still do are halved in the next.
#include "darner/plan/split.h"

#include "darner/graph/build_call.h"
#include "darner/plan/grouping.h"
#include "darner/plan/space.h"
#include "darner/plan/split_attention.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::plan {

namespace {

using Axes = std::vector<int64_t>;

// Views and cheap index nodes are computed by whoever reads them, unless somebody has asked for them in memory.
bool is_pulled(const Node& node) {
    if (node.kind != NodeKind::op) return false;
    const auto* index = std::get_if<IndexLower>(&node.op->lower);
    return std::holds_alternative<ViewLower>(node.op->lower) || (index != nullptr && !index->expensive);
}

// Slices and reshapes of memory are as good as memory: a part of it is near, too.
bool is_near(const Graph& graph, NodeId id) {
    while (is_pulled(graph.node(id))) {
        const Node& node = graph.node(id);
        const auto* view = std::get_if<ViewLower>(&node.op->lower);
        if (view == nullptr || !(view->alias || node.op->name == "slice")) return false;
        id = node.operands[0];
    }
    return true;
}

class Splitter {
public:
    Splitter(const Graph& graph, const std::vector<NodeId>& nodes)
        : graph_(graph), nodes_(nodes), b_(graph.name), copier_(graph, b_) {}

    Result<Graph> run(const Caps& caps) {
        const Builder::Place nowhere = b_.place({});
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const NodeId id(i);
            if (!std::binary_search(nodes_.begin(), nodes_.end(), id)) {
                copier_.copy(id);
                continue;
            }
            const size_t before = b_.graph().nodes.size();
            copier_[id] = split(id);
            if (!copier_[id].valid())
                return limit_error(fmt::format(
                    "[plan] {} of type {} touches more of its operands at once than {} bindings of {} "
                    "bytes reach",
                    graph_.describe(id), to_string(graph_.type(id)), caps.max_storage_bindings, caps.max_binding_bytes));
            b_.set_provenance_since(before, b_.add_provenance(graph_.provenance(id)));
        }
        copier_.copy_outputs();
        copier_.copy_updates();
        return b_.finish();
    }

private:
    // Invalid where the node cannot be split.
    Value split(NodeId id) {
        const Node& node = graph_.node(id);
        std::vector<Value> operands = copier_.operands(node);
        bool stored = false;
        for (size_t i = 0; i < operands.size(); ++i) {
            if (!node.operands[i].valid() || is_near(graph_, node.operands[i])) continue;
            operands[i] = b_.call("materialize", {operands[i]});
            stored = true;
        }
        if (stored) return again(node, operands);
        const NodeCall call(graph_, id);
        if (std::holds_alternative<ReduceLower>(node.op->lower)) return reduction(id, operands[0]);
        if (const auto* contract = std::get_if<ContractLower>(&node.op->lower))
            return contract->halve(*HeldCall(b_, node, operands));
        if (node.op->name == "scatter_add") return scatter(node, *call, operands);
        if (node.op->name == "gather") return gather(node, *call, operands);
        const auto* kernel = std::get_if<KernelLower>(&node.op->lower);
        if (kernel != nullptr && kernel->name.starts_with("attention")) return split_attention(b_, node, operands);
        return {};
    }

    Value again(const Node& node, const std::vector<Value>& operands) { return b_.call_exact(*node.op, operands, node.attrs); }

    static int64_t extent(const Value& v, size_t axis) { return v.dims()[axis].value(); }

    Value part(const Value& v, size_t axis, int64_t first, int64_t end) {
        Axes start(v.rank(), 0), stop;
        for (size_t i = 0; i < v.rank(); ++i) stop.push_back(extent(v, i));
        start[axis] = first;
        stop[axis] = end;
        return b_.call("slice", {v}, {{"start", start}, {"stop", stop}});
    }
    std::pair<Value, Value> halves(const Value& v, size_t axis) {
        const int64_t middle = extent(v, axis) / 2;
        return {part(v, axis, 0, middle), part(v, axis, middle, extent(v, axis))};
    }

    Value reduction(NodeId id, const Value& x) {
        const Node& node = graph_.node(id);
        for (size_t axis : reduced_axes(graph_, id)) {
            if (extent(x, axis) < 2) continue;
            const auto [first, second] = halves(x, axis);
            const Value low = again(node, {first}), high = again(node, {second});
            switch (std::get<ReduceLower>(node.op->lower).kind) {
                case Reduction::sum: return b_.call("add", {low, high});
                case Reduction::max: return b_.call("maximum", {low, high});
                case Reduction::min: return b_.call("minimum", {low, high});
                case Reduction::argmax: {
                    // The lower index among equals; both maxima are of one axis, with or without it.
                    const Axes axes = {static_cast<int64_t>(axis)};
                    const bool keep = low.rank() == x.rank();
                    const Value low_max = b_.call("max", {first}, {{"axes", axes}, {"keep", keep}});
                    const Value high_max = b_.call("max", {second}, {{"axes", axes}, {"keep", keep}});
                    const Value shifted = b_.call("add", {high, splat(high, extent(first, axis))});
                    Value take_high = b_.call("gt", {high_max, low_max});
                    if (is_float(x.dtype())) {
                        const Value first_nan = b_.call("gt", {b_.call("isnan", {high_max}), b_.call("isnan", {low_max})});
                        take_high = b_.call("logical_or", {take_high, first_nan});
                    }
                    return b_.call("select", {take_high, shifted, low});
                }
            }
        }
        return {};
    }

    Value splat(const Value& like, int64_t value) { return b_.constant(like.type(), static_cast<double>(value)); }

    Value scatter(const Node& node, const Call& call, const std::vector<Value>& operands) {
        const size_t first = call.axis("axis", call.out->rank());
        for (size_t axis = 0; axis < operands[0].rank(); ++axis) {
            if (extent(operands[0], axis) < 2) continue;
            const auto [indices, more_indices] = halves(operands[0], axis);
            const auto [updates, more_updates] = halves(operands[1], first + axis);
            return b_.call("add", {again(node, {indices, updates}), again(node, {more_indices, more_updates})});
        }
        return {};
    }

    // Every index reads both halves, clamped, and takes the one that it means.
    Value gather(const Node& node, const Call& call, const std::vector<Value>& operands) {
        const Value &table = operands[0], &indices = operands[1];
        const size_t axis = call.axis("axis", table.rank());
        const int64_t middle = extent(table, axis) / 2;
        if (middle == 0) return {};
        const auto [low, high] = halves(table, axis);
        const Value in_low = b_.call("minimum", {indices, splat(indices, middle - 1)});
        const Value in_high = b_.call("sub", {b_.call("maximum", {indices, splat(indices, middle)}), splat(indices, middle)});
        Axes axes;
        for (size_t i = 0; i < indices.rank(); ++i) axes.push_back(static_cast<int64_t>(axis + i));
        const Value is_low =
            b_.call("broadcast", {b_.call("lt", {indices, splat(indices, middle)})}, {{"shape", call.out->dims}, {"axes", axes}});
        return b_.call("select", {is_low, b_.call("materialize", {again(node, {low, in_low})}),
                                  b_.call("materialize", {again(node, {high, in_high})})});
    }

    const Graph& graph_;
    const std::vector<NodeId>& nodes_;  // ascending
    Builder b_;
    GraphCopier copier_;
};

}  // namespace

Result<Graph> split_beyond_windows(Graph graph, const Caps& caps) {
    const auto large = [&](const Node& node) { return static_cast<uint64_t>(node.type.count()) * 4 > caps.max_binding_bytes; };
    while (std::any_of(graph.nodes.begin(), graph.nodes.end(), large)) {
        std::vector<NodeId> nodes = nodes_beyond_windows(graph, caps);
        if (nodes.empty()) break;
        std::sort(nodes.begin(), nodes.end());
        TRY(graph, Splitter(graph, nodes).run(caps));
    }
    return graph;
}

}  // namespace darner::plan
