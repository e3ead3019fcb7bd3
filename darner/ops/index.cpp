// SPDX-License-Identifier: MIT
// Ops that fetch or put elements at computed places: concat, pad, gather, scatter_add, iota. Kernels clamp every fetch, also
// where the value is then not taken, so that no access is ever out of range.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using Index = std::span<const Expr>;
using Operands = std::span<const Tensor* const>;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef concat_operands[] = {{"parts", false, true}};
constexpr OperandDef gather_operands[] = {{"table"}, {"indices"}};
constexpr OperandDef scatter_operands[] = {{"indices"}, {"updates"}};
constexpr AttrDef concat_attrs[] = {{"axis", AttrKind::integer, "0", "axis along which the parts follow each other"}};
constexpr AttrDef pad_attrs[] = {
    {"low", AttrKind::integers, "", "elements added before the first, an axis"},
    {"high", AttrKind::integers, "", "elements added after the last, an axis"},
    {"interior", AttrKind::integers, "[]", "elements added between neighbours, an axis; empty: none"},
    {"value", AttrKind::real, "0", "what is added"}};
constexpr AttrDef gather_attrs[] = {{"axis", AttrKind::integer, "0", "axis of table that the indices run over"}};
constexpr AttrDef scatter_attrs[] = {{"size", AttrKind::integer, "", "extent of the result along axis"},
                                     {"axis", AttrKind::integer, "0", "axis of the result that the indices run over"}};
constexpr AttrDef iota_attrs[] = {{"shape", AttrKind::dims, "", "the shape of the result"},
                                  {"dtype", AttrKind::dtype, "", "the dtype of the result, a number"},
                                  {"axis", AttrKind::integer, "0", "axis along which it counts"}};

void copy_element(Tensor& to, int64_t at, const Tensor& from, int64_t source) {
    if (is_float(to.dtype))
        to.real[at] = from.real[source];
    else
        to.integer[at] = from.integer[source];
}

// A shape seen as [outer, extent of axes first .. last, inner].
struct Blocks {
    int64_t outer = 1, middle = 1, inner = 1;
};
Blocks blocks(const std::vector<int64_t>& dims, size_t first, size_t last) {
    Blocks b;
    for (size_t i = 0; i < dims.size(); ++i) (i < first ? b.outer : i < last ? b.middle : b.inner) *= dims[i];
    return b;
}

// --- concat ---------------------------------------------------------------------------------------------------------

Result<Type> infer_concat(const Call& c) {
    const size_t rank = c.type(0).rank();
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), rank));
    Dims dims = c.type(0).dims;
    for (size_t i = 1; i < c.operand_count(); ++i) {
        TRY(infer::equal_dtypes(c, 0, i));
        Dims expected = dims;
        if (c.type(i).rank() == rank) expected[axis] = c.type(i).dims[axis];
        TRY(infer::equal_dims(c, c.type(i).dims, expected,
                              fmt::format("shape of {} (all but axis {} must agree)", infer::operand_name(c, i), axis)));
        dims[axis] = dims[axis] + c.type(i).dims[axis];
    }
    return c.type(0).with(std::move(dims));
}

Tensor eval_concat(const Call& c, Operands parts) {
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    const size_t axis = c.axis("axis", y.dims.size());
    const Blocks whole = blocks(y.dims, axis, axis + 1);
    int64_t offset = 0;
    for (const Tensor* part : parts) {
        const int64_t extent = part->dims[axis];
        for (int64_t o = 0; o < whole.outer; ++o)
            for (int64_t i = 0; i < extent * whole.inner; ++i)
                copy_element(y, (o * whole.middle + offset) * whole.inner + i, *part, o * extent * whole.inner + i);
        offset += extent;
    }
    return y;
}

Value concat_back(const BuildCall& c, size_t operand, Value dy) {
    const size_t axis = c.axis("axis", c.out->rank());
    Dim offset = 0, after = 0;
    for (size_t i = 0; i < c.operand_count(); ++i) {
        if (i < operand) offset = offset + c.type(i).dims[axis];
        if (i > operand) after = after + c.type(i).dims[axis];
    }
    if (!offset.is_constant() || !after.is_constant()) {
        Error error = unsupported(c.error("the gradient needs known extents: got " + infer::describe(c, operand)).message);
        error.hint = "bind the symbols first";
        c.builder->fail(std::move(error));
        return {};
    }
    std::vector<int64_t> start(c.out->rank(), 0), stop(c.out->rank(), std::numeric_limits<int64_t>::max());
    start[axis] = offset.value();
    // An empty part at the end would read "0 from the end", which is the end itself.
    if (after.value() > 0) stop[axis] = -after.value();
    return slice(dy, start, stop);
}

