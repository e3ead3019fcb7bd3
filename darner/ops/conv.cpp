// SPDX-License-Identifier: MIT
// Convolutions: conv over any number of spatial axes, and conv_transpose, which is the transpose of conv by its data.
// With x[n, c, p] and w[o, c, t]: y[n, o, i] = the sum over c and t of x[n, c, i stride + t dilation - low] w[o, c, t], with
// zeros outside x. Gradients are convolutions again (conv_gradient.cpp), so that the op is closed under differentiation.
#include "darner/ops/conv.h"

#include "darner/kir/builder.h"
#include "darner/ops/compose.h"
#include "darner/ops/contract.h"
#include "darner/ops/families.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;

constexpr OperandDef conv_operands[] = {{"x"}, {"w"}, {"b", true}};
constexpr std::string_view strides_doc = "elements from one window to the next, a spatial axis; empty: 1",
                           dilation_doc = "elements from one tap to the next, a spatial axis; empty: 1",
                           groups_doc = "channels are in so many groups, each with weights of its own";
constexpr AttrDef conv_attrs[] = {
    {"strides", AttrKind::integers, "[]", strides_doc},
    {"padding", AttrKind::integers, "[]",
     "zeros before the first and behind the last element, a spatial axis: [low0,high0,low1,high1,..]; negative: elements left "
     "out; empty: none"},
    {"dilation", AttrKind::integers, "[]", dilation_doc},
    {"groups", AttrKind::integer, "1", groups_doc}};
constexpr AttrDef conv_transpose_attrs[] = {
    {"strides", AttrKind::integers, "[]", strides_doc},
    {"padding", AttrKind::integers, "[]",
     "what the convolution that this one transposes pads, [low0,high0,low1,high1,..]: so many elements are left out at the ends "
     "of the result; empty: none"},
    {"output_padding", AttrKind::integers, "[]", "elements added behind the last of the result, a spatial axis; empty: none"},
    {"dilation", AttrKind::integers, "[]", dilation_doc},
    {"groups", AttrKind::integer, "1", groups_doc}};

// --- inference ------------------------------------------------------------------------------------------------------

// Attributes in range, and as many entries as there are spatial axes.
Result<void> check_attributes(const Call& c) {
    const size_t spatial = c.type(0).rank() - 2;
    TRY(infer::per_axis(c, "strides", spatial, 1));
    TRY(infer::per_axis(c, "dilation", spatial, 1));
    TRY(infer::per_axis(c, "padding", 2 * spatial, -infer::max_extent));
    const int64_t groups = c.integer("groups");
    if (groups < 1 || groups > infer::max_extent)
        return c.error(fmt::format("groups out of range: got {}, expected 1 to {}", groups, infer::max_extent));
    return {};
}

// x [N, C, ..] and w of one rank and dtype, and b with one entry for each of `channels`.
Result<void> check_operands(const Call& c, std::string_view w_layout) {
    for (size_t i : {size_t{0}, size_t{1}}) TRY(infer::dtype(c, i, Accept::floats));
    TRY(infer::equal_dtypes(c, 0, 1));
    const size_t rank = c.type(0).rank();
    if (rank < 3)
        return c.error(
            fmt::format("{} has no spatial axes: expected [N, C, ..] with one spatial axis or more", infer::describe(c, 0)));
    if (c.type(1).rank() != rank)
        return c.error(fmt::format("wrong rank of {}: expected {} with as many spatial axes as {}", infer::describe(c, 1),
                                   w_layout, infer::describe(c, 0)));
    for (size_t axis = 2; axis < rank; ++axis) {
        const Dim& taps = c.type(1).dims[axis];
        if (!taps.is_constant() || taps.value() < 1)
            return c.error(fmt::format("extent of axis {} of {}: got {}, expected a known kernel size of at least 1", axis,
                                       infer::describe(c, 1), taps.text()));
    }
    return check_attributes(c);
}

