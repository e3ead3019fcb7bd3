// SPDX-License-Identifier: MIT
// Reductions and running sums composed of others: argmin, variance, std, log_sum_exp, prod, any, all, l1_norm, l2_norm,
// cumsum. Floats narrower than f32 are computed in f32.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef axes_attr = {"axes", AttrKind::integers, "[]", "axes to reduce; empty: all"};
constexpr AttrDef keep_attr = {"keep", AttrKind::boolean, "false", "reduced axes stay with extent 1"};
constexpr AttrDef axes_attrs[] = {axes_attr, keep_attr};
constexpr AttrDef variance_attrs[] = {
    axes_attr, keep_attr, {"correction", AttrKind::integer, "1", "taken from the number of elements in the divisor"}};
constexpr AttrDef argmin_attrs[] = {{"axis", AttrKind::integer, "-1", "axis to search"}, keep_attr};
constexpr AttrDef cumsum_attrs[] = {{"axis", AttrKind::integer, "-1", "axis along which it adds up"},
                                    {"exclusive", AttrKind::boolean, "false", "each sum leaves its own element out"},
                                    {"reverse", AttrKind::boolean, "false", "from the end to the beginning"}};

// How many elements one kernel adds or multiplies for each of its results.
constexpr int64_t radix = 8;

std::vector<int64_t> axes_of(const Call& c) { return to_integers(reduced_axes(c)); }
Value spread_over(const BuildCall& c, Value reduced) {
    return spread(reduced, c.type(0).dims, reduced_axes(c), c.boolean("keep"));
}
Value total(const BuildCall& c, Value x) { return sum(x, axes_of(c), c.boolean("keep")); }
Value square(Value x) { return mul(x, x); }

// y = x, but 1 where x is 0: a divisor.
Value or_one(Value x) { return select(eq(x, splat(x, 0)), splat(x, 1), x); }

template <Accept accept, bool may_be_empty>
Result<Type> infer_reduction(const Call& c) {
    TRY(infer::dtype(c, 0, accept));
    TRY(infer::axes(c, c.integers("axes"), c.type(0).rank()));
    TRY(Dims dims, infer::reduced_dims(c, reduced_axes(c), may_be_empty));
    return c.type(0).with(std::move(dims));
}

// --- argmin, any, all -----------------------------------------------------------------------------------------------

Result<Type> infer_argmin(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::numbers));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    TRY(Dims dims, infer::reduced_dims(c, {axis}, false));
    return Type{DType::i32, std::move(dims)};
}

// The complement of an integer is -x - 1: it turns the order round and never overflows.
Value expand_argmin(const BuildCall& c) {
    const Value x = c.operand(0);
    return argmax(is_float(x.dtype()) ? neg(x) : bitwise_not(x), c.integer("axis"), c.boolean("keep"));
}

Value count_true(const BuildCall& c, Value x) { return total(c, cast(x, DType::u32)); }

// --- variance, std --------------------------------------------------------------------------------------------------

Result<Type> infer_variance(const Call& c) {
    TRY(const Type type, (infer_reduction<Accept::floats, false>(c)));
    Dims reduced;
    for (const size_t a : reduced_axes(c)) reduced.push_back(c.type(0).dims[a]);
    TRY(const Dim count, infer::elements(c, reduced));
    const int64_t correction = c.integer("correction");
    if (correction < 0) return c.error(fmt::format("correction must not be negative: got {}", correction));
    if (count.is_constant() && count.value() <= correction)
        return c.error(fmt::format("{} elements with a correction of {} have no variance: got {}", count.value(), correction,
                                   infer::describe(c, 0)));
    return type;
}

Value per_freedom(const BuildCall& c, Value total, int64_t count) {
    return total / static_cast<double>(count - c.integer("correction"));
}

Value expand_variance(const BuildCall& c) {
    const auto count = concrete_count(c, c.type(0).dims, reduced_axes(c));
    if (!count) return {};
    const Value squares = moments(widen(c.operand(0)), reduced_axes(c), *count).squares;
    return narrow(reshape(per_freedom(c, squares, *count), c.out->dims), c.out->dtype);
}

// dy/dx = 2 (x - mean x) / freedom: that the mean moves with x adds nothing.
Value variance_slope(const BuildCall& c) {
    const auto count = concrete_count(c, c.type(0).dims, reduced_axes(c));
    if (!count) return {};
    return per_freedom(c, moments(widen(c.operand(0)), reduced_axes(c), *count).centered * 2.0, *count);
}
Value variance_vjp(const BuildCall& c, size_t, Value dy) {
    return narrow(mul(variance_slope(c), spread_over(c, widen(dy))), c.type(0).dtype);
}
Value variance_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    return narrow(total(c, mul(variance_slope(c), widen(tangents[0]))), c.out->dtype);
}

