// SPDX-License-Identifier: MIT
#include "darner/plan/pull.h"

#include "darner/base/fault.h"
#include "darner/kernels/grid.h"
#include "darner/plan/storage.h"

namespace darner::plan {

using kir::Expr;

Expr linear_of(kir::Builder& b, const Point& point, const Type& type) {
    if (point.linear.valid()) return point.linear;
    const auto dims = type.shape();
    return kernels::linearize(b, point.index, dims);
}

const std::vector<Expr>& index_of(kir::Builder& b, Point& point, const Type& type) {
    if (!point.has_index) {
        const auto dims = type.shape();
        point.index = kernels::delinearize(b, point.linear, dims);
        point.has_index = true;
    }
    return point.index;
}

Pull::Pull(const Graph& graph, kir::Builder& builder, Resolve resolve)
    : graph_(graph), b_(builder), resolve_(std::move(resolve)) {}

Expr Pull::splat(const Node& node) {
    const Tensor& value = graph_.constant(node);
    const kir::Scalar scalar = kernels::register_scalar(*storage_of(node.type.dtype));
    switch (scalar) {
        case kir::Scalar::f32: return b_.f32(static_cast<float>(value.at(0)));
        case kir::Scalar::i32: return b_.i32(static_cast<int32_t>(value.integer[0]));
        case kir::Scalar::u32: return b_.u32(static_cast<uint32_t>(value.integer[0]));
        default: return b_.boolean(value.integer[0] != 0);
    }
}

Expr Pull::value(NodeId id, Point point) {
    const Node& node = graph_.node(id);
    if (node.kind == NodeKind::constant && graph_.is_splat(node)) return splat(node);
    point.linear = linear_of(b_, point, node.type);
    const auto key = std::pair(id.value, fault(18) ? 0 : point.linear.id.value);
    if (auto found = memo_.find(key); found != memo_.end()) return found->second;
    std::optional<Expr> known = resolve_(id, point);
    const Expr result = known ? *known : compute(id, std::move(point));
    memo_.emplace(key, result);
    return result;
}

Expr Pull::compute(NodeId id, Point point) {
    const Node& node = graph_.node(id);
    CHECK(node.kind == NodeKind::op, "a leaf is always stored: " + graph_.describe(id));
    const NodeCall call(graph_, id);
    if (const auto* map = std::get_if<MapLower>(&node.op->lower)) {
        std::vector<Expr> operands;
        for (NodeId operand : node.operands) operands.push_back(value(operand, point));
        return map->emit(b_, operands, *call);
    }
    if (const auto* view = std::get_if<ViewLower>(&node.op->lower)) {
        if (view->alias) return value(node.operands[0], Point::at(linear_of(b_, point, node.type)));
        std::vector<Expr> in;
        view->map_index(*call, b_, index_of(b_, point, node.type), in);
        return value(node.operands[0], Point::at(std::move(in)));
    }
    const auto* index = std::get_if<IndexLower>(&node.op->lower);
    CHECK(index != nullptr, "only elementwise ops, views and index ops are pulled: " + graph_.describe(id));
    return index->emit(*call, b_, index_of(b_, point, node.type), [&](size_t operand, std::span<const Expr> at) {
        return value(node.operands[operand], Point::at(std::vector<Expr>(at.begin(), at.end())));
    });
}

}  // namespace darner::plan
