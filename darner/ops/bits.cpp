// SPDX-License-Identifier: MIT
// Bitwise ops and shifts of integers, exclusive or, and tests for NaN and infinity.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <cmath>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using kir::Opcode;
using kir::Scalar;
using Reals = std::span<const double>;
using Integers = std::span<const int64_t>;
using Registers = std::span<const Expr>;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef a_b[] = {{"a"}, {"b"}};
constexpr OperandDef x_count[] = {{"x"}, {"count"}};
constexpr auto integers = infer::same_type<Accept::integers>;

Result<Type> infer_test(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    return c.type(0).with(DType::boolean);
}

int64_t bit_width(DType dtype) { return 8 * static_cast<int64_t>(byte_size(dtype)); }

int64_t shifted_left(Integers v, DType dtype) {
    const bool all_out = v[1] < 0 || v[1] >= bit_width(dtype);
    return all_out ? 0 : static_cast<int64_t>(static_cast<uint64_t>(v[0]) << v[1]);
}
int64_t shifted_right(Integers v, DType dtype) {
    const bool all_out = v[1] < 0 || v[1] >= bit_width(dtype);
    return all_out ? (v[0] < 0 ? -1 : 0) : v[0] >> v[1];
}

template <Opcode op>
Expr emit_bits(kir::Builder& k, Registers v, const Call&) {
    return k.binary(op, v[0], v[1]);
}

// Kernels shift by less than 32. The register of a narrow integer is wide enough that its own width needs no test.
Expr shift_count(kir::Builder& k, Registers v) {
    const Expr count = k.bitcast(v[1], Scalar::u32);
    return k.min(count, k.constant(count.type(), 31));
}
Expr shifts_all_out(kir::Builder& k, Registers v) { return k.bitcast(v[1], Scalar::u32) >= 32; }

Expr emit_shift_left(kir::Builder& k, Registers v, const Call& c) {
    const Expr shifted = wrap_register(k, k.binary(Opcode::shl, v[0], shift_count(k, v)), c.out->dtype);
    return k.select(shifts_all_out(k, v), k.constant(v[0].type(), 0), shifted);
}
Expr emit_shift_right(kir::Builder& k, Registers v, const Call& c) {
    const Expr shifted = k.binary(Opcode::shr, v[0], shift_count(k, v));
    // A signed value is all sign after 31 places as well.
    if (is_signed_integer(c.out->dtype)) return shifted;
    return k.select(shifts_all_out(k, v), k.constant(v[0].type(), 0), shifted);
}

constexpr uint32_t infinity_bits = 0x7f800000u;
Expr magnitude_bits(kir::Builder& k, Expr x) { return k.bitcast(x, Scalar::u32) & 0x7fffffffu; }

constexpr OpDef defs[] = {
    {.name = "bitwise_and",
     .doc = "y = a & b.",
     .operands = a_b,
     .infer = integers,
     .ref = ElementRef{.integer = [](Integers v, DType) { return v[0] & v[1]; }},
     .lower = MapLower{emit_bits<Opcode::bit_and>},
     .onnx = "BitwiseAnd",
     .commutative = true},
    {.name = "bitwise_or",
     .doc = "y = a | b.",
     .operands = a_b,
     .infer = integers,
     .ref = ElementRef{.integer = [](Integers v, DType) { return v[0] | v[1]; }},
     .lower = MapLower{emit_bits<Opcode::bit_or>},
     .onnx = "BitwiseOr",
     .commutative = true},
    {.name = "bitwise_xor",
     .doc = "y = a ^ b, the bits that differ.",
     .operands = a_b,
     .infer = integers,
     .ref = ElementRef{.integer = [](Integers v, DType) { return v[0] ^ v[1]; }},
     .lower = MapLower{emit_bits<Opcode::bit_xor>},
     .onnx = "BitwiseXor",
     .commutative = true},
    {.name = "bitwise_not",
     .doc = "y = x with every bit flipped.",
     .operands = x_operand,
     .infer = integers,
     .ref = ElementRef{.integer = [](Integers v, DType) { return ~v[0]; }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call& c) {
         return wrap_register(k, k.unary(Opcode::bit_not, v[0]), c.out->dtype);
     }},
     .onnx = "BitwiseNot"},
    {.name = "bitwise_left_shift",
     .doc = "y = x * 2^count, wrapping; 0 for a count below 0 or of all bits and more.",
     .operands = x_count,
     .infer = integers,
     .ref = ElementRef{.integer = shifted_left},
     .lower = MapLower{emit_shift_left}},
    {.name = "bitwise_right_shift",
     .doc = "y = floor(x / 2^count); 0, or -1 for a negative x, for a count below 0 or of all bits and more.",
     .operands = x_count,
     .infer = integers,
     .ref = ElementRef{.integer = shifted_right},
     .lower = MapLower{emit_shift_right}},
    {.name = "logical_xor",
     .doc = "y = a or b, not both.",
     .operands = a_b,
     .infer = infer::same_type<Accept::boolean>,
     .lower = ExpandLower{[](const BuildCall& c) { return ne(c.operand(0), c.operand(1)); }},
     .onnx = "Xor",
     .commutative = true},
    {.name = "isnan",
     .doc = "y = is x not a number? As a bool.",
     .operands = x_operand,
     .infer = infer_test,
     .ref = ElementRef{[](Reals v) -> double { return std::isnan(v[0]); }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call&) { return is_nan(k, v[0]); }},
     .onnx = "IsNaN"},
    {.name = "isinf",
     .doc = "y = is x infinite, of either sign? As a bool.",
     .operands = x_operand,
     .infer = infer_test,
     .ref = ElementRef{[](Reals v) -> double { return std::isinf(v[0]); }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call&) { return magnitude_bits(k, v[0]) == infinity_bits; }},
     .onnx = "IsInf"},
    {.name = "isfinite",
     .doc = "y = is x a number and not infinite? As a bool.",
     .operands = x_operand,
     .infer = infer_test,
     .ref = ElementRef{[](Reals v) -> double { return std::isfinite(v[0]); }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call&) { return magnitude_bits(k, v[0]) < infinity_bits; }}},
};

}  // namespace

std::span<const OpDef> bit_ops() { return defs; }

}  // namespace darner
