// SPDX-License-Identifier: MIT
// Norms: rms_norm, standardize, and layer_norm, group_norm, instance_norm and batch_norm made of it. Composites, computed in f32
// where the operand is narrower; the planner finds the row programs in them by their structure.
#include "darner/base/fault.h"
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

#include <numeric>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef x_w_b[] = {{"x"}, {"w", true}, {"b", true}};
constexpr OperandDef batch_operands[] = {{"x"}, {"w", true}, {"b", true}, {"mean", true}, {"variance", true}};
constexpr AttrDef axis_attr = {"axis", AttrKind::integer, "-1", "the first normalised axis: this one and all behind it"};
constexpr AttrDef eps_attr = {"eps", AttrKind::real, "1e-5", "added to the variance"};
constexpr AttrDef rms_attrs[] = {axis_attr, {"eps", AttrKind::real, "1e-5", "added to the mean square"}};
constexpr AttrDef standardize_attrs[] = {{"axes", AttrKind::integers, "[]", "axes of the mean and the variance; empty: all"},
                                         eps_attr};
constexpr AttrDef layer_attrs[] = {axis_attr, eps_attr};
constexpr AttrDef group_attrs[] = {{"groups", AttrKind::integer, "", "groups of neighbouring channels, each normalised as one"},
                                   eps_attr};
constexpr AttrDef eps_attrs[] = {eps_attr};

std::vector<size_t> axes_from(size_t first, size_t rank) {
    std::vector<size_t> axes(rank - first);
    std::iota(axes.begin(), axes.end(), first);
    return axes;
}

Result<void> check_eps(const Call& c) {
    if (!(c.real("eps") >= 0)) return c.error(fmt::format("eps must not be negative: got {}", c.real("eps")));
    return {};
}

// Operands from `first` on, where they are given, have x's dtype and these dims, which are `what`.
Result<void> check_operands(const Call& c, size_t first, const Dims& dims, const std::string& what) {
    for (size_t operand = first; operand < c.operand_count(); ++operand) {
        if (!c.has(operand)) continue;
        TRY(infer::equal_dtypes(c, 0, operand));
        TRY(infer::equal_dims(c, c.type(operand).dims, dims,
                              fmt::format("shape of {}, {}", infer::operand_name(c, operand), what)));
    }
    return {};
}

Result<void> check_not_empty(const Call& c, std::span<const size_t> axes) {
    for (const size_t a : axes)
        if (c.type(0).dims[a] == Dim(0)) return c.error(fmt::format("axis {} of {} is empty", a, infer::describe(c, 0)));
    return {};
}

// y w + b along `axes` of y, in the operands' dtype.
Value scaled_and_shifted(const BuildCall& c, Value y, const std::vector<int64_t>& axes) {
    if (c.has(1)) y = mul(y, broadcast(widen(c.operand(1)), y.dims(), axes));
    if (c.has(2)) y = add(y, broadcast(widen(c.operand(2)), y.dims(), axes));
    return narrow(y, c.type(0).dtype);
}

// --- rms_norm, layer_norm -------------------------------------------------------------------------------------------

Result<Type> infer_trailing(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    const size_t rank = c.type(0).rank();
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), rank));
    TRY(check_not_empty(c, axes_from(axis, rank)));
    const Dims normalized(c.type(0).dims.begin() + static_cast<ptrdiff_t>(axis), c.type(0).dims.end());
    TRY(check_operands(c, 1, normalized, fmt::format("that of x from axis {} on", axis)));
    TRY(check_eps(c));
    return c.type(0);
}

std::vector<size_t> trailing_axes(const Call& c) { return axes_from(c.axis("axis", c.type(0).rank()), c.type(0).rank()); }

Value expand_rms_norm(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    const auto axes = trailing_axes(c);
    const auto integers = to_integers(axes);
    const auto count = concrete_count(c, c.type(0).dims, axes);
    if (!count) return {};
    const Value mean_square = sum(mul(x, x), integers) / static_cast<double>(*count);
    const Value scale = fault(38) ? rsqrt(mean_square) + c.real("eps") : rsqrt(mean_square + c.real("eps"));
    return scaled_and_shifted(c, mul(x, spread(scale, x.dims(), axes, false)), integers);
}

Value expand_layer_norm(const BuildCall& c) {
    const auto axes = to_integers(trailing_axes(c));
    return scaled_and_shifted(c, standardize(widen(c.operand(0)), axes, c.real("eps")), axes);
}

// --- standardize ----------------------------------------------------------------------------------------------------

Result<Type> infer_standardize(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(infer::axes(c, c.integers("axes"), c.type(0).rank()));
    TRY(check_not_empty(c, reduced_axes(c)));
    TRY(check_eps(c));
    return c.type(0);
}

struct Standardized {
    Value y, scale;  // of x's shape: scale is 1 / sqrt(variance + eps)
    double count = 0;
};

std::optional<Standardized> standardized(const BuildCall& c) {
    const auto axes = reduced_axes(c);
    const auto count = concrete_count(c, c.type(0).dims, axes);
    if (!count) return std::nullopt;
    const auto n = static_cast<double>(*count);
    const auto [centered, squares] = moments(widen(c.operand(0)), axes, *count);
    const Value scale = spread(rsqrt(squares / n + c.real("eps")), c.type(0).dims, axes, false);
    return Standardized{mul(centered, scale), scale, n};
}

Value expand_standardize(const BuildCall& c) {
    const auto s = standardized(c);
    return s ? narrow(s->y, c.type(0).dtype) : Value{};
}

