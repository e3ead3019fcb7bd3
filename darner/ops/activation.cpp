// SPDX-License-Identifier: MIT
// Activations: composites, computed in f32 where the operand is narrower. Those with a kink, or whose expansion would multiply
// an overflow by zero on the way back, state their derivatives; at a kink it is PyTorch's.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef x_weight[] = {{"x"}, {"weight"}};
constexpr OperandDef gate_up[] = {{"gate"}, {"up"}};
constexpr AttrDef approximate = {"approximate", AttrKind::choice, "none", "none: by erf; tanh: by the tanh formula", "none|tanh"};
constexpr AttrDef gelu_attrs[] = {approximate};
constexpr AttrDef alpha_attrs[] = {{"alpha", AttrKind::real, "1", "minus the limit for x -> -infinity"}};
constexpr AttrDef celu_attrs[] = {{"alpha", AttrKind::real, "1", "minus the limit for x -> -infinity, above 0"}};
constexpr AttrDef softplus_attrs[] = {{"beta", AttrKind::real, "1", "how sharp the bend is, above 0"}};
constexpr AttrDef slope_attrs[] = {{"negative_slope", AttrKind::real, "0.01", "the slope for x < 0"}};
constexpr AttrDef prelu_attrs[] = {{"axis", AttrKind::integer, "1", "the axis of x that weight runs along"}};
constexpr AttrDef hard_sigmoid_attrs[] = {{"alpha", AttrKind::real, "0.16666666666666666", "the slope"},
                                          {"beta", AttrKind::real, "0.5", "the value at 0"}};
constexpr AttrDef hard_tanh_attrs[] = {{"min", AttrKind::real, "-1", "the smallest value"},
                                       {"max", AttrKind::real, "1", "the largest value"}};
constexpr AttrDef threshold_attrs[] = {{"alpha", AttrKind::real, "1", "up to here the result is 0"}};
constexpr AttrDef glu_attrs[] = {{"axis", AttrKind::integer, "-1", "the axis that is halved"}};
constexpr auto floats = infer::same_type<Accept::floats>;

constexpr double selu_alpha = 1.6732632423543772848, selu_scale = 1.0507009873554804934;

// The expansion of f in f32 and back.
template <Value (*f)(const BuildCall&, Value)>
Value in_f32(const BuildCall& c) {
    return narrow(f(c, widen(c.operand(0))), c.out->dtype);
}

Value silu_of(Value x) { return mul(x, sigmoid(x)); }

// 0.5 x erfc(-x / sqrt 2), where 1 + erf would cancel; and 0.5 x (1 + tanh u) = x sigmoid(2u), with u = sqrt(2 / pi) (x +
// 0.044715 x^3). Beyond 16 the sigmoid is 0 or 1 and the cube could overflow.
Value gelu_of(const BuildCall& c, Value x) {
    if (c.choice("approximate") == "none") return mul(x * 0.5, erfc(x * -0.70710678118654752));
    const Value t = clamp(x, -16, 16);
    return mul(x, sigmoid(mul(t, mul(t, t) * 0.0713548162726 + 1.5957691216057308)));
}

Value zero_of(Value x) { return splat(x, 0); }
Value is_positive(Value x) { return gt(x, zero_of(x)); }
Value below_zero(Value x) { return minimum(x, zero_of(x)); }

// x for x > 0, else alpha (exp(x / width) - 1).
Value exponential_unit(Value x, double alpha, double width) {
    return select(is_positive(x), x, expm1(below_zero(x) * (1 / width)) * alpha);
}
Value exponential_slope(Value x, double alpha, double width) {
    return select(is_positive(x), splat(x, 1), exp(below_zero(x) * (1 / width)) * (alpha / width));
}

Value elu_of(const BuildCall& c, Value x) { return exponential_unit(x, c.real("alpha"), 1); }
Value selu_of(const BuildCall&, Value x) { return exponential_unit(x, selu_alpha, 1) * selu_scale; }
Value celu_of(const BuildCall& c, Value x) { return exponential_unit(x, c.real("alpha"), c.real("alpha")); }

// log(1 + exp x) without overflow.
Value softplus_of(Value x) { return add(relu(x), log1p(exp(neg(abs(x))))); }
Value sharp_softplus_of(const BuildCall& c, Value x) { return softplus_of(x * c.real("beta")) * (1 / c.real("beta")); }
Value log_sigmoid_of(const BuildCall&, Value x) { return neg(softplus_of(neg(x))); }

Result<Type> infer_positive(const Call& c, std::string_view attr) {
    if (!(c.real(attr) > 0)) return c.error(fmt::format("{} must be above 0: got {}", attr, c.real(attr)));
    return floats(c);
}

