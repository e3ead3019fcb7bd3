// SPDX-License-Identifier: MIT
// Ops that put elements in another order or shape: stack, split, tile, repeat_interleave, reverse, flatten, squeeze,
// unsqueeze, pad_edge, pad_reflect, tril, triu. All but reverse are composed of views.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/views.h"

#include "darner/kir/builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef parts_operand[] = {{"parts", false, true}};
constexpr AttrDef stack_attrs[] = {{"axis", AttrKind::integer, "0", "the new axis of the result, along which the parts lie"}};
constexpr AttrDef split_attrs[] = {{"sizes", AttrKind::integers, "", "the extent of each part along axis; they add up to x's"},
                                   {"index", AttrKind::integer, "", "which part: 0 is the first"},
                                   {"axis", AttrKind::integer, "0", "the axis that is cut"}};
constexpr AttrDef tile_attrs[] = {{"repeats", AttrKind::integers, "", "how often x is repeated, an axis"}};
constexpr AttrDef interleave_attrs[] = {{"repeats", AttrKind::integer, "", "how often each element is repeated"},
                                        {"axis", AttrKind::integer, "0", "along which axis"}};
constexpr AttrDef reverse_attrs[] = {{"axes", AttrKind::integers, "[]", "axes to reverse; empty: all"}};
constexpr AttrDef flatten_attrs[] = {{"start_axis", AttrKind::integer, "0", "the first axis that is merged"},
                                     {"end_axis", AttrKind::integer, "-1", "the last axis that is merged"}};
constexpr AttrDef squeeze_attrs[] = {
    {"axes", AttrKind::integers, "[]", "axes to drop, each of extent 1; empty: all of extent 1"}};
constexpr AttrDef unsqueeze_attrs[] = {{"axes", AttrKind::integers, "", "where the result has axes of extent 1 that x lacks"}};
constexpr AttrDef margin_attrs[] = {{"low", AttrKind::integers, "", "elements added before the first, an axis"},
                                    {"high", AttrKind::integers, "", "elements added after the last, an axis"}};
constexpr AttrDef triangle_attrs[] = {
    {"diagonal", AttrKind::integer, "0", "the diagonal that bounds what is kept: 0 is the main one, above it they count up"}};

bool is_one(const Dim& d) { return d.is_constant() && d.value() == 1; }

// Elements [start, stop) along one axis.
Value slice_axis(Value x, size_t axis, int64_t start, int64_t stop) {
    std::vector<int64_t> starts(x.rank(), 0), stops(x.rank(), slice_end);
    starts[axis] = start;
    stops[axis] = stop;
    return slice(x, starts, stops);
}

Dims with_axis(Dims dims, size_t axis, Dim extent) {
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), std::move(extent));
    return dims;
}

std::vector<int64_t> all_but(size_t rank, size_t axis) { return to_integers(other_axes(rank, {axis})); }

// --- stack, split ---------------------------------------------------------------------------------------------------

Result<Type> infer_stack(const Call& c) {
    TRY(const Type part, infer::same_type(c, Accept::any));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), part.rank() + 1));
    return part.with(with_axis(part.dims, axis, static_cast<int64_t>(c.operand_count())));
}

Value expand_stack(const BuildCall& c) {
    const size_t axis = c.axis("axis", c.out->rank());
    std::vector<Value> parts;
    for (size_t i = 0; i < c.operand_count(); ++i) parts.push_back(reshape(c.operand(i), with_axis(c.type(i).dims, axis, 1)));
    return concat(parts, static_cast<int64_t>(axis));
}

Result<Type> infer_split(const Call& c) {
    const auto& sizes = c.integers("sizes");
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    int64_t total = 0;
    for (const int64_t size : sizes) {
        if (size < 0 || size > infer::max_extent)
            return c.error(fmt::format("entry of sizes out of range: got {}, expected 0 to {}", size, infer::max_extent));
        total += size;
    }
    TRY(infer::equal_dim(c, Dim(total), c.type(0).dims[axis],
                         fmt::format("sum of sizes for axis {} of {}", axis, infer::describe(c, 0))));
    const int64_t index = c.integer("index"), count = static_cast<int64_t>(sizes.size());
    if (index < 0 || index >= count) return c.error(fmt::format("index out of range: got {} of {} parts", index, count));
    Dims dims = c.type(0).dims;
    dims[axis] = sizes[static_cast<size_t>(index)];
    return c.type(0).with(std::move(dims));
}