// dx = scale (dy - mean(dy) - y mean(y dy)); the Jacobian is symmetric, so the tangent has the same form.
Value standardize_derivative(const BuildCall& c, Value direction) {
    const auto s = standardized(c);
    if (!s) return {};
    const auto axes = reduced_axes(c);
    const Value d = widen(direction);
    const auto mean_of = [&](Value v) { return spread(sum(v, to_integers(axes)) / s->count, c.type(0).dims, axes, false); };
    return narrow(mul(s->scale, sub(sub(d, mean_of(d)), mul(s->y, mean_of(mul(s->y, d))))), c.type(0).dtype);
}

// --- norms by channels ----------------------------------------------------------------------------------------------

Result<Type> infer_channels(const Call& c, size_t rank) {
    TRY(infer::dtype(c, 0, Accept::floats));
    if (c.type(0).rank() < rank)
        return c.error(fmt::format("needs at least {} axes, the channels are axis 1: got {}", rank, infer::describe(c, 0)));
    TRY(check_operands(c, 1, {c.type(0).dims[1]}, "the channels of x"));
    TRY(check_eps(c));
    return c.type(0);
}

Result<Type> infer_group_norm(const Call& c) {
    TRY(const Type type, infer_channels(c, 2));
    const Dim& channels = type.dims[1];
    const int64_t groups = c.integer("groups");
    if (groups < 1 || !channels.exact_div(Dim(groups)))
        return c.error(fmt::format("groups must divide the {} channels: got {}", channels.text(), groups));
    TRY(check_not_empty(c, axes_from(1, type.rank())));
    return type;
}

// [N, C, ..] seen as [N, groups, C / groups, ..].
Value expand_group_norm(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    const Dim groups = c.integer("groups");
    Dims dims = x.dims();
    dims[1] = *dims[1].exact_div(groups);
    dims.insert(dims.begin() + 1, groups);
    const Value y = standardize(reshape(x, dims), to_integers(axes_from(2, dims.size())), c.real("eps"));
    return scaled_and_shifted(c, reshape(y, x.dims()), {1});
}

Result<Type> infer_instance_norm(const Call& c) {
    TRY(const Type type, infer_channels(c, 3));
    TRY(check_not_empty(c, axes_from(2, type.rank())));
    return type;
}

Value expand_instance_norm(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    return scaled_and_shifted(c, standardize(x, to_integers(axes_from(2, x.rank())), c.real("eps")), {1});
}

std::vector<size_t> all_but_channels(const Call& c) { return other_axes(c.type(0).rank(), {1}); }

Result<Type> infer_batch_norm(const Call& c) {
    TRY(const Type type, infer_channels(c, 2));
    if (c.has(3) != c.has(4)) return c.error("mean and variance go together: got one of them");
    if (!c.has(3)) TRY(check_not_empty(c, all_but_channels(c)));
    return type;
}

Value expand_batch_norm(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    if (!c.has(3)) return scaled_and_shifted(c, standardize(x, to_integers(all_but_channels(c)), c.real("eps")), {1});
    const auto along = [&](Value v) { return broadcast(v, x.dims(), {1}); };
    const Value scale = rsqrt(widen(c.operand(4)) + c.real("eps"));
    return scaled_and_shifted(c, mul(sub(x, along(widen(c.operand(3)))), along(scale)), {1});
}

constexpr OpDef defs[] = {
    {.name = "rms_norm",
     .doc = "y = x * rsqrt(mean(x^2) + eps) * w + b, the mean over axis and all axes behind it; w and b may be left out.",
     .operands = x_w_b,
     .attrs = rms_attrs,
     .infer = infer_trailing,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_rms_norm},
     .onnx = "RMSNormalization"},
    {.name = "standardize",
     .doc = "y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps), the means over axes.",
     .operands = x_operand,
     .attrs = standardize_attrs,
     .infer = infer_standardize,
     .grad = CustomGrad{[](const BuildCall& c, size_t, Value dy) { return standardize_derivative(c, dy); },
                        [](const BuildCall& c, std::span<const Value> tangents) {
                            return tangents[0].valid() ? standardize_derivative(c, tangents[0]) : Value{};
                        }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_standardize}},
    {.name = "layer_norm",
     .doc = "y = standardize(x) * w + b over axis and all axes behind it; w and b may be left out.",
     .operands = x_w_b,
     .attrs = layer_attrs,
     .infer = infer_trailing,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_layer_norm},
     .onnx = "LayerNormalization"},
    {.name = "group_norm",
     .doc = "y = standardize(x) * w + b with x [N, C, ..] standardized for each n over each of the groups of C / groups channels "
            "and all axes behind them; w and b, one value a channel, may be left out.",
     .operands = x_w_b,
     .attrs = group_attrs,
     .infer = infer_group_norm,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_group_norm},
     .onnx = "GroupNormalization"},
    {.name = "instance_norm",
     .doc =
         "y = standardize(x) * w + b with x [N, C, ..] standardized for each n and channel over the axes behind them; w and b, "
         "one value a channel, may be left out.",
     .operands = x_w_b,
     .attrs = eps_attrs,
     .infer = infer_instance_norm,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_instance_norm},
     .onnx = "InstanceNormalization"},
    {.name = "batch_norm",
     .doc =
         "y = (x - mean) / sqrt(variance + eps) * w + b with one value of each operand for a channel of x [N, C, ..]; mean and "
         "variance left out are those of x over all axes but the channels. w and b may be left out.",
     .operands = batch_operands,
     .attrs = eps_attrs,
     .infer = infer_batch_norm,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_batch_norm},
     .onnx = "BatchNormalization"},
};

}  // namespace

std::span<const OpDef> norm_ops() { return defs; }

}  // namespace darner