Result<Type> infer_prelu(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(infer::equal_dtypes(c, 0, 1));
    const Dims& weight = c.type(1).dims;
    if (weight.empty() || (weight.size() == 1 && weight[0] == Dim(1))) return c.type(0);
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    TRY(infer::equal_dims(c, weight, {c.type(0).dims[axis]}, fmt::format("shape of weight, a scalar or axis {} of x", axis)));
    return c.type(0);
}

Value expand_prelu(const BuildCall& c) {
    const Value x = c.operand(0), weight = c.operand(1);
    const bool one = weight.rank() == 0 || weight.dims()[0] == Dim(1);
    const std::vector<int64_t> axes = one ? std::vector<int64_t>{} : std::vector<int64_t>{c.integer("axis")};
    const Value slope = broadcast(one ? reshape(weight, {}) : weight, x.dims(), axes);
    return select(is_positive(x), x, mul(slope, x));
}

Result<Type> infer_hard_tanh(const Call& c) {
    if (!(c.real("min") <= c.real("max")))
        return c.error(fmt::format("min must not be above max: got {} and {}", c.real("min"), c.real("max")));
    return floats(c);
}

// slope inside the open interval, 0 at its ends and outside.
Value slope_between(Value x, double low, double high, double slope) {
    const Value zero = zero_of(x);
    return select(gt(x, splat(x, low)), select(lt(x, splat(x, high)), splat(x, slope), zero), zero);
}

Value hard_sigmoid_of(const BuildCall& c, Value x) { return clamp(x * c.real("alpha") + c.real("beta"), 0, 1); }
Value hard_sigmoid_derivative(const BuildCall& c, size_t) {
    const Value x = c.operand(0);
    return slope_between(x * c.real("alpha") + c.real("beta"), 0, 1, c.real("alpha"));
}

Value hard_swish_of(const BuildCall&, Value x) { return mul(x, clamp(x * (1.0 / 6) + 0.5, 0, 1)); }
Value hard_swish_derivative(const BuildCall& c, size_t) {
    const Value x = c.operand(0);
    return select(gt(x, splat(x, -3)), select(lt(x, splat(x, 3)), x * (1.0 / 3) + 0.5, splat(x, 1)), zero_of(x));
}

Result<Type> infer_glu(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    Dims dims = c.type(0).dims;
    const std::optional<Dim> half = dims[axis].exact_div(Dim(2));
    if (!half) return c.error(fmt::format("axis {} of {} must have an even extent", axis, infer::describe(c, 0)));
    dims[axis] = *half;
    return c.type(0).with(std::move(dims));
}

Value expand_glu(const BuildCall& c) {
    const size_t axis = c.axis("axis", c.type(0).rank());
    const auto half = concrete_count(c, c.out->dims, {axis});
    if (!half) return {};
    const std::vector<Value> parts = split(c.operand(0), {*half, *half}, static_cast<int64_t>(axis));
    return narrow(mul(widen(parts[0]), sigmoid(widen(parts[1]))), c.out->dtype);
}

#define ACTIVATION(op_name, text, expansion, onnx_name)                                              \
    {                                                                                                \
        .name = op_name, .doc = text, .operands = x_operand, .infer = floats, .grad = ByExpansion{}, \
        .lower = ExpandLower{[](const BuildCall& c) {                                                \
            const Value x = widen(c.operand(0));                                                     \
            return narrow(expansion, c.out->dtype);                                                  \
        }},                                                                                          \
        .onnx = onnx_name                                                                            \
    }