Value expand_split(const BuildCall& c) {
    const auto& sizes = c.integers("sizes");
    const auto index = static_cast<size_t>(c.integer("index"));
    int64_t start = 0;
    for (size_t i = 0; i < index; ++i) start += sizes[i];
    return slice_axis(c.operand(0), c.axis("axis", c.type(0).rank()), start, start + sizes[index]);
}

// --- tile, repeat_interleave ----------------------------------------------------------------------------------------

Result<Type> infer_tile(const Call& c) {
    const size_t rank = c.type(0).rank();
    if (c.integers("repeats").size() != rank)
        return c.error(
            fmt::format("repeats needs one entry an axis of {}: got {}", infer::describe(c, 0), c.integers("repeats").size()));
    TRY(infer::per_axis(c, "repeats", rank, 0));
    Dims dims = c.type(0).dims;
    for (size_t i = 0; i < rank; ++i) dims[i] = dims[i] * Dim(c.integers("repeats")[i]);
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

// [n, m] -> [r, n, s, m] -> [r n, s m]: the copies are axes of their own before they are merged.
Value expand_tile(const BuildCall& c) {
    Dims spread;
    std::vector<int64_t> kept;
    for (size_t i = 0; i < c.out->rank(); ++i) {
        spread.insert(spread.end(), {Dim(c.integers("repeats")[i]), c.type(0).dims[i]});
        kept.push_back(static_cast<int64_t>(2 * i + 1));
    }
    return reshape(broadcast(c.operand(0), spread, kept), c.out->dims);
}

Result<Type> infer_interleave(const Call& c) {
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), c.type(0).rank()));
    const int64_t repeats = c.integer("repeats");
    if (repeats < 0 || repeats > infer::max_extent)
        return c.error(fmt::format("repeats out of range: got {}, expected 0 to {}", repeats, infer::max_extent));
    Dims dims = c.type(0).dims;
    dims[axis] = dims[axis] * Dim(repeats);
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

Value expand_interleave(const BuildCall& c) {
    const size_t axis = c.axis("axis", c.out->rank());
    const Dims spread = with_axis(c.type(0).dims, axis + 1, c.integer("repeats"));
    return reshape(broadcast(c.operand(0), spread, all_but(spread.size(), axis + 1)), c.out->dims);
}

// --- reverse --------------------------------------------------------------------------------------------------------

Result<Type> infer_reverse(const Call& c) {
    TRY(infer::axes(c, c.integers("axes"), c.type(0).rank()));
    return c.type(0);
}

Tensor eval_reverse(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    Tensor y = Tensor::zeros(x.dtype, x.dims);
    if (x.count() == 0) return y;
    const auto strides = row_major_strides(x.dims);
    const auto axes = reduced_axes(c);
    std::vector<int64_t> index(x.dims.size(), 0);
    int64_t at = 0;
    do {
        int64_t from = at;
        for (const size_t a : axes) from += (x.dims[a] - 1 - 2 * index[a]) * strides[a];
        if (is_float(x.dtype))
            y.real[at++] = x.real[from];
        else
            y.integer[at++] = x.integer[from];
    } while (next_index(x.dims, index));
    return y;
}

void map_reverse(const Call& c, kir::Builder& k, std::span<const Expr> out, std::vector<Expr>& in) {
    in.assign(out.begin(), out.end());
    for (const size_t a : reduced_axes(c)) {
        const auto last = static_cast<uint32_t>(std::max<int64_t>(c.out->dims[a].value(), 1) - 1);
        in[a] = k.assume_max(k.u32(last) - out[a], last);
    }
}

// --- flatten, squeeze, unsqueeze ------------------------------------------------------------------------------------

