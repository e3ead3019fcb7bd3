// SPDX-License-Identifier: MIT
// Elementwise arithmetic and math functions. Error bounds (`ulp`) follow from what Vulkan and WGSL guarantee for the
// instructions used; where the guarantee depends on the argument, the bound holds on the range that is stated beside it.
#include "darner/base/fault.h"
#include "darner/ops/compose.h"
#include "darner/ops/emit_math.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <cmath>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using kir::Opcode;
using Reals = std::span<const double>;
using Integers = std::span<const int64_t>;
using Registers = std::span<const Expr>;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef a_b[] = {{"a"}, {"b"}};
constexpr auto numbers = infer::same_type<Accept::numbers>;
constexpr auto floats = infer::same_type<Accept::floats>;

// 64-bit integers wrap like the narrower ones; signed overflow is undefined in C++, so the arithmetic is unsigned.
int64_t wrapping_add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t wrapping_sub(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }
int64_t wrapping_mul(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }

int64_t truncating_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrapping_sub(0, a) : a / b; }
int64_t truncating_rem(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

// Negative exponents: 1 / a^|b| truncated, and 0 for a = 0.
int64_t wrapping_pow(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    int64_t result = 1;
    for (; b != 0; b >>= 1, a = wrapping_mul(a, a))
        if (b & 1) result = wrapping_mul(result, a);
    return result;
}

double sigmoid_of(double x) {
    const double e = std::exp(-std::fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// Unlike fmax and fmin: a NaN wins.
double largest(double a, double b) { return (std::isnan(a) && !fault(34)) || a > b ? a : b; }
double smallest(double a, double b) { return std::isnan(a) || a < b ? a : b; }

Value one_over(Value x) { return 1.0 / ValueAt(x); }

template <Opcode op>
Expr emit_wrapped(kir::Builder& k, Registers v, const Call& c) {
    return wrap_register(k, k.binary(op, v[0], v[1]), c.out->dtype);
}
template <Opcode op>
Expr emit_extreme(kir::Builder& k, Registers v, const Call&) {
    if (fault(39)) return k.binary(op, v[0], v[1]);
    return nan_or(k, v[0], nan_or(k, v[1], k.binary(op, v[0], v[1])));
}
template <Opcode op>
Expr emit_unary(kir::Builder& k, Registers v, const Call&) {
    return k.unary(op, v[0]);
}
template <Expr (*function)(kir::Builder&, Expr)>
Expr emit_function(kir::Builder& k, Registers v, const Call&) {
    return function(k, v[0]);
}

Expr emit_div(kir::Builder& k, Registers v, const Call& c) {
    return is_float(c.out->dtype) ? v[0] / v[1] : wrap_register(k, emit_integer_div(k, v[0], v[1]), c.out->dtype);
}
Expr emit_rem(kir::Builder& k, Registers v, const Call& c) {
    return is_float(c.out->dtype) ? emit_fmod(k, v[0], v[1]) : emit_integer_rem(k, v[0], v[1]);
}
Expr emit_power(kir::Builder& k, Registers v, const Call& c) {
    return is_float(c.out->dtype) ? emit_pow(k, v[0], v[1]) : wrap_register(k, emit_integer_pow(k, v[0], v[1]), c.out->dtype);
}
Expr emit_neg(kir::Builder& k, Registers v, const Call& c) {
    if (is_float(c.out->dtype)) return -v[0];
    if (fault(31)) return k.constant(v[0].type(), 0) - v[0];
    return wrap_register(k, k.constant(v[0].type(), 0) - v[0], c.out->dtype);
}
Expr emit_abs(kir::Builder& k, Registers v, const Call& c) {
    if (is_float(c.out->dtype)) return k.abs(v[0]);
    if (!is_signed_integer(c.out->dtype)) return v[0];
    const Expr negated = k.constant(v[0].type(), 0) - v[0];
    return wrap_register(k, k.select(v[0] < 0, negated, v[0]), c.out->dtype);
}
// 0 and NaN stay what they are.
Expr emit_sign(kir::Builder& k, Registers v, const Call& c) {
    const Expr one = k.constant(v[0].type(), 1);
    const Expr negative =
        is_signed_integer(c.out->dtype) || is_float(c.out->dtype) ? k.select(v[0] < 0, k.constant(v[0].type(), -1), v[0]) : v[0];
    return nan_or(k, v[0], k.select(v[0] > 0, one, negative));
}
Expr emit_relu(kir::Builder& k, Registers v, const Call&) { return nan_or(k, v[0], k.max(v[0], k.constant(v[0].type(), 0))); }

// Half to each where the two are equal.
Value share_where(Value wins, Value ties, Value like) {
    return select(wins, splat(like, 1), select(ties, splat(like, fault(6) ? 1 : 0.5), splat(like, 0)));
}

constexpr OpDef defs[] = {
    {.name = "add",
     .doc = "y = a + b.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return v[0] + v[1]; }, [](Integers v, DType) { return wrapping_add(v[0], v[1]); }},
     .grad = Linear{[](const BuildCall&, size_t, Value dy) { return dy; }},
     .lower = MapLower{emit_wrapped<Opcode::add>},
     .onnx = "Add",
     .ulp = 1,
     .commutative = true},
    {.name = "sub",
     .doc = "y = a - b.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return v[0] - v[1]; }, [](Integers v, DType) { return wrapping_sub(v[0], v[1]); }},
     .grad = Linear{[](const BuildCall&, size_t operand, Value dy) { return operand == 0 ? dy : neg(dy); }},
     .lower = MapLower{emit_wrapped<Opcode::sub>},
     .onnx = "Sub",
     .ulp = 1},
    {.name = "mul",
     .doc = "y = a * b.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return v[0] * v[1]; }, [](Integers v, DType) { return wrapping_mul(v[0], v[1]); }},
     .grad = Bilinear{[](const BuildCall& c, size_t operand, Value dy) { return mul(dy, c.operand(1 - operand)); }},
     .lower = MapLower{emit_wrapped<Opcode::mul>},
     .onnx = "Mul",
     .ulp = 1,
     .commutative = true},
    {.name = "div",
     .doc = "y = a / b; integers truncate toward zero, and by zero give 0.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return v[0] / v[1]; }, [](Integers v, DType) { return truncating_div(v[0], v[1]); }},
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         if (fault(4) && operand == 1) return div(c.value(), c.operand(1));
         return operand == 0 ? one_over(c.operand(1)) : neg(div(c.value(), c.operand(1)));
     }},
     .lower = MapLower{emit_div},
     .onnx = "Div",
     .ulp = 3},
    {.name = "rem",
     .doc = "y = a - trunc(a / b) * b, the remainder with the sign of a; integers by zero give 0.",
     .operands = a_b,
     .infer = numbers,
     .ref =
         ElementRef{[](Reals v) { return std::fmod(v[0], v[1]); }, [](Integers v, DType) { return truncating_rem(v[0], v[1]); }},
     // The quotient comes from y, so that value and derivative cannot disagree about the interval.
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         if (operand == 0) return splat(c.value(), 1);
         return neg(floor(div(sub(c.operand(0), c.value()), c.operand(1)) + 0.5));
     }},
     .lower = MapLower{emit_rem, true},
     .ulp = 1},
    {.name = "pow",
     .doc = "y = a ^ b; a^0 = 1^b = 1; a negative float base needs an integral b, else the result is NaN; integers with b < 0 "
            "give 1 / "
            "a^|b| "
            "truncated.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return std::pow(v[0], v[1]); }, [](Integers v, DType) { return wrapping_pow(v[0], v[1]); }},
     // b a^(b-1) and y log a; both are 0 where a = 0 and the power is not needed (b = 0, and b >= 0), also in their own
     // derivatives.
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         const Value a = c.operand(0), b = c.operand(1);
         if (operand == 0) return mul(b, pow(a, select(eq(b, splat(b, 0)), splat(b, 1), fault(10) ? b : b - 1)));
         return mul(c.value(), log(select(eq(a, splat(a, 0)), splat(a, 1), a)));
     }},
     .lower = MapLower{emit_power, true},
     .onnx = "Pow",
     .ulp = 512},  // exp2(b log2 a) with |b log2 a| <= 60 and |b| <= 8
    {.name = "maximum",
     .doc = "y = max(a, b); NaN where either is.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return largest(v[0], v[1]); }, [](Integers v, DType) { return v[0] > v[1] ? v[0] : v[1]; }},
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         const Value a = c.operand(0), b = c.operand(1);
         return share_where(operand == 0 ? gt(a, b) : gt(b, a), eq(a, b), a);
     }},
     .lower = MapLower{emit_extreme<Opcode::max>},
     .onnx = "Max",
     .commutative = true},
    {.name = "minimum",
     .doc = "y = min(a, b); NaN where either is.",
     .operands = a_b,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return smallest(v[0], v[1]); }, [](Integers v, DType) { return v[0] < v[1] ? v[0] : v[1]; }},
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         const Value a = c.operand(0), b = c.operand(1);
         return share_where(operand == 0 ? lt(a, b) : lt(b, a), eq(a, b), a);
     }},
     .lower = MapLower{emit_extreme<Opcode::min>},
     .onnx = "Min",
     .commutative = true},
    {.name = "neg",
     .doc = "y = -x.",
     .operands = x_operand,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return -v[0]; }, [](Integers v, DType) { return wrapping_sub(0, v[0]); }},
     .grad = Linear{[](const BuildCall&, size_t, Value dy) { return neg(dy); }},
     .lower = MapLower{emit_neg},
     .onnx = "Neg"},
    {.name = "abs",
     .doc = "y = |x|; the derivative at 0 is 0.",
     .operands = x_operand,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return std::fabs(v[0]); },
                       [](Integers v, DType) { return v[0] < 0 ? wrapping_sub(0, v[0]) : v[0]; }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return sign(c.operand(0)); }},
     .lower = MapLower{emit_abs},
     .onnx = "Abs"},
    {.name = "sign",
     .doc = "y = -1, 0 or 1, the sign of x; NaN where x is.",
     .operands = x_operand,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return v[0] > 0   ? 1.0
                                            : v[0] < 0 ? -1.0
                                                       : v[0]; },
                       [](Integers v, DType) -> int64_t { return (v[0] > 0) - (v[0] < 0); }},
     .lower = MapLower{emit_sign},
     .onnx = "Sign"},
    {.name = "exp",
     .doc = "y = e^x.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::exp(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return c.value(); }},
     .lower = MapLower{emit_unary<Opcode::exp>, true},
     .onnx = "Exp",
     .ulp = 180},  // 3 + 2|x| with |x| <= 88
    {.name = "log",
     .doc = "y = ln x.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::log(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return one_over(c.operand(0)); }},
     .lower = MapLower{emit_unary<Opcode::log>, true},
     .onnx = "Log",
     .ulp = 4},  // of max(|y|, 1): 2^-21 absolute for x in [0.5, 2]
    {.name = "sqrt",
     .doc = "y = square root of x.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::sqrt(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return 0.5 / ValueAt(c.value()); }},
     .lower = MapLower{emit_unary<Opcode::sqrt>},
     .onnx = "Sqrt",
     .ulp = 5},  // 1 / rsqrt(x)
    {.name = "rsqrt",
     .doc = "y = 1 / square root of x.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return 1 / std::sqrt(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return mul(c.value() * -0.5, mul(c.value(), c.value())); }},
     .lower = MapLower{emit_unary<Opcode::rsqrt>},
     .ulp = 2},
    {.name = "sin",
     .doc = "y = sin x; on devices accurate for |x| <= 8192, with an error that grows with |x| beyond.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::sin(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return cos(c.operand(0)); }},
     .lower = MapLower{emit_function<emit_sin>, true},
     .onnx = "Sin",
     .ulp = 4},  // of 1, |x| <= 8192
    {.name = "cos",
     .doc = "y = cos x; on devices accurate for |x| <= 8192, with an error that grows with |x| beyond.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::cos(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return neg(sin(c.operand(0))); }},
     .lower = MapLower{emit_function<emit_cos>, true},
     .onnx = "Cos",
     .ulp = 4},  // of 1, |x| <= 8192
    {.name = "tanh",
     .doc = "y = (e^x - e^-x) / (e^x + e^-x).",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::tanh(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return 1.0 - ValueAt(fault(5) ? c.value() : mul(c.value(), c.value())); }},
     .lower = MapLower{emit_function<emit_tanh>, true},
     .onnx = "Tanh",
     .ulp = 16},
    {.name = "sigmoid",
     .doc = "y = 1 / (1 + e^-x).",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return sigmoid_of(v[0]); }},
     .grad = Deriv{[](const BuildCall& c, size_t) { return mul(c.value(), 1.0 - ValueAt(c.value())); }},
     .lower = MapLower{emit_function<emit_sigmoid>, true},
     .onnx = "Sigmoid",
     .ulp = 190},  // the exponential's, |x| <= 88
    {.name = "relu",
     .doc = "y = max(x, 0), NaN where x is; the derivative at 0 is 0.",
     .operands = x_operand,
     .infer = numbers,
     .ref = ElementRef{[](Reals v) { return largest(v[0], 0); }, [](Integers v, DType) { return v[0] > 0 ? v[0] : 0; }},
     .grad = Deriv{[](const BuildCall& c, size_t) {
         const Value x = c.operand(0);
         return select(gt(x, splat(x, 0)), splat(x, 1), splat(x, 0));
     }},
     .lower = MapLower{emit_relu},
     .onnx = "Relu"},
    {.name = "floor",
     .doc = "y = the largest integral number not above x.",
     .operands = x_operand,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::floor(v[0]); }},
     .lower = MapLower{emit_unary<Opcode::floor>},
     .onnx = "Floor"},
};

}  // namespace

std::span<const OpDef> elementwise_ops() { return defs; }

}  // namespace darner
