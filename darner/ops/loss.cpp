// SPDX-License-Identifier: MIT
// Losses: cross_entropy over integer labels and mse. Both are computed in f32 where the operands are narrower.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

#include <numeric>

namespace darner {
namespace {

using infer::Accept;

constexpr std::string_view reductions = "mean|sum|none";
constexpr std::string_view reduction_doc = "mean or sum over all losses, or none: one loss each";
constexpr OperandDef cross_entropy_operands[] = {{"logits"}, {"labels"}};
constexpr OperandDef mse_operands[] = {{"prediction"}, {"target"}};
constexpr AttrDef cross_entropy_attrs[] = {{"axis", AttrKind::integer, "-1", "the class axis of logits"},
                                           {"reduction", AttrKind::choice, "mean", reduction_doc, reductions}};
constexpr AttrDef mse_attrs[] = {{"reduction", AttrKind::choice, "mean", reduction_doc, reductions}};

Result<Type> reduced_type(const Call& c, Type losses) {
    const std::string& reduction = c.choice("reduction");
    if (reduction == "none") return losses;
    if (reduction == "mean")
        for (const Dim& d : losses.dims)
            if (d == Dim(0)) return c.error("the mean of no losses is undefined: got " + infer::describe(c, 0));
    return losses.with(Dims{});
}

std::vector<size_t> all_axes(size_t rank) {
    std::vector<size_t> axes(rank);
    std::iota(axes.begin(), axes.end(), size_t{0});
    return axes;
}

Value reduce_losses(const BuildCall& c, Value losses) {
    const std::string& reduction = c.choice("reduction");
    if (reduction == "none" || !losses.valid()) return losses;
    const Value total = sum(losses);
    if (reduction == "sum") return total;
    const auto count = concrete_count(c, losses.dims(), all_axes(losses.rank()));
    return count ? total / static_cast<double>(*count) : Value{};
}

// --- cross_entropy --------------------------------------------------------------------------------------------------

Result<Type> infer_cross_entropy(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(infer::dtype(c, 1, Accept::index));
    const Dims& logits = c.type(0).dims;
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), logits.size()));
    if (logits[axis] == Dim(0)) return c.error(fmt::format("class axis {} of {} is empty", axis, infer::describe(c, 0)));
    Dims rows = logits;
    rows.erase(rows.begin() + static_cast<ptrdiff_t>(axis));
    TRY(infer::equal_dims(c, c.type(1).dims, rows,
                          fmt::format("shape of labels, that of {} without axis {}", infer::describe(c, 0), axis)));
    return reduced_type(c, c.type(0).with(rows));
}

size_t class_axis(const Call& c) { return c.axis("axis", c.type(0).rank()); }

// True at the labelled class of each row. A comparison instead of a gather keeps the loss and its gradient row programs.
Value labelled(const BuildCall& c) {
    const size_t axis = class_axis(c);
    const Type type = c.type(0).with(c.type(1).dtype);
    return eq(c.builder->iota(type, static_cast<int64_t>(axis)), spread(c.operand(1), type.dims, {axis}, false));
}

Value expand_cross_entropy(const BuildCall& c) {
    const size_t axis = class_axis(c);
    const std::vector<int64_t> axes = {static_cast<int64_t>(axis)};
    const Value x = widen(c.operand(0));
    const Value z = sub(x, max_spread(x, axis));
    const Value log_sum = spread(log(sum(exp(z), axes)), x.dims(), {axis}, false);
    const Value losses = sum(select(labelled(c), sub(log_sum, z), splat(x, 0)), axes);
    return narrow(reduce_losses(c, losses), c.out->dtype);
}

// Each row's share of the cotangent: 0 for a label that is no class, because its loss is the constant 0.
Value row_cotangents(const BuildCall& c, Value dy) {
    const Value labels = c.operand(1);
    const size_t axis = class_axis(c);
    const Dims& rows = labels.dims();
    Value share = widen(dy);
    if (c.choice("reduction") == "mean") {
        const auto count = concrete_count(c, rows, all_axes(rows.size()));
        if (!count) return {};
        share = share / static_cast<double>(*count);
    }
    if (c.choice("reduction") != "none") share = broadcast(share, rows, {});
    const auto classes = concrete_count(c, c.type(0).dims, {axis});
    if (!classes) return {};
    Value is_class = lt(labels, splat(labels, static_cast<double>(*classes)));
    if (labels.dtype() == DType::i32) is_class = logical_and(is_class, ge(labels, splat(labels, 0)));
    return spread(select(is_class, share, splat(share, 0)), c.type(0).dims, {axis}, false);
}

// dx = (softmax(x) - onehot) dy, row by row.
Value cross_entropy_vjp(const BuildCall& c, size_t operand, Value dy) {
    if (operand != 0) return {};
    const Value p = softmax(widen(c.operand(0)), static_cast<int64_t>(class_axis(c)));
    const Value onehot = select(labelled(c), splat(p, 1), splat(p, 0));
    return narrow(mul(sub(p, onehot), row_cotangents(c, dy)), c.type(0).dtype);
}

Value cross_entropy_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    const size_t axis = class_axis(c);
    const std::vector<int64_t> axes = {static_cast<int64_t>(axis)};
    const Value t = widen(tangents[0]);
    const Value p = softmax(widen(c.operand(0)), static_cast<int64_t>(axis));
    // sum(p t) - t at the label, and 0 without one.
    const Value mean_tangent = spread(sum(mul(p, t), axes), t.dims(), {axis}, false);
    const Value losses = sum(select(labelled(c), sub(mean_tangent, t), splat(t, 0)), axes);
    return narrow(reduce_losses(c, losses), c.out->dtype);
}

// --- mse ------------------------------------------------------------------------------------------------------------

Result<Type> infer_mse(const Call& c) {
    TRY(const Type type, infer::same_type(c, Accept::floats));
    return reduced_type(c, type);
}

Value expand_mse(const BuildCall& c) {
    const Value difference = sub(widen(c.operand(0)), widen(c.operand(1)));
    return narrow(reduce_losses(c, mul(difference, difference)), c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "cross_entropy",
     .doc = "loss = log(sum(exp logits)) - logits[label] along the class axis; a label that is no class contributes 0 (and "
            "counts in the "
            "mean).",
     .operands = cross_entropy_operands,
     .attrs = cross_entropy_attrs,
     .infer = infer_cross_entropy,
     .grad = CustomGrad{cross_entropy_vjp, cross_entropy_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_cross_entropy}},
    {.name = "mse",
     .doc = "loss = (prediction - target)^2.",
     .operands = mse_operands,
     .attrs = mse_attrs,
     .infer = infer_mse,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_mse}},
};

}  // namespace

std::span<const OpDef> loss_ops() { return defs; }

}  // namespace darner
