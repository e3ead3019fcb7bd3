// SPDX-License-Identifier: MIT
#include "darner/plan/long_reductions.h"

#include "darner/graph/build_call.h"
#include "darner/kernels/contract.h"
#include "darner/plan/space.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

namespace {

// Shorter rows take less time than a second dispatch; shorter pieces keep a workgroup's lanes no busier.
constexpr int64_t shortest_row = 1 << 16, shortest_piece = 1 << 11;

// Of pieces: what divides the row, from half to four times the number wanted; 0 where nothing does.
int64_t even_pieces(int64_t cols, int64_t wanted) {
    for (int64_t step = 0; step <= 3 * wanted; ++step) {
        if (cols % (wanted + step) == 0) return wanted + step;
        if (wanted - step >= std::max<int64_t>(2, wanted / 2) && cols % (wanted - step) == 0) return wanted - step;
    }
    return 0;
}

}  // namespace

Value reduce_in_two_stages(Builder& b, const Graph& graph, NodeId reduction, const Value& x, const Caps& caps) {
    const Node& node = graph.node(reduction);
    const Reduction kind = std::get<ReduceLower>(node.op->lower).kind;
    const std::vector<size_t> axes = reduced_axes(graph, reduction);
    // The last axes, so that a piece is a stretch of memory; an index has no second stage of its kind.
    if (kind == Reduction::argmax || axes.empty() || axes.front() + axes.size() != x.rank()) return {};
    int64_t rows = 1, cols = 1;
    for (size_t axis = 0; axis < x.rank(); ++axis) (axis < axes.front() ? rows : cols) *= x.dims()[axis].value();
    const int64_t workgroups = int64_t{4} * caps.compute_units;
    if (cols < shortest_row || rows * 8 > workgroups) return {};
    const int64_t wanted = std::clamp<int64_t>(workgroups / rows, 2, cols / shortest_piece);

    const auto reduced = [&](const Value& v) {
        return b.call(node.op->name, {v}, {{"axes", std::vector<int64_t>{static_cast<int64_t>(v.rank()) - 1}}});
    };
    const auto shaped = [&](const Value& v, Dims dims) { return b.call("reshape", {v}, {{"shape", std::move(dims)}}); };
    int64_t pieces = even_pieces(cols, wanted), length = pieces == 0 ? 0 : cols / pieces;
    Value whole = x, rest = {};
    if (pieces == 0) {
        pieces = wanted;
        length = cols / pieces;
        const auto part = [&](int64_t first, int64_t end) {
            return b.call("slice", {shaped(x, {rows, cols})},
                          {{"start", std::vector<int64_t>{0, first}}, {"stop", std::vector<int64_t>{rows, end}}});
        };
        whole = part(0, pieces * length);
        rest = reduced(part(pieces * length, cols));
    }
    Value result = reduced(reduced(shaped(whole, {rows, pieces, length})));
    if (rest.valid()) {
        const char* join = kind == Reduction::sum ? "add" : kind == Reduction::max ? "maximum" : "minimum";
        result = b.call(join, {result, rest});
    }
    return shaped(result, graph.type(reduction).dims);
}

Value contract_in_pieces(Builder& b, const Graph& graph, NodeId contraction, const std::vector<Value>& operands,
                         const Caps& caps) {
    const Node& node = graph.node(contraction);
    const auto& lower = std::get<ContractLower>(node.op->lower);
    const ContractSpace space = lower.space(*NodeCall(graph, contraction));
    const auto count = [](const std::vector<int64_t>& extents) {
        return std::accumulate(extents.begin(), extents.end(), uint64_t{1},
                               [](uint64_t product, int64_t extent) { return product * static_cast<uint64_t>(extent); });
    };
    if (node.type.count() == 0) return {};
    const uint64_t pieces = kernels::contract_pieces(count(space.batch), count(space.m), count(space.n), count(space.k), caps);
    return pieces < 2 ? Value{} : lower.split(*HeldCall(b, node, operands), static_cast<int64_t>(pieces));
}

}  // namespace darner::plan
