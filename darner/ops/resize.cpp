// SPDX-License-Identifier: MIT
// resize: nearest and linear interpolation, one axis after the other. Along an axis each element of the result is a weighted
// sum of few elements of x at places known before, its taps; the gradient is the same with the taps turned round, so nothing
// is scattered.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef resize_attrs[] = {
    {"axes", AttrKind::integers, "", "the axes to resize"},
    {"sizes", AttrKind::integers, "", "their extents in the result"},
    {"mode", AttrKind::choice, "nearest",
     "nearest: element floor(i n / m); nearest_exact: floor((i + 1/2) n / m); linear: between the two neighbours",
     "nearest|nearest_exact|linear"},
    {"align_corners", AttrKind::boolean, "false",
     "for linear: the first and last elements stay in place, instead of the outer edges of the elements"}};

// Up to this many taps are added one by one where the result is used; more are a reduction of their own.
constexpr size_t max_inline_taps = 8;

// The taps of every element are listed while the program is compiled.
constexpr int64_t max_resized_extent = int64_t{1} << 22;

struct Tap {
    int64_t index = 0;
    double weight = 0;
};
using Taps = std::vector<std::vector<Tap>>;  // by element of the result

Result<Type> infer_resize(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::floats));
    TRY(const auto axes, infer::axes(c, c.integers("axes"), c.type(0).rank()));
    const auto& sizes = c.integers("sizes");
    if (sizes.size() != axes.size())
        return c.error(fmt::format("sizes needs one entry for each of axes: got {} and {}", sizes.size(), axes.size()));
    if (c.boolean("align_corners") && c.choice("mode") != "linear")
        return c.error("align_corners goes with mode=linear: got mode=" + c.choice("mode"));
    Dims dims = c.type(0).dims;
    for (size_t i = 0; i < axes.size(); ++i) {
        const Dim& extent = dims[axes[i]];
        if (sizes[i] < 0 || sizes[i] > max_resized_extent)
            return c.error(fmt::format("entry of sizes out of range: got {}, expected 0 to {}", sizes[i], max_resized_extent));
        if (extent.is_constant() && extent.value() > max_resized_extent)
            return c.error(fmt::format("axis {} of {} is too long to be resized: at most {}", axes[i], infer::describe(c, 0),
                                       max_resized_extent));
        if (extent == Dim(0) && sizes[i] > 0)
            return c.error(fmt::format("nothing to read: axis {} of {} is empty", axes[i], infer::describe(c, 0)));
        dims[axes[i]] = sizes[i];
    }
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

std::vector<Tap> taps_of(const Call& c, int64_t i, int64_t from, int64_t to) {
    const std::string& mode = c.choice("mode");
    const auto n = static_cast<double>(from), m = static_cast<double>(to);
    if (mode == "nearest") return {{i * from / to, 1}};
    if (mode == "nearest_exact") return {{(2 * i + 1) * from / (2 * to), 1}};
    const auto at = static_cast<double>(i);
    const double place =
        c.boolean("align_corners") ? (to > 1 ? at * (n - 1) / (m - 1) : 0) : std::max((at + 0.5) * n / m - 0.5, 0.0);
    const auto below = std::min(static_cast<int64_t>(place), from - 1);
    const double weight = place - static_cast<double>(below);
    if (weight == 0 || below == from - 1) return {{below, 1}};
    return {{below, 1 - weight}, {below + 1, weight}};
}

Taps turned_round(const Taps& taps, int64_t from) {
    Taps turned(static_cast<size_t>(from));
    for (size_t i = 0; i < taps.size(); ++i)
        for (const Tap& tap : taps[i]) turned[static_cast<size_t>(tap.index)].push_back({static_cast<int64_t>(i), tap.weight});
    return turned;
}