// The square root's slope at 0 is infinite; of elements that are all equal the deviation's is taken to be 0.
Value expand_std(const BuildCall& c) {
    const Value variance = darner::variance(widen(c.operand(0)), axes_of(c), c.boolean("keep"), c.integer("correction"));
    const Value root = sqrt(or_one(variance));
    return narrow(select(eq(variance, splat(variance, 0)), splat(root, 0), root), c.out->dtype);
}

// --- log_sum_exp ----------------------------------------------------------------------------------------------------

Value or_zero_where_infinite(Value x) { return select(isinf(x), splat(x, 0), x); }

// Shifted by the largest element, unless that is infinite.
Value expand_log_sum_exp(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    const Value shift = or_zero_where_infinite(max(x, axes_of(c), c.boolean("keep")));
    return narrow(add(shift, log(total(c, exp(sub(x, spread_over(c, shift)))))), c.out->dtype);
}

// exp(x - y): what each element contributes.
Value shares(const BuildCall& c) {
    return exp(sub(widen(c.operand(0)), spread_over(c, or_zero_where_infinite(widen(c.value())))));
}
Value log_sum_exp_vjp(const BuildCall& c, size_t, Value dy) {
    return narrow(mul(shares(c), spread_over(c, widen(dy))), c.type(0).dtype);
}
Value log_sum_exp_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    return narrow(total(c, mul(shares(c), widen(tangents[0]))), c.out->dtype);
}

// --- prod -----------------------------------------------------------------------------------------------------------

// Products of up to `radix` elements, then of those products: a tree.
Value product(const BuildCall& c, Value x) {
    const std::vector<size_t> axes = reduced_axes(c);
    const auto count = concrete_count(c, x.dims(), axes);
    if (!count) return {};
    if (*count == 0) return c.builder->constant(x.type().with(c.out->dims), 1);
    std::vector<int64_t> perm = to_integers(other_axes(x.rank(), axes));
    Dims dims;
    for (const int64_t a : perm) dims.push_back(x.dims()[static_cast<size_t>(a)]);
    const size_t last = perm.size();
    for (const size_t a : axes) perm.push_back(static_cast<int64_t>(a));
    dims.push_back(*count);
    Value y = reshape(transpose(x, perm), dims);
    for (int64_t left = *count; left > 1;) {
        const int64_t groups = (left + radix - 1) / radix, width = std::min(left, radix);
        std::vector<int64_t> low(last + 1, 0), high(last + 1, 0), start(last + 1, 0), stop(last + 1, slice_end),
            step(last + 1, 1);
        high[last] = groups * width - left;
        const Value padded = materialize(pad(y, low, high, {}, 1));
        step[last] = width;
        for (int64_t i = 0; i < width; ++i) {
            start[last] = i;
            const Value factor = slice(padded, start, stop, step);
            y = i == 0 ? factor : mul(y, factor);
        }
        left = groups;
    }
    return reshape(y, c.out->dims);
}

Value expand_prod(const BuildCall& c) { return narrow(product(c, widen(c.operand(0))), c.out->dtype); }

// What a change of each element is multiplied by: the product of the others. It is y / x, and where x is the only 0 of its
// product, that of all other elements.
Value other_factors(const BuildCall& c) {
    const Value x = widen(c.operand(0)), zero = splat(x, 0), is_zero = eq(x, zero), divisor = or_one(x);
    const Value zeros = spread_over(c, total(c, cast(is_zero, x.dtype())));
    const Value nonzero = div(spread_over(c, product(c, divisor)), divisor);
    return select(eq(zeros, cast(is_zero, x.dtype())), nonzero, zero);
}
Value prod_vjp(const BuildCall& c, size_t, Value dy) {
    return narrow(mul(other_factors(c), spread_over(c, widen(dy))), c.type(0).dtype);
}
Value prod_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    return narrow(total(c, mul(other_factors(c), widen(tangents[0]))), c.out->dtype);
}

// --- l1_norm, l2_norm -----------------------------------------------------------------------------------------------

Value expand_l1_norm(const BuildCall& c) { return narrow(total(c, abs(widen(c.operand(0)))), c.out->dtype); }

// In units of the largest magnitude, so that no square overflows or vanishes.
Value expand_l2_norm(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    for (const size_t a : reduced_axes(c))
        if (x.dims()[a] == Dim(0)) return c.builder->constant(*c.out, 0);
    const Value largest = max(abs(x), axes_of(c), c.boolean("keep"));
    const Value scale = select(isfinite(largest), or_one(largest), splat(largest, 1));
    return narrow(mul(scale, sqrt(total(c, square(div(x, spread_over(c, scale)))))), c.out->dtype);
}

