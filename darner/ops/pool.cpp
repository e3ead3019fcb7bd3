// SPDX-License-Identifier: MIT
// Pooling over the last axes of x: max_pool, avg_pool and their adaptive forms. Composites: padding, windows as a view
// (unfold), a reduction over each window. Forward is one kernel that reads x in place, and so is the gradient, in which each
// element of x asks the few windows that cover it. Elements of a window that tie for the maximum share its gradient evenly.
#include "darner/ops/families.h"
#include "darner/ops/unfold.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr AttrDef window_attr = {"window", AttrKind::integers, "", "extents of the window, one for each of the last axes of x"};
constexpr AttrDef strides_attr = {"strides", AttrKind::integers, "[]",
                                  "distance between neighbouring windows, an axis; empty: the window's extents"};
constexpr AttrDef padding_attr = {"padding", AttrKind::integers, "[]",
                                  "[lo0,hi0,lo1,hi1,..]: elements added before and behind each axis; empty: none"};
constexpr AttrDef dilation_attr = {"dilation", AttrKind::integers, "[]",
                                   "distance between neighbouring elements of a window, an axis; empty: 1"};
constexpr AttrDef ceil_attr = {"ceil_mode", AttrKind::boolean, "false",
                               "a last window that starts inside x or before it counts even if it ends outside"};
constexpr AttrDef max_pool_attrs[] = {window_attr, strides_attr, padding_attr, dilation_attr, ceil_attr};
constexpr AttrDef avg_pool_attrs[] = {
    window_attr,  strides_attr,
    padding_attr, dilation_attr,
    ceil_attr,    {"count_include_pad", AttrKind::boolean, "true", "padding counts as zeros, instead of not at all"}};
constexpr AttrDef adaptive_attrs[] = {
    {"output_size", AttrKind::integers, "", "extents of the result, one for each of the last axes of x"}};

// The windows along one axis: window w starts at floor(w step / divisor) - low.
struct PoolAxis {
    int64_t extent = 0, low = 0, high = 0;  // of x, and the padding around it
    int64_t window = 1, step = 1, divisor = 1, dilation = 1;
    int64_t count = 0;

    int64_t span() const { return (window - 1) * dilation + 1; }
    int64_t start(int64_t w) const { return w * step / divisor; }
    // Elements of a window, where windows are not all equally long.
    int64_t length(int64_t w) const { return (w * step % divisor + step + divisor - 1) / divisor; }
    // Elements of a window that an average divides by; 1 for none.
    int64_t elements(int64_t w, bool include_padding) const {
        if (divisor > 1) return length(w);
        const auto before = [&](int64_t end) {
            return std::clamp<int64_t>((end - start(w) + dilation - 1) / dilation, 0, window);
        };
        const int64_t from = include_padding ? 0 : low, to = low + extent + (include_padding ? high : 0);
        return std::max<int64_t>(1, before(to) - before(from));
    }
    // Padding up to the end of the last window, which with ceil_mode may be more than `high` and else may be less.
    int64_t reach() const { return std::max<int64_t>(0, start(count - 1) + span() - low - extent); }
};

size_t first_axis(const Call& c, size_t count) { return c.type(0).rank() - count; }

Result<std::vector<int64_t>> pooled_extents(const Call& c, std::string_view attr) {
    const auto& sizes = c.integers(attr);
    const size_t rank = c.type(0).rank();
    if (sizes.empty() || sizes.size() > rank)
        return c.error(
            fmt::format("{} needs an entry for each of the last axes of {}: got {}", attr, infer::describe(c, 0), sizes.size()));
    TRY(infer::per_axis(c, attr, sizes.size(), 1));
    std::vector<int64_t> extents;
    for (size_t a = rank - sizes.size(); a < rank; ++a) {
        const Dim& extent = c.type(0).dims[a];
        if (!extent.is_constant())
            return c.error(fmt::format("axis {} of {} must be known (bind the symbols first)", a, infer::describe(c, 0)));
        if (extent.value() == 0) return c.error(fmt::format("axis {} of {} is empty", a, infer::describe(c, 0)));
        extents.push_back(extent.value());
    }
    return extents;
}