// y[.., i, ..] = the sum of weight * x[.., index, ..] over the taps of i. A row of fewer taps than others reads its first
// place, and leaves the value out rather than multiply it by 0: it may be infinite.
Value apply_taps(Builder& b, Value x, size_t axis, const Taps& taps) {
    size_t width = 1;
    bool plain = true;  // one tap of weight 1 everywhere
    for (const auto& row : taps) {
        width = std::max(width, row.size());
        plain = plain && row.size() == 1 && row[0].weight == 1;
    }
    const auto rows = static_cast<int64_t>(taps.size());
    Tensor index = Tensor::zeros(DType::i32, {rows, static_cast<int64_t>(width)});
    Tensor weight = Tensor::zeros(x.dtype(), index.dims);
    for (size_t i = 0; i < taps.size(); ++i)
        for (size_t t = 0; t < width; ++t) {
            const bool used = t < taps[i].size();
            const size_t at = i * width + t;
            index.integer[at] = taps[i].empty() ? 0 : taps[i][used ? t : 0].index;
            weight.real[at] = used ? round_to(x.dtype(), taps[i][t].weight) : 0;
        }
    const auto along = static_cast<int64_t>(axis);
    const auto weighted = [&](const Tensor& indices, const Tensor& weights) {
        const Value taken = gather(x, b.constant(indices), along);
        if (plain) return taken;
        std::vector<int64_t> axes(weights.dims.size());
        for (size_t i = 0; i < axes.size(); ++i) axes[i] = along + static_cast<int64_t>(i);
        const Value w = broadcast(b.constant(weights), taken.dims(), axes);
        return select(eq(w, splat(w, 0)), splat(taken, 0), mul(taken, w));
    };
    if (width > max_inline_taps) return sum(weighted(index, weight), {along + 1});
    Value y;
    for (size_t t = 0; t < width; ++t) {
        Tensor one_index = Tensor::zeros(DType::i32, {rows}), one_weight = Tensor::zeros(x.dtype(), {rows});
        for (size_t i = 0; i < taps.size(); ++i) {
            one_index.integer[i] = index.integer[i * width + t];
            one_weight.real[i] = weight.real[i * width + t];
        }
        const Value term = weighted(one_index, one_weight);
        y = y.valid() ? add(y, term) : term;
    }
    // What reads it along the next axis reads each element several times.
    return width > 2 ? materialize(y) : y;
}

// All axes, in their order or, for the gradient, backwards. `x` has the shape of the operand, or of the result.
Value resized(const BuildCall& c, Value x, bool transposed) {
    std::vector<size_t> order;
    for (size_t i = 0; i < c.integers("axes").size(); ++i) order.insert(transposed ? order.begin() : order.end(), i);
    Value y = widen(x);
    for (const size_t i : order) {
        const size_t axis = *normalize_axis(c.integers("axes")[i], c.type(0).rank());
        const auto from = concrete_count(c, c.type(0).dims, {axis});
        if (!from) return {};
        const int64_t to = c.integers("sizes")[i];
        if (*from == to) continue;
        if (*from == 0 || to == 0) return c.builder->constant(transposed ? c.type(0) : *c.out, 0);
        Taps taps;
        for (int64_t at = 0; at < to; ++at) taps.push_back(taps_of(c, at, *from, to));
        y = apply_taps(*c.builder, y, axis, transposed ? turned_round(taps, *from) : taps);
    }
    return narrow(y, c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "resize",
     .doc = "y = x with other extents along axes, each element taken from the nearest place of x or weighted between two: place "
            "(i + 1/2) n / m - 1/2 for element i of m and n in x, at least 0; with align_corners i (n - 1) / (m - 1).",
     .operands = x_operand,
     .attrs = resize_attrs,
     .infer = infer_resize,
     .grad = Linear{[](const BuildCall& c, size_t, Value dy) { return resized(c, dy, true); }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return resized(c, c.operand(0), false); }},
     .onnx = "Resize"},
};

}  // namespace

std::span<const OpDef> resize_ops() { return defs; }

}  // namespace darner
