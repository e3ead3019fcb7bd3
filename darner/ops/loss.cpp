// SPDX-License-Identifier: MIT
// Losses over classes: cross_entropy (labels or probabilities as targets) and nll. Computed in f32 where the operands are
// narrower.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/reduction.h"

#include <fmt/format.h>

#include <cmath>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef cross_entropy_operands[] = {{"logits"}, {"labels"}, {"weight", true}};
constexpr OperandDef nll_operands[] = {{"log_probabilities"}, {"labels"}, {"weight", true}};
constexpr AttrDef axis_attr = {"axis", AttrKind::integer, "-1", "the class axis"};
constexpr AttrDef ignore_attr = {"ignore_index", AttrKind::integer, "none",
                                 "a label whose rows have loss 0 and do not count in the mean; none: no label"};
constexpr AttrDef cross_entropy_attrs[] = {
    axis_attr,
    reduction_attr,
    ignore_attr,
    {"label_smoothing", AttrKind::real, "0", "the share of each target that is spread evenly over all classes"}};
constexpr AttrDef nll_attrs[] = {axis_attr, reduction_attr, ignore_attr};

size_t class_axis(const Call& c) { return c.axis("axis", c.type(0).rank()); }
bool has_soft_labels(const Call& c) { return is_float(c.type(1).dtype); }

Result<Type> infer_classes(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    const Dims& logits = c.type(0).dims;
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), logits.size()));
    if (logits[axis] == Dim(0)) return c.error(fmt::format("class axis {} of {} is empty", axis, infer::describe(c, 0)));
    if (c.has(2)) {
        TRY(infer::equal_dtypes(c, 0, 2));
        TRY(infer::equal_dims(c, c.type(2).dims, {logits[axis]},
                              fmt::format("shape of weight, one for each index of axis {}", axis)));
    }
    Dims rows = logits;
    rows.erase(rows.begin() + static_cast<ptrdiff_t>(axis));
    return reduced_losses(c, c.type(0).with(std::move(rows)));
}

Result<void> check_labels(const Call& c) {
    TRY(infer::dtype(c, 1, Accept::index));
    const size_t axis = class_axis(c);
    Dims rows = c.type(0).dims;
    rows.erase(rows.begin() + static_cast<ptrdiff_t>(axis));
    TRY(infer::equal_dims(c, c.type(1).dims, rows,
                          fmt::format("shape of labels, that of {} without axis {}", infer::describe(c, 0), axis)));
    if (!c.given("ignore_index")) return {};
    const auto ignored = static_cast<double>(c.integer("ignore_index"));
    if (static_cast<double>(saturate_to(c.type(1).dtype, ignored)) != ignored)
        return c.error(fmt::format("ignore_index is no label: got {} for {}", c.integer("ignore_index"), infer::describe(c, 1)));
    return {};
}

Result<Type> infer_cross_entropy(const Call& c) {
    TRY(Type type, infer_classes(c));
    if (const double smoothing = c.real("label_smoothing"); !(smoothing >= 0 && smoothing <= 1))
        return c.error(fmt::format("label_smoothing must be in 0 to 1: got {}", smoothing));
    if (!has_soft_labels(c)) {
        TRY(check_labels(c));
        return type;
    }
    if (c.given("ignore_index")) return c.error("ignore_index needs integer labels: got " + infer::describe(c, 1));
    TRY(infer::equal_dtypes(c, 0, 1));
    TRY(infer::equal_dims(c, c.type(1).dims, c.type(0).dims, "shape of labels, probabilities for each of the logits"));
    return type;
}

Result<Type> infer_nll(const Call& c) {
    TRY(Type type, infer_classes(c));
    TRY(check_labels(c));
    return type;
}

// What the losses of all rows are made of. Everything has the shape of the logits.
struct Classes {
    const BuildCall& c;
    size_t axis = class_axis(c);
    Dims dims = c.type(0).dims;
    Value weight = c.has(2) ? spread(widen(c.operand(2)), dims, other_axes(dims.size(), {axis}), false) : Value{};

    Value over_classes(Value v) const { return sum(v, {static_cast<int64_t>(axis)}); }
    Value weighted(Value v) const { return weight.valid() ? mul(v, weight) : v; }