// As inference has checked them.
std::vector<PoolAxis> pool_axes(const Call& c, std::span<const int64_t> extents) {
    const auto &window = c.integers("window"), &strides = c.integers("strides"), &padding = c.integers("padding"),
               &dilation = c.integers("dilation");
    std::vector<PoolAxis> axes(extents.size());
    for (size_t i = 0; i < axes.size(); ++i) {
        PoolAxis& a = axes[i];
        a = {.extent = extents[i], .window = window[i], .step = strides.empty() ? window[i] : strides[i]};
        if (!padding.empty()) a.low = padding[2 * i], a.high = padding[2 * i + 1];
        if (!dilation.empty()) a.dilation = dilation[i];
        const int64_t room = a.low + a.extent + a.high - a.span();
        const bool ceil = c.boolean("ceil_mode");
        const int64_t steps = room + (ceil ? a.step - 1 : 0);
        a.count = steps < 0 ? 0 : steps / a.step + 1;
        if (ceil && a.count > 0 && (a.count - 1) * a.step >= a.low + a.extent) --a.count;
    }
    return axes;
}

template <Accept accept>
Result<Type> infer_pool(const Call& c) {
    TRY(infer::dtype(c, 0, accept));
    TRY(const auto extents, pooled_extents(c, "window"));
    const size_t count = extents.size();
    TRY(infer::per_axis(c, "strides", count, 1));
    TRY(infer::per_axis(c, "dilation", count, 1));
    const auto &window = c.integers("window"), &padding = c.integers("padding"), &dilation = c.integers("dilation");
    if (!padding.empty() && padding.size() != 2 * count)
        return c.error(fmt::format("padding needs two entries for each of window: got {} and {}", padding.size(), count));
    for (size_t i = 0; i < count; ++i) {
        const int64_t apart = dilation.empty() ? 1 : dilation[i], reach = (window[i] - 1) * apart;
        if (reach >= infer::max_extent)
            return c.error(fmt::format("a window of {} elements {} apart is too long", window[i], apart));
        for (size_t side = 2 * i; side < 2 * i + 2 && !padding.empty(); ++side)
            if (padding[side] < 0 || padding[side] > reach)
                return c.error(
                    fmt::format("padding must be less than the window's reach of {}: got {}", reach + 1, padding[side]));
    }
    Dims dims = c.type(0).dims;
    const std::vector<PoolAxis> axes = pool_axes(c, extents);
    for (size_t i = 0; i < count; ++i) {
        const PoolAxis& a = axes[i];
        const size_t at = first_axis(c, count) + i;
        if (a.count < 1)
            return c.error(fmt::format("axis {} of {} is too short: with padding it has {} elements, a window reaches over {}",
                                       at, infer::describe(c, 0), a.low + a.extent + a.high, a.span()));
        if (a.low + a.extent + a.high + a.span() > infer::max_extent)
            return c.error(fmt::format("axis {} of {} is too long to be padded", at, infer::describe(c, 0)));
        dims[at] = a.count;
    }
    return c.type(0).with(std::move(dims));
}

// Window w of m over n elements reaches from floor(w n / m) to ceil((w + 1) n / m). The longest is the one where w n leaves the
// largest remainder.
std::vector<PoolAxis> adaptive_axes(const Call& c, std::span<const int64_t> extents) {
    std::vector<PoolAxis> axes;
    for (size_t i = 0; i < extents.size(); ++i) {
        const int64_t n = extents[i], m = c.integers("output_size")[i], g = std::gcd(n, m);
        axes.push_back({.extent = n, .window = (n - g + 2 * m - 1) / m, .step = n / g, .divisor = m / g, .count = m});
    }
    return axes;
}

