// SPDX-License-Identifier: MIT
// Pull: emits the value of a graph node at a point of its index space, going back through views, index nodes and elementwise
// ops until a hook knows the value (a stored tensor, a reduction's result). Grouping uses the same code with a hook that only
// records where it arrives, so what fuses and what is emitted cannot disagree.
#pragma once

#include "darner/graph/graph.h"
#include "darner/kir/builder.h"

#include <functional>
#include <map>
#include <optional>

namespace darner::plan {

// An element of a tensor: its row-major position, its index, or both. The missing form is made from the other.
struct Point {
    kir::Expr linear;
    std::vector<kir::Expr> index;
    bool has_index = false;  // an index of rank 0 is empty but known

    static Point at(kir::Expr linear) { return {linear, {}, false}; }
    static Point at(std::vector<kir::Expr> index) { return {{}, std::move(index), true}; }
};

kir::Expr linear_of(kir::Builder& b, const Point& point, const Type& type);
const std::vector<kir::Expr>& index_of(kir::Builder& b, Point& point, const Type& type);

class Pull {
public:
    // Gives the node's value when it is known without computing it.
    using Resolve = std::function<std::optional<kir::Expr>(NodeId, Point&)>;

    Pull(const Graph& graph, kir::Builder& builder, Resolve resolve);

    kir::Expr value(NodeId node, Point point);
    // What one op node computes, its operands pulled: the node itself is not offered to the hook.
    kir::Expr compute(NodeId node, Point point);
    // Values found so far are valid only in the control block they were emitted in: call at each new one.
    void new_scope() { memo_.clear(); }

private:
    kir::Expr splat(const Node& node);
    const Graph& graph_;
    kir::Builder& b_;
    Resolve resolve_;
    std::map<std::pair<uint32_t, uint32_t>, kir::Expr> memo_;  // (node, linear position)
};

}  // namespace darner::plan
