// SPDX-License-Identifier: MIT
// Kernel IR values as WGSL expressions. Helper functions (wgsl_module.cpp) fill in what WGSL lacks or leaves open.
#include "darner/base/check.h"
#include "darner/base/fault.h"
#include "darner/emit/wgsl_function.h"
#include "darner/kir/half.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace darner::wgsl {

using kir::Opcode;
using kir::Scalar;
using kir::Type;
using kir::ValueId;

namespace {

Text compound(std::string text) { return {std::move(text), false, false, false}; }
Text called(std::string text) { return {std::move(text), true, false, false}; }

const char* scalar_name(Scalar s) {
    switch (s) {
        case Scalar::boolean: return "bool";
        case Scalar::i32: return "i32";
        case Scalar::u32: return "u32";
        case Scalar::f32: return "f32";
        case Scalar::f16: return "f16";
        case Scalar::bf16: break;
    }
    bug(__FILE__, __LINE__, "WGSL has no such scalar");
}

constexpr char components[] = "xyzw";

}  // namespace

std::string type_name(const Type& type) {
    if (type.lanes == 1) return scalar_name(type.scalar);
    return fmt::format("vec{}<{}>", type.lanes, scalar_name(type.scalar));
}

Text ModuleWriter::scalar_literal(Scalar scalar, uint32_t bits) {
    const auto negative = [](std::string text) { return text[0] == '-' ? "(" + text + ")" : text; };
    switch (scalar) {
        case Scalar::boolean: return {bits ? "true" : "false", true, true};
        case Scalar::u32: return {fmt::format("{}u", bits), true, true};
        case Scalar::i32:
            if (bits == 0x80000000u) return {"i32(-2147483648)", true, true};
            return {negative(fmt::format("{}i", std::bit_cast<int32_t>(bits))), true, true};
        case Scalar::f32: {
            const float number = std::bit_cast<float>(bits);
            // The shortest decimal of the largest numbers lies above the largest number, which WGSL refuses.
            if ((bits & 0x7f800000u) == 0x7f000000u) return {negative(fmt::format("{:a}f", number)), true, true};
            if (std::isnormal(number) || bits == 0) return {negative(fmt::format("{}f", number)), true, true};
            if (std::isfinite(number)) return {fmt::format("bitcast<f32>(0x{:08x}u)", bits), true, true};  // subnormal or -0
            // WGSL refuses infinity and NaN in const-expressions; a bitcast of what `let` names is no such expression.
            const std::string name = names_.unique(fmt::format("v{}", next_value_++));
            line(fmt::format("let {} = 0x{:08x}u;", name, bits));
            return called(fmt::format("bitcast<f32>({})", name));
        }
        case Scalar::f16: {
            const float number = kir::f16_to_f32(bits);
            const bool exponent = (bits & 0x7c00u) != 0;
            if (std::isfinite(number) && (exponent || bits == 0)) return {negative(fmt::format("{}h", number)), true, true};
            const Text wide = scalar_literal(Scalar::f32, std::bit_cast<uint32_t>(number));
            return {fmt::format("f16({})", wide.text), true, wide.literal, wide.fixed};
        }
        case Scalar::bf16: break;
    }
    bug(__FILE__, __LINE__, "WGSL has no such scalar");
}

Text ModuleWriter::literal(const Type& type, uint32_t bits) {
    Text scalar = scalar_literal(type.scalar, bits);
    if (type.lanes > 1) scalar.text = fmt::format("{}({})", type_name(type), scalar.text);
    return scalar;
}

Text ModuleWriter::leaf(const kir::Instruction& inst) const {
    if (inst.op == Opcode::param) return {"params." + param_names_[inst.aux]};
    const std::string& name = builtins_.at(inst.op);
    return {kir::is_id_with_axis(inst.op) ? fmt::format("{}.{}", name, components[inst.aux]) : name};
}

std::string ModuleWriter::atom(ValueId v, size_t i) {
    const Text& text = text_of(kernel_.operand(v, i));
    return text.atom || fault(27) ? text.text : "(" + text.text + ")";
}

std::vector<std::string> ModuleWriter::operands(ValueId v) {
    std::vector<std::string> texts;
    bool all_literal = true;
    for (size_t i = 0; i < kernel_.at(v).operand_count; ++i) {
        texts.push_back(atom(v, i));
        all_literal &= text_of(kernel_.operand(v, i)).literal;
    }
    if (all_literal && !texts.empty()) {
        const std::string name = names_.unique(fmt::format("v{}", next_value_++));
        line(fmt::format("let {} = {};", name, texts[0]));
        texts[0] = name;
    }
    return texts;
}

