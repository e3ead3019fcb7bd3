// SPDX-License-Identifier: MIT
// More ops that fetch at computed places: gather_elements, gather_nd, dynamic_slice, dynamic_update_slice, one_hot, where.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using Index = std::span<const Expr>;
using Operands = std::span<const Tensor* const>;

constexpr OperandDef x_indices[] = {{"x"}, {"indices"}};
constexpr OperandDef indices_operand[] = {{"indices"}};
constexpr OperandDef x_start[] = {{"x"}, {"start"}};
constexpr OperandDef x_update_start[] = {{"x"}, {"update"}, {"start"}};
constexpr OperandDef where_operands[] = {{"condition"}, {"if_true"}, {"if_false"}};
constexpr AttrDef elements_attrs[] = {{"axis", AttrKind::integer, "0", "axis of x that the indices run over"}};
constexpr AttrDef dynamic_slice_attrs[] = {{"sizes", AttrKind::integers, "", "the extents of the result"}};
constexpr AttrDef one_hot_attrs[] = {{"classes", AttrKind::integer, "", "the extent of the new axis"},
                                     {"axis", AttrKind::integer, "-1", "where the result has the new axis"},
                                     {"dtype", AttrKind::dtype, "f32", "the dtype of the result"}};

Tensor like_result(const Call& c) { return Tensor::zeros(c.out->dtype, c.out->shape()); }

void copy_element(Tensor& to, int64_t at, const Tensor& from, int64_t source) {
    if (is_float(to.dtype))
        to.real[at] = from.real[source];
    else
        to.integer[at] = from.integer[source];
}

int64_t flat_index(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
    int64_t flat = 0;
    for (size_t i = 0; i < index.size(); ++i) flat += index[i] * strides[i];
    return flat;
}

uint32_t extent_of(const Type& type, size_t axis) { return static_cast<uint32_t>(type.dims[axis].value()); }

// --- gather_elements ------------------------------------------------------------------------------------------------

Result<Type> infer_gather_elements(const Call& c) {
    TRY(infer::dtype(c, 1, Accept::index));
    const Dims& x = c.type(0).dims;
    const Dims& indices = c.type(1).dims;
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), x.size()));
    if (indices.size() != x.size())
        return c.error(
            fmt::format("indices need as many axes as x: got {} and {}", infer::describe(c, 1), infer::describe(c, 0)));
    const bool no_indices = std::find(indices.begin(), indices.end(), Dim(0)) != indices.end();
    for (size_t i = 0; i < x.size(); ++i) {
        if (i == axis && x[i] == Dim(0) && !no_indices)
            return c.error(fmt::format("nothing to read: axis {} of {} is empty", axis, infer::describe(c, 0)));
        if (i == axis || x[i] == indices[i]) continue;
        if (!x[i].is_constant() || !indices[i].is_constant() || indices[i].value() > x[i].value())
            return c.error(
                fmt::format("indices reach beyond x at axis {}: got {} and {}", i, infer::describe(c, 1), infer::describe(c, 0)));
    }
    return c.type(0).with(indices);
}

Tensor eval_gather_elements(const Call& c, Operands operands) {
    const Tensor& x = *operands[0];
    const Tensor& indices = *operands[1];
    Tensor y = like_result(c);
    if (y.count() == 0) return y;
    const size_t axis = c.axis("axis", x.dims.size());
    const auto strides = row_major_strides(x.dims);
    std::vector<int64_t> index(x.dims.size(), 0);
    int64_t at = 0;
    do {
        std::vector<int64_t> from = index;
        from[axis] = std::clamp<int64_t>(indices.integer[at], 0, x.dims[axis] - 1);
        copy_element(y, at++, x, flat_index(from, strides));
    } while (next_index(y.dims, index));
    return y;
}

Expr emit_gather_elements(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    const size_t axis = c.axis("axis", out.size());
    std::vector<Expr> index(out.begin(), out.end());
    index[axis] = clamped_index(k, fetch(1, out), extent_of(c.type(0), axis));
    return fetch(0, index);
}

