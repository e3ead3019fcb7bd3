// SPDX-License-Identifier: MIT
// Inverse, hyperbolic and error functions in f32, written with kir::Builder: accurate relative to the result everywhere, near
// zero included, where the formulas by exponential and logarithm cancel. Outside their domain they give NaN.
#pragma once

#include "darner/kir/builder.h"

namespace darner {

kir::Expr emit_log1p(kir::Builder& k, kir::Expr x);
kir::Expr emit_expm1(kir::Builder& k, kir::Expr x);
kir::Expr emit_asin(kir::Builder& k, kir::Expr x);
kir::Expr emit_acos(kir::Builder& k, kir::Expr x);
kir::Expr emit_atan(kir::Builder& k, kir::Expr x);
kir::Expr emit_atan2(kir::Builder& k, kir::Expr y, kir::Expr x);
kir::Expr emit_sinh(kir::Builder& k, kir::Expr x);
kir::Expr emit_cosh(kir::Builder& k, kir::Expr x);
kir::Expr emit_asinh(kir::Builder& k, kir::Expr x);
kir::Expr emit_acosh(kir::Builder& k, kir::Expr x);
kir::Expr emit_atanh(kir::Builder& k, kir::Expr x);
kir::Expr emit_erf(kir::Builder& k, kir::Expr x);
kir::Expr emit_erfc(kir::Builder& k, kir::Expr x);

}  // namespace darner