    Value counts() const {
        const Value labels = c.operand(1);
        return ne(labels, splat(labels, static_cast<double>(c.integer("ignore_index"))));
    }
    // True at the labelled class of each row that counts. A comparison instead of a gather keeps the loss and its gradient row
    // programs.
    Value labelled() const {
        const Value place = c.builder->iota(c.type(0).with(c.type(1).dtype), static_cast<int64_t>(axis));
        const Value hits = eq(place, spread(c.operand(1), dims, {axis}, false));
        return c.given("ignore_index") ? logical_and(hits, spread(counts(), dims, {axis}, false)) : hits;
    }
};

// The mean of integer labels' losses divides by the weights of the labels, without weights by how many rows count.
Value reduce_rows(const Classes& of, Value rows, Value hits) {
    const BuildCall& c = of.c;
    if (c.choice("reduction") != "mean" || (!of.weight.valid() && !c.given("ignore_index"))) return reduce_losses(c, rows);
    const Value divisor =
        of.weight.valid() ? sum(select(hits, of.weight, splat(of.weight, 0))) : sum(cast(of.counts(), rows.dtype()));
    return div(sum(rows), divisor);
}

// The terms of the labelled classes. The others are left out, not multiplied by 0: they may be infinite.
Value labelled_rows(const Classes& of, Value hits, Value log_probabilities) {
    return of.over_classes(select(hits, of.weighted(neg(log_probabilities)), splat(log_probabilities, 0)));
}

Value expand_nll(const BuildCall& c) {
    const Classes of{c};
    const Value hits = of.labelled();
    return narrow(reduce_rows(of, labelled_rows(of, hits, widen(c.operand(0))), hits), c.out->dtype);
}

// sum(q * -log p), where a probability of 0 leaves an infinite logarithm out.
Value soft_rows(const Classes& of, Value log_p) {
    const BuildCall& c = of.c;
    Value q = widen(c.operand(1));
    if (const double smoothing = c.real("label_smoothing"); smoothing > 0) {
        const auto classes = concrete_count(c, of.dims, {of.axis});
        if (!classes) return {};
        q = q * (1 - smoothing) + smoothing / static_cast<double>(*classes);
    }
    const Value absent = logical_and(eq(q, splat(q, 0)), isinf(log_p));
    return of.over_classes(of.weighted(mul(q, neg(select(absent, splat(log_p, 0), log_p)))));
}

Value expand_cross_entropy(const BuildCall& c) {
    const Classes of{c};
    const Value log_p = log_softmax(widen(c.operand(0)), static_cast<int64_t>(of.axis));
    if (has_soft_labels(c)) return narrow(reduce_losses(c, soft_rows(of, log_p)), c.out->dtype);
    const Value hits = of.labelled();
    Value rows = labelled_rows(of, hits, log_p);
    if (const double smoothing = c.real("label_smoothing"); smoothing > 0) {
        const auto classes = concrete_count(c, of.dims, {of.axis});
        if (!classes) return {};
        // Rows without a labelled class have no loss at all.
        const Value has_label = cast(of.over_classes(cast(hits, DType::u32)), DType::boolean);
        const Value even = of.over_classes(of.weighted(neg(log_p))) * (smoothing / static_cast<double>(*classes));
        rows = rows * (1 - smoothing) + select(has_label, even, splat(even, 0));
    }
    return narrow(reduce_rows(of, rows, hits), c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "cross_entropy",
     .doc =
         "loss = -log_softmax(logits)[label] along the class axis, times weight[label]; or -sum(labels * weight * "
         "log_softmax(logits)) for labels that are probabilities. A label that is no class has loss 0, and counts in the mean. "
         "With weights the mean is over the weights of integer labels.",
     .operands = cross_entropy_operands,
     .attrs = cross_entropy_attrs,
     .infer = infer_cross_entropy,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_cross_entropy}},
    {.name = "nll",
     .doc = "loss = -log_probabilities[label] along the class axis, times weight[label]; means as for cross_entropy.",
     .operands = nll_operands,
     .attrs = nll_attrs,
     .infer = infer_nll,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_nll},
     .onnx = "NegativeLogLikelihoodLoss"},
};

}  // namespace

std::span<const OpDef> loss_ops() { return defs; }

}  // namespace darner
