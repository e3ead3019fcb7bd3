// SPDX-License-Identifier: MIT
// Math functions on kernel registers; see emit_math.h. The polynomials are those of the Cephes library in single precision.
#include "darner/ops/emit_math.h"

#include "darner/ops/registers.h"

#include <bit>
#include <cmath>

namespace darner {

using kir::Expr;
using kir::Opcode;
using kir::Scalar;

Expr horner(kir::Builder& k, Expr z, std::initializer_list<float> coefficients) {
    Expr sum;
    for (const float c : coefficients) {
        const Expr term = k.constant(z.type(), c);
        sum = sum.valid() ? k.fma(sum, z, term) : term;
    }
    return sum;
}

Expr nan_where(kir::Builder& k, Expr condition, Expr x, Expr otherwise) {
    return k.select(condition, k.bitcast(k.bitcast(x, Scalar::u32) | 0x7fc00000u, Scalar::f32), otherwise);
}

namespace {

// sin(x + quarter pi/2). The argument is reduced to [-pi/4, pi/4] by subtracting n pi/2, with pi/2 in three parts of which the
// first two times n are exact for |x| <= 8192; beyond, the error grows in proportion to |x|, and what is left is cut to the range
// of the polynomials, so that the result stays within [-1, 1].
Expr sin_quarter(kir::Builder& k, Expr x, uint32_t quarter) {
    const Expr n = k.round_even(x * 0.636619772367581343);
    Expr r = k.fma(n, k.constant(x.type(), -1.5703125), x);
    r = k.fma(n, k.constant(x.type(), -4.837512969970703125e-4), r);
    r = k.fma(n, k.constant(x.type(), -7.54978995489188216e-8), r);
    const Expr unbounded = r;  // NaN for an infinite or NaN x
    const double most = 0.7853982;
    r = k.min(k.max(r, k.constant(x.type(), -most)), k.constant(x.type(), most));
    const Expr z = r * r;
    const Expr sine = k.fma(horner(k, z, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f}) * z, r, r);
    const Expr cosine = k.fma(horner(k, z, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f}), z * z,
                              k.fma(z, k.constant(z.type(), -0.5), k.constant(z.type(), 1)));
    const Expr turn = k.bitcast(k.convert(n, Scalar::i32), Scalar::u32) + quarter;
    const Expr value = k.select((turn & 1) == 0, sine, cosine);
    return nan_or(k, unbounded, k.select((turn & 2) == 0, value, -value));
}

}  // namespace

Expr emit_sin(kir::Builder& k, Expr x) { return sin_quarter(k, x, 0); }
Expr emit_cos(kir::Builder& k, Expr x) { return sin_quarter(k, x, 1); }

// Odd polynomial near 0, where 1 - 2 / (exp(2x) + 1) would cancel; beyond |x| = 15 the value is 1 in f32 and the exponential
// must not overflow. Comparisons and min lose a NaN, so it goes round them.
Expr emit_tanh(kir::Builder& k, Expr x) {
    const Expr magnitude = k.abs(x);
    const Expr z = x * x;
    const Expr polynomial =
        horner(k, z, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f});
    const Expr near = k.fma(polynomial * z, x, x);
    const Expr e = k.exp(k.min(magnitude, k.constant(x.type(), 15)) * 2);
    const Expr far = 1 - 2 / (e + 1);
    return nan_or(k, x, k.select(magnitude < 0.625, near, k.select(x < 0, -far, far)));
}

// The exponential's argument is never positive, so nothing overflows.
Expr emit_sigmoid(kir::Builder& k, Expr x) {
    const Expr e = k.exp(-k.abs(x));
    const Expr s = 1 / (e + 1);
    return k.select(x >= 0, s, e * s);
}

namespace {

constexpr int max_multiplied_exponent = 16;

// x^n by squaring: as exact as multiplication, and defined for negative x.
Expr power_by_multiplication(kir::Builder& k, Expr x, int n) {
    Expr result, square = x;
    for (int rest = n; rest != 0; rest >>= 1) {
        if (rest & 1) result = result.valid() ? result * square : square;
        if (rest > 1) square = square * square;
    }
    return result.valid() ? result : k.f32(1);
}

Expr power(kir::Builder& k, Expr x, Expr y) {
    if (k.is_constant(y)) {
        const float exponent = std::bit_cast<float>(k.constant_bits(y));
        if (exponent == std::trunc(exponent) && std::fabs(exponent) <= max_multiplied_exponent) {
            const Expr p = power_by_multiplication(k, x, static_cast<int>(std::fabs(exponent)));
            return exponent < 0 ? 1 / p : p;
        }
        if (exponent == 0.5f) return k.sqrt(x);
    }
    const Expr magnitude = k.abs(x);
    const Expr positive = k.pow(k.select(magnitude == 0, k.f32(1), magnitude), y);
    // Targets leave a negative base undefined: the sign is that of (-1)^y for an integer y, and otherwise the value is a NaN,
    // made from x's bits because there are no NaN literals.
    const Expr is_integer = k.trunc(y) == y;
    const Expr half = y * 0.5f;
    const Expr is_odd = is_integer & (k.trunc(half) != half);
    const Expr nan = k.bitcast(k.bitcast(x, Scalar::u32) | 0x7fc00000u, Scalar::f32);
    const Expr negative = k.select(is_integer, k.select(is_odd, -positive, positive), nan);
    const Expr nonzero = k.select(x < 0, negative, positive);
    const Expr zero_base = k.select(y > 0, k.f32(0), 1 / magnitude);
    const Expr number = k.select(magnitude == 0, zero_base, nonzero);
    return k.select((y == 0) | (x == 1), k.f32(1), nan_or(k, x, nan_or(k, y, number)));
}

}  // namespace

