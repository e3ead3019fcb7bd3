// SPDX-License-Identifier: MIT
// More elementwise functions: rounding, remainder, exponentials and logarithms, trigonometric, hyperbolic and error
// functions, clamp. Error bounds follow from those of the instructions that the kernel forms use (see elementwise.cpp).
#include "darner/ops/compose.h"
#include "darner/ops/emit_functions.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <fmt/format.h>

#include <cmath>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using kir::Opcode;
using Reals = std::span<const double>;
using Registers = std::span<const Expr>;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef a_b[] = {{"a"}, {"b"}};
constexpr OperandDef y_x[] = {{"y"}, {"x"}};
constexpr AttrDef clamp_attrs[] = {{"min", AttrKind::real, "none", "the smallest value; none: no bound"},
                                   {"max", AttrKind::real, "none", "the largest value; none: no bound"}};
constexpr auto numbers = infer::same_type<Accept::numbers>;
constexpr auto floats = infer::same_type<Accept::floats>;

template <double (*function)(double)>
double real(Reals v) {
    return function(v[0]);
}
template <Opcode op>
Expr emit_unary(kir::Builder& k, Registers v, const Call&) {
    return k.unary(op, v[0]);
}
template <Expr (*function)(kir::Builder&, Expr)>
Expr emit_function(kir::Builder& k, Registers v, const Call&) {
    return function(k, v[0]);
}

// To nearest, ties to even, whatever the rounding mode.
double round_even(double x) { return std::isfinite(x) ? x - std::remainder(x, 1) : x; }

Value square(Value x) { return mul(x, x); }
Value one_minus(Value x) { return 1.0 - ValueAt(x); }

// The remainder by truncation, moved into the interval of the divisor where the signs differ.
Value expand_mod(const BuildCall& c) {
    const Value b = c.operand(1), r = rem(c.operand(0), b), zero = splat(r, 0);
    if (!is_float(r.dtype()) && !is_signed_integer(r.dtype())) return r;
    const Value moves = logical_and(ne(r, zero), ne(lt(r, zero), lt(b, zero)));
    return select(moves, add(r, b), r);
}

// max + log(1 + exp(-|a - b|)); of two equal infinities the difference is no number.
Value expand_logaddexp(const BuildCall& c) {
    const Value a = widen(c.operand(0)), b = widen(c.operand(1));
    const Value distance = select(eq(a, b), splat(a, 0), abs(sub(a, b)));
    return narrow(add(maximum(a, b), log1p(exp(neg(distance)))), c.out->dtype);
}

Result<Type> infer_clamp(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::numbers));
    if (!c.given("min") && !c.given("max")) return c.error("needs min or max or both");
    const DType dtype = c.type(0).dtype;
    for (std::string_view attr : {"min", "max"}) {
        if (!c.given(attr)) continue;
        const double bound = c.real(attr);
        if (std::isnan(bound)) return c.error(fmt::format("{} is not a number", attr));
        if (!is_float(dtype) && static_cast<double>(saturate_to(dtype, bound)) != bound)
            return c.error(fmt::format("{} does not fit the dtype: got {} for {}", attr, bound, to_string(dtype)));
    }
    return c.type(0);
}

Value expand_clamp(const BuildCall& c) {
    Value y = c.operand(0);
    if (c.given("min")) y = maximum(y, splat(y, c.real("min")));
    if (c.given("max")) y = minimum(y, splat(y, c.real("max")));
    return y;
}

// 1 between the bounds, 0 at them.
Value clamp_derivative(const BuildCall& c, size_t) {
    const Value x = c.operand(0), one = splat(x, 1), zero = splat(x, 0);
    Value inside = one;
    if (c.given("min")) inside = select(gt(x, splat(x, c.real("min"))), inside, zero);
    if (c.given("max")) inside = select(lt(x, splat(x, c.real("max"))), inside, zero);
    return inside;
}

#define ROUNDING(op_name, function, opcode, text, onnx_name)                                                     \
    {                                                                                                            \
        .name = op_name, .doc = text, .operands = x_operand, .infer = floats, .ref = ElementRef{real<function>}, \
        .lower = MapLower{emit_unary<opcode>}, .onnx = onnx_name                                                 \
    }
#define FUNCTION(op_name, text, function, derivative, kernel, onnx_name, bound)                                  \
    {                                                                                                            \
        .name = op_name, .doc = text, .operands = x_operand, .infer = floats, .ref = ElementRef{real<function>}, \
        .grad = Deriv{[]([[maybe_unused]] const BuildCall& c, size_t) -> Value { return derivative; }},          \
        .lower = MapLower{kernel, true}, .onnx = onnx_name, .ulp = bound                                         \
    }