// x / y, and 0 where all elements are 0.
Value directions(const BuildCall& c) { return div(widen(c.operand(0)), spread_over(c, or_one(widen(c.value())))); }
Value l2_norm_vjp(const BuildCall& c, size_t, Value dy) {
    return narrow(mul(directions(c), spread_over(c, widen(dy))), c.type(0).dtype);
}
Value l2_norm_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    return narrow(total(c, mul(directions(c), widen(tangents[0]))), c.out->dtype);
}

// --- cumsum ---------------------------------------------------------------------------------------------------------

Result<Type> infer_cumsum(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::numbers));
    TRY(infer::axis(c, c.integer("axis"), c.type(0).rank()));
    return c.type(0);
}

// x moved `distance` places along the axis of the sum, in its direction; zeros move in.
Value shifted(const BuildCall& c, Value x, int64_t extent, int64_t distance) {
    const size_t axis = c.axis("axis", x.rank());
    const bool reverse = c.boolean("reverse");
    std::vector<int64_t> start(x.rank(), 0), stop(x.rank(), slice_end), low(x.rank(), 0), high(x.rank(), 0);
    start[axis] = reverse ? distance : 0;
    stop[axis] = reverse ? extent : extent - distance;
    (reverse ? high : low)[axis] = distance;
    return pad(slice(x, start, stop), low, high);
}

// Sums of the last 1, 8, 64, .. elements: each level adds up to 8 shifted copies of the one before, so the work is about 8 n
// log_8 n additions in log_8 n kernels.
Value expand_cumsum(const BuildCall& c) {
    const auto extent = concrete_count(c, c.type(0).dims, {c.axis("axis", c.type(0).rank())});
    if (!extent) return {};
    Value y = widen(c.operand(0));
    if (c.boolean("exclusive") && *extent > 0) y = shifted(c, y, *extent, 1);
    for (int64_t width = 1; width < *extent; width *= radix) {
        const Value level = width == 1 ? y : materialize(y);
        y = level;
        for (int64_t i = 1; i < radix && i * width < *extent; ++i) y = add(y, shifted(c, level, *extent, i * width));
    }
    return narrow(y, c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "argmin",
     .doc = "y = the index of the smallest element of x along axis, the lowest among equals, as i32; NaN is never smaller.",
     .operands = x_operand,
     .attrs = argmin_attrs,
     .infer = infer_argmin,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_argmin},
     .onnx = "ArgMin"},
    {.name = "any",
     .doc = "y = is any element of x over axes true? False over nothing.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::boolean, true>,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return cast(count_true(c, c.operand(0)), DType::boolean); }}},
    {.name = "all",
     .doc = "y = are all elements of x over axes true? True over nothing.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::boolean, true>,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) {
         const Value misses = count_true(c, logical_not(c.operand(0)));
         return eq(misses, splat(misses, 0));
     }}},
    {.name = "variance",
     .doc = "y = the sum of (x - mean x)^2 over axes / (the number of elements - correction).",
     .operands = x_operand,
     .attrs = variance_attrs,
     .infer = infer_variance,
     .grad = CustomGrad{variance_vjp, variance_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_variance}},
    {.name = "std",
     .doc = "y = the square root of the variance of x over axes; the derivative where that is 0 is 0.",
     .operands = x_operand,
     .attrs = variance_attrs,
     .infer = infer_variance,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_std}},
    {.name = "log_sum_exp",
     .doc = "y = ln(the sum of e^x over axes), without overflow.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::floats, false>,
     .grad = CustomGrad{log_sum_exp_vjp, log_sum_exp_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_log_sum_exp},
     .onnx = "ReduceLogSumExp"},
    {.name = "prod",
     .doc = "y = the product of x over axes; over nothing it is 1, integers wrap.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::numbers, true>,
     .grad = CustomGrad{prod_vjp, prod_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_prod},
     .onnx = "ReduceProd"},
    {.name = "l1_norm",
     .doc = "y = the sum of |x| over axes.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::floats, true>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_l1_norm},
     .onnx = "ReduceL1"},
    {.name = "l2_norm",
     .doc = "y = the square root of the sum of x^2 over axes, without overflow; the derivative at 0 is 0.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::floats, true>,
     .grad = CustomGrad{l2_norm_vjp, l2_norm_jvp},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_l2_norm},
     .onnx = "ReduceL2"},
    {.name = "cumsum",
     .doc = "y[.., i, ..] = the sum of x[.., j, ..] over j <= i along axis; integers wrap.",
     .operands = x_operand,
     .attrs = cumsum_attrs,
     .infer = infer_cumsum,
     .grad = Linear{[](const BuildCall& c, size_t, Value dy) {
         return cumsum(dy, c.integer("axis"), c.boolean("exclusive"), !c.boolean("reverse"));
     }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_cumsum},
     .onnx = "CumSum"},
};

}  // namespace

std::span<const OpDef> statistics_ops() { return defs; }

}  // namespace darner