Expr emit_concat(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    const size_t axis = c.axis("axis", c.out->rank());
    Expr result;
    // From the last part to the first: y = at < end_0 ? part_0 : at < end_1 ? part_1 : ...
    auto end = static_cast<uint32_t>(c.out->dims[axis].value());
    for (size_t p = c.operand_count(); p-- > 0;) {
        const auto extent = static_cast<uint32_t>(c.type(p).dims[axis].value());
        const uint32_t begin = end - extent;
        if (extent > 0) {
            std::vector<Expr> index(out.begin(), out.end());
            index[axis] = k.min(out[axis] - begin, k.u32(extent - 1));  // wraps to a large number before the part
            const Expr element = fetch(p, index);
            result = result.valid() ? k.select(out[axis] < end, element, result) : element;
        }
        end = begin;
    }
    return result.valid() ? result : register_constant(k, c.out->dtype, 0);
}

// --- pad ------------------------------------------------------------------------------------------------------------

int64_t interior(const Call& c, size_t axis) {
    const auto& values = c.integers("interior");
    return values.empty() ? 0 : values[axis];
}

Result<Type> infer_pad(const Call& c) {
    const Dims& from = c.type(0).dims;
    for (std::string_view attr : {"low", "high"}) {
        if (c.integers(attr).size() != from.size())
            return c.error(
                fmt::format("{} needs one entry an axis of {}: got {}", attr, infer::describe(c, 0), c.integers(attr).size()));
        TRY(infer::per_axis(c, attr, from.size(), 0));
    }
    TRY(infer::per_axis(c, "interior", from.size(), 0));
    const DType dtype = c.type(0).dtype;
    const double value = c.real("value");
    const double kept = dtype == DType::boolean ? value != 0 : static_cast<double>(saturate_to(dtype, value));
    if (!is_float(dtype) && kept != value)
        return c.error(fmt::format("value does not fit the dtype: got {} for {}", value, to_string(dtype)));
    Dims dims;
    for (size_t i = 0; i < from.size(); ++i) {
        const Dim added = Dim(c.integers("low")[i]) + Dim(c.integers("high")[i]);
        const int64_t between = interior(c, i);
        if (between > 0 && !from[i].is_constant())
            return c.error(fmt::format("interior padding needs a known extent: got {} (bind the symbols first)", from[i].text()));
        const Dim spread = between == 0 || from[i] == Dim(0) ? from[i] : (from[i] - 1) * Dim(between + 1) + 1;
        dims.push_back(spread + added);
    }
    return c.type(0).with(std::move(dims));
}

Tensor eval_pad(const Call& c, Operands operands) {
    const Tensor& x = *operands[0];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    for (int64_t i = 0; i < y.count(); ++i) y.set(i, c.real("value"));
    if (x.count() == 0) return y;
    const auto strides = row_major_strides(y.dims);
    std::vector<int64_t> index(x.dims.size(), 0);
    int64_t from = 0;
    do {
        int64_t to = 0;
        for (size_t i = 0; i < index.size(); ++i) to += (c.integers("low")[i] + index[i] * (interior(c, i) + 1)) * strides[i];
        copy_element(y, to, x, from++);
    } while (next_index(x.dims, index));
    return y;
}

Value pad_vjp(const BuildCall& c, size_t, Value dy) {
    std::vector<int64_t> stop, step;
    for (size_t i = 0; i < c.out->rank(); ++i) {
        // The last element is followed by `high` others; none at all must not read as "from the end".
        const int64_t high = c.integers("high")[i];
        stop.push_back(high == 0 ? std::numeric_limits<int64_t>::max() : -high);
        step.push_back(interior(c, i) + 1);
    }
    return slice(dy, c.integers("low"), stop, step);
}

Value pad_jvp(const BuildCall& c, std::span<const Value> tangents) {
    if (!tangents[0].valid()) return {};
    return pad(tangents[0], c.integers("low"), c.integers("high"), c.integers("interior"), 0);
}

Expr emit_pad(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    const Expr value = register_constant(k, c.out->dtype, c.real("value"));
    Expr inside = k.boolean(true);
    std::vector<Expr> index;
    for (size_t i = 0; i < out.size(); ++i) {
        const auto extent = static_cast<uint32_t>(c.type(0).dims[i].value());
        if (extent == 0) return value;
        const auto low = static_cast<uint32_t>(c.integers("low")[i]);
        const auto spacing = static_cast<uint32_t>(interior(c, i) + 1);
        const Expr at = out[i] - low;  // wraps to a large number before the first element
        if (low > 0 || c.integers("high")[i] > 0) inside = inside & (at < (extent - 1) * spacing + 1);
        if (spacing > 1) inside = inside & (at % spacing == 0);
        index.push_back(k.min(at / spacing, k.u32(extent - 1)));
    }
    return k.select(inside, fetch(0, index), value);
}