Result<Type> infer_flatten(const Call& c) {
    const Dims& from = c.type(0).dims;
    if (from.empty()) return c.type(0).with(Dims{1});
    TRY(const size_t start, infer::axis(c, c.integer("start_axis"), from.size()));
    TRY(const size_t end, infer::axis(c, c.integer("end_axis"), from.size()));
    if (start > end) return c.error(fmt::format("start_axis must not be behind end_axis: got {} and {}", start, end));
    const auto first = from.begin() + static_cast<ptrdiff_t>(start), behind = from.begin() + static_cast<ptrdiff_t>(end) + 1;
    TRY(Dim merged, infer::elements(c, Dims(first, behind)));
    Dims dims(from.begin(), first);
    dims.push_back(std::move(merged));
    dims.insert(dims.end(), behind, from.end());
    return c.type(0).with(std::move(dims));
}

Result<Type> infer_squeeze(const Call& c) {
    const Dims& from = c.type(0).dims;
    TRY(const auto axes, infer::axes(c, c.integers("axes"), from.size()));
    for (const size_t a : axes)
        if (!is_one(from[a])) return c.error(fmt::format("axis {} of {} must have extent 1", a, infer::describe(c, 0)));
    Dims dims;
    for (size_t i = 0; i < from.size(); ++i) {
        const bool drop = axes.empty() ? is_one(from[i]) : std::find(axes.begin(), axes.end(), i) != axes.end();
        if (!drop) dims.push_back(from[i]);
    }
    return c.type(0).with(std::move(dims));
}

Result<Type> infer_unsqueeze(const Call& c) {
    const Dims& from = c.type(0).dims;
    const size_t rank = from.size() + c.integers("axes").size();
    TRY(const auto axes, infer::axes(c, c.integers("axes"), rank));
    Dims dims(rank, Dim(1));
    const auto kept = other_axes(rank, axes);
    for (size_t i = 0; i < kept.size(); ++i) dims[kept[i]] = from[i];
    return c.type(0).with(std::move(dims));
}

Value expand_reshape(const BuildCall& c) { return reshape(c.operand(0), c.out->dims); }

// --- pad_edge, pad_reflect ------------------------------------------------------------------------------------------

template <bool reflect>
Result<Type> infer_margin(const Call& c) {
    Dims dims = c.type(0).dims;
    for (std::string_view attr : {"low", "high"}) {
        if (c.integers(attr).size() != dims.size())
            return c.error(
                fmt::format("{} needs one entry an axis of {}: got {}", attr, infer::describe(c, 0), c.integers(attr).size()));
        TRY(infer::per_axis(c, attr, dims.size(), 0));
        for (size_t i = 0; i < dims.size(); ++i) {
            const int64_t margin = c.integers(attr)[i];
            const Dim& extent = c.type(0).dims[i];
            if (margin > 0 && !extent.is_constant())
                return c.error(fmt::format("axis {} of {} must be known (bind the symbols first)", i, infer::describe(c, 0)));
            if (margin > 0 && extent.value() < (reflect ? margin + 1 : 1))
                return c.error(fmt::format("axis {} of {} is too short for {}={}", i, infer::describe(c, 0), attr, margin));
            dims[i] = dims[i] + Dim(margin);
        }
    }
    return c.type(0).with(std::move(dims));
}

// One axis after the other: before, x, after.
template <bool reflect>
Value expand_margin(const BuildCall& c) {
    Value x = c.operand(0);
    for (size_t axis = 0; axis < x.rank(); ++axis) {
        const int64_t low = c.integers("low")[axis], high = c.integers("high")[axis];
        if (low == 0 && high == 0) continue;
        const int64_t last = x.dims()[axis].value() - 1;
        // `count` elements from `first` on, backwards; or one that is repeated.
        const auto margin = [&](int64_t first, int64_t count) {
            if (reflect) return reverse(slice_axis(x, axis, first, first + count), {static_cast<int64_t>(axis)});
            Dims dims = x.dims();
            dims[axis] = count;
            std::vector<int64_t> axes(dims.size());
            for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
            return broadcast(slice_axis(x, axis, first, first + 1), dims, axes);
        };
        std::vector<Value> parts;
        if (low > 0) parts.push_back(margin(reflect ? 1 : 0, low));
        parts.push_back(x);
        if (high > 0) parts.push_back(margin(reflect ? last - high : last, high));
        x = concat(parts, static_cast<int64_t>(axis));
    }
    return x;
}

// --- tril, triu -----------------------------------------------------------------------------------------------------

