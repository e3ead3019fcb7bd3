// SPDX-License-Identifier: MIT
// Points of a group's space as kernel expressions, and where the reads of a node land relative to them.
#pragma once

#include "darner/plan/grouping.h"
#include "darner/plan/pull.h"

#include <memory>

namespace darner::plan {

// The position of the full element at (row, col). Rows and columns count row-major over the kept and the reduced axes; a row
// value's position is the row itself, a column value's the column.
kir::Expr full_position(kir::Builder& b, const Space& space, kir::Expr row, kir::Expr col);

// A scratch builder with opaque row, column and element ids below the space's extents.
struct Tokens {
    explicit Tokens(const Space& space);
    kir::Builder builder;
    kir::Expr row, col, full, elsewhere;  // elsewhere: a position that is none of the others
};

// Where one read arrives: a node that is stored or computed, at a row-major position.
struct Reach {
    NodeId node;
    kir::Expr position;
};

// All reads of a node computed at `position` (of a reduction: with its operand at the full position; of a contraction or
// scatter: anywhere), followed through views and index nodes that are in no group.
std::vector<Reach> reads_of(const Graph& graph, const Grouping& grouping, Tokens& tokens, NodeId node, kir::Expr position);

// The axes that a reduction node removes, ascending.
std::vector<size_t> reduced_axes(const Graph& graph, NodeId node);

kernels::RowOp row_op(const Graph& graph, NodeId reduction);

}  // namespace darner::plan