// --- gather ---------------------------------------------------------------------------------------------------------

Result<Type> infer_gather(const Call& c) {
    TRY(infer::dtype(c, 1, Accept::index));
    const Dims& table = c.type(0).dims;
    const Dims& indices = c.type(1).dims;
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), table.size()));
    const bool no_indices = std::find(indices.begin(), indices.end(), Dim(0)) != indices.end();
    if (table[axis] == Dim(0) && !no_indices)
        return c.error(fmt::format("nothing to read: axis {} of {} is empty", axis, infer::describe(c, 0)));
    Dims dims(table.begin(), table.begin() + axis);
    dims.insert(dims.end(), indices.begin(), indices.end());
    dims.insert(dims.end(), table.begin() + axis + 1, table.end());
    return c.type(0).with(std::move(dims));
}

Tensor eval_gather(const Call& c, Operands operands) {
    const Tensor& table = *operands[0];
    const Tensor& indices = *operands[1];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    const size_t axis = c.axis("axis", table.dims.size());
    const Blocks b = blocks(table.dims, axis, axis + 1);
    int64_t to = 0;
    for (int64_t o = 0; o < b.outer; ++o)
        for (const int64_t wanted : indices.integer)
            for (int64_t i = 0; i < b.inner; ++i)
                copy_element(y, to++, table, (o * b.middle + std::clamp<int64_t>(wanted, 0, b.middle - 1)) * b.inner + i);
    return y;
}

// An index that was out of range read the clamped element, so that element gets its gradient.
Value gather_back(const BuildCall& c, size_t operand, Value dy) {
    if (operand != 0) return {};
    const size_t axis = c.axis("axis", c.type(0).rank());
    const auto size = concrete_count(c, c.type(0).dims, {axis});
    if (!size) return {};
    return scatter_add(clamp_indices(c.operand(1), *size), dy, *size, static_cast<int64_t>(axis));
}

Expr emit_gather(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    const size_t axis = c.axis("axis", c.type(0).rank());
    const size_t index_rank = c.type(1).rank();
    const auto extent = static_cast<uint32_t>(c.type(0).dims[axis].value());
    const Expr wanted = fetch(1, out.subspan(axis, index_rank));
    std::vector<Expr> index(out.begin(), out.begin() + static_cast<ptrdiff_t>(axis));
    index.push_back(clamped_index(k, wanted, extent));
    index.insert(index.end(), out.begin() + static_cast<ptrdiff_t>(axis + index_rank), out.end());
    return fetch(0, index);
}

// --- scatter_add ----------------------------------------------------------------------------------------------------

Result<Type> infer_scatter_add(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::index));
    TRY(infer::dtype(c, 1, Accept::numbers));
    const Dims& indices = c.type(0).dims;
    const Dims& updates = c.type(1).dims;
    if (updates.size() < indices.size())
        return c.error(fmt::format("updates need at least the axes of indices: got {} and {}", infer::describe(c, 1),
                                   infer::describe(c, 0)));
    TRY(const size_t axis, infer::axis(c, c.integer("axis"), updates.size() - indices.size() + 1));
    const auto first = updates.begin() + static_cast<ptrdiff_t>(axis), last = first + static_cast<ptrdiff_t>(indices.size());
    TRY(infer::equal_dims(c, Dims(first, last), indices,
                          fmt::format("extents of updates from axis {} on (those of indices)", axis)));
    const int64_t size = c.integer("size");
    if (size < 0 || size > infer::max_extent)
        return c.error(fmt::format("size out of range: got {}, expected 0 to {}", size, infer::max_extent));
    Dims dims(updates.begin(), first);
    dims.push_back(size);
    dims.insert(dims.end(), last, updates.end());
    return c.type(1).with(std::move(dims));
}

