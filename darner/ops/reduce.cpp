// SPDX-License-Identifier: MIT
// Reductions: sum, mean, max, min, argmax.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef axes_attrs[] = {{"axes", AttrKind::integers, "[]", "axes to reduce; empty: all"},
                                  {"keep", AttrKind::boolean, "false", "reduced axes stay with extent 1"}};
constexpr AttrDef argmax_attrs[] = {{"axis", AttrKind::integer, "-1", "axis to search"},
                                    {"keep", AttrKind::boolean, "false", "the axis stays with extent 1"}};

template <Accept accept, bool may_be_empty>
Result<Type> infer_reduction(const Call& c) {
    TRY(infer::dtype(c, 0, accept));
    TRY(infer::axes(c, c.integers("axes"), c.type(0).rank()));
    TRY(Dims dims, infer::reduced_dims(c, reduced_axes(c), may_be_empty));
    return c.type(0).with(std::move(dims));
}

Result<Type> infer_argmax(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::numbers));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    TRY(Dims dims, infer::reduced_dims(c, {axis}, false));
    return Type{DType::i32, std::move(dims)};
}

// Calls f(element of the result, element of x, index of x) for each element of x in order.
template <class F>
void walk(const Call& c, const Tensor& x, const F& f) {
    if (x.count() == 0) return;
    const auto axes = reduced_axes(c);
    std::vector<int64_t> kept_dims = x.dims;
    for (const size_t a : axes) kept_dims[a] = 1;
    const auto strides = row_major_strides(kept_dims);
    std::vector<int64_t> index(x.dims.size(), 0);
    int64_t from = 0;
    do {
        int64_t to = 0;
        for (size_t i = 0; i < index.size(); ++i)
            if (kept_dims[i] != 1) to += index[i] * strides[i];
        f(to, from++, index);
    } while (next_index(x.dims, index));
}

Tensor eval_sum(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    walk(c, x, [&](int64_t to, int64_t from, const auto&) {
        if (is_float(x.dtype))
            y.real[to] += x.real[from];
        else
            y.integer[to] = static_cast<int64_t>(static_cast<uint64_t>(y.integer[to]) + static_cast<uint64_t>(x.integer[from]));
    });
    for (int64_t& v : y.integer) v = wrap_to(y.dtype, v);
    return y;
}

template <bool largest>
Tensor eval_extreme(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    std::vector<bool> seen(static_cast<size_t>(y.count()), false);
    const auto better = [](auto a, auto b) { return largest ? a > b : a < b; };
    const auto wins = [&](double a, double b) { return std::isnan(a) || better(a, b); };  // and keeps: no number beats a NaN
    walk(c, x, [&](int64_t to, int64_t from, const auto&) {
        if (is_float(x.dtype) && (!seen[to] || wins(x.real[from], y.real[to]))) y.real[to] = x.real[from];
        if (!is_float(x.dtype) && (!seen[to] || better(x.integer[from], y.integer[to]))) y.integer[to] = x.integer[from];
        seen[to] = true;
    });
    return y;
}

Tensor eval_argmax(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    const size_t axis = reduced_axes(c)[0];
    Tensor y = Tensor::zeros(DType::i32, c.out->shape());
    std::vector<int64_t> best(static_cast<size_t>(y.count()), -1);
    walk(c, x, [&](int64_t to, int64_t from, const std::vector<int64_t>& index) {
        const auto is_above = [&](int64_t a, int64_t b) {
            if (!is_float(x.dtype)) return x.integer[a] > x.integer[b];
            return x.real[a] > x.real[b] || (std::isnan(x.real[a]) && !std::isnan(x.real[b]));
        };
        if (best[to] >= 0 && !is_above(from, best[to])) return;
        best[to] = from;
        y.integer[to] = index[axis];
    });
    return y;
}

Value spread_back(const BuildCall& c, Value v) { return spread(v, c.type(0).dims, reduced_axes(c), c.boolean("keep")); }

Value sum_back(const BuildCall& c, size_t, Value dy) { return spread_back(c, dy); }

// Ties share evenly: each of the n elements that attain the extreme has derivative 1/n.
Value extreme_hits(const BuildCall& c) { return eq(c.operand(0), spread_back(c, c.value())); }
Value hit_count(const BuildCall& c, Value hits) {
    return sum(cast(hits, c.type(0).dtype), c.integers("axes"), c.boolean("keep"));
}
Value extreme_vjp(const BuildCall& c, size_t, Value dy) {
    const Value hits = extreme_hits(c);
    const Value share = spread_back(c, div(dy, hit_count(c, hits)));
    return select(hits, share, splat(share, 0));
}
Value extreme_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    const Value hits = extreme_hits(c);
    const Value total = sum(select(hits, tangents[0], splat(tangents[0], 0)), c.integers("axes"), c.boolean("keep"));
    return div(total, hit_count(c, hits));
}

Value expand_mean(const BuildCall& c) {
    const auto count = concrete_count(c, c.type(0).dims, reduced_axes(c));
    if (!count) return {};
    const Value total = sum(widen(c.operand(0)), c.integers("axes"), c.boolean("keep"));
    return narrow(total / static_cast<double>(*count), c.type(0).dtype);
}

constexpr OpDef defs[] = {
    {.name = "sum",
     .doc = "y = the sum of x over axes; over nothing it is 0, integers wrap.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::numbers, true>,
     .ref = TensorRef{eval_sum},
     .grad = Linear{sum_back},
     .batch = Batch::shift_axes,
     .lower = ReduceLower{Reduction::sum},
     .onnx = "ReduceSum"},
    {.name = "mean",
     .doc = "y = the sum of x over axes / the number of elements summed.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::floats, false>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_mean},
     .onnx = "ReduceMean"},
    {.name = "max",
     .doc = "y = the largest element of x over axes, NaN where one is; the gradient is shared evenly among equals.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::numbers, false>,
     .ref = TensorRef{eval_extreme<true>},
     .grad = CustomGrad{extreme_vjp, extreme_jvp},
     .batch = Batch::shift_axes,
     .lower = ReduceLower{Reduction::max},
     .onnx = "ReduceMax"},
    {.name = "min",
     .doc = "y = the smallest element of x over axes, NaN where one is; the gradient is shared evenly among equals.",
     .operands = x_operand,
     .attrs = axes_attrs,
     .infer = infer_reduction<Accept::numbers, false>,
     .ref = TensorRef{eval_extreme<false>},
     .grad = CustomGrad{extreme_vjp, extreme_jvp},
     .batch = Batch::shift_axes,
     .lower = ReduceLower{Reduction::min},
     .onnx = "ReduceMin"},
    {.name = "argmax",
     .doc = "y = the index of the largest element of x along axis, the lowest among equals, as i32; NaN counts as the largest.",
     .operands = x_operand,
     .attrs = argmax_attrs,
     .infer = infer_argmax,
     .ref = TensorRef{eval_argmax},
     .batch = Batch::shift_axes,
     .lower = ReduceLower{Reduction::argmax},
     .onnx = "ArgMax"},
};

}  // namespace

std::span<const OpDef> reduce_ops() { return defs; }

}  // namespace darner