Text ModuleWriter::infix(ValueId v, const char* op) {
    const std::vector<std::string> x = operands(v);
    return compound(fmt::format("{} {} {}", x[0], op, x[1]));
}

Text ModuleWriter::call(ValueId v, const std::string& function) {
    return called(fmt::format("{}({})", function, fmt::join(operands(v), ", ")));
}

Text ModuleWriter::expression(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    if (kir::is_id(inst.op)) return leaf(inst);
    switch (inst.op) {
        case Opcode::constant: return literal(inst.type, inst.aux);
        case Opcode::param: return leaf(inst);
        case Opcode::load:
        case Opcode::array_load: return memory(v);
        case Opcode::subgroup_reduce:
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: return subgroup(v);
        case Opcode::convert: return convert(v);
        case Opcode::bitcast:
            if (type_of(kernel_.operand(v, 0)) == inst.type) return text_of(kernel_.operand(v, 0));
            return call(v, fmt::format("bitcast<{}>", type_name(inst.type)));
        case Opcode::select: {
            const std::vector<std::string> x = operands(v);  // condition, if true, if false
            if (fault(26)) return called(fmt::format("select({}, {}, {})", x[1], x[2], x[0]));
            return called(fmt::format("select({}, {}, {})", x[2], x[1], x[0]));
        }
        case Opcode::make_vector: {
            std::vector<std::string> parts;
            bool literal = true;
            for (size_t i = 0; i < inst.operand_count; ++i) {
                parts.push_back(operand(v, i));
                literal &= text_of(kernel_.operand(v, i)).literal;
            }
            return {fmt::format("{}({})", type_name(inst.type), fmt::join(parts, ", ")), true, literal, false};
        }
        case Opcode::extract:
            return {fmt::format("{}.{}", atom(v, 0), components[inst.aux]), true, text_of(kernel_.operand(v, 0)).literal, false};
        case Opcode::pack_half2: return pack_half2(v);
        case Opcode::unpack_half2: return call(v, "unpack2x16float");
        default: return arithmetic(v);
    }
}

Text ModuleWriter::arithmetic(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const bool boolean = inst.type.scalar == Scalar::boolean;
    switch (inst.op) {
        case Opcode::add: return infix(v, "+");
        case Opcode::sub: return infix(v, "-");
        case Opcode::mul: return infix(v, "*");
        case Opcode::div: return infix(v, "/");
        case Opcode::rem: return infix(v, "%");
        case Opcode::bit_and: return infix(v, "&");
        case Opcode::bit_or: return infix(v, "|");
        case Opcode::bit_xor: return infix(v, boolean ? "!=" : "^");
        case Opcode::shl:
        case Opcode::shr: {
            std::vector<std::string> x = operands(v);
            const Type& amount = type_of(kernel_.operand(v, 1));
            const Type wanted{Scalar::u32, inst.type.lanes};
            if (!(amount == wanted)) x[1] = fmt::format("{}({})", type_name(wanted), x[1]);
            return compound(fmt::format("{} {} {}", x[0], inst.op == Opcode::shl ? "<<" : ">>", x[1]));
        }
        case Opcode::eq: return infix(v, "==");
        case Opcode::ne: return infix(v, "!=");
        case Opcode::lt: return infix(v, "<");
        case Opcode::le: return infix(v, "<=");
        case Opcode::gt: return infix(v, ">");
        case Opcode::ge: return infix(v, ">=");
        case Opcode::neg: return unary_minus(v);
        case Opcode::bit_not: return compound((boolean ? "!" : "~") + operands(v)[0]);
        case Opcode::mul_high: return call(v, helper("mul_high", inst.type.lanes));
        case Opcode::fma: {
            if (kir::is_float(inst.type.scalar)) return call(v, "fma");
            const std::vector<std::string> x = operands(v);
            return compound(fmt::format("{} * {} + {}", x[0], x[1], x[2]));
        }
        case Opcode::min: return call(v, "min");
        case Opcode::max: return call(v, "max");
        case Opcode::abs: return call(v, "abs");
        case Opcode::floor: return call(v, "floor");
        case Opcode::ceil: return call(v, "ceil");
        case Opcode::trunc: return call(v, "trunc");
        case Opcode::round_even: return call(v, "round");
        case Opcode::exp: return call(v, "exp");
        case Opcode::exp2: return call(v, "exp2");
        case Opcode::log: return call(v, "log");
        case Opcode::log2: return call(v, "log2");
        case Opcode::sqrt: return call(v, "sqrt");
        case Opcode::rsqrt: return call(v, "inverseSqrt");
        case Opcode::sin: return call(v, "sin");
        case Opcode::cos: return call(v, "cos");
        case Opcode::tanh: return call(v, "tanh");
        case Opcode::pow: return call(v, "pow");
        default: bug(__FILE__, __LINE__, std::string("no WGSL for kernel IR's ") + kir::to_string(inst.op));
    }
}

