// SPDX-License-Identifier: MIT
// The row archetype: a row program over a space of rows x cols. Stages of reductions over the columns, each seeing the results
// of the stages before; then a final pass that stores full outputs, row outputs, and adds up columns over the rows (parameter
// gradients) into per-block partials that an ordered second kernel sums.
//
// Rows are spread over lanes: `lanes` invocations share a row, `slots` rows are worked on side by side by one workgroup, and a
// workgroup goes through a block of rows. Short rows are unrolled, so every element read stays in a register from its first use
// (equal loads are one load); long rows loop and read again. The reduction order depends on shape and caps alone.
#pragma once

#include "darner/kernels/grid.h"

namespace darner::kernels {

enum class RowOp : uint8_t { sum, max, min, argmax };

struct RowReduce {
    RowOp op = RowOp::sum;
    uint32_t stage = 0;
};

struct RowSpec {
    uint32_t rows = 1, cols = 1;
    std::vector<RowReduce> reduces;  // stages ascending from 0
    size_t column_sums = 0;
    bool has_full_outputs = false, has_row_outputs = false;

    // What is reduced, at a row and column; `reduced` hears each result (argmax: u32) before later stages ask for operands.
    std::function<kir::Expr(kir::Builder&, size_t reduce, kir::Expr row, kir::Expr col)> operand;
    std::function<void(kir::Builder&, size_t reduce, kir::Expr value)> reduced;
    std::function<void(kir::Builder&, kir::Expr row, kir::Expr col)> store_full;
    std::function<void(kir::Builder&, kir::Expr row)> store_row;
    std::function<kir::Expr(kir::Builder&, size_t sum, kir::Expr row, kir::Expr col)> column_operand;
    std::function<void(kir::Builder&, size_t sum, kir::Expr block, kir::Expr col, kir::Expr value)> store_partial;
};

// How a RowSpec is laid out on the device: a function of shape and caps, so that plans can ask before building.
struct RowShape {
    uint32_t lanes = 1, slots = 1;  // powers of two
    uint32_t items = 1;             // columns a lane
    bool unrolled = true;           // every element is read once
    uint32_t blocks = 1, rows_per_block = 1;
    Grid grid;
};

// Nothing when the device cannot run it: column sums over rows too long to unroll, too many workgroups, or more workgroup
// memory than there is.
std::optional<RowShape> row_shape(uint32_t rows, uint32_t cols, std::span<const RowReduce> reduces, size_t column_sums,
                                  const Caps& caps);

// Emits into a builder whose bindings are declared; sets the workgroup size.
void build_row(kir::Builder& b, const RowSpec& spec, const RowShape& shape, const Caps& caps);

}  // namespace darner::kernels