// dx[i] = the sum of dy[j] over the j that read i: for each element one ordered sum along the axis of the indices.
Value gather_elements_back(const BuildCall& c, size_t operand, Value dy) {
    if (operand != 0) return {};
    const Dims& x = c.type(0).dims;
    const size_t rank = x.size(), axis = c.axis("axis", rank);
    const auto size = concrete_count(c, x, {axis});
    if (!size) return {};
    if (*size == 0) return splat(c.operand(0), 0);
    const Value indices = clamp_indices(c.operand(1), *size);
    Dims pairs = indices.dims();  // [.., j, i, ..]
    pairs.insert(pairs.begin() + static_cast<ptrdiff_t>(axis) + 1, Dim(*size));
    const auto source = static_cast<int64_t>(axis);
    const std::vector<size_t> inserted = {axis + 1};
    const Value place = c.builder->iota({indices.dtype(), pairs}, source + 1);
    const Value reads = eq(place, spread(indices, pairs, inserted, false));
    const Value given = spread(widen(dy), pairs, inserted, false);
    const Value dx = narrow(sum(select(reads, given, splat(given, 0)), {source}), dy.dtype());
    std::vector<int64_t> low(rank, 0), high;
    for (size_t i = 0; i < rank; ++i) high.push_back(x[i] == dx.dims()[i] ? 0 : x[i].value() - dx.dims()[i].value());
    return pad(dx, low, high);
}

// --- gather_nd ------------------------------------------------------------------------------------------------------

Result<Type> infer_gather_nd(const Call& c) {
    TRY(infer::dtype(c, 1, Accept::index));
    const Dims& x = c.type(0).dims;
    const Dims& indices = c.type(1).dims;
    if (indices.empty()) return c.error("indices need an axis that holds the index of each element: got a scalar");
    const Dim& depth = indices.back();
    if (!depth.is_constant() || depth.value() < 1 || depth.value() > static_cast<int64_t>(x.size()))
        return c.error(fmt::format("the last axis of indices holds 1 to {} numbers, one for each of the first axes of {}: got {}",
                                   x.size(), infer::describe(c, 0), infer::describe(c, 1)));
    Dims dims(indices.begin(), indices.end() - 1);
    const bool no_indices = std::find(dims.begin(), dims.end(), Dim(0)) != dims.end();
    for (int64_t i = 0; i < depth.value(); ++i)
        if (x[static_cast<size_t>(i)] == Dim(0) && !no_indices)
            return c.error(fmt::format("nothing to read: axis {} of {} is empty", i, infer::describe(c, 0)));
    dims.insert(dims.end(), x.begin() + static_cast<ptrdiff_t>(depth.value()), x.end());
    return c.type(0).with(std::move(dims));
}

// The indexed axes become one; its index is computed in u32, which holds that of any tensor a device can have.
Value expand_gather_nd(const BuildCall& c) {
    const Value x = c.operand(0), indices = c.operand(1);
    const auto depth = static_cast<size_t>(indices.dims().back().value());
    Dims lookup = indices.dims();
    lookup.pop_back();
    std::vector<int64_t> start(indices.rank(), 0), stop(indices.rank(), std::numeric_limits<int64_t>::max());
    Value flat;
    int64_t merged = 1;
    for (size_t i = 0; i < depth; ++i) {
        const auto size = concrete_count(c, x.dims(), {i});
        if (!size) return {};
        if (__builtin_mul_overflow(merged, *size, &merged) || merged > std::numeric_limits<uint32_t>::max()) {
            c.builder->fail(c.error("too many elements to index: got " + infer::describe(c, 0)));
            return {};
        }
        start.back() = static_cast<int64_t>(i);
        stop.back() = start.back() + 1;
        const Value place = cast(clamp_indices(reshape(slice(indices, start, stop), lookup), *size), DType::u32);
        flat = flat.valid() ? flat * static_cast<double>(*size) + place : place;
    }
    Dims table = {Dim(merged)};
    table.insert(table.end(), x.dims().begin() + static_cast<ptrdiff_t>(depth), x.dims().end());
    return gather(reshape(x, table), flat);
}

// --- dynamic_slice, dynamic_update_slice ----------------------------------------------------------------------------

