// SPDX-License-Identifier: MIT
// Softmax and log_softmax: composites, computed in f32 where the operand is narrower. They state their derivatives, because
// those of the expansions would go through the maximum, where it cancels.
#include "darner/base/fault.h"
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef softmax_attrs[] = {{"axis", AttrKind::integer, "-1", "the axis along which the result sums to 1"}};

Result<Type> infer_softmax(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    if (c.type(0).dims[axis] == Dim(0)) return c.error(fmt::format("axis {} of {} is empty", axis, infer::describe(c, 0)));
    return c.type(0);
}

size_t axis_of(const Call& c) { return c.axis("axis", c.type(0).rank()); }

// The largest element of each row becomes 0, so that no exponential overflows and their sum is at least 1.
Value shifted(Value x, size_t axis) { return sub(x, max_spread(x, axis)); }

Value expand_softmax(const BuildCall& c) {
    const Value x = widen(c.operand(0)), e = exp(fault(37) ? x : shifted(x, axis_of(c)));
    return narrow(div(e, sum_spread(e, axis_of(c))), c.type(0).dtype);
}

// dx = y (dy - sum(y dy)); the Jacobian is symmetric, so the tangent has the same form.
Value softmax_derivative(const BuildCall& c, Value direction) {
    const Value y = widen(c.value()), d = widen(direction);
    return narrow(mul(y, sub(d, sum_spread(mul(y, d), axis_of(c)))), c.type(0).dtype);
}

Value expand_log_softmax(const BuildCall& c) {
    const size_t axis = axis_of(c);
    const Value z = shifted(widen(c.operand(0)), axis);
    const Dims dims = z.dims();
    const Value log_sum = log(sum(exp(z), {static_cast<int64_t>(axis)}));
    return narrow(sub(z, spread(log_sum, dims, {axis}, false)), c.type(0).dtype);
}

// exp(y), as the softmax whose exponentials and sums the value has computed already.
Value probabilities(const BuildCall& c) { return softmax(widen(c.operand(0)), static_cast<int64_t>(axis_of(c))); }

Value log_softmax_vjp(const BuildCall& c, size_t, Value dy) {
    const Value d = widen(dy);
    return narrow(sub(d, mul(probabilities(c), sum_spread(d, axis_of(c)))), c.type(0).dtype);
}

Value log_softmax_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    const Value t = widen(tangents[0]);
    return narrow(sub(t, sum_spread(mul(probabilities(c), t), axis_of(c))), c.type(0).dtype);
}

constexpr OpDef defs[] = {
    {.name = "softmax",
     .doc = "y = exp(x - max x) / sum(exp(x - max x)) along axis.",
     .operands = x_operand,
     .attrs = softmax_attrs,
     .infer = infer_softmax,
     .grad = CustomGrad{[](const BuildCall& c, size_t, Value dy) { return softmax_derivative(c, dy); },
                        [](const BuildCall& c, std::span<const Value> tangents) {
                            return tangents[0].valid() ? softmax_derivative(c, tangents[0]) : Value{};
                        }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_softmax},
     .onnx = "Softmax"},
    {.name = "log_softmax",
     .doc = "y = z - log(sum(exp z)) along axis with z = x - max x.",
     .operands = x_operand,
     .attrs = softmax_attrs,
     .infer = infer_softmax,
     .grad = CustomGrad{log_softmax_vjp, log_softmax_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_log_softmax},
     .onnx = "LogSoftmax"},
};

}  // namespace

std::span<const OpDef> normalize_ops() { return defs; }

}  // namespace darner
