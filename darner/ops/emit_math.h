// SPDX-License-Identifier: MIT
// f32 functions that no target gives in the quality an op promises, written with kir::Builder. They take scalars and
// vectors alike, contain no infinite or NaN literals, and are right without relying on how a target treats those.
#pragma once

#include "darner/kir/builder.h"

#include <initializer_list>

namespace darner {

// Polynomial in z, the highest power's coefficient first.
kir::Expr horner(kir::Builder& k, kir::Expr z, std::initializer_list<float> coefficients);
// A NaN, made from the bits of x, where the condition holds: for arguments outside a function's domain.
kir::Expr nan_where(kir::Builder& k, kir::Expr condition, kir::Expr x, kir::Expr otherwise);

kir::Expr emit_sin(kir::Builder& k, kir::Expr x);
kir::Expr emit_cos(kir::Builder& k, kir::Expr x);
kir::Expr emit_tanh(kir::Builder& k, kir::Expr x);
kir::Expr emit_sigmoid(kir::Builder& k, kir::Expr x);
kir::Expr emit_pow(kir::Builder& k, kir::Expr base, kir::Expr exponent);
// C's fmod: exact, sign of the dividend.
kir::Expr emit_fmod(kir::Builder& k, kir::Expr a, kir::Expr b);

// Integers, i32 or u32. By zero gives 0; the smallest i32 by -1 wraps.
kir::Expr emit_integer_div(kir::Builder& k, kir::Expr a, kir::Expr b);
kir::Expr emit_integer_rem(kir::Builder& k, kir::Expr a, kir::Expr b);
kir::Expr emit_integer_pow(kir::Builder& k, kir::Expr base, kir::Expr exponent);

}  // namespace darner