// The channels of `operand` along `axis`, which groups part evenly; what of each lies in one group.
Result<Dim> in_group(const Call& c, size_t operand, size_t axis) {
    const Dim& channels = c.type(operand).dims[axis];
    if (const auto part = channels.exact_div(Dim(c.integer("groups")))) return *part;
    return c.error(fmt::format("{} channels of axis {} of {} do not part into groups={}", channels.text(), axis,
                               infer::describe(c, operand), c.integer("groups")));
}

Result<void> check_bias(const Call& c, const Dim& channels) {
    if (!c.has(2)) return {};
    TRY(infer::equal_dtypes(c, 0, 2));
    return infer::equal_dims(c, c.type(2).dims, {channels}, "shape of b, one entry an output channel");
}

// The number of windows along a spatial axis.
Result<Dim> windows(const Call& c, const ConvGeometry& g, size_t axis) {
    const Dim& extent = c.type(0).dims[2 + axis];
    const int64_t window = g.dilation[axis] * (c.type(1).dims[2 + axis].value() - 1) + 1;
    const Dim padded = extent + Dim(low_padding(g, axis)) + Dim(high_padding(g, axis));
    if (!padded.is_constant()) {
        if (g.strides[axis] == 1) return padded - Dim(window - 1);
        Error error = c.error(
            fmt::format("a stride of {} needs a known extent: got {} on axis {}", g.strides[axis], extent.text(), 2 + axis));
        error.hint = "bind the symbols first";
        return error;
    }
    if (padded.value() > infer::max_extent)
        return c.error(fmt::format("padded extent of axis {} is too large: got {}, expected at most {}", 2 + axis, padded.value(),
                                   infer::max_extent));
    if (padded.value() < window)
        return c.error(fmt::format("the kernel does not fit axis {} of {}: it spans {} elements, with padding there are {}",
                                   2 + axis, infer::describe(c, 0), window, padded.value()));
    return Dim((padded.value() - window) / g.strides[axis] + 1);
}