Text ModuleWriter::unary_minus(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const std::string x = operands(v)[0];
    if (inst.type.scalar == Scalar::u32)
        return compound(fmt::format("{}(0u) - {}", type_name(inst.type), x));  // - is not for u32
    return compound("-" + x);
}

Text ModuleWriter::convert(ValueId v) {
    const Type from = type_of(kernel_.operand(v, 0)), to = type_of(v);
    if (from.scalar == to.scalar) return text_of(kernel_.operand(v, 0));
    const Type f32{Scalar::f32, from.lanes};
    std::string x = operands(v)[0];
    if (to.scalar == Scalar::boolean) return compound(fmt::format("{} != {}", x, literal(from, 0).text));
    const bool integer = to.scalar == Scalar::i32 || to.scalar == Scalar::u32;
    if (integer && kir::is_float(from.scalar) && !fault(30)) {
        if (from.scalar == Scalar::f16) x = fmt::format("{}({})", type_name(f32), x);
        return called(fmt::format("{}({})", helper(to.scalar == Scalar::i32 ? "to_i32" : "to_u32", to.lanes), x));
    }
    // Exact in f32, or beyond f16 anyway: two steps round as one, and f16(i32) may be refused out of range.
    if (to.scalar == Scalar::f16 && from.scalar != Scalar::f32) x = fmt::format("{}({})", type_name(f32), x);
    return called(fmt::format("{}({})", type_name(to), x));
}

Text ModuleWriter::memory(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    if (inst.op == Opcode::array_load) return called(fmt::format("{}[{}]", array_names_[inst.aux], operand(v, 0)));
    const kir::Binding& b = kernel_.bindings[inst.aux];
    if (atomic_bindings_.count(inst.aux)) return called(fmt::format("atomicLoad(&{})", element(inst.aux, operand(v, 0))));
    if (inst.type.lanes == b.lanes) return called(element(inst.aux, operand(v, 0)));
    // One component of a vector binding: the index counts scalars; lanes are a power of two.
    const std::string index = atom(v, 0);
    return called(fmt::format("{}[{} & {}u]", element(inst.aux, fmt::format("{} >> {}u", index, std::countr_zero(b.lanes))),
                              index, b.lanes - 1));
}

Text ModuleWriter::atomic(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const char* function = "atomicAdd";
    switch (kir::AtomicKind(inst.aux2)) {
        case kir::AtomicKind::add: function = "atomicAdd"; break;
        case kir::AtomicKind::min: function = "atomicMin"; break;
        case kir::AtomicKind::max: function = "atomicMax"; break;
        case kir::AtomicKind::exchange: function = "atomicExchange"; break;
        case kir::AtomicKind::bit_or: function = "atomicOr"; break;
    }
    return called(fmt::format("{}(&{}, {})", function, element(inst.aux, operand(v, 0)), operand(v, 1)));
}

Text ModuleWriter::subgroup(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const std::string x = operand(v, 0);
    if (inst.op == Opcode::subgroup_broadcast) return called(fmt::format("subgroupBroadcast({}, {}u)", x, inst.aux));
    if (inst.op == Opcode::subgroup_shuffle_xor) return called(fmt::format("subgroupShuffleXor({}, {}u)", x, inst.aux));
    const bool boolean = inst.type.scalar == Scalar::boolean;
    const char* function = "subgroupAdd";
    switch (kir::ReduceKind(inst.aux)) {
        case kir::ReduceKind::add: function = "subgroupAdd"; break;
        case kir::ReduceKind::mul: function = "subgroupMul"; break;
        case kir::ReduceKind::min: function = "subgroupMin"; break;
        case kir::ReduceKind::max: function = "subgroupMax"; break;
        case kir::ReduceKind::bit_and: function = boolean ? "subgroupAll" : "subgroupAnd"; break;
        case kir::ReduceKind::bit_or: function = boolean ? "subgroupAny" : "subgroupOr"; break;
    }
    return called(fmt::format("{}({})", function, x));
}

// Not pack2x16float: implementations may round it towards zero.
Text ModuleWriter::pack_half2(ValueId v) {
    const std::vector<std::string> x = operands(v);
    return called(fmt::format("{}(vec2<f32>({}, {}))", helper("pack_half2"), x[0], x[1]));
}

}  // namespace darner::wgsl