// One start an axis; the window must fit.
Result<void> check_window(const Call& c, size_t start, const Dims& window, const std::string& what) {
    TRY(infer::dtype(c, start, Accept::index));
    const Dims& x = c.type(0).dims;
    TRY(infer::equal_dims(c, c.type(start).dims, {Dim(static_cast<int64_t>(x.size()))},
                          "shape of start, one number an axis of x"));
    if (window.size() != x.size())
        return c.error(fmt::format("{} needs as many axes as {}: got {}", what, infer::describe(c, 0), window.size()));
    for (size_t i = 0; i < x.size(); ++i)
        if (!(x[i] == window[i]) && (!x[i].is_constant() || !window[i].is_constant() || window[i].value() > x[i].value()))
            return c.error(
                fmt::format("{} does not fit at axis {}: got {} for {}", what, i, to_string(window), infer::describe(c, 0)));
    return {};
}

Result<Type> infer_dynamic_slice(const Call& c) {
    TRY(infer::per_axis(c, "sizes", c.type(0).rank(), 0));
    const auto& sizes = c.integers("sizes");
    const Dims window(sizes.begin(), sizes.end());
    TRY(check_window(c, 1, window, "sizes"));
    return c.type(0).with(window);
}

Result<Type> infer_dynamic_update(const Call& c) {
    TRY(infer::equal_dtypes(c, 0, 1));
    TRY(check_window(c, 2, c.type(1).dims, "update"));
    return c.type(0);
}

// Where the window of `dims` really starts in `x`: it is moved so that it lies inside.
std::vector<int64_t> window_start(const Tensor& x, const Tensor& start, const std::vector<int64_t>& dims) {
    std::vector<int64_t> at(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) at[i] = std::clamp<int64_t>(start.integer[i], 0, x.dims[i] - dims[i]);
    return at;
}

// Calls f(element of the window, element of x that it covers).
template <class F>
void walk_window(const Tensor& x, const Tensor& start, const std::vector<int64_t>& dims, const F& f) {
    if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
    const auto strides = row_major_strides(x.dims);
    const int64_t origin = flat_index(window_start(x, start, dims), strides);
    std::vector<int64_t> index(dims.size(), 0);
    int64_t at = 0;
    do f(at++, origin + flat_index(index, strides));
    while (next_index(dims, index));
}

Tensor eval_dynamic_slice(const Call& c, Operands operands) {
    Tensor y = like_result(c);
    walk_window(*operands[0], *operands[1], y.dims, [&](int64_t at, int64_t from) { copy_element(y, at, *operands[0], from); });
    return y;
}

Tensor eval_dynamic_update(const Call&, Operands operands) {
    Tensor y = *operands[0];
    walk_window(y, *operands[2], operands[1]->dims, [&](int64_t at, int64_t to) { copy_element(y, to, *operands[1], at); });
    return y;
}

Expr emit_window_start(const Call& c, kir::Builder& k, const Fetch& fetch, size_t operand, size_t axis, uint32_t size) {
    const Expr which = k.u32(static_cast<uint32_t>(axis));
    return clamped_index(k, fetch(operand, {&which, 1}), extent_of(c.type(0), axis) - size + 1);
}

Expr emit_dynamic_slice(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    std::vector<Expr> index;
    for (size_t i = 0; i < out.size(); ++i) {
        const Expr at = out[i] + emit_window_start(c, k, fetch, 1, i, extent_of(*c.out, i));
        index.push_back(k.assume_max(at, std::max(extent_of(c.type(0), i), 1u) - 1));
    }
    return fetch(0, index);
}

Expr emit_dynamic_update(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    Expr inside = k.boolean(true);
    std::vector<Expr> index;
    for (size_t i = 0; i < out.size(); ++i) {
        const uint32_t size = extent_of(c.type(1), i);
        if (size == 0) return fetch(0, out);
        const Expr at = out[i] - emit_window_start(c, k, fetch, 2, i, size);  // wraps to a large number before the window
        inside = inside & (at < size);
        index.push_back(k.min(at, k.u32(size - 1)));
    }
    return k.select(inside, fetch(1, index), fetch(0, out));
}