Result<Type> infer_conv(const Call& c) {
    TRY(check_operands(c, "[O, C / groups, ..]"));
    TRY(const Dim channels, in_group(c, 0, 1));
    TRY(infer::equal_dim(
        c, c.type(1).dims[1], channels,
        fmt::format("input channels a group of {} do not fit {}", infer::describe(c, 1), infer::describe(c, 0))));
    TRY(in_group(c, 1, 0));
    TRY(check_bias(c, c.type(1).dims[0]));
    const ConvGeometry g = conv_geometry(c, c.type(0).rank() - 2);
    Dims dims = {c.type(0).dims[0], c.type(1).dims[0]};
    for (size_t axis = 0; axis + 2 < c.type(0).rank(); ++axis) {
        TRY(Dim extent, windows(c, g, axis));
        dims.push_back(std::move(extent));
    }
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

Result<Type> infer_conv_transpose(const Call& c) {
    TRY(check_operands(c, "[C, O / groups, ..]"));
    TRY(in_group(c, 0, 1));
    TRY(infer::equal_dim(c, c.type(1).dims[0], c.type(0).dims[1],
                         fmt::format("input channels of {} and {} differ", infer::describe(c, 1), infer::describe(c, 0))));
    const Dim channels = c.type(1).dims[1] * Dim(c.integer("groups"));
    TRY(check_bias(c, channels));
    const size_t spatial = c.type(0).rank() - 2;
    TRY(infer::per_axis(c, "output_padding", spatial, 0));
    const ConvGeometry g = conv_geometry(c, spatial);
    const auto& more = c.integers("output_padding");
    Dims dims = {c.type(0).dims[0], channels};
    for (size_t axis = 0; axis < spatial; ++axis) {
        const int64_t added = more.empty() ? 0 : more[axis];
        if (added > 0 && added >= std::max(g.strides[axis], g.dilation[axis]))
            return c.error(fmt::format("output_padding must be below the stride or the dilation: got {} with {} and {}", added,
                                       g.strides[axis], g.dilation[axis]));
        const Dim extent = (c.type(0).dims[2 + axis] - 1) * Dim(g.strides[axis]) + Dim(1 + added) +
                           Dim(g.dilation[axis]) * (c.type(1).dims[2 + axis] - 1) - Dim(low_padding(g, axis)) -
                           Dim(high_padding(g, axis));
        if (extent.is_constant() && (extent.value() < 1 || extent.value() > infer::max_extent))
            return c.error(fmt::format("extent of axis {} of the result is {}, expected 1 to {}", 2 + axis, extent.value(),
                                       infer::max_extent));
        dims.push_back(extent);
    }
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

// --- reference ------------------------------------------------------------------------------------------------------

Tensor eval_conv(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor &x = *operands[0], &w = *operands[1];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    if (y.count() == 0) return y;
    const size_t spatial = y.dims.size() - 2;
    const ConvGeometry g = conv_geometry(c, spatial);
    const std::vector<int64_t> out(y.dims.begin() + 2, y.dims.end()), taps(w.dims.begin() + 2, w.dims.end());
    const auto product = [](const std::vector<int64_t>& v) {
        return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<int64_t>());
    };
    const auto in_strides = row_major_strides(x.dims);
    const int64_t out_count = product(out), tap_count = product(taps), channels = w.dims[1], outputs = w.dims[0] / g.groups;
    std::vector<int64_t> i(spatial, 0);
    for (int64_t position = 0; position < out_count; ++position, next_index(out, i)) {
        // Taps within x, and where they land in a channel of it.
        std::vector<std::pair<int64_t, int64_t>> inside;
        std::vector<int64_t> t(spatial, 0);
        for (int64_t tap = 0; tap < tap_count; ++tap, next_index(taps, t)) {
            int64_t at = 0;
            bool within = true;
            for (size_t axis = 0; axis < spatial; ++axis) {
                const int64_t p = i[axis] * g.strides[axis] + t[axis] * g.dilation[axis] - low_padding(g, axis);
                within = within && p >= 0 && p < x.dims[2 + axis];
                at += p * in_strides[2 + axis];
            }
            if (within) inside.emplace_back(tap, at);
        }
        for (int64_t n = 0; n < y.dims[0]; ++n)
            for (int64_t o = 0; o < w.dims[0]; ++o) {
                double sum = 0;
                for (int64_t channel = 0; channel < channels; ++channel) {
                    const int64_t from = n * in_strides[0] + (o / outputs * channels + channel) * in_strides[1];
                    for (const auto& [tap, at] : inside)
                        sum += x.real[from + at] * w.real[(o * channels + channel) * tap_count + tap];
                }
                y.real[(n * w.dims[0] + o) * out_count + position] = sum + (c.has(2) ? operands[2]->real[o] : 0);
            }
    }
    return y;
}

// --- gradient -------------------------------------------------------------------------------------------------------

Value conv_vjp(const BuildCall& c, size_t operand, Value dy) {
    const ConvGeometry g = conv_geometry(c, c.out->rank() - 2);
    if (operand == 2) return sum(dy, to_integers(other_axes(c.out->rank(), {1})));
    if (!has_known_extents(c)) return {};
    return operand == 0 ? conv_transpose_data(dy, c.operand(1), c.type(0).dims, g)
                        : conv_transpose_weight(c.operand(0), dy, c.type(1).dims, g);
}

Value conv_jvp(const BuildCall& c, std::span<const Value> tangents) {
    const ConvGeometry g = conv_geometry(c, c.out->rank() - 2);
    Value total;
    const auto also = [&](Value term) { total = total.valid() ? add(total, term) : term; };
    if (tangents[0].valid()) also(conv(tangents[0], c.operand(1), {}, g));
    if (tangents[1].valid()) also(conv(c.operand(0), tangents[1], {}, g));
    if (c.has(2) && tangents[2].valid()) also(broadcast(tangents[2], c.out->dims, {1}));
    return total;
}

// --- lowering -------------------------------------------------------------------------------------------------------

// Taps outside channels where the result is the larger plane: what only depends on taps and places, tests for the edges among it,
// then stands before the loop over channels. In a weight gradient the "taps" are the plane, and run along memory innermost.
bool taps_outside(const Call& c) {
    int64_t places = 1, taps = 1;
    for (size_t axis = 2; axis < c.out->rank(); ++axis) {
        places *= c.out->dims[axis].value();
        taps *= c.type(1).dims[axis].value();
    }
    return places >= taps;
}

ContractSpace conv_space(const Call& c) {
    const int64_t groups = c.integer("groups");
    const std::vector<int64_t> x = c.type(0).shape(), w = c.type(1).shape(), y = c.out->shape();
    ContractSpace space{{groups}, {w[0] / groups}, y, {}};
    space.n.erase(space.n.begin() + 1);
    space.k.assign(w.begin() + 2, w.end());
    space.k.insert(taps_outside(c) ? space.k.end() : space.k.begin(), w[1]);
    if (c.type(0).count() == 0) space.k.assign(space.k.size(), 0);  // padding alone: sums of nothing
    return space;
}

Expr read_conv(const Call& c, kir::Builder& b, size_t operand, ContractIndex batch, ContractIndex side, ContractIndex k,
               std::vector<Expr>& index) {
    const size_t spatial = c.out->rank() - 2;
    const bool outside = taps_outside(c);
    const ContractIndex taps = k.subspan(outside ? 0 : 1, spatial);
    const Expr channel = outside ? k.back() : k.front();
    const auto x = c.type(0).shape(), w = c.type(1).shape(), y = c.out->shape();
    const auto word = [](int64_t v) { return static_cast<uint32_t>(v); };
    if (operand == 1) {
        index = {batch[0] * word(w[0] / c.integer("groups")) + side[0], channel};
        index.insert(index.end(), taps.begin(), taps.end());
        return {};
    }
    const ConvGeometry g = conv_geometry(c, spatial);
    index = {side[0], batch[0] * word(w[1]) + channel};
    Expr inside;
    for (size_t axis = 0; axis < spatial; ++axis) {
        const int64_t low = low_padding(g, axis), extent = x[2 + axis];
        const int64_t last = (y[2 + axis] - 1) * g.strides[axis] + (w[2 + axis] - 1) * g.dilation[axis] - low;
        const Expr padded = side[1 + axis] * word(g.strides[axis]) + taps[axis] * word(g.dilation[axis]);
        // Below zero wraps to the top, so one comparison tests both ends; the index itself does not wrap, so that what a
        // workgroup touches stays known (kir/ranges.h).
        const Expr position = low > 0 ? padded - word(low) : padded + word(-low);
        if (low > 0 || last >= extent) {
            const Expr test = position < word(extent);
            inside = inside.valid() ? inside & test : test;
        }
        const Expr within = low > 0 ? b.max(padded, b.u32(word(low))) - word(low) : position;
        index.push_back(last >= extent ? b.min(within, b.u32(word(extent - 1))) : b.assume_max(within, word(extent - 1)));
    }
    return inside;
}

void write_conv(const Call& c, ContractIndex batch, ContractIndex m, ContractIndex n, std::vector<Expr>& index) {
    const int64_t outputs = c.out->dims[1].value() / c.integer("groups");
    index = {n[0], batch[0] * static_cast<uint32_t>(outputs) + m[0]};
    index.insert(index.end(), n.begin() + 1, n.end());
}

// Input channels [first, end) of each group, of x (groups along axis 1) or of w (its axis 1 is one group's).
Value channels_of(Value v, int64_t groups, int64_t first, int64_t end) {
    Dims dims = v.dims(), cut = dims;
    const Dim all = *dims[1].exact_div(Dim(groups));
    dims[1] = all;
    dims.insert(dims.begin() + 1, Dim(groups));
    cut[1] = Dim(groups * (end - first));
    std::vector<int64_t> start(dims.size(), 0), stop(dims.size(), slice_end);
    start[2] = first;
    stop[2] = end;
    return reshape(slice(reshape(v, dims), start, stop), cut);
}

// More groups, each with a piece of the channels, summed: w[g o, p c, t] -> w[g p o, c, t].
Value sum_of_groups(const BuildCall& c, Value x, Value w, int64_t pieces) {
    ConvGeometry g = conv_geometry(c, c.out->rank() - 2);
    const Dim groups = g.groups, outputs = *w.dims()[0].exact_div(groups), channels = *w.dims()[1].exact_div(Dim(pieces));
    Dims apart = {groups, outputs, Dim(pieces), channels}, joined = {groups * Dim(pieces) * outputs, channels};
    std::vector<int64_t> perm = {0, 2, 1, 3};
    for (size_t axis = 2; axis < w.rank(); ++axis) {
        apart.push_back(w.dims()[axis]);
        joined.push_back(w.dims()[axis]);
        perm.push_back(static_cast<int64_t>(axis) + 2);
    }
    g.groups *= pieces;
    Dims parts = c.out->dims;
    parts[1] = outputs;
    parts.insert(parts.begin() + 1, {groups, Dim(pieces)});
    const Value all = conv(x, reshape(transpose(reshape(w, apart), perm), joined), {}, g);
    return reshape(sum(reshape(all, parts), {2}), c.out->dims);
}

// Taps [first, end) along a spatial axis, over the part of x that they reach.
Value over_taps(const BuildCall& c, size_t axis, int64_t first, int64_t end, bool dense) {
    ConvGeometry g = conv_geometry(c, c.out->rank() - 2);
    const int64_t extent = c.type(0).dims[2 + axis].value(), windows = c.out->dims[2 + axis].value();
    const int64_t begin = first * g.dilation[axis] - low_padding(g, axis),
                  behind = (windows - 1) * g.strides[axis] + (end - 1) * g.dilation[axis] - low_padding(g, axis) + 1;
    const int64_t from = std::clamp<int64_t>(begin, 0, extent), to = std::clamp<int64_t>(behind, from, extent);
    const auto part = [&](Value v, int64_t low, int64_t high) {
        std::vector<int64_t> start(v.rank(), 0), stop(v.rank(), slice_end);
        start[2 + axis] = low;
        stop[2 + axis] = high;
        const Value cut = slice(v, start, stop);
        return dense ? materialize(cut) : cut;
    };
    g.padding[2 * axis] = from - begin;
    g.padding[2 * axis + 1] = behind - to;
    return conv(part(c.operand(0), from, to), part(c.operand(1), first, end), {}, g);
}

// The spatial axis with most taps.
size_t longest_taps(const Call& c) {
    size_t longest = 2;
    for (size_t axis = 3; axis < c.type(1).rank(); ++axis)
        if (c.type(1).dims[axis].value() > c.type(1).dims[longest].value()) longest = axis;
    return longest - 2;
}

Value split_conv(const BuildCall& c, int64_t pieces) {
    const Value x = c.operand(0), w = c.operand(1);
    const int64_t groups = c.integer("groups"), channels = c.type(1).dims[1].value();
    if (channels >= pieces) {
        pieces = even_pieces(channels, pieces);
        const int64_t length = channels / pieces, whole = length * pieces;
        if (whole == channels) return sum_of_groups(c, x, w, pieces);
        const Value most = sum_of_groups(c, channels_of(x, groups, 0, whole), channels_of(w, 1, 0, whole), pieces);
        return add(most, conv(channels_of(x, groups, whole, channels), channels_of(w, 1, whole, channels), {},
                              conv_geometry(c, c.out->rank() - 2)));
    }
    const size_t axis = longest_taps(c);
    const int64_t taps = c.type(1).dims[2 + axis].value();
    if (taps < pieces) return {};
    std::vector<Value> parts;
    Dims dims = c.out->dims;
    dims.insert(dims.begin(), 1);
    for (int64_t piece = 0; piece < pieces; ++piece)
        parts.push_back(reshape(over_taps(c, axis, taps * piece / pieces, taps * (piece + 1) / pieces, false), dims));
    return sum(concat(parts, 0), {0});
}

Value halve_conv(const BuildCall& c) {
    const int64_t groups = c.integer("groups"), channels = c.type(1).dims[1].value();
    const ConvGeometry g = conv_geometry(c, c.out->rank() - 2);
    if (channels > 1) {
        const auto half = [&](int64_t first, int64_t end) {
            return conv(materialize(channels_of(c.operand(0), groups, first, end)),
                        materialize(channels_of(c.operand(1), 1, first, end)), {}, g);
        };
        return add(half(0, channels / 2), half(channels / 2, channels));
    }
    const size_t axis = longest_taps(c);
    const int64_t taps = c.type(1).dims[2 + axis].value();
    if (taps < 2) return {};
    return add(over_taps(c, axis, 0, taps / 2, true), over_taps(c, axis, taps / 2, taps, true));
}

// y + b, one entry of b for each channel.
Value add_channels(Value y, Value b) { return add(y, broadcast(b, y.dims(), {1})); }

Value expand_conv(const BuildCall& c) {
    return add_channels(conv(c.operand(0), c.operand(1), {}, conv_geometry(c, c.out->rank() - 2)), c.operand(2));
}

Value expand_conv_transpose(const BuildCall& c) {
    if (!has_known_extents(c)) return {};
    const Value y = conv_transpose_data(c.operand(0), c.operand(1), c.out->dims, conv_geometry(c, c.out->rank() - 2));
    return c.has(2) ? add_channels(y, c.operand(2)) : y;
}

constexpr OpDef defs[] = {
    {.name = "conv",
     .doc = "y[n, o, i] = b[o] + the sum over the channels c of o's group and the taps t of x[n, c, i stride + t dilation - low] "
            "w[o, c, t], with zeros outside x; x is [N, C, ..], w [O, C / groups, ..], b may be left out.",
     .operands = conv_operands,
     .attrs = conv_attrs,
     .infer = infer_conv,
     .ref = TensorRef{eval_conv},
     .grad = CustomGrad{conv_vjp, conv_jvp},
     .batch = Batch::shift_axes,
     .lower = ContractLower{1, 0, conv_space, read_conv, write_conv, split_conv, halve_conv, expand_conv},
     .onnx = "Conv"},
    {.name = "conv_transpose",
     .doc = "y = the transpose of a convolution with the same attributes, applied to x: each x[n, c, i] adds w[c, o, t] times "
            "itself to y[n, o, i stride + t dilation - low], and b[o] is added; x is [N, C, ..], w [C, O / groups, ..], b may "
            "be left out.",
     .operands = conv_operands,
     .attrs = conv_transpose_attrs,
     .infer = infer_conv_transpose,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_conv_transpose},
     .onnx = "ConvTranspose"},
};

}  // namespace

ConvGeometry conv_geometry(const Call& c, size_t spatial) {
    const auto or_else = [](std::vector<int64_t> given, size_t count, int64_t value) {
        return given.empty() ? std::vector<int64_t>(count, value) : given;
    };
    return {or_else(c.integers("strides"), spatial, 1), or_else(c.integers("padding"), 2 * spatial, 0),
            or_else(c.integers("dilation"), spatial, 1), c.integer("groups")};
}

std::span<const OpDef> conv_ops() { return defs; }

}  // namespace darner
