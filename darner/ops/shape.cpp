// SPDX-License-Identifier: MIT
// Ops that show their operand through another index: reshape, transpose, broadcast, slice. They move no data by themselves.
#include "darner/base/fault.h"
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/views.h"

#include "darner/kir/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {
namespace {

using kir::Expr;
using Index = std::span<const Expr>;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef reshape_attrs[] = {{"shape", AttrKind::dims, "", "the new shape"}};
constexpr AttrDef transpose_attrs[] = {{"perm", AttrKind::integers, "", "axis i of the result is axis perm[i] of x"}};
constexpr AttrDef broadcast_attrs[] = {
    {"shape", AttrKind::dims, "", "the shape of the result"},
    {"axes", AttrKind::integers, "", "axis i of x becomes axis axes[i] of the result, ascending; an extent of 1 is repeated"}};
constexpr AttrDef slice_attrs[] = {
    {"start", AttrKind::integers, "", "first index an axis; negative counts from the end"},
    {"stop", AttrKind::integers, "", "end an axis, exclusive; negative counts from the end, 9223372036854775807 is the end"},
    {"step", AttrKind::integers, "[]", "distance between the indices taken, at least 1; empty: 1 everywhere"}};

// Calls `value` for the element of x that each element of the result shows.
template <class SourceIndex>
Tensor eval_view(const Call& c, const Tensor& x, const SourceIndex& source_index) {
    Tensor y = Tensor::zeros(x.dtype, c.out->shape());
    if (y.count() == 0) return y;
    std::vector<int64_t> index(y.dims.size(), 0);
    int64_t at = 0;
    do {
        const int64_t from = source_index(index);
        if (is_float(x.dtype))
            y.real[at++] = x.real[from];
        else
            y.integer[at++] = x.integer[from];
    } while (next_index(y.dims, index));
    return y;
}

// --- reshape --------------------------------------------------------------------------------------------------------

Result<Type> infer_reshape(const Call& c) {
    const Dims& dims = c.dims("shape");
    TRY(infer::shape(c, dims));
    TRY(const Dim have, infer::elements(c, c.type(0).dims));
    TRY(const Dim want, infer::elements(c, dims));
    TRY(infer::equal_dim(c, want, have, fmt::format("element count of shape={} for {}", to_string(dims), infer::describe(c, 0))));
    return c.type(0).with(dims);
}

Tensor eval_reshape(const Call& c, std::span<const Tensor* const> operands) {
    Tensor y = *operands[0];
    y.dims = c.out->shape();
    return y;
}

// Axes are matched in groups of equal element count, so that an index is only taken apart and put together where the shapes
// really differ.
void map_reshape(const Call& c, kir::Builder& k, Index out, std::vector<Expr>& in) {
    const auto from = c.type(0).shape(), to = c.out->shape();
    in.assign(from.size(), k.u32(0));
    size_t i = from.size(), o = to.size();
    while (i > 0 || o > 0) {
        const size_t in_end = i, out_end = o;
        int64_t in_count = 1, out_count = 1;
        if (i > 0) in_count = from[--i];
        if (o > 0) out_count = to[--o];
        while (in_count != out_count) {
            if (in_count < out_count && i > 0)
                in_count *= from[--i];
            else if (o > 0)
                out_count *= to[--o];
            else
                break;  // an empty shape: no element is ever asked for
        }
        Expr flat = k.u32(0);
        for (size_t axis = o; axis < out_end; ++axis) flat = flat * static_cast<uint32_t>(to[axis]) + out[axis];
        for (size_t axis = in_end; axis-- > i;) {
            const uint32_t extent = static_cast<uint32_t>(std::max<int64_t>(from[axis], 1));
            in[axis] = axis == i ? flat : flat % extent;
            if (axis != i) flat = flat / extent;
        }
    }
}

// --- transpose ------------------------------------------------------------------------------------------------------

std::vector<size_t> permutation(const Call& c) {
    std::vector<size_t> perm;
    for (const int64_t a : c.integers("perm")) perm.push_back(*normalize_axis(a, c.type(0).rank()));
    return perm;
}

Result<Type> infer_transpose(const Call& c) {
    const size_t rank = c.type(0).rank();
    if (c.integers("perm").size() != rank)
        return c.error(
            fmt::format("perm needs one entry an axis of {}: got {}", infer::describe(c, 0), c.integers("perm").size()));
    TRY(const auto perm, infer::axes(c, c.integers("perm"), rank));
    Dims dims;
    for (const size_t p : perm) dims.push_back(c.type(0).dims[p]);
    return c.type(0).with(std::move(dims));
}

Tensor eval_transpose(const Call& c, std::span<const Tensor* const> operands) {
    const auto perm = permutation(c);
    const auto strides = row_major_strides(operands[0]->dims);
    return eval_view(c, *operands[0], [&](const std::vector<int64_t>& index) {
        int64_t from = 0;
        for (size_t i = 0; i < perm.size(); ++i) from += index[i] * strides[perm[i]];
        return from;
    });
}

void map_transpose(const Call& c, kir::Builder& k, Index out, std::vector<Expr>& in) {
    const auto perm = permutation(c);
    in.assign(perm.size(), k.u32(0));
    for (size_t i = 0; i < perm.size(); ++i) in[fault(40) ? i : perm[i]] = out[fault(40) ? perm[i] : i];
}

Value transpose_back(const BuildCall& c, size_t, Value dy) {
    const auto perm = permutation(c);
    std::vector<int64_t> inverse(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
    return transpose(dy, inverse);
}

// --- broadcast ------------------------------------------------------------------------------------------------------

bool is_one(const Dim& d) { return d.is_constant() && d.value() == 1; }

std::vector<size_t> broadcast_axes(const Call& c) {
    std::vector<size_t> axes;
    for (const int64_t a : c.integers("axes")) axes.push_back(*normalize_axis(a, c.dims("shape").size()));
    return axes;
}

Result<Type> infer_broadcast(const Call& c) {
    const Dims& dims = c.dims("shape");
    TRY(infer::shape(c, dims));
    TRY(const auto axes, infer::axes(c, c.integers("axes"), dims.size()));
    if (axes.size() != c.type(0).rank())
        return c.error(fmt::format("axes needs one entry an axis of {}: got {}", infer::describe(c, 0), axes.size()));
    if (!std::is_sorted(axes.begin(), axes.end()) && !fault(35)) return c.error("axes must ascend (use transpose to reorder)");
    for (size_t i = 0; i < axes.size(); ++i) {
        const Dim& d = c.type(0).dims[i];
        if (!is_one(d))
            TRY(infer::equal_dim(c, d, dims[axes[i]],
                                 fmt::format("extent of axis {} of {} (1 may be repeated)", i, infer::describe(c, 0))));
    }
    return c.type(0).with(dims);
}

Tensor eval_broadcast(const Call& c, std::span<const Tensor* const> operands) {
    const auto axes = broadcast_axes(c);
    const auto strides = row_major_strides(operands[0]->dims);
    return eval_view(c, *operands[0], [&](const std::vector<int64_t>& index) {
        int64_t from = 0;
        for (size_t i = 0; i < axes.size(); ++i)
            if (operands[0]->dims[i] != 1) from += index[axes[i]] * strides[i];
        return from;
    });
}

void map_broadcast(const Call& c, kir::Builder& k, Index out, std::vector<Expr>& in) {
    const auto axes = broadcast_axes(c);
    in.assign(axes.size(), k.u32(0));
    for (size_t i = 0; i < axes.size(); ++i)
        if (!is_one(c.type(0).dims[i])) in[i] = out[fault(33) ? i : axes[i]];
}

// The sum over the axes that are new or were repeated.
Value broadcast_back(const BuildCall& c, size_t, Value dy) {
    const auto axes = broadcast_axes(c);
    const Dims& from = c.type(0).dims;
    const Dims& to = c.out->dims;
    std::vector<size_t> summed = other_axes(to.size(), axes);
    bool repeated = false;
    for (size_t i = 0; i < axes.size(); ++i) {
        if (is_one(from[i]) && !is_one(to[axes[i]])) {
            summed.push_back(axes[i]);
            repeated = true;
        }
    }
    std::sort(summed.begin(), summed.end());
    const Value total = summed.empty() ? dy : sum(dy, to_integers(summed));
    return repeated ? reshape(total, from) : total;
}

// --- slice ----------------------------------------------------------------------------------------------------------

Result<Type> infer_slice(const Call& c) {
    const Dims& from = c.type(0).dims;
    for (std::string_view attr : {"start", "stop"})
        if (c.integers(attr).size() != from.size())
            return c.error(
                fmt::format("{} needs one entry an axis of {}: got {}", attr, infer::describe(c, 0), c.integers(attr).size()));
    TRY(infer::per_axis(c, "step", from.size(), 1));
    Dims dims;
    for (size_t i = 0; i < from.size(); ++i) {
        const SliceRange range = slice_range(c, i);
        const auto outside = [&](std::string_view attr, int64_t value) {
            return c.error(fmt::format("{} of axis {} is out of range: got {} for {}", attr, i, value, infer::describe(c, 0)));
        };
        if (from[i].is_constant()) {
            const int64_t extent = from[i].value();
            const int64_t start = c.integers("start")[i], stop = c.integers("stop")[i];
            if (start < -extent || start > extent) return outside("start", start);
            if (stop != slice_end && (stop < -extent || stop > extent)) return outside("stop", stop);
            const int64_t length = std::max<int64_t>(0, range.stop.value() - range.start.value());
            dims.push_back((length + range.step - 1) / range.step);
            continue;
        }
        const Dim length = range.stop - range.start;
        if (range.step != 1 && !length.is_constant()) {
            Error error =
                c.error(fmt::format("a step of {} needs a known length: got {} on axis {}", range.step, length.text(), i));
            error.hint = "bind the symbols first";
            return error;
        }
        dims.push_back(length.is_constant() ? Dim((std::max<int64_t>(0, length.value()) + range.step - 1) / range.step) : length);
    }
    return c.type(0).with(std::move(dims));
}

Tensor eval_slice(const Call& c, std::span<const Tensor* const> operands) {
    const auto strides = row_major_strides(operands[0]->dims);
    return eval_view(c, *operands[0], [&](const std::vector<int64_t>& index) {
        int64_t from = 0;
        for (size_t i = 0; i < index.size(); ++i) {
            const SliceRange range = slice_range(c, i);
            from += (range.start.value() + index[i] * range.step) * strides[i];
        }
        return from;
    });
}

void map_slice(const Call& c, kir::Builder&, Index out, std::vector<Expr>& in) {
    in.clear();
    for (size_t i = 0; i < out.size(); ++i) {
        const SliceRange range = slice_range(c, i);
        in.push_back(out[i] * static_cast<uint32_t>(fault(32) ? 1 : range.step) + static_cast<uint32_t>(range.start.value()));
    }
}

// Zeros where nothing was taken.
Value slice_back(const BuildCall& c, size_t, Value dy) {
    std::vector<int64_t> low, high, interior;
    for (size_t i = 0; i < c.out->rank(); ++i) {
        const SliceRange range = slice_range(c, i);
        const Dim& extent = c.type(0).dims[i];
        const Dim& taken = c.out->dims[i];
        const bool none = taken == Dim(0);
        const Dim covered = none ? Dim(0) : (taken - 1) * Dim(range.step) + 1;
        const Dim before = none ? Dim(0) : range.start;
        const Dim after = extent - before - covered;
        if (!before.is_constant() || !after.is_constant()) {
            Error error = unsupported(c.error("the gradient needs known offsets: got " + infer::describe(c, 0)).message);
            error.hint = "bind the symbols first";
            c.builder->fail(std::move(error));
            return {};
        }
        low.push_back(before.value());
        high.push_back(after.value());
        interior.push_back(range.step - 1);
    }
    return fault(8) ? pad(dy, high, low, interior) : pad(dy, low, high, interior);
}

constexpr OpDef defs[] = {
    {.name = "reshape",
     .doc = "y = the elements of x in the same row-major order under another shape.",
     .operands = x_operand,
     .attrs = reshape_attrs,
     .infer = infer_reshape,
     .ref = TensorRef{eval_reshape},
     .grad = Linear{[](const BuildCall& c, size_t, Value dy) { return reshape(dy, c.type(0).dims); }},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_reshape, true},
     .onnx = "Reshape"},
    {.name = "transpose",
     .doc = "y = x with its axes permuted: y[i_0, ..] = x[j] with j[perm[k]] = i_k.",
     .operands = x_operand,
     .attrs = transpose_attrs,
     .infer = infer_transpose,
     .ref = TensorRef{eval_transpose},
     .grad = Linear{transpose_back},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_transpose},
     .onnx = "Transpose"},
    {.name = "broadcast",
     .doc = "y = x repeated along new axes and along axes of extent 1.",
     .operands = x_operand,
     .attrs = broadcast_attrs,
     .infer = infer_broadcast,
     .ref = TensorRef{eval_broadcast},
     .grad = Linear{broadcast_back},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_broadcast}},
    {.name = "slice",
     .doc = "y = x[start : stop : step] an axis.",
     .operands = x_operand,
     .attrs = slice_attrs,
     .infer = infer_slice,
     .ref = TensorRef{eval_slice},
     .grad = Linear{slice_back},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_slice}},
};

}  // namespace

SliceRange slice_range(const Call& c, size_t axis) {
    const Dim& extent = c.type(0).dims[axis];
    const int64_t start = c.integers("start")[axis], stop = c.integers("stop")[axis];
    const auto& steps = c.integers("step");
    const auto from_end = [&](int64_t v) { return v < 0 ? extent + Dim(v) : Dim(v); };
    return {from_end(start), stop == slice_end ? extent : from_end(stop), steps.empty() ? 1 : steps[axis]};
}

std::span<const OpDef> shape_ops() { return defs; }

}  // namespace darner
