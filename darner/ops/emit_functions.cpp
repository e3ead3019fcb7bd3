// SPDX-License-Identifier: MIT
// Inverse, hyperbolic and error functions on kernel registers; see emit_functions.h. The polynomials are those of the Cephes
// library in single precision; a branch that is not taken may overflow, so each is safe to compute anywhere.
#include "darner/ops/emit_functions.h"

#include "darner/ops/emit_math.h"
#include "darner/ops/registers.h"

namespace darner {

using kir::Expr;
using kir::Scalar;

namespace {

constexpr double pi = 3.14159265358979324, ln2 = 0.693147180559945309;
constexpr double large = 4096;  // from here on, sqrt(x^2 + 1) and sqrt(x^2 - 1) are x in f32

Expr splat(Expr like, double value) { return like.builder->constant(like.type(), value); }

// |magnitude| with the sign bit of `sign`.
Expr with_sign(kir::Builder& k, Expr magnitude, Expr sign) {
    return k.bitcast((k.bitcast(magnitude, Scalar::u32) & 0x7fffffffu) | (k.bitcast(sign, Scalar::u32) & 0x80000000u),
                     Scalar::f32);
}

Expr is_negative(kir::Builder& k, Expr x) { return k.bitcast(x, Scalar::u32) >= 0x80000000u; }

}  // namespace

// The logarithm of a rounded 1 + x says nothing about a small x: there it is the logarithm's own polynomial.
Expr emit_log1p(kir::Builder& k, Expr x) {
    const Expr z = x * x;
    const Expr p = horner(k, x,
                          {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                           -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
    const Expr near = x + k.fma(x * z, p, z * -0.5);
    const Expr is_near = (x > -0.2928932) & (x < 0.4142135);
    return nan_or(k, x, nan_where(k, x < -1, x, k.select(is_near, near, k.log(x + 1))));
}

Expr emit_expm1(kir::Builder& k, Expr x) {
    const Expr p = horner(
        k, x, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
    const Expr near = k.fma(x * x, p, x);
    return nan_or(k, x, k.select(k.abs(x) < 0.35, near, k.exp(x) - 1));
}

namespace {

// x + x^3 p(x^2) for |x| <= 1/2.
Expr asin_near(kir::Builder& k, Expr x, Expr square) {
    const Expr p = horner(k, square, {4.2163199048e-2f, 2.4181311049e-2f, 4.5470025998e-2f, 7.4953002686e-2f, 1.6666752422e-1f});
    return k.fma(p * square, x, x);
}

// asin(|x|) where |x| <= 1/2, and beyond asin(sqrt((1 - |x|) / 2)), which is half of acos(|x|).
Expr half_angle(kir::Builder& k, Expr magnitude) {
    const Expr is_far = magnitude > 0.5;
    const Expr square = k.select(is_far, (1 - magnitude) * 0.5, magnitude * magnitude);
    return asin_near(k, k.select(is_far, k.sqrt(square), magnitude), square);
}

// For x in [0, 1]; the argument is reduced to at most tan(pi/8).
Expr atan_unit(kir::Builder& k, Expr x) {
    const Expr is_far = x > 0.414213562373095;
    const Expr t = k.select(is_far, (x - 1) / (x + 1), x);
    const Expr z = t * t;
    const Expr p = horner(k, z, {8.05374449538e-2f, -1.38776856032e-1f, 1.99777106478e-1f, -3.33329491539e-1f});
    return k.select(is_far, splat(x, pi / 4), splat(x, 0)) + k.fma(p * z, t, t);
}

}  // namespace

Expr emit_asin(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), angle = half_angle(k, magnitude);
    const Expr y = k.select(magnitude > 0.5, pi / 2 - angle * 2, angle);
    return nan_or(k, x, nan_where(k, magnitude > 1, x, with_sign(k, y, x)));
}

Expr emit_acos(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), angle = half_angle(k, magnitude);
    const Expr far = k.select(x < 0, pi - angle * 2, angle * 2);
    const Expr y = k.select(magnitude > 0.5, far, pi / 2 - with_sign(k, angle, x));
    return nan_or(k, x, nan_where(k, magnitude > 1, x, y));
}

Expr emit_atan(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), is_steep = magnitude > 1;
    const Expr angle = atan_unit(k, k.select(is_steep, 1 / magnitude, magnitude));
    return nan_or(k, x, with_sign(k, k.select(is_steep, pi / 2 - angle, angle), x));
}

// The quotient of the smaller by the larger, 1 where both are infinite and 0 where both are zero; then by octant.
Expr emit_atan2(kir::Builder& k, Expr y, Expr x) {
    const Expr a = k.abs(x), b = k.abs(y), is_steep = b > a;
    const Expr high = k.max(a, b), low = k.min(a, b);
    const Expr divisor = k.select(high == 0, splat(x, 1), high);
    const Expr angle = atan_unit(k, k.select(low == divisor, splat(x, 1), low / divisor));
    const Expr quadrant = k.select(is_steep, pi / 2 - angle, angle);
    const Expr half = k.select(is_negative(k, x), pi - quadrant, quadrant);
    return nan_or(k, x, nan_or(k, y, with_sign(k, half, y)));
}

namespace {

// exp(|x|) / 2, which does not overflow before the hyperbolic functions do.
Expr half_exp(kir::Builder& k, Expr magnitude) { return k.exp(magnitude - ln2); }

// log(2x), for large x.
Expr log_twice(kir::Builder& k, Expr x) { return k.log(x) + ln2; }

}  // namespace

Expr emit_sinh(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), z = x * x;
    const Expr near = k.fma(horner(k, z, {2.03721912945e-4f, 8.33028376239e-3f, 1.66667160211e-1f}) * z, x, x);
    const Expr e = half_exp(k, magnitude);
    return nan_or(k, x, k.select(magnitude < 1, near, with_sign(k, e - 0.25 / e, x)));
}

