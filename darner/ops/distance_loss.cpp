// SPDX-License-Identifier: MIT
// Losses element by element: mse, l1, huber, smooth_l1, hinge, hinge_embedding, kl_div and
// binary_cross_entropy_with_logits. Computed in f32 where the operands are narrower.
#include "darner/ops/families.h"
#include "darner/ops/reduction.h"

#include <fmt/format.h>

#include <numeric>

namespace darner {

Result<Type> reduced_losses(const Call& c, Type losses) {
    const std::string& reduction = c.choice("reduction");
    if (reduction == "none") return losses;
    if (reduction != "sum")
        for (const Dim& d : losses.dims)
            if (d == Dim(0)) return c.error("the mean of no losses is undefined: got " + infer::describe(c, 0));
    return losses.with(Dims{});
}

Value reduce_losses(const BuildCall& c, Value losses) {
    const std::string& reduction = c.choice("reduction");
    if (reduction == "none" || !losses.valid()) return losses;
    const Value total = sum(losses);
    if (reduction == "sum") return total;
    // A batch mean counts the first axis alone.
    std::vector<size_t> counted(reduction == "batchmean" ? 1 : losses.rank());
    std::iota(counted.begin(), counted.end(), size_t{0});
    const auto count = concrete_count(c, losses.dims(), counted);
    return count ? total / static_cast<double>(*count) : Value{};
}

namespace {

using infer::Accept;

constexpr OperandDef prediction_target[] = {{"prediction"}, {"target"}};
constexpr OperandDef logits_operands[] = {{"logits"}, {"target"}, {"weight", true}, {"pos_weight", true}};
constexpr AttrDef reduction_attrs[] = {reduction_attr};
constexpr AttrDef huber_attrs[] = {reduction_attr, {"delta", AttrKind::real, "1", "where the loss becomes linear, above 0"}};
constexpr AttrDef smooth_l1_attrs[] = {reduction_attr,
                                       {"beta", AttrKind::real, "1", "where the loss becomes linear; 0: everywhere"}};
constexpr AttrDef hinge_attrs[] = {reduction_attr, {"margin", AttrKind::real, "1", "how far on the right side costs nothing"}};
constexpr AttrDef kl_div_attrs[] = {
    {"reduction", AttrKind::choice, "mean",
     "mean or sum over all losses, batchmean: their sum by the extent of the first axis, or none", "mean|sum|none|batchmean"},
    {"log_target", AttrKind::boolean, "false", "target holds logarithms too"}};

Result<Type> infer_pair(const Call& c) {
    TRY(Type type, infer::same_type(c, Accept::floats));
    return reduced_losses(c, std::move(type));
}

// The loss of each element in f32, reduced.
template <Value (*loss)(const BuildCall&, Value prediction, Value target)>
Value expand_pair(const BuildCall& c) {
    return narrow(reduce_losses(c, loss(c, widen(c.operand(0)), widen(c.operand(1)))), c.out->dtype);
}

Value mse_of(const BuildCall&, Value prediction, Value target) {
    const Value difference = sub(prediction, target);
    return mul(difference, difference);
}
Value l1_of(const BuildCall&, Value prediction, Value target) { return abs(sub(prediction, target)); }

// m (|d| - m / 2) with m = min(|d|, delta): d^2 / 2, then a straight line, without a square that could overflow.
Value huber_of(Value distance, double delta) {
    const Value m = minimum(distance, splat(distance, delta));
    return mul(m, sub(distance, m * 0.5));
}

Result<Type> infer_huber(const Call& c) {
    if (!(c.real("delta") > 0)) return c.error(fmt::format("delta must be above 0: got {}", c.real("delta")));
    return infer_pair(c);
}
Value huber_loss(const BuildCall& c, Value prediction, Value target) {
    return huber_of(abs(sub(prediction, target)), c.real("delta"));
}

Result<Type> infer_smooth_l1(const Call& c) {
    if (!(c.real("beta") >= 0)) return c.error(fmt::format("beta must not be negative: got {}", c.real("beta")));
    return infer_pair(c);
}
Value smooth_l1_loss(const BuildCall& c, Value prediction, Value target) {
    const Value distance = abs(sub(prediction, target));
    return c.real("beta") == 0 ? distance : huber_of(distance, c.real("beta")) * (1 / c.real("beta"));
}

Value hinge_loss(const BuildCall& c, Value prediction, Value target) {
    return relu(c.real("margin") - ValueAt(mul(prediction, target)));
}
Value hinge_embedding_loss(const BuildCall& c, Value x, Value target) {
    return select(gt(target, splat(target, 0)), x, relu(c.real("margin") - ValueAt(x)));
}

// t (log t - x); a target of 0 contributes 0.
Value kl_div_loss(const BuildCall& c, Value log_probabilities, Value target) {
    if (c.boolean("log_target")) return mul(exp(target), sub(target, log_probabilities));
    const Value zero = splat(target, 0), is_zero = eq(target, zero);
    const Value log_target = log(select(is_zero, splat(target, 1), target));
    return select(is_zero, zero, mul(target, sub(log_target, log_probabilities)));
}
Result<Type> infer_kl_div(const Call& c) {
    if (c.choice("reduction") == "batchmean" && c.type(0).rank() == 0)
        return c.error("batchmean needs a first axis: got " + infer::describe(c, 0));
    return infer_pair(c);
}

Result<Type> infer_bce(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(infer::equal_dtypes(c, 0, 1));
    TRY(infer::equal_dims(c, c.type(1).dims, c.type(0).dims, "shape of target"));
    for (const size_t operand : {size_t{2}, size_t{3}}) {
        if (!c.has(operand)) continue;
        TRY(infer::equal_dtypes(c, 0, operand));
        TRY(infer::broadcasts(c, operand, c.type(0).dims));
    }
    return reduced_losses(c, c.type(0));
}

// pos_weight t softplus(-x) + (1 - t) softplus(x): both terms are positive, so nothing cancels.
Value expand_bce(const BuildCall& c) {
    const Value x = widen(c.operand(0)), t = widen(c.operand(1));
    const auto factor = [&](size_t operand) { return c.builder->broadcast_to(widen(c.operand(operand)), x.dims()); };
    Value positive = mul(t, softplus(neg(x)));
    if (c.has(3)) positive = mul(positive, factor(3));
    Value losses = add(positive, mul(1.0 - ValueAt(t), softplus(x)));
    if (c.has(2)) losses = mul(losses, factor(2));
    return narrow(reduce_losses(c, losses), c.out->dtype);
}

#define LOSS(op_name, text, attributes, inference, loss)                                                      \
    {                                                                                                         \
        .name = op_name, .doc = text, .operands = prediction_target, .attrs = attributes, .infer = inference, \
        .grad = ByExpansion{}, .batch = Batch::by_expansion, .lower = ExpandLower {                           \
            expand_pair<loss>                                                                                 \
        }                                                                                                     \
    }

constexpr OpDef defs[] = {
    LOSS("mse", "loss = (prediction - target)^2.", reduction_attrs, infer_pair, mse_of),
    LOSS("l1", "loss = |prediction - target|; the derivative at 0 is 0.", reduction_attrs, infer_pair, l1_of),
    LOSS("huber", "loss = d^2 / 2 for d <= delta, else delta * (d - delta / 2), with d = |prediction - target|.", huber_attrs,
         infer_huber, huber_loss),
    LOSS("smooth_l1", "loss = d^2 / (2 beta) for d < beta, else d - beta / 2, with d = |prediction - target|.", smooth_l1_attrs,
         infer_smooth_l1, smooth_l1_loss),
    LOSS("hinge", "loss = max(0, margin - prediction * target), for targets of 1 and -1.", hinge_attrs, infer_pair, hinge_loss),
    LOSS("hinge_embedding", "loss = prediction for a target of 1, max(0, margin - prediction) for -1.", hinge_attrs, infer_pair,
         hinge_embedding_loss),
    LOSS("kl_div", "loss = target * (ln target - prediction), 0 for a target of 0; prediction holds logarithms.", kl_div_attrs,
         infer_kl_div, kl_div_loss),
#undef LOSS
    {.name = "binary_cross_entropy_with_logits",
     .doc = "loss = -weight * (pos_weight * target * ln sigmoid(logits) + (1 - target) * ln(1 - sigmoid(logits))); both weights "
            "broadcast and may be left out.",
     .operands = logits_operands,
     .attrs = reduction_attrs,
     .infer = infer_bce,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_bce}},
};

}  // namespace

std::span<const OpDef> distance_loss_ops() { return defs; }

}  // namespace darner
