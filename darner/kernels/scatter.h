// SPDX-License-Identifier: MIT
// Scatter-add without atomics: each destination element walks the indices in order and adds the updates that are its own, so
// the sum has one order on every device. Work is destinations x indices.
#pragma once

#include "darner/base/result.h"
#include "darner/kernels/grid.h"

namespace darner::kernels {

struct ScatterSpec {
    uint32_t outer = 1, size = 1, inner = 1;  // destination [outer, size, inner]
    uint32_t indices = 0;                     // updates [outer, indices, inner]
    kir::Scalar scalar = kir::Scalar::f32;
    std::function<kir::Expr(kir::Builder&, kir::Expr which)> index;  // i32 or u32; out of range: dropped
    std::function<kir::Expr(kir::Builder&, kir::Expr outer, kir::Expr which, kir::Expr inner)> update;
    std::function<void(kir::Builder&, kir::Expr linear, kir::Expr sum)> store;
};

Result<Grid> build_scatter(kir::Builder& b, const ScatterSpec& spec, const Caps& caps);

}  // namespace darner::kernels