Expr emit_pow(kir::Builder& k, Expr base, Expr exponent) {
    return per_lane(k, base, exponent, [&k](Expr x, Expr y) { return power(k, x, y); });
}

namespace {

// A positive normal f32 is mantissa * 2^exponent with a mantissa of 24 bits; exponents are biased so that they stay positive.
struct Parts {
    Expr mantissa, exponent;
};
Parts split(kir::Builder& k, Expr bits) {
    const Expr magnitude = bits & 0x7fffffffu;
    return {(magnitude & 0x007fffffu) | 0x00800000u, shift_right(k, magnitude, 23)};
}

// Long division in base 2^8: the remainder stays below the divisor's 24 bits, so that its shifted value fits in 32.
Expr fmod_scalar(kir::Builder& k, Expr a, Expr b) {
    const Expr a_bits = k.bitcast(a, Scalar::u32), b_bits = k.bitcast(b, Scalar::u32);
    const Parts pa = split(k, a_bits), pb = split(k, b_bits);
    // Compared as integers, so that the distance is right (and the loop short) for NaN and infinity as well.
    const Expr is_smaller = (a_bits & 0x7fffffffu) < (b_bits & 0x7fffffffu);
    const Expr distance = k.select(is_smaller, k.u32(0), pa.exponent - pb.exponent);
    const auto digits = k.loop(k.u32(0), shift_right(k, distance + 7, 3), k.u32(1), {pa.mantissa % pb.mantissa, distance},
                               [&](Expr, const kir::Builder::Values& carried) -> kir::Builder::Values {
                                   const Expr step = k.min(carried[1], k.u32(8));
                                   const Expr shifted = k.binary(Opcode::shl, carried[0], step);
                                   return {shifted % pb.mantissa, carried[1] - step};
                               });
    // remainder * 2^(exponent of b): one factor at a time, since 2^-149 is no normal number.
    const Expr scale = k.bitcast(shift_left(k, pb.exponent, 23), Scalar::f32);
    const Expr remainder = k.convert(digits[0], Scalar::f32) * 0x1p-23f * scale;
    const Expr with_sign = k.bitcast(k.bitcast(remainder, Scalar::u32) | (a_bits & 0x80000000u), Scalar::f32);
    // An infinite or NaN dividend and a zero or NaN divisor give NaN; subnormals count as zero, as targets may flush them.
    const Expr defined = (pa.exponent < 255) & (pb.exponent > 0) & ((b_bits & 0x7fffffffu) <= 0x7f800000u);
    const Expr nan = k.bitcast(a_bits | 0x7fc00000u, Scalar::f32);
    return k.select(defined, k.select(is_smaller, a, with_sign), nan);
}

}  // namespace

Expr emit_fmod(kir::Builder& k, Expr a, Expr b) {
    return per_lane(k, a, b, [&k](Expr x, Expr y) { return fmod_scalar(k, x, y); });
}

// Kernels have no zero divisor, and the one quotient that overflows, by -1, is a negation.
Expr emit_integer_div(kir::Builder& k, Expr a, Expr b) {
    const Expr zero = k.constant(b.type(), 0), one = k.constant(b.type(), 1);
    if (b.type().scalar == Scalar::u32) return k.select(b == 0, zero, a / k.select(b == 0, one, b));
    const Expr by_minus_one = b == -1;
    const Expr quotient = a / k.select((b == 0) | by_minus_one, one, b);
    return k.select(b == 0, zero, k.select(by_minus_one, zero - a, quotient));
}

// a - (a / b) b: the remainder instructions of some targets are undefined for negative operands.
Expr emit_integer_rem(kir::Builder& k, Expr a, Expr b) {
    const Expr one = k.constant(b.type(), 1);
    if (b.type().scalar == Scalar::u32) return a % k.select(b == 0, one, b);
    const Expr divisor = k.select((b == 0) | (b == -1), one, b);
    return a - (a / divisor) * divisor;
}

Expr emit_integer_pow(kir::Builder& k, Expr base, Expr exponent) {
    return per_lane(k, base, exponent, [&k](Expr x, Expr y) {
        const bool is_signed = x.type().scalar == Scalar::i32;
        const Expr one = k.constant(x.type(), 1), zero = k.constant(x.type(), 0);
        const Expr bits = is_signed ? k.bitcast(y, Scalar::u32) : y;
        const auto result = k.loop(k.u32(0), k.u32(32), k.u32(1), {one, x},
                                   [&](Expr bit, const kir::Builder::Values& carried) -> kir::Builder::Values {
                                       const Expr take = (k.binary(Opcode::shr, bits, bit) & 1) != 0;
                                       return {k.select(take, carried[0] * carried[1], carried[0]), carried[1] * carried[1]};
                                   });
        if (!is_signed) return result[0];
        // 1 / x^|y| truncated: only 1 and -1 have one that is not 0.
        const Expr sign = k.select((bits & 1) == 0, one, x);
        const Expr inverse = k.select((x == 1) | (x == -1), sign, zero);
        return k.select(y < 0, inverse, result[0]);
    });
}

}  // namespace darner