Expr emit_cosh(kir::Builder& k, Expr x) {
    const Expr e = half_exp(k, k.abs(x));
    return nan_or(k, x, e + 0.25 / e);
}

// log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1)))
Expr emit_asinh(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), a = k.min(magnitude, splat(x, large)), square = a * a;
    const Expr near = emit_log1p(k, a + square / (k.sqrt(square + 1) + 1));
    return nan_or(k, x, with_sign(k, k.select(magnitude < large, near, log_twice(k, magnitude)), x));
}

// log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(t (t + 2))) with t = x - 1
Expr emit_acosh(kir::Builder& k, Expr x) {
    const Expr t = k.min(k.max(x - 1, splat(x, 0)), splat(x, large));
    const Expr near = emit_log1p(k, t + k.sqrt(t * (t + 2)));
    return nan_or(k, x, nan_where(k, x < 1, x, k.select(x < large, near, log_twice(k, x))));
}

// log((1 + x) / (1 - x)) / 2 = log1p(2x / (1 - x)) / 2
Expr emit_atanh(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x);
    const Expr y = emit_log1p(k, magnitude * 2 / (1 - magnitude)) * 0.5;
    return nan_or(k, x, nan_where(k, magnitude > 1, x, with_sign(k, y, x)));
}

namespace {

// x p(x^2) for |x| <= 1.
Expr erf_near(kir::Builder& k, Expr x) {
    return x * horner(k, x * x,
                      {7.853861353153693e-5f, -8.010193625184903e-4f, 5.188327685732524e-3f, -2.685381193529856e-2f,
                       1.128358514861418e-1f, -3.761262582423300e-1f, 1.128379165726710f});
}

// erfc(x) = exp(-x^2) p(1 / x^2) / x for x >= 1, without overflow for any x; beyond 10 it is 0 in f32.
Expr erfc_far(kir::Builder& k, Expr magnitude) {
    const Expr a = k.min(k.max(magnitude, splat(magnitude, 1)), splat(magnitude, 16));
    const Expr q = 1 / a, z = q * q;
    const Expr below_two = horner(
        k, z,
        {2.326819970068386e-2f, -1.387039388740657e-1f, 3.687424674597105e-1f, -5.824733027278666e-1f, 6.210004621745983e-1f,
         -4.944515323274145e-1f, 3.404879937665872e-1f, -2.741127028184656e-1f, 5.638259427386472e-1f});
    const Expr from_two = horner(k, z,
                                 {-1.047766399936249e+1f, 1.297719955372516e+1f, -7.495518717768503f, 2.921019019210786f,
                                  -1.015265279202700f, 4.218463358204948e-1f, -2.820767439740514e-1f, 5.641895067754075e-1f});
    return k.exp(-(a * a)) * q * k.select(a < 2, below_two, from_two);
}

}  // namespace

Expr emit_erf(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x);
    return nan_or(k, x, k.select(magnitude < 1, erf_near(k, x), with_sign(k, 1 - erfc_far(k, magnitude), x)));
}

Expr emit_erfc(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x), far = erfc_far(k, magnitude);
    return nan_or(k, x, k.select(magnitude < 1, 1 - erf_near(k, x), k.select(x < 0, 2 - far, far)));
}

}  // namespace darner
