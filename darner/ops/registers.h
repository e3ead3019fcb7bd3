// SPDX-License-Identifier: MIT
// How values of each dtype live in kernel registers, and the conversions between them. Floats of any width are f32; i8 and
// i32 are i32; u8 and u32 are u32; bool is boolean. An i8 or u8 register always holds a value of its range, so a fused value
// equals one that was stored and loaded. All functions take scalars and vectors alike.
#pragma once

#include "darner/graph/type.h"
#include "darner/kir/builder.h"

namespace darner {

kir::Scalar register_scalar(DType dtype);
// A constant in the register form of `dtype`, with as many lanes as `like`.
kir::Expr register_constant(kir::Builder& k, DType dtype, double value, uint8_t lanes = 1);
kir::Type with_scalar(const kir::Type& type, kir::Scalar scalar);

// Back into the range of an i8 or u8; other dtypes pass.
kir::Expr wrap_register(kir::Builder& k, kir::Expr x, DType dtype);
// The value of `cast`: see its entry in compare.cpp.
kir::Expr cast_register(kir::Builder& k, kir::Expr x, DType from, DType to);

// Of a float register, told by its bits: targets promise nothing for NaN in comparisons, min and max.
kir::Expr is_nan(kir::Builder& k, kir::Expr x);
// x where it is a NaN; integers never are.
kir::Expr nan_or(kir::Builder& k, kir::Expr x, kir::Expr otherwise);

// An i32 or u32 index moved into 0 .. extent-1, as u32.
kir::Expr clamped_index(kir::Builder& k, kir::Expr index, uint32_t extent);

// Shift by a constant count.
kir::Expr shift_left(kir::Builder& k, kir::Expr x, uint32_t count);
kir::Expr shift_right(kir::Builder& k, kir::Expr x, uint32_t count);

// Applies a function of scalars to each lane.
template <class F>
kir::Expr per_lane(kir::Builder& k, kir::Expr x, const F& f) {
    const uint8_t lanes = x.type().lanes;
    if (lanes == 1) return f(x);
    std::vector<kir::Expr> parts;
    for (uint8_t i = 0; i < lanes; ++i) parts.push_back(f(k.extract(x, i)));
    return k.make_vector(parts);
}
template <class F>
kir::Expr per_lane(kir::Builder& k, kir::Expr a, kir::Expr b, const F& f) {
    const uint8_t lanes = a.type().lanes;
    if (lanes == 1) return f(a, b);
    std::vector<kir::Expr> parts;
    for (uint8_t i = 0; i < lanes; ++i) parts.push_back(f(k.extract(a, i), k.extract(b, i)));
    return k.make_vector(parts);
}

}  // namespace darner