Value dynamic_slice_back(const BuildCall& c, size_t operand, Value dy) {
    return operand == 0 ? dynamic_update_slice(splat(c.operand(0), 0), dy, c.operand(1)) : Value{};
}

Value dynamic_update_back(const BuildCall& c, size_t operand, Value dy) {
    const Value start = c.operand(2);
    if (operand == 0) return dynamic_update_slice(dy, splat(c.operand(1), 0), start);
    if (operand > 1) return {};
    std::vector<int64_t> sizes;
    for (size_t axis = 0; axis < c.type(1).rank(); ++axis) {
        const auto size = concrete_count(c, c.type(1).dims, {axis});
        if (!size) return {};
        sizes.push_back(*size);
    }
    return dynamic_slice(dy, start, sizes);
}

// --- one_hot, where -------------------------------------------------------------------------------------------------

Result<Type> infer_one_hot(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::index));
    Dims dims = c.type(0).dims;
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), dims.size() + 1));
    const int64_t classes = c.integer("classes");
    if (classes < 0 || classes > infer::max_extent)
        return c.error(fmt::format("classes out of range: got {}, expected 0 to {}", classes, infer::max_extent));
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), Dim(classes));
    return Type{c.dtype("dtype"), std::move(dims)};
}

Value expand_one_hot(const BuildCall& c) {
    const size_t axis = c.axis("axis", c.out->rank());
    const Value place = c.builder->iota({c.type(0).dtype, c.out->dims}, static_cast<int64_t>(axis));
    return cast(eq(place, spread(c.operand(0), c.out->dims, {axis}, false)), c.out->dtype);
}

Result<Type> infer_where(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::boolean));
    TRY(infer::equal_dtypes(c, 1, 2));
    for (size_t i : {size_t{0}, size_t{2}})
        TRY(infer::equal_dims(c, c.type(i).dims, c.type(1).dims, "shape of " + infer::operand_name(c, i)));
    return c.type(1);
}

constexpr OpDef defs[] = {
    {.name = "gather_elements",
     .doc = "y[.., j, ..] = x[.., indices[.., j, ..], ..] at axis, one index for each element; out of range reads the nearest.",
     .operands = x_indices,
     .attrs = elements_attrs,
     .infer = infer_gather_elements,
     .ref = TensorRef{eval_gather_elements},
     .grad = Linear{gather_elements_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_gather_elements},
     .onnx = "GatherElements"},
    {.name = "gather_nd",
     .doc = "y[i.., ..] = x[indices[i.., 0], indices[i.., 1], .., ..]; an index out of range reads the nearest element.",
     .operands = x_indices,
     .infer = infer_gather_nd,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_gather_nd},
     .onnx = "GatherND"},
    {.name = "dynamic_slice",
     .doc = "y = the window of x with extents sizes that begins at start, moved so that it lies inside x.",
     .operands = x_start,
     .attrs = dynamic_slice_attrs,
     .infer = infer_dynamic_slice,
     .ref = TensorRef{eval_dynamic_slice},
     .grad = Linear{dynamic_slice_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_dynamic_slice}},
    {.name = "dynamic_update_slice",
     .doc = "y = x with update in place of the window that begins at start, moved so that it lies inside x.",
     .operands = x_update_start,
     .infer = infer_dynamic_update,
     .ref = TensorRef{eval_dynamic_update},
     .grad = Linear{dynamic_update_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_dynamic_update}},
    {.name = "one_hot",
     .doc = "y[.., k, ..] = 1 where indices[..] is k, else 0, with k along a new axis; all 0 for an index out of range.",
     .operands = indices_operand,
     .attrs = one_hot_attrs,
     .infer = infer_one_hot,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_one_hot}},
    {.name = "where",
     .doc = "y = if_true where condition holds, else if_false: select under the name that PyTorch and NumPy use.",
     .operands = where_operands,
     .infer = infer_where,
     .grad = ByExpansion{},
     .lower = ExpandLower{[](const BuildCall& c) { return select(c.operand(0), c.operand(1), c.operand(2)); }}},
};

}  // namespace

std::span<const OpDef> lookup_ops() { return defs; }

}  // namespace darner