constexpr OpDef defs[] = {
    ROUNDING("ceil", std::ceil, Opcode::ceil, "y = the smallest integral number not below x.", "Ceil"),
    ROUNDING("trunc", std::trunc, Opcode::trunc, "y = x without its fraction: rounded toward 0.", ""),
    ROUNDING("round", round_even, Opcode::round_even, "y = the integral number nearest to x, of two equally near the even one.",
             "Round"),
#undef ROUNDING
    FUNCTION("exp2", "y = 2^x.", std::exp2, c.value() * 0.693147180559945309, emit_unary<Opcode::exp2>, "",
             260),  // 3 + 2|x| with |x| <= 128
    FUNCTION("expm1", "y = e^x - 1, without cancellation near 0.", std::expm1, exp(c.operand(0)), emit_function<emit_expm1>, "",
             180),
    FUNCTION("log2", "y = the logarithm of x to base 2.", std::log2, 1.44269504088896341 / ValueAt(c.operand(0)),
             emit_unary<Opcode::log2>, "", 4),  // of max(|y|, 1)
    FUNCTION("log1p", "y = ln(1 + x), without cancellation near 0.", std::log1p, 1.0 / ValueAt(c.operand(0) + 1.0),
             emit_function<emit_log1p>, "", 24),
    FUNCTION("asin", "y = the angle in [-pi/2, pi/2] whose sine is x; NaN for |x| > 1.", std::asin,
             rsqrt(one_minus(square(c.operand(0)))), emit_function<emit_asin>, "Asin", 16),
    FUNCTION("acos", "y = the angle in [0, pi] whose cosine is x; NaN for |x| > 1.", std::acos,
             neg(rsqrt(one_minus(square(c.operand(0))))), emit_function<emit_acos>, "Acos", 16),
    FUNCTION("atan", "y = the angle in (-pi/2, pi/2) whose tangent is x.", std::atan, 1.0 / ValueAt(square(c.operand(0)) + 1.0),
             emit_function<emit_atan>, "Atan", 8),
    FUNCTION("sinh", "y = (e^x - e^-x) / 2.", std::sinh, cosh(c.operand(0)), emit_function<emit_sinh>, "Sinh", 240),
    FUNCTION("cosh", "y = (e^x + e^-x) / 2.", std::cosh, sinh(c.operand(0)), emit_function<emit_cosh>, "Cosh", 240),
    FUNCTION("asinh", "y = ln(x + sqrt(x^2 + 1)), without cancellation for negative and small x.", std::asinh,
             rsqrt(square(c.operand(0)) + 1.0), emit_function<emit_asinh>, "Asinh", 32),
    FUNCTION("acosh", "y = ln(x + sqrt(x^2 - 1)); NaN for x < 1.", std::acosh,
             mul(rsqrt(c.operand(0) - 1.0), rsqrt(c.operand(0) + 1.0)), emit_function<emit_acosh>, "Acosh", 32),
    FUNCTION("atanh", "y = ln((1 + x) / (1 - x)) / 2; NaN for |x| > 1.", std::atanh,
             1.0 / ValueAt(one_minus(square(c.operand(0)))), emit_function<emit_atanh>, "Atanh", 32),
    FUNCTION("erf", "y = 2 / sqrt(pi) * the integral of e^(-t^2) from 0 to x.", std::erf,
             exp(neg(square(c.operand(0)))) * 1.12837916709551257, emit_function<emit_erf>, "Erf", 8),
    FUNCTION("erfc", "y = 1 - erf(x), accurate where that is small.", std::erfc,
             exp(neg(square(c.operand(0)))) * -1.12837916709551257, emit_function<emit_erfc>, "", 240),
#undef FUNCTION
    {.name = "atan2",
     .doc = "y = the angle of the point (x, y), in [-pi, pi].",
     .operands = y_x,
     .infer = floats,
     .ref = ElementRef{[](Reals v) { return std::atan2(v[0], v[1]); }},
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         const Value y = c.operand(0), x = c.operand(1), length = add(square(y), square(x));
         return operand == 0 ? div(x, length) : neg(div(y, length));
     }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call&) { return emit_atan2(k, v[0], v[1]); }, true},
     .ulp = 8},
    {.name = "tan",
     .doc = "y = sin x / cos x.",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return square(c.value()) + 1.0; }},
     .lower = ExpandLower{[](const BuildCall& c) {
         const Value x = widen(c.operand(0));
         return narrow(div(sin(x), cos(x)), c.out->dtype);
     }},
     .onnx = "Tan"},
    {.name = "reciprocal",
     .doc = "y = 1 / x.",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return neg(square(c.value())); }},
     .lower = ExpandLower{[](const BuildCall& c) -> Value { return 1.0 / ValueAt(c.operand(0)); }},
     .onnx = "Reciprocal"},
    {.name = "mod",
     .doc = "y = a - floor(a / b) * b, the remainder with the sign of b; integers by zero give 0.",
     .operands = a_b,
     .infer = numbers,
     .grad = ByExpansion{},
     .lower = ExpandLower{expand_mod},
     .onnx = "Mod"},
    {.name = "logaddexp",
     .doc = "y = ln(e^a + e^b), without overflow.",
     .operands = a_b,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t operand) {
         return sigmoid(operand == 0 ? sub(c.operand(0), c.operand(1)) : sub(c.operand(1), c.operand(0)));
     }},
     .lower = ExpandLower{expand_logaddexp},
     .commutative = true},
    {.name = "clamp",
     .doc = "y = min(max(x, min), max), NaN where x is; the derivative at the bounds is 0.",
     .operands = x_operand,
     .attrs = clamp_attrs,
     .infer = infer_clamp,
     .grad = Deriv{clamp_derivative},
     .lower = ExpandLower{expand_clamp},
     .onnx = "Clip"},
};

}  // namespace

std::span<const OpDef> function_ops() { return defs; }

}  // namespace darner