Tensor eval_scatter_add(const Call& c, Operands operands) {
    const Tensor& indices = *operands[0];
    const Tensor& updates = *operands[1];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    const size_t axis = c.axis("axis", y.dims.size());
    const Blocks b = blocks(y.dims, axis, axis + 1);
    int64_t from = 0;
    for (int64_t o = 0; o < b.outer; ++o) {
        for (const int64_t wanted : indices.integer) {
            for (int64_t i = 0; i < b.inner; ++i, ++from) {
                if (wanted < 0 || wanted >= b.middle) continue;
                const int64_t to = (o * b.middle + wanted) * b.inner + i;
                if (is_float(y.dtype))
                    y.real[to] += updates.real[from];
                else
                    y.integer[to] = wrap_to(y.dtype, static_cast<int64_t>(static_cast<uint64_t>(y.integer[to]) +
                                                                          static_cast<uint64_t>(updates.integer[from])));
            }
        }
    }
    return y;
}

// What was dropped has no gradient.
Value scatter_back(const BuildCall& c, size_t operand, Value dy) {
    if (operand != 1) return {};
    const int64_t size = c.integer("size");
    const Value indices = c.operand(0);
    if (size == 0) return splat(c.operand(1), 0);
    const size_t axis = c.axis("axis", c.out->rank());
    Value inside = lt(indices, splat(indices, static_cast<double>(size)));
    if (indices.dtype() == DType::i32) inside = logical_and(inside, ge(indices, splat(indices, 0)));
    std::vector<int64_t> axes(indices.rank());
    std::iota(axes.begin(), axes.end(), static_cast<int64_t>(axis));
    const Value taken = gather(dy, indices, static_cast<int64_t>(axis));
    return select(broadcast(inside, c.type(1).dims, axes), taken, splat(taken, 0));
}

// --- iota -----------------------------------------------------------------------------------------------------------

Result<Type> infer_iota(const Call& c) {
    const Dims& dims = c.dims("shape");
    TRY(infer::shape(c, dims));
    TRY(infer::axis(c, c.integer("axis"), dims.size()));
    if (c.dtype("dtype") == DType::boolean) return c.error("wrong dtype: got bool, expected a number");
    return Type{c.dtype("dtype"), dims};
}

Tensor eval_iota(const Call& c, Operands) {
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    const size_t axis = c.axis("axis", y.dims.size());
    const Blocks b = blocks(y.dims, axis, axis + 1);
    for (int64_t i = 0; i < y.count(); ++i) {
        const int64_t value = i / b.inner % b.middle;
        if (is_float(y.dtype))
            y.real[i] = static_cast<double>(value);
        else
            y.integer[i] = wrap_to(y.dtype, value);
    }
    return y;
}

Expr emit_iota(const Call& c, kir::Builder& k, Index out, const Fetch&) {
    const Expr at = out[c.axis("axis", c.out->rank())];
    const kir::Scalar scalar = register_scalar(c.out->dtype);
    if (scalar == kir::Scalar::f32) return k.convert(at, scalar);
    return wrap_register(k, scalar == kir::Scalar::i32 ? k.bitcast(at, scalar) : at, c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "concat",
     .doc = "y = the parts one after the other along axis.",
     .operands = concat_operands,
     .attrs = concat_attrs,
     .infer = infer_concat,
     .ref = TensorRef{eval_concat},
     .grad = Linear{concat_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_concat},
     .onnx = "Concat"},
    {.name = "pad",
     .doc = "y = x with `low` values before, `high` after and `interior` between its elements, an axis.",
     .operands = x_operand,
     .attrs = pad_attrs,
     .infer = infer_pad,
     .ref = TensorRef{eval_pad},
     .grad = CustomGrad{pad_vjp, pad_jvp},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_pad}},
    {.name = "gather",
     .doc = "y[.., i.., ..] = table[.., indices[i..], ..] at axis; an index out of range reads the nearest element.",
     .operands = gather_operands,
     .attrs = gather_attrs,
     .infer = infer_gather,
     .ref = TensorRef{eval_gather},
     .grad = Linear{gather_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_gather},
     .onnx = "Gather"},
    {.name = "scatter_add",
     .doc = "y = zeros, then y[.., indices[i..], ..] += updates[.., i.., ..] at axis; an index out of range is dropped.",
     .operands = scatter_operands,
     .attrs = scatter_attrs,
     .infer = infer_scatter_add,
     .ref = TensorRef{eval_scatter_add},
     .grad = Linear{scatter_back},
     .batch = Batch::shift_axes,
     .lower = KernelLower{"scatter_add"}},
    {.name = "iota",
     .doc = "y = the index along axis: 0, 1, 2, ...",
     .operands = {},
     .attrs = iota_attrs,
     .infer = infer_iota,
     .ref = TensorRef{eval_iota},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_iota}},
};

}  // namespace

std::span<const OpDef> index_ops() { return defs; }

}  // namespace darner
