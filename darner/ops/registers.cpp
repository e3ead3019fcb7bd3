// SPDX-License-Identifier: MIT
// Register forms and casts; see registers.h. Casts round even where the value is never stored, because `cast` is the one op
// whose meaning is rounding.
#include "darner/ops/registers.h"

namespace darner {

using kir::Expr;
using kir::Scalar;

Scalar register_scalar(DType dtype) {
    switch (dtype) {
        case DType::f32:
        case DType::f16:
        case DType::bf16:
        case DType::f64: return Scalar::f32;
        case DType::i8:
        case DType::i32:
        case DType::i64: return Scalar::i32;
        case DType::u8:
        case DType::u32: return Scalar::u32;
        case DType::boolean: return Scalar::boolean;
    }
    return Scalar::f32;
}

kir::Type with_scalar(const kir::Type& type, Scalar scalar) { return kir::Type{scalar}.with_lanes(type.lanes); }

Expr register_constant(kir::Builder& k, DType dtype, double value, uint8_t lanes) {
    return k.constant(kir::Type{register_scalar(dtype)}.with_lanes(lanes), value);
}

Expr shift_left(kir::Builder& k, Expr x, uint32_t count) {
    return k.binary(kir::Opcode::shl, x, k.constant(with_scalar(x.type(), Scalar::u32), count));
}

Expr shift_right(kir::Builder& k, Expr x, uint32_t count) {
    return k.binary(kir::Opcode::shr, x, k.constant(with_scalar(x.type(), Scalar::u32), count));
}

Expr is_nan(kir::Builder& k, Expr x) { return (k.bitcast(x, Scalar::u32) & 0x7fffffffu) > 0x7f800000u; }

Expr nan_or(kir::Builder& k, Expr x, Expr otherwise) {
    return x.type().scalar == Scalar::f32 ? k.select(is_nan(k, x), x, otherwise) : otherwise;
}

Expr clamped_index(kir::Builder& k, Expr index, uint32_t extent) {
    if (index.type().scalar == Scalar::i32) index = k.bitcast(k.max(index, k.i32(0)), Scalar::u32);
    return k.assume_max(k.min(index, k.constant(index.type(), extent - 1)), extent - 1);
}

Expr wrap_register(kir::Builder& k, Expr x, DType dtype) {
    if (dtype == DType::i8) return shift_right(k, shift_left(k, x, 24), 24);
    if (dtype == DType::u8) return x & 255;
    return x;
}

namespace {

// Nearest f16, ties to even.
Expr round_to_f16(kir::Builder& k, Expr x) {
    return per_lane(k, x, [&k](Expr v) { return k.extract(k.unpack_half2(k.pack_half2(v, k.f32(0))), 0); });
}

// Nearest bf16, ties to even: the upper half of the word after adding just under half a unit, one more where that unit is odd.
Expr round_to_bf16(kir::Builder& k, Expr x) {
    const Expr bits = k.bitcast(x, Scalar::u32);
    const Expr odd = shift_right(k, bits, 16) & 1;
    const Expr rounded = (bits + 0x7fff + odd) & 0xffff0000u;
    const Expr quiet_nan = (bits | 0x00400000u) & 0xffff0000u;  // rounding could carry a NaN into infinity
    return k.bitcast(k.select(is_nan(k, x), quiet_nan, rounded), Scalar::f32);
}

Expr round_float(kir::Builder& k, Expr x, DType to) {
    if (to == DType::f16) return round_to_f16(k, x);
    if (to == DType::bf16) return round_to_bf16(k, x);
    return x;
}

// An integer as f32 for rounding to bf16 afterwards. From 2^24 on f32 itself would round first, and twice rounded is
// sometimes wrong: so there the low half becomes one sticky bit, which leaves at most 17 significant bits.
Expr integer_for_bf16(kir::Builder& k, Expr magnitude) {
    const kir::Type type = magnitude.type();
    const Expr sticky = k.select((magnitude & 0xffff) != 0, k.constant(type, 0x8000), k.constant(type, 0));
    const Expr shortened = (magnitude & 0xffff0000u) | sticky;
    return k.convert(k.select(magnitude >= (1 << 24), shortened, magnitude), Scalar::f32);
}

Expr integer_to_float(kir::Builder& k, Expr x, DType from, DType to) {
    const bool wide = from == DType::i32 || from == DType::u32;
    if (to != DType::bf16 || !wide) return round_float(k, k.convert(x, Scalar::f32), to);
    if (from == DType::u32) return round_to_bf16(k, integer_for_bf16(k, x));
    const Expr negative = x < 0;
    const Expr bits = k.bitcast(x, Scalar::u32);
    const Expr magnitude = k.select(negative, k.constant(bits.type(), 0) - bits, bits);
    const Expr rounded = round_to_bf16(k, integer_for_bf16(k, magnitude));
    return k.select(negative, -rounded, rounded);
}

Expr float_to_integer(kir::Builder& k, Expr x, DType to) {
    const auto clamp = [&k](Expr v, double low, double high) {
        return k.min(k.max(v, k.constant(v.type(), low)), k.constant(v.type(), high));
    };
    switch (to) {
        case DType::i8: return clamp(k.convert(x, Scalar::i32), -128, 127);
        case DType::u8: return clamp(k.convert(x, Scalar::u32), 0, 255);
        default: return k.convert(x, register_scalar(to));
    }
}

}  // namespace

Expr cast_register(kir::Builder& k, Expr x, DType from, DType to) {
    if (from == to) return x;
    if (to == DType::boolean) return x != 0;
    if (from == DType::boolean) return k.convert(x, register_scalar(to));
    if (is_float(from)) {
        // Every value of a narrower float is one of f32.
        return is_float(to) ? round_float(k, x, to) : float_to_integer(k, x, to);
    }
    if (is_float(to)) return integer_to_float(k, x, from, to);
    if (register_scalar(from) != register_scalar(to)) x = k.bitcast(x, register_scalar(to));
    return wrap_register(k, x, to);
}

}  // namespace darner
