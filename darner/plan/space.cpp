// SPDX-License-Identifier: MIT
#include "darner/plan/space.h"

#include "darner/kernels/grid.h"
#include "darner/plan/storage.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

using kir::Expr;

namespace {

bool is_reduced(const Space& space, size_t axis) { return std::binary_search(space.reduced.begin(), space.reduced.end(), axis); }

}  // namespace

Space Space::map(const Type& type) {
    Space space;
    space.cols = static_cast<uint64_t>(type.count());
    space.dims = {type.count()};
    return space;
}

Space Space::row(const Type& operand, const std::vector<size_t>& axes) {
    Space space;
    const auto dims = operand.shape();
    bool last_reduced = false;
    for (size_t i = 0; i < dims.size(); ++i) {
        const bool reduced = std::binary_search(axes.begin(), axes.end(), i);
        (reduced ? space.cols : space.rows) *= static_cast<uint64_t>(dims[i]);
        if (dims[i] == 1) continue;
        if (!space.dims.empty() && reduced == last_reduced) {
            space.dims.back() *= dims[i];
        } else {
            if (reduced) space.reduced.push_back(space.dims.size());
            space.dims.push_back(dims[i]);
        }
        last_reduced = reduced;
    }
    return space;
}

Space Space::swapped() const {
    Space other = *this;
    other.reduced.clear();
    for (size_t i = 0; i < dims.size(); ++i)
        if (!is_reduced(*this, i)) other.reduced.push_back(i);
    std::swap(other.rows, other.cols);
    return other;
}

Expr full_position(kir::Builder& b, const Space& space, Expr row, Expr col) {
    if (space.reduced.empty()) return space.rows == 1 ? col : row;  // nothing to split: a plain space, or rows of one column
    std::vector<int64_t> kept_dims, reduced_dims;
    for (size_t i = 0; i < space.dims.size(); ++i) (is_reduced(space, i) ? reduced_dims : kept_dims).push_back(space.dims[i]);
    const auto kept = kernels::delinearize(b, row, kept_dims);
    const auto reduced = kernels::delinearize(b, col, reduced_dims);
    std::vector<Expr> index;
    for (size_t i = 0, k = 0, r = 0; i < space.dims.size(); ++i) index.push_back(is_reduced(space, i) ? reduced[r++] : kept[k++]);
    return kernels::linearize(b, index, space.dims);
}

Tokens::Tokens(const Space& space) : builder("tokens") {
    const auto token = [&](uint32_t axis, uint64_t extent) {
        return extent <= 1 ? builder.u32(0) : builder.assume_max(builder.local_id(axis), static_cast<uint32_t>(extent - 1));
    };
    row = token(0, space.rows);
    col = token(1, space.cols);
    full = full_position(builder, space, row, col);
    elsewhere = builder.num_workgroups(1);
}

std::vector<size_t> reduced_axes(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const NodeCall call(graph, id);
    const size_t rank = graph.type(node.operands[0]).rank();
    std::vector<size_t> axes;
    if (node.op->find_attr("axes") != nullptr) {
        for (int64_t axis : call->integers("axes")) axes.push_back(*normalize_axis(axis, rank));
        if (axes.empty()) {
            axes.resize(rank);
            std::iota(axes.begin(), axes.end(), size_t{0});
        }
        std::sort(axes.begin(), axes.end());
    } else {
        axes.push_back(call->axis("axis", rank));
    }
    return axes;
}

std::vector<Reach> reads_of(const Graph& graph, const Grouping& grouping, Tokens& tokens, NodeId id, Expr position) {
    std::vector<Reach> reads;
    kir::Builder& b = tokens.builder;
    Pull pull(graph, b, [&](NodeId read, Point& at) -> std::optional<Expr> {
        const NodeId storage = grouping.storage[read.value];
        if (graph.node(storage).kind == NodeKind::op && !grouping.computes(storage)) return std::nullopt;
        reads.push_back({read, linear_of(b, at, graph.type(read))});
        // Any value of the right type: only where it is read matters here.
        return b.convert(b.num_workgroups(0), kernels::register_scalar(*storage_of(graph.type(read).dtype)));
    });
    const Node& node = graph.node(id);
    const Lower& lower = node.op->lower;
    if (std::holds_alternative<ReduceLower>(lower)) {
        pull.value(node.operands[0], Point::at(tokens.full));
    } else if (std::holds_alternative<ContractLower>(lower) || std::holds_alternative<KernelLower>(lower)) {
        for (NodeId operand : node.operands)
            if (operand.valid()) pull.value(operand, Point::at(tokens.elsewhere));
    } else {
        pull.compute(id, Point::at(position));
    }
    return reads;
}

kernels::RowOp row_op(const Graph& graph, NodeId reduction) {
    switch (std::get<ReduceLower>(graph.node(reduction).op->lower).kind) {
        case Reduction::sum: return kernels::RowOp::sum;
        case Reduction::max: return kernels::RowOp::max;
        case Reduction::min: return kernels::RowOp::min;
        case Reduction::argmax: return kernels::RowOp::argmax;
    }
    bug(__FILE__, __LINE__, "unknown reduction");
}

}  // namespace darner::plan