template <Accept accept>
Result<Type> infer_adaptive(const Call& c) {
    TRY(infer::dtype(c, 0, accept));
    TRY(const auto extents, pooled_extents(c, "output_size"));
    Dims dims = c.type(0).dims;
    const std::vector<PoolAxis> axes = adaptive_axes(c, extents);
    for (size_t i = 0; i < axes.size(); ++i) {
        const PoolAxis& a = axes[i];
        const size_t at = first_axis(c, axes.size()) + i;
        // Kernels find windows in 32 bits.
        if ((a.extent + a.window) > infer::max_extent / a.divisor)
            return c.error(fmt::format("axis {} of {} is too long for an output_size of {}", at, infer::describe(c, 0), a.count));
        dims[at] = a.count;
    }
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

// --- expansions -----------------------------------------------------------------------------------------------------

std::vector<int64_t> extents_of(const Call& c, size_t count) {
    std::vector<int64_t> extents;
    for (size_t a = first_axis(c, count); a < c.type(0).rank(); ++a) extents.push_back(c.type(0).dims[a].value());
    return extents;
}

struct PoolWindows {
    size_t first = 0;                // of the pooled axes of x
    std::vector<int64_t> low, high;  // padding an axis of x
    std::vector<int64_t> axes, sizes, lengths, inner;
    WindowOptions options;
    bool padded = false;
};

PoolWindows windows_along(size_t rank, std::span<const PoolAxis> axes) {
    PoolWindows w{rank - axes.size(), std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
    for (size_t i = 0; i < axes.size(); ++i) {
        const PoolAxis& a = axes[i];
        w.low[w.first + i] = a.low;
        w.high[w.first + i] = a.reach();
        w.padded = w.padded || a.low > 0 || a.reach() > 0;
        w.axes.push_back(static_cast<int64_t>(w.first + i));
        w.sizes.push_back(a.window);
        w.lengths.push_back(a.low + a.extent + a.reach());
        w.inner.push_back(static_cast<int64_t>(rank + i));
        w.options.steps.push_back(a.step);
        w.options.dilations.push_back(a.dilation);
        w.options.divisors.push_back(a.divisor);
    }
    return w;
}

// Windows as long as the longest, with `fill` in place of what a shorter one does not have.
Value shortened(Value shown, std::span<const PoolAxis> axes, const PoolWindows& along, double fill) {
    for (size_t i = 0; i < axes.size() && shown.valid(); ++i) {
        const PoolAxis& a = axes[i];
        if (a.divisor == 1) continue;  // all are equally long
        Tensor inside = Tensor::zeros(DType::boolean, {a.count, a.window});
        for (int64_t w = 0; w < a.count; ++w)
            for (int64_t t = 0; t < a.length(w); ++t) inside.integer[w * a.window + t] = 1;
        const Value mask = shown.builder->constant(std::move(inside));
        shown = select(broadcast(mask, shown.dims(), {along.axes[i], along.inner[i]}), shown, splat(shown, fill));
    }
    return shown;
}

// The windows of x, one axis of their elements for each pooled axis at the end; `fill` where a window has fewer.
Value windows(Value x, std::span<const PoolAxis> axes, double fill) {
    const PoolWindows along = windows_along(x.rank(), axes);
    const Value padded = along.padded ? pad(x, along.low, along.high, {}, fill) : x;
    return shortened(unfold(padded, along.axes, along.sizes, along.options), axes, along, fill);
}

// A value for each window shown to each of its elements.
Value over_windows(Value v, std::span<const PoolAxis> axes) {
    Dims dims = v.dims();
    std::vector<int64_t> kept(dims.size());
    std::iota(kept.begin(), kept.end(), int64_t{0});
    for (const PoolAxis& a : axes) dims.push_back(a.window);
    return broadcast(v, dims, kept);
}

double least_of(DType dtype) {
    return is_float(dtype) ? -std::numeric_limits<double>::infinity() : static_cast<double>(saturate_to(dtype, -1e30));
}

Value expand_max(const BuildCall& c, std::span<const PoolAxis> axes) {
    const Value x = c.operand(0);
    return max(windows(x, axes, least_of(x.dtype())), windows_along(x.rank(), axes).inner);
}

// Where the windows have their maximum, and how many such places each has.
struct Hits {
    Value at, count;
};
Hits hits_of(const BuildCall& c, std::span<const PoolAxis> axes) {
    const Value x = c.operand(0), at = eq(windows(x, axes, least_of(x.dtype())), over_windows(c.value(), axes));
    return {at, sum(cast(at, widen(x).dtype()), windows_along(x.rank(), axes).inner)};
}

// Each element of x compares itself with the maxima of the windows that cover it, so no window is stored.
Value max_vjp(const BuildCall& c, std::span<const PoolAxis> axes, Value dy) {
    const Value x = c.operand(0);
    const PoolWindows along = windows_along(x.rank(), axes);
    const Value share = over_windows(div(widen(dy), hits_of(c, axes).count), axes);
    std::vector<int64_t> stop;
    for (size_t i = 0; i < x.rank(); ++i) stop.push_back(along.high[i] == 0 ? slice_end : -along.high[i]);
    const auto over_places = [&](Value v) {
        const Value terms = fold_terms(v, along.axes, along.lengths, along.options);
        if (!along.padded || !terms.valid()) return terms;
        std::vector<int64_t> from = along.low, to = stop;
        from.resize(terms.rank(), 0);
        to.resize(terms.rank(), slice_end);
        return slice(terms, from, to);
    };
    const Value parts[] = {over_places(over_windows(c.value(), axes)), over_places(shortened(share, axes, along, 0))};
    std::vector<int64_t> places(x.rank());
    std::iota(places.begin(), places.end(), int64_t{0});
    const Value dx = sum_terms(parts, x.rank(), [&](std::span<const Value> part) {
        const Value own = broadcast(x, part[0].dims(), places);
        return select(eq(own, part[0]), part[1], splat(part[1], 0));
    });
    return narrow(dx, x.dtype());
}

Value max_jvp(const BuildCall& c, std::span<const PoolAxis> axes, Value tangent) {
    if (!tangent.valid()) return {};
    const auto [at, count] = hits_of(c, axes);
    const Value t = windows(widen(tangent), axes, 0);
    const Value total = sum(select(at, t, splat(t, 0)), windows_along(tangent.rank(), axes).inner);
    return narrow(div(total, count), tangent.dtype());
}

// sum / the number of elements that count. Along axes where that is the same for all windows it is a number now.
Value expand_avg(const BuildCall& c, std::span<const PoolAxis> axes, bool include_padding) {
    const Value x = widen(c.operand(0));
    Value y = sum(windows(x, axes, 0), windows_along(x.rank(), axes).inner);
    double same = 1;
    for (size_t i = 0; i < axes.size() && y.valid(); ++i) {
        const PoolAxis& a = axes[i];
        std::vector<int64_t> counts;
        for (int64_t w = 0; w < a.count; ++w) counts.push_back(a.elements(w, include_padding));
        if (std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == counts[0]; })) {
            same *= static_cast<double>(counts[0]);
            continue;
        }
        const Value divisor = c.builder->constant(Tensor::of(y.dtype(), {a.count}, {counts.begin(), counts.end()}));
        y = div(y, broadcast(divisor, y.dims(), {static_cast<int64_t>(y.rank() - axes.size() + i)}));
    }
    return narrow(same == 1 ? y : y / same, c.out->dtype);
}

