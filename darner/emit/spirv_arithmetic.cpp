// SPDX-License-Identifier: MIT
// Arithmetic, comparisons, conversions and math functions. Where SPIR-V leaves undefined what kernel IR defines (float to
// integer out of range, remainders of negative numbers, the quotient -2^31 / -1), the missing instructions are added here.
#include "darner/base/check.h"
#include "darner/base/fault.h"
#include "darner/emit/spirv_function.h"

namespace darner::spirv {

using kir::Opcode;
using kir::Scalar;
using kir::Type;

namespace {

constexpr uint32_t f32_one = 0x3f800000u;

bool is_unary(Opcode op) { return op == Opcode::neg || op == Opcode::abs || op == Opcode::bit_not || kir::is_float_function(op); }

// The opcode for floats, signed and unsigned integers.
Op by_kind(Scalar s, Op for_float, Op for_signed, Op for_unsigned) {
    return kir::is_float(s) ? for_float : s == Scalar::i32 ? for_signed : for_unsigned;
}

}  // namespace

SpirvId FunctionEmitter::emit_arithmetic(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId result = type(inst.type);
    switch (inst.op) {
        case Opcode::div:
        case Opcode::rem: return emit_division(v);
        case Opcode::select: return emit_select(v);
        case Opcode::convert: return emit_convert(type_of(kernel_.operand(v, 0)), inst.type, operand(v, 0));
        case Opcode::bitcast: return emit_bitcast(type_of(kernel_.operand(v, 0)), inst.type, operand(v, 0));
        case Opcode::extract: return emit(Op::CompositeExtract, result, {operand(v, 0), inst.aux});
        case Opcode::pack_half2: return emit_pack_half2(operand(v, 0), operand(v, 1));
        case Opcode::unpack_half2: return emit_glsl(Glsl::UnpackHalf2x16, result, {operand(v, 0)});
        case Opcode::make_vector: {
            std::vector<Word> parts;
            for (size_t i = 0; i < inst.operand_count; ++i) parts.push_back(operand(v, i));
            return emit(Op::CompositeConstruct, result, parts);
        }
        case Opcode::fma: {
            if (kir::is_float(inst.type.scalar))
                return emit_glsl(Glsl::Fma, result, {operand(v, 0), operand(v, 1), operand(v, 2)});
            const SpirvId product = emit(Op::IMul, result, {operand(v, 0), operand(v, 1)});
            return emit(Op::IAdd, result, {product, operand(v, 2)});
        }
        default: break;
    }
    if (is_unary(inst.op)) return emit_unary(inst, operand(v, 0));
    if (kir::is_comparison(inst.op))
        return emit_comparison(inst.op, type_of(kernel_.operand(v, 0)), operand(v, 0), operand(v, 1));
    SpirvId b = operand(v, 1);
    const bool shift = inst.op == Opcode::shl || inst.op == Opcode::shr;
    if (shift && inst.type.lanes > 1 && type_of(kernel_.operand(v, 1)).is_scalar()) {
        const std::vector<Word> parts(inst.type.lanes, Word(b));
        b = emit(Op::CompositeConstruct, type({type_of(kernel_.operand(v, 1)).scalar, inst.type.lanes}), parts);
    }
    return emit_binary(inst, operand(v, 0), b);
}

SpirvId FunctionEmitter::emit_binary(const kir::Instruction& inst, SpirvId a, SpirvId b) {
    const SpirvId result = type(inst.type);
    const Scalar s = inst.type.scalar;
    const bool boolean = s == Scalar::boolean;
    auto arithmetic = [&](Op for_float, Op for_int) {
        const SpirvId id = emit(kir::is_float(s) ? for_float : for_int, result, {a, b});
        if (kir::is_float(s) && options_.no_contraction) module_.decorate(id, Decoration::NoContraction);
        return id;
    };
    switch (inst.op) {
        case Opcode::add: return arithmetic(Op::FAdd, Op::IAdd);
        case Opcode::sub: return arithmetic(Op::FSub, Op::ISub);
        case Opcode::mul: return arithmetic(Op::FMul, Op::IMul);
        case Opcode::min:
            return emit_glsl(kir::is_float(s) ? Glsl::FMin : s == Scalar::i32 ? Glsl::SMin : Glsl::UMin, result, {a, b});
        case Opcode::max:
            return emit_glsl(kir::is_float(s) ? Glsl::FMax : s == Scalar::i32 ? Glsl::SMax : Glsl::UMax, result, {a, b});
        case Opcode::pow: return emit_glsl(Glsl::Pow, result, {a, b});
        case Opcode::bit_and: return emit(boolean ? Op::LogicalAnd : Op::BitwiseAnd, result, {a, b});
        case Opcode::bit_or: return emit(boolean ? Op::LogicalOr : Op::BitwiseOr, result, {a, b});
        case Opcode::bit_xor: return emit(boolean ? Op::LogicalNotEqual : Op::BitwiseXor, result, {a, b});
        case Opcode::shl: return emit(Op::ShiftLeftLogical, result, {a, b});
        case Opcode::shr: return emit(s == Scalar::i32 ? Op::ShiftRightArithmetic : Op::ShiftRightLogical, result, {a, b});
        case Opcode::mul_high: {
            const SpirvId pair = emit(Op::UMulExtended, module_.pair_type(result), {a, b});
            return emit(Op::CompositeExtract, result, {pair, 1u});
        }
        default: bug(__FILE__, __LINE__, std::string("no SPIR-V for kernel IR's ") + kir::to_string(inst.op));
    }
}

SpirvId FunctionEmitter::emit_unary(const kir::Instruction& inst, SpirvId a) {
    const SpirvId result = type(inst.type);
    const Scalar s = inst.type.scalar;
    switch (inst.op) {
        case Opcode::neg: return emit(kir::is_float(s) ? Op::FNegate : Op::SNegate, result, {a});
        case Opcode::abs: return s == Scalar::u32 ? a : emit_glsl(kir::is_float(s) ? Glsl::FAbs : Glsl::SAbs, result, {a});
        case Opcode::bit_not: return emit(s == Scalar::boolean ? Op::LogicalNot : Op::Not, result, {a});
        case Opcode::floor: return emit_glsl(Glsl::Floor, result, {a});
        case Opcode::ceil: return emit_glsl(Glsl::Ceil, result, {a});
        case Opcode::trunc: return emit_glsl(Glsl::Trunc, result, {a});
        case Opcode::round_even: return emit_glsl(Glsl::RoundEven, result, {a});
        case Opcode::exp: return emit_glsl(Glsl::Exp, result, {a});
        case Opcode::exp2: return emit_glsl(Glsl::Exp2, result, {a});
        case Opcode::log: return emit_glsl(Glsl::Log, result, {a});
        case Opcode::log2: return emit_glsl(Glsl::Log2, result, {a});
        case Opcode::sqrt: return emit_glsl(Glsl::Sqrt, result, {a});
        case Opcode::rsqrt: return emit_glsl(Glsl::InverseSqrt, result, {a});
        case Opcode::sin: return emit_glsl(Glsl::Sin, result, {a});
        case Opcode::cos: return emit_glsl(Glsl::Cos, result, {a});
        case Opcode::tanh: return emit_glsl(Glsl::Tanh, result, {a});
        default: bug(__FILE__, __LINE__, std::string("no SPIR-V for kernel IR's ") + kir::to_string(inst.op));
    }
}

SpirvId FunctionEmitter::emit_comparison(Opcode op, const Type& operand, SpirvId a, SpirvId b) {
    const SpirvId result = type({Scalar::boolean, operand.lanes});
    const Scalar s = operand.scalar;
    const bool boolean = s == Scalar::boolean;
    switch (op) {
        case Opcode::eq:
            return emit(boolean ? Op::LogicalEqual : by_kind(s, Op::FOrdEqual, Op::IEqual, Op::IEqual), result, {a, b});
        case Opcode::ne:
            return emit(boolean ? Op::LogicalNotEqual : by_kind(s, Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual), result,
                        {a, b});
        case Opcode::lt:
            return emit(by_kind(s, Op::FOrdLessThan, fault(21) ? Op::ULessThan : Op::SLessThan, Op::ULessThan), result, {a, b});
        case Opcode::le: return emit(by_kind(s, Op::FOrdLessThanEqual, Op::SLessThanEqual, Op::ULessThanEqual), result, {a, b});
        case Opcode::gt: return emit(by_kind(s, Op::FOrdGreaterThan, Op::SGreaterThan, Op::UGreaterThan), result, {a, b});
        case Opcode::ge:
            return emit(by_kind(s, Op::FOrdGreaterThanEqual, Op::SGreaterThanEqual, Op::UGreaterThanEqual), result, {a, b});
        default: bug(__FILE__, __LINE__, "not a comparison");
    }
}

// OpSDiv is undefined for -2^31 / -1, which wraps in kernel IR: a divisor of -1 becomes a negation.
SpirvId FunctionEmitter::emit_signed_division(const Type& t, SpirvId a, SpirvId b, kir::ValueId divisor) {
    const SpirvId result = type(t);
    const kir::Instruction& d = kernel_.at(divisor);
    if (d.op == Opcode::constant && d.aux != 0xffffffffu) return emit(Op::SDiv, result, {a, b});
    const SpirvId boolean = type({Scalar::boolean, t.lanes});
    const SpirvId minus_one = emit(Op::IEqual, boolean, {b, module_.constant(t, 0xffffffffu)});
    const SpirvId safe = emit(Op::Select, result, {minus_one, module_.constant(t, 1), b});
    const SpirvId quotient = emit(Op::SDiv, result, {a, safe});
    const SpirvId negated = emit(Op::SNegate, result, {a});
    return emit(Op::Select, result, {minus_one, negated, quotient});
}

SpirvId FunctionEmitter::emit_division(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId result = type(inst.type), a = operand(v, 0), b = operand(v, 1);
    const bool remainder = inst.op == Opcode::rem;
    if (kir::is_float(inst.type.scalar)) return emit(remainder ? Op::FRem : Op::FDiv, result, {a, b});
    if (inst.type.scalar == Scalar::u32) return emit(remainder ? Op::UMod : Op::UDiv, result, {a, b});
    const SpirvId quotient = emit_signed_division(inst.type, a, b, kernel_.operand(v, 1));
    if (!remainder) return quotient;
    // Not OpSRem: Vulkan leaves it undefined for negative operands. a - (a / b) b
    return emit(Op::ISub, result, {a, emit(Op::IMul, result, {quotient, b})});
}

SpirvId FunctionEmitter::emit_select(kir::ValueId v) {
    // A scalar condition may choose between vectors from SPIR-V 1.4 on.
    const size_t swapped = fault(23) ? 1 : 0;
    return emit(Op::Select, type(type_of(v)), {operand(v, 0), operand(v, 1 + swapped), operand(v, 2 - swapped)});
}

SpirvId FunctionEmitter::emit_convert(const Type& from, const Type& to, SpirvId a) {
    if (from.scalar == to.scalar) return a;
    const Type f32{Scalar::f32, from.lanes};
    // 16-bit floats go through f32, which holds each of their values, so that 16-bit storage alone suffices.
    if (kir::is_float(from.scalar) && kir::byte_size(from.scalar) == 2) {
        const SpirvId wide = emit(Op::FConvert, type(f32), {a});
        return emit_convert(f32, to, wide);
    }
    if (kir::is_float(to.scalar) && kir::byte_size(to.scalar) == 2) {
        const SpirvId wide = emit_convert(from, f32, a);
        return emit(Op::FConvert, type(to), {wide});
    }
    if (to.scalar == Scalar::boolean) return emit_comparison(Opcode::ne, from, a, module_.constant(from, 0));
    if (from.scalar == Scalar::boolean) {
        const SpirvId one = module_.constant(to, to.scalar == Scalar::f32 ? f32_one : 1);
        return emit(Op::Select, type(to), {a, one, module_.constant(to, 0)});
    }
    if (from.scalar == Scalar::f32) return emit_float_to_int(from, to, a);
    if (to.scalar == Scalar::f32) return emit(from.scalar == Scalar::i32 ? Op::ConvertSToF : Op::ConvertUToF, type(to), {a});
    return emit(Op::Bitcast, type(to), {a});  // i32 and u32
}

// Truncates and saturates, NaN gives 0. The conversion itself is only defined in range: NaN (told by its bits, which no compiler
// may assume away) becomes 0, the rest is clamped to the largest floats in range, and what was above is replaced by the maximum.
SpirvId FunctionEmitter::emit_float_to_int(const Type& from, const Type& to, SpirvId a) {
    const bool to_signed = to.scalar == Scalar::i32;
    const Type u32{Scalar::u32, from.lanes};
    const SpirvId boolean = type({Scalar::boolean, from.lanes}), f32 = type(from), result = type(to);
    const uint32_t lowest = to_signed ? 0xcf000000u : 0u;              // -2^31 or 0
    const uint32_t highest = to_signed ? 0x4effffffu : 0x4f7fffffu;    // 2^31 - 128 or 2^32 - 256
    const uint32_t too_large = to_signed ? 0x4f000000u : 0x4f800000u;  // 2^31 or 2^32

    const SpirvId bits = emit(Op::Bitcast, type(u32), {a});
    const SpirvId magnitude = emit(Op::BitwiseAnd, type(u32), {bits, module_.constant(u32, 0x7fffffffu)});
    const SpirvId nan = emit(Op::UGreaterThan, boolean, {magnitude, module_.constant(u32, 0x7f800000u)});
    const SpirvId number = emit(Op::Select, f32, {nan, module_.constant(from, 0), a});
    const SpirvId clamped =
        emit_glsl(Glsl::FClamp, f32, {number, module_.constant(from, lowest), module_.constant(from, highest)});
    const SpirvId converted = emit(to_signed ? Op::ConvertFToS : Op::ConvertFToU, result, {clamped});
    const SpirvId above = emit(Op::FOrdGreaterThanEqual, boolean, {number, module_.constant(from, too_large)});
    return emit(Op::Select, result, {above, module_.constant(to, to_signed ? 0x7fffffffu : 0xffffffffu), converted});
}

SpirvId FunctionEmitter::emit_bitcast(const Type& from, const Type& to, SpirvId a) {
    return from == to ? a : emit(Op::Bitcast, type(to), {a});
}

// Not PackHalf2x16: drivers may round it towards zero, and several do.
SpirvId FunctionEmitter::emit_pack_half2(SpirvId low, SpirvId high) {
    const SpirvId u32 = type(kir::u32_type);
    const SpirvId pair = emit(Op::CompositeConstruct, type({Scalar::f32, 2}), {low, high});
    if (caps_.f16_arithmetic) {
        module_.capability(Capability::Float16);
        const SpirvId halves = emit(Op::FConvert, type({Scalar::f16, 2}), {pair});
        return emit(Op::Bitcast, u32, {halves});
    }
    const SpirvId halves = emit_half_bits(pair);
    const SpirvId low_bits = emit(Op::CompositeExtract, u32, {halves, 0u});
    const SpirvId high_bits = emit(Op::CompositeExtract, u32, {halves, 1u});
    const SpirvId shifted = emit(Op::ShiftLeftLogical, u32, {high_bits, module_.u32(16)});
    return emit(Op::BitwiseOr, u32, {low_bits, shifted});
}

// The f16 bits of two f32, rounded to nearest even, in integer arithmetic.
SpirvId FunctionEmitter::emit_half_bits(SpirvId pair) {
    const Type vec{Scalar::u32, 2};
    const SpirvId u32 = type(vec), f32 = type({Scalar::f32, 2}), boolean = type({Scalar::boolean, 2});
    auto constant = [&](uint32_t bits) { return module_.constant(vec, bits); };
    const SpirvId bits = emit(Op::Bitcast, u32, {pair});
    const SpirvId sign = emit(Op::BitwiseAnd, u32, {emit(Op::ShiftRightLogical, u32, {bits, constant(16)}), constant(0x8000)});
    const SpirvId magnitude = emit(Op::BitwiseAnd, u32, {bits, constant(0x7fffffffu)});
    // Normal: rebias the exponent and round the 13 bits that go; a tie goes up only when the bit that stays is odd.
    const SpirvId odd = emit(Op::BitwiseAnd, u32, {emit(Op::ShiftRightLogical, u32, {magnitude, constant(13)}), constant(1)});
    const SpirvId biased = emit(Op::IAdd, u32, {magnitude, constant(0xc8000fffu)});  // - 0x38000000 + 0xfff
    const SpirvId normal = emit(Op::ShiftRightLogical, u32, {emit(Op::IAdd, u32, {biased, odd}), constant(13)});
    // Subnormal: adding 0.5, whose last place is worth 2^-24, makes the float adder round.
    const SpirvId absolute = emit(Op::Bitcast, f32, {magnitude});
    const SpirvId sum = emit(Op::FAdd, f32, {absolute, module_.constant({Scalar::f32, 2}, 0x3f000000u)});
    const SpirvId subnormal = emit(Op::ISub, u32, {emit(Op::Bitcast, u32, {sum}), constant(0x3f000000u)});
    const SpirvId small = emit(Op::ULessThan, boolean, {magnitude, constant(0x38800000u)});  // below 2^-14
    const SpirvId finite = emit(Op::Select, u32, {small, subnormal, normal});
    const SpirvId large = emit(Op::UGreaterThanEqual, boolean, {magnitude, constant(0x477ff000u)});  // 65520 rounds to infinity
    const SpirvId infinite = emit(Op::Select, u32, {large, constant(0x7c00), finite});
    const SpirvId nan = emit(Op::UGreaterThan, boolean, {magnitude, constant(0x7f800000u)});
    return emit(Op::BitwiseOr, u32, {sign, emit(Op::Select, u32, {nan, constant(0x7e00), infinite})});
}

}  // namespace darner::spirv