constexpr OpDef defs[] = {
    ACTIVATION("silu", "y = x * sigmoid(x).", silu_of(x), "Swish"),
    ACTIVATION("mish", "y = x * tanh(softplus(x)).", mul(x, tanh(softplus_of(x))), "Mish"),
    ACTIVATION("softsign", "y = x / (1 + |x|).", div(x, abs(x) + 1.0), "Softsign"),
#undef ACTIVATION
    {.name = "gelu",
     .doc = "y = x * (1 + erf(x / sqrt 2)) / 2, or approximately x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.",
     .operands = x_operand,
     .attrs = gelu_attrs,
     .infer = floats,
     .grad = ByExpansion{},
     .lower = ExpandLower{in_f32<gelu_of>},
     .onnx = "Gelu"},
    {.name = "elu",
     .doc = "y = x for x > 0, else alpha * (e^x - 1).",
     .operands = x_operand,
     .attrs = alpha_attrs,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return exponential_slope(c.operand(0), c.real("alpha"), 1); }},
     .lower = ExpandLower{in_f32<elu_of>},
     .onnx = "Elu"},
    {.name = "selu",
     .doc = "y = 1.0507009873554805 * (x for x > 0, else 1.6732632423543772 * (e^x - 1)).",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return exponential_slope(c.operand(0), selu_alpha, 1) * selu_scale; }},
     .lower = ExpandLower{in_f32<selu_of>},
     .onnx = "Selu"},
    {.name = "celu",
     .doc = "y = x for x > 0, else alpha * (e^(x / alpha) - 1).",
     .operands = x_operand,
     .attrs = celu_attrs,
     .infer = [](const Call& c) { return infer_positive(c, "alpha"); },
     .grad = Deriv{[](const BuildCall& c, size_t) { return exponential_slope(c.operand(0), c.real("alpha"), c.real("alpha")); }},
     .lower = ExpandLower{in_f32<celu_of>},
     .onnx = "Celu"},
    {.name = "softplus",
     .doc = "y = ln(1 + e^(beta x)) / beta, without overflow.",
     .operands = x_operand,
     .attrs = softplus_attrs,
     .infer = [](const Call& c) { return infer_positive(c, "beta"); },
     .grad = Deriv{[](const BuildCall& c, size_t) { return sigmoid(c.operand(0) * c.real("beta")); }},
     .lower = ExpandLower{in_f32<sharp_softplus_of>},
     .onnx = "Softplus"},
    {.name = "log_sigmoid",
     .doc = "y = ln(sigmoid(x)), without overflow.",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return sigmoid(neg(c.operand(0))); }},
     .lower = ExpandLower{in_f32<log_sigmoid_of>}},
    {.name = "leaky_relu",
     .doc = "y = x for x > 0, else negative_slope * x.",
     .operands = x_operand,
     .attrs = slope_attrs,
     .infer = floats,
     .grad = ByExpansion{},
     .lower = ExpandLower{[](const BuildCall& c) {
         const Value x = c.operand(0);
         return select(is_positive(x), x, x * c.real("negative_slope"));
     }},
     .onnx = "LeakyRelu"},
    {.name = "prelu",
     .doc = "y = x for x > 0, else weight * x, with one weight or one for each index of axis.",
     .operands = x_weight,
     .attrs = prelu_attrs,
     .infer = infer_prelu,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_prelu}},
    {.name = "hard_sigmoid",
     .doc = "y = min(max(alpha x + beta, 0), 1).",
     .operands = x_operand,
     .attrs = hard_sigmoid_attrs,
     .infer = floats,
     .grad = Deriv{hard_sigmoid_derivative},
     .lower = ExpandLower{in_f32<hard_sigmoid_of>},
     .onnx = "HardSigmoid"},
    {.name = "hard_swish",
     .doc = "y = x * min(max(x / 6 + 1 / 2, 0), 1).",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{hard_swish_derivative},
     .lower = ExpandLower{in_f32<hard_swish_of>},
     .onnx = "HardSwish"},
    {.name = "hard_tanh",
     .doc = "y = min(max(x, min), max); the derivative at the bounds is 0.",
     .operands = x_operand,
     .attrs = hard_tanh_attrs,
     .infer = infer_hard_tanh,
     .grad = Deriv{[](const BuildCall& c, size_t) { return slope_between(c.operand(0), c.real("min"), c.real("max"), 1); }},
     .lower = ExpandLower{[](const BuildCall& c) { return clamp(c.operand(0), c.real("min"), c.real("max")); }}},
    {.name = "relu6",
     .doc = "y = min(max(x, 0), 6); the derivative at the bounds is 0.",
     .operands = x_operand,
     .infer = floats,
     .grad = Deriv{[](const BuildCall& c, size_t) { return slope_between(c.operand(0), 0, 6, 1); }},
     .lower = ExpandLower{[](const BuildCall& c) { return clamp(c.operand(0), 0, 6); }}},
    {.name = "thresholded_relu",
     .doc = "y = x for x > alpha, else 0.",
     .operands = x_operand,
     .attrs = threshold_attrs,
     .infer = floats,
     .grad = ByExpansion{},
     .lower = ExpandLower{[](const BuildCall& c) {
         const Value x = c.operand(0);
         return select(le(x, splat(x, c.real("alpha"))), zero_of(x), x);  // a NaN stays
     }},
     .onnx = "ThresholdedRelu"},
    {.name = "glu",
     .doc = "y = first half of x * sigmoid(second half), along axis.",
     .operands = x_operand,
     .attrs = glu_attrs,
     .infer = infer_glu,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_glu}},
    {.name = "swiglu",
     .doc = "y = silu(gate) * up.",
     .operands = gate_up,
     .infer = floats,
     .grad = ByExpansion{},
     .lower = ExpandLower{[](const BuildCall& c) {
         return narrow(mul(silu_of(widen(c.operand(0))), widen(c.operand(1))), c.out->dtype);
     }}},
    {.name = "geglu",
     .doc = "y = gelu(gate) * up.",
     .operands = gate_up,
     .attrs = gelu_attrs,
     .infer = floats,
     .grad = ByExpansion{},
     .lower = ExpandLower{[](const BuildCall& c) {
         return narrow(mul(gelu(widen(c.operand(0)), c.choice("approximate")), widen(c.operand(1))), c.out->dtype);
     }}},
};

}  // namespace

std::span<const OpDef> activation_ops() { return defs; }

}  // namespace darner