Result<Type> infer_triangle(const Call& c) {
    if (c.type(0).rank() < 2) return c.error("needs at least 2 axes: got " + infer::describe(c, 0));
    if (const int64_t diagonal = c.integer("diagonal"); diagonal < -infer::max_extent || diagonal > infer::max_extent)
        return c.error(fmt::format("diagonal out of range: got {}", diagonal));
    return c.type(0);
}

// Kept where column - row <= diagonal, and for the upper triangle where it is >= diagonal.
template <bool upper>
Value expand_triangle(const BuildCall& c) {
    const Value x = c.operand(0);
    const Dims& dims = x.dims();
    const Type matrix = i32({dims[dims.size() - 2], dims[dims.size() - 1]});
    const Value offset = sub(c.builder->iota(matrix, 1), c.builder->iota(matrix, 0));
    const Value bound = splat(offset, static_cast<double>(c.integer("diagonal")));
    const auto rank = static_cast<int64_t>(dims.size());
    const Value kept = broadcast(upper ? ge(offset, bound) : le(offset, bound), dims, {rank - 2, rank - 1});
    return select(kept, x, splat(x, 0));
}

constexpr OpDef defs[] = {
    {.name = "stack",
     .doc = "y = the parts, all of one shape, one after the other along a new axis.",
     .operands = parts_operand,
     .attrs = stack_attrs,
     .infer = infer_stack,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_stack}},
    {.name = "split",
     .doc = "y = part number index of x cut along axis into parts of the given sizes.",
     .operands = x_operand,
     .attrs = split_attrs,
     .infer = infer_split,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_split},
     .onnx = "Split"},
    {.name = "tile",
     .doc = "y = x repeated as a whole along each axis: y[i, ..] = x[i mod n, ..].",
     .operands = x_operand,
     .attrs = tile_attrs,
     .infer = infer_tile,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_tile},
     .onnx = "Tile"},
    {.name = "repeat_interleave",
     .doc = "y = each element of x repeated along axis: y[i, ..] = x[floor(i / repeats), ..].",
     .operands = x_operand,
     .attrs = interleave_attrs,
     .infer = infer_interleave,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_interleave}},
    {.name = "reverse",
     .doc = "y = x backwards along axes: y[i, ..] = x[n - 1 - i, ..].",
     .operands = x_operand,
     .attrs = reverse_attrs,
     .infer = infer_reverse,
     .ref = TensorRef{eval_reverse},
     .grad = Linear{[](const BuildCall& c, size_t, Value dy) { return reverse(dy, c.integers("axes")); }},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_reverse}},
    {.name = "flatten",
     .doc = "y = x with the axes from start_axis to end_axis merged into one; a scalar becomes a vector.",
     .operands = x_operand,
     .attrs = flatten_attrs,
     .infer = infer_flatten,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_reshape}},
    {.name = "squeeze",
     .doc = "y = x without axes of extent 1.",
     .operands = x_operand,
     .attrs = squeeze_attrs,
     .infer = infer_squeeze,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_reshape},
     .onnx = "Squeeze"},
    {.name = "unsqueeze",
     .doc = "y = x with new axes of extent 1.",
     .operands = x_operand,
     .attrs = unsqueeze_attrs,
     .infer = infer_unsqueeze,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_reshape},
     .onnx = "Unsqueeze"},
    {.name = "pad_edge",
     .doc = "y = x with its first element repeated `low` times before it and its last `high` times behind it, an axis.",
     .operands = x_operand,
     .attrs = margin_attrs,
     .infer = infer_margin<false>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_margin<false>}},
    {.name = "pad_reflect",
     .doc =
         "y = x mirrored at its first and last elements, which are not repeated: `low` elements before, `high` behind, an axis.",
     .operands = x_operand,
     .attrs = margin_attrs,
     .infer = infer_margin<true>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_margin<true>}},
    {.name = "tril",
     .doc = "y = x on and below a diagonal of its last two axes, 0 above.",
     .operands = x_operand,
     .attrs = triangle_attrs,
     .infer = infer_triangle,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_triangle<false>}},
    {.name = "triu",
     .doc = "y = x on and above a diagonal of its last two axes, 0 below.",
     .operands = x_operand,
     .attrs = triangle_attrs,
     .infer = infer_triangle,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_triangle<true>}},
};

}  // namespace

std::span<const OpDef> arrange_ops() { return defs; }

}  // namespace darner