std::vector<PoolAxis> pool_axes(const Call& c) { return pool_axes(c, extents_of(c, c.integers("window").size())); }
std::vector<PoolAxis> adaptive_axes(const Call& c) { return adaptive_axes(c, extents_of(c, c.integers("output_size").size())); }

constexpr OpDef defs[] = {
    {.name = "max_pool",
     .doc = "y = the largest element of x in each window over its last axes; padding is below every element. The gradient is "
            "shared evenly among equals.",
     .operands = x_operand,
     .attrs = max_pool_attrs,
     .infer = infer_pool<Accept::numbers>,
     .grad =
         CustomGrad{[](const BuildCall& c, size_t, Value dy) { return max_vjp(c, pool_axes(c), dy); },
                    [](const BuildCall& c, std::span<const Value> tangents) { return max_jvp(c, pool_axes(c), tangents[0]); }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return expand_max(c, pool_axes(c)); }},
     .onnx = "MaxPool"},
    {.name = "avg_pool",
     .doc = "y = the mean of x in each window over its last axes; what lies beyond the padding never counts, and a window that "
            "has no element is 0.",
     .operands = x_operand,
     .attrs = avg_pool_attrs,
     .infer = infer_pool<Accept::floats>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return expand_avg(c, pool_axes(c), c.boolean("count_include_pad")); }},
     .onnx = "AveragePool"},
    {.name = "adaptive_max_pool",
     .doc = "y = the largest element of x in windows that divide its last axes into output_size parts: window w of m over n "
            "elements reaches from floor(w n / m) to ceil((w + 1) n / m). The gradient is shared evenly among equals.",
     .operands = x_operand,
     .attrs = adaptive_attrs,
     .infer = infer_adaptive<Accept::numbers>,
     .grad = CustomGrad{
         [](const BuildCall& c, size_t, Value dy) { return max_vjp(c, adaptive_axes(c), dy); },
         [](const BuildCall& c, std::span<const Value> tangents) { return max_jvp(c, adaptive_axes(c), tangents[0]); }},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return expand_max(c, adaptive_axes(c)); }}},
    {.name = "adaptive_avg_pool",
     .doc = "y = the mean of x in windows that divide its last axes into output_size parts: window w of m over n elements "
            "reaches from floor(w n / m) to ceil((w + 1) n / m).",
     .operands = x_operand,
     .attrs = adaptive_attrs,
     .infer = infer_adaptive<Accept::floats>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{[](const BuildCall& c) { return expand_avg(c, adaptive_axes(c), true); }}},
};

}  // namespace

std::span<const OpDef> pool_ops() { return defs; }

}  // namespace darner
