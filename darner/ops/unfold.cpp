// SPDX-License-Identifier: MIT
// Windows along axes: unfold shows them, fold adds them up where they came from. The two are each other's transpose. Nothing is
// scattered: fold asks, for each place, which windows cover it, and those are a stretch of neighbours (fold_terms lists them).
//
// Along one axis window w starts at floor(w step / divisor) and its element t is `dilation * t` further on. A divisor other than
// 1 makes windows that are spread evenly over an extent that their number does not divide: adaptive pooling.
#include "darner/ops/unfold.h"

#include "darner/ops/families.h"
#include "darner/ops/registers.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using Index = std::span<const Expr>;

// Up to this many terms are added one by one where the result is used; more are a reduction of their own.
constexpr int64_t max_inline_terms = 16;

constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef y_operand[] = {{"y"}};
constexpr AttrDef axes_attr = {"axes", AttrKind::integers, "", "the axes along which windows lie"};
constexpr AttrDef lengths_attr = {"lengths", AttrKind::integers, "", "the extents of those axes in the result"};
constexpr AttrDef steps_attr = {"steps", AttrKind::integers, "[]",
                                "distance between the starts of neighbouring windows, an axis; empty: 1"};
constexpr AttrDef dilations_attr = {"dilations", AttrKind::integers, "[]",
                                    "distance between neighbouring elements of a window, an axis; empty: 1"};
constexpr AttrDef divisors_attr = {"divisors", AttrKind::integers, "[]",
                                   "window w starts at floor(w step / divisor), an axis; empty: 1"};
constexpr AttrDef unfold_attrs[] = {
    axes_attr, {"sizes", AttrKind::integers, "", "elements of a window, an axis"}, steps_attr, dilations_attr, divisors_attr};
constexpr AttrDef fold_attrs[] = {axes_attr, lengths_attr, steps_attr, dilations_attr, divisors_attr};

// The windows along one axis.
struct Windows {
    size_t axis = 0;
    int64_t length = 0, size = 0, step = 1, dilation = 1, divisor = 1;

    int64_t span() const { return (size - 1) * dilation + 1; }
    int64_t start(int64_t window) const { return window * step / divisor; }
    // Those that end within the length.
    int64_t count() const { return length < span() ? 0 : ((length - span() + 1) * divisor + step - 1) / step; }
    int64_t last_at(int64_t place) const { return std::min(((place + 1) * divisor - 1) / step, count() - 1); }
    // How many may cover one place: those that start within a span of it.
    int64_t terms() const { return std::min((span() * divisor + step - 1) / step, count()); }
};

int64_t entry(const Call& c, std::string_view attr, size_t i) {
    const auto& values = c.integers(attr);
    return values.empty() ? 1 : values[i];
}

// `lengths` and `sizes`: from the attribute of that name, or the extents of operand 0 that stand there.
std::vector<Windows> windows_of(const Call& c, std::span<const int64_t> lengths, std::span<const int64_t> sizes) {
    std::vector<Windows> all;
    for (size_t i = 0; i < lengths.size(); ++i) {
        const size_t rank = c.type(0).rank() - (c.op->find_attr("lengths") != nullptr ? lengths.size() : 0);
        all.push_back({*normalize_axis(c.integers("axes")[i], rank), lengths[i], sizes[i], entry(c, "steps", i),
                       entry(c, "dilations", i), entry(c, "divisors", i)});
    }
    return all;
}

Result<void> check_windows(const Call& c, std::span<const Windows> all) {
    for (size_t i = 0; i < all.size(); ++i) {
        const Windows& w = all[i];
        int64_t reach = 0, scaled = 0;
        const bool fits = !__builtin_mul_overflow(w.size - 1, w.dilation, &reach) && reach < w.length;
        if (!fits)
            return c.error(fmt::format("a window does not fit along axis {}: {} elements {} apart, in an extent of {}", w.axis,
                                       w.size, w.dilation, w.length));
        // Kernels find windows in 32 bits.
        if (__builtin_mul_overflow(w.length, w.divisor, &scaled) || scaled > infer::max_extent)
            return c.error(fmt::format("axis {} is too long for a divisor of {}: {} times that is above {}", w.axis, w.divisor,
                                       w.length, infer::max_extent));
    }
    return {};
}

Result<void> check_attrs(const Call& c, size_t count) {
    for (const std::string_view attr : {"steps", "dilations", "divisors"}) TRY(infer::per_axis(c, attr, count, 1));
    return {};
}

Result<std::vector<int64_t>> known_extents(const Call& c, std::span<const size_t> axes) {
    std::vector<int64_t> extents;
    for (const size_t a : axes) {
        const Dim& extent = c.type(0).dims[a];
        if (!extent.is_constant())
            return c.error(fmt::format("axis {} of {} must be known (bind the symbols first)", a, infer::describe(c, 0)));
        extents.push_back(extent.value());
    }
    return extents;
}

// --- unfold ---------------------------------------------------------------------------------------------------------

std::vector<Windows> unfold_windows(const Call& c) {
    std::vector<int64_t> lengths;
    for (const int64_t a : c.integers("axes")) lengths.push_back(c.type(0).dims[*normalize_axis(a, c.type(0).rank())].value());
    return windows_of(c, lengths, c.integers("sizes"));
}

Result<Type> infer_unfold(const Call& c) {
    TRY(const auto axes, infer::axes(c, c.integers("axes"), c.type(0).rank()));
    const auto& sizes = c.integers("sizes");
    if (sizes.size() != axes.size())
        return c.error(fmt::format("sizes needs one entry for each of axes: got {} and {}", sizes.size(), axes.size()));
    TRY(infer::per_axis(c, "sizes", axes.size(), 1));
    TRY(check_attrs(c, axes.size()));
    TRY(const auto lengths, known_extents(c, axes));
    const std::vector<Windows> all = windows_of(c, lengths, sizes);
    TRY(check_windows(c, all));
    Dims dims = c.type(0).dims;
    for (const Windows& w : all) dims[w.axis] = w.count();
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

Tensor eval_unfold(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    Tensor y = Tensor::zeros(x.dtype, c.out->shape());
    if (y.count() == 0) return y;
    const auto all = unfold_windows(c);
    const auto strides = row_major_strides(x.dims);
    std::vector<int64_t> index(y.dims.size(), 0);
    int64_t at = 0;
    do {
        std::vector<int64_t> in(index.begin(), index.begin() + static_cast<ptrdiff_t>(x.dims.size()));
        for (size_t i = 0; i < all.size(); ++i)
            in[all[i].axis] = all[i].start(in[all[i].axis]) + index[x.dims.size() + i] * all[i].dilation;
        int64_t from = 0;
        for (size_t i = 0; i < in.size(); ++i) from += in[i] * strides[i];
        is_float(x.dtype) ? void(y.real[at++] = x.real[from]) : void(y.integer[at++] = x.integer[from]);
    } while (next_index(y.dims, index));
    return y;
}

void map_unfold(const Call& c, kir::Builder&, Index out, std::vector<Expr>& in) {
    const size_t rank = c.type(0).rank();
    in.assign(out.begin(), out.begin() + static_cast<ptrdiff_t>(rank));
    const auto all = unfold_windows(c);
    for (size_t i = 0; i < all.size(); ++i) {
        const Windows& w = all[i];
        const Expr start = out[w.axis] * static_cast<uint32_t>(w.step) / static_cast<uint32_t>(w.divisor);
        in[w.axis] = start + out[rank + i] * static_cast<uint32_t>(w.dilation);
    }
}

WindowOptions options_of(const Call& c) {
    return {.steps = c.integers("steps"), .dilations = c.integers("dilations"), .divisors = c.integers("divisors")};
}

Value unfold_back(const BuildCall& c, size_t, Value dy) {
    std::vector<int64_t> axes, lengths;
    for (const Windows& w : unfold_windows(c)) {
        axes.push_back(static_cast<int64_t>(w.axis));
        lengths.push_back(w.length);
    }
    return fold(dy, axes, lengths, options_of(c));
}

// --- fold_terms, fold -----------------------------------------------------------------------------------------------

size_t outer_rank(const Call& c) { return c.type(0).rank() - c.integers("axes").size(); }

std::vector<Windows> fold_windows(const Call& c) {
    std::vector<int64_t> sizes;
    for (size_t i = outer_rank(c); i < c.type(0).rank(); ++i) sizes.push_back(c.type(0).dims[i].value());
    return windows_of(c, c.integers("lengths"), sizes);
}

template <bool terms>
Result<Type> infer_fold(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::numbers));
    const auto& lengths = c.integers("lengths");
    const size_t count = c.integers("axes").size(), rank = c.type(0).rank();
    if (lengths.size() != count)
        return c.error(fmt::format("lengths needs one entry for each of axes: got {} and {}", lengths.size(), count));
    if (rank < 2 * count)
        return c.error(fmt::format("needs an axis of windows and one of their elements for each of axes: got {} and {} axes",
                                   infer::describe(c, 0), count));
    TRY(const auto axes, infer::axes(c, c.integers("axes"), rank - count));
    TRY(infer::per_axis(c, "lengths", count, 1));
    TRY(check_attrs(c, count));
    std::vector<size_t> inner;
    for (size_t i = rank - count; i < rank; ++i) inner.push_back(i);
    TRY(const auto sizes, known_extents(c, inner));
    for (const int64_t size : sizes)
        if (size == 0) return c.error("windows need an element: got " + infer::describe(c, 0));
    const std::vector<Windows> all = windows_of(c, lengths, sizes);
    TRY(check_windows(c, all));
    Dims dims(c.type(0).dims.begin(), c.type(0).dims.end() - static_cast<ptrdiff_t>(count));
    for (const Windows& w : all) {
        TRY(infer::equal_dim(
            c, dims[w.axis], Dim(w.count()),
            fmt::format("number of windows, axis {} of {}, in a length of {}", w.axis, infer::describe(c, 0), w.length)));
        dims[w.axis] = w.length;
    }
    if (terms)
        for (const Windows& w : all) dims.push_back(w.terms());
    TRY(infer::elements(c, dims));
    return c.type(0).with(std::move(dims));
}

Tensor eval_fold_terms(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& y = *operands[0];
    Tensor terms = Tensor::zeros(y.dtype, c.out->shape());
    if (terms.count() == 0) return terms;
    const auto all = fold_windows(c);
    const size_t outer = outer_rank(c);
    const auto strides = row_major_strides(y.dims);
    std::vector<int64_t> index(terms.dims.size(), 0);
    int64_t to = 0;
    do {
        std::vector<int64_t> in = index;
        bool covered = true;
        for (size_t i = 0; i < all.size() && covered; ++i) {
            const int64_t place = index[all[i].axis], window = all[i].last_at(place) - index[outer + i];
            const int64_t into = place - all[i].start(window);
            covered = window >= 0 && into < all[i].span() && into % all[i].dilation == 0;
            in[all[i].axis] = window;
            in[outer + i] = into / all[i].dilation;
        }
        int64_t from = 0;
        for (size_t i = 0; i < in.size(); ++i) from += in[i] * strides[i];
        if (covered) is_float(y.dtype) ? void(terms.real[to] = y.real[from]) : void(terms.integer[to] = y.integer[from]);
        ++to;
    } while (next_index(terms.dims, index));
    return terms;
}

Expr emit_fold_terms(const Call& c, kir::Builder& k, Index out, const Fetch& fetch) {
    const size_t outer = outer_rank(c);
    std::vector<Expr> index(out.begin(), out.end());
    const auto all = fold_windows(c);
    Expr covered = k.boolean(true);
    for (size_t i = 0; i < all.size(); ++i) {
        const Windows& w = all[i];
        const auto step = static_cast<uint32_t>(w.step), divisor = static_cast<uint32_t>(w.divisor);
        const auto dilation = static_cast<uint32_t>(w.dilation), last_window = static_cast<uint32_t>(w.count() - 1);
        const Expr place = out[w.axis];
        const Expr ahead = w.divisor == 1 ? place : (place + 1) * divisor - 1;
        const Expr last = k.min(ahead / step, k.u32(last_window));
        if (w.terms() > 1) covered = covered & (out[outer + i] <= last);
        const Expr window = k.min(last - out[outer + i], k.u32(last_window));  // wraps to a large number below the first
        const Expr into = place - window * step / divisor;
        covered = covered & (into < static_cast<uint32_t>(w.span()));
        if (w.dilation > 1) covered = covered & (into % dilation == 0);
        index[w.axis] = window;
        index[outer + i] = k.min(into / dilation, k.u32(static_cast<uint32_t>(w.size - 1)));
    }
    return k.select(covered, fetch(0, index), register_constant(k, c.out->dtype, 0));
}

// Element t of window w is term last_at(i) - w of place i = start(w) + t dilation.
Value fold_terms_back(const BuildCall& c, size_t, Value dy) {
    Builder& b = *c.builder;
    const auto all = fold_windows(c);
    if (all.empty()) return dy;  // a sum over no axes would be one over all
    const auto count = static_cast<int64_t>(all.size()), outer = static_cast<int64_t>(outer_rank(c));
    std::vector<int64_t> axes, sizes, terms;
    for (const Windows& w : all) {
        axes.push_back(static_cast<int64_t>(w.axis));
        sizes.push_back(w.size);
    }
    Value shown = unfold(dy, axes, sizes, options_of(c));  // [.., windows, .., terms, .., sizes, ..]
    for (int64_t i = 0; i < count; ++i) {
        const Windows& w = all[static_cast<size_t>(i)];
        const Type type = i32({w.count(), w.terms(), w.size});
        const auto whole = [&](Value v, int64_t n) { return splat(v, static_cast<double>(n)); };
        const Value window = b.iota(type, 0), start = div(mul(window, whole(window, w.step)), whole(window, w.divisor));
        const Value place = add(start, mul(b.iota(type, 2), whole(window, w.dilation)));
        const Value after = sub(mul(add(place, whole(place, 1)), whole(place, w.divisor)), whole(place, 1));
        const Value last = minimum(div(after, whole(place, w.step)), whole(place, w.count() - 1));
        const Value own = eq(sub(last, window), b.iota(type, 1));
        const Value mask = broadcast(own, shown.dims(), {static_cast<int64_t>(w.axis), outer + i, outer + count + i});
        shown = select(mask, shown, splat(shown, 0));
        terms.push_back(outer + i);
    }
    return narrow(sum(widen(shown), terms), c.type(0).dtype);
}

Value expand_fold(const BuildCall& c) {
    const Value terms = fold_terms(widen(c.operand(0)), c.integers("axes"), c.integers("lengths"), options_of(c));
    return narrow(sum_terms({&terms, 1}, outer_rank(c), [](std::span<const Value> parts) { return parts[0]; }), c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "unfold",
     .doc = "y = the windows of x along axes: y[.., w, .., t] = x[.., floor(w step / divisor) + t dilation, ..]; the number of "
            "windows takes an axis's place, their elements are new axes at the end.",
     .operands = x_operand,
     .attrs = unfold_attrs,
     .infer = infer_unfold,
     .ref = TensorRef{eval_unfold},
     .grad = Linear{unfold_back},
     .batch = Batch::shift_axes,
     .lower = ViewLower{map_unfold}},
    {.name = "fold_terms",
     .doc = "x = for each place along axes the elements of y that unfold would have taken from there, those of the last window "
            "first, and 0 where there are fewer; they are new axes at the end in place of those of the windows' elements.",
     .operands = y_operand,
     .attrs = fold_attrs,
     .infer = infer_fold<true>,
     .ref = TensorRef{eval_fold_terms},
     .grad = Linear{fold_terms_back},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_fold_terms}},
    {.name = "fold",
     .doc = "x = for each place along axes the sum of the elements of y that unfold would have taken from there.",
     .operands = y_operand,
     .attrs = fold_attrs,
     .infer = infer_fold<false>,
     .grad = Linear{[](const BuildCall& c, size_t, Value dx) {
         std::vector<int64_t> sizes;
         for (const Windows& w : fold_windows(c)) sizes.push_back(w.size);
         return unfold(dx, c.integers("axes"), sizes, options_of(c));
     }},
     .batch = Batch::shift_axes,
     .lower = ExpandLower{expand_fold}},
};

}  // namespace

std::span<const OpDef> unfold_ops() { return defs; }

Value fold_terms(Value y, std::vector<int64_t> axes, std::vector<int64_t> lengths, const WindowOptions& options) {
    if (!y.valid()) return {};
    return y.builder->call("fold_terms", {y},
                           {{"axes", axes},
                            {"lengths", lengths},
                            {"steps", options.steps},
                            {"dilations", options.dilations},
                            {"divisors", options.divisors}});
}

Value sum_terms(std::span<const Value> parts, size_t outer, const std::function<Value(std::span<const Value>)>& term) {
    if (!parts[0].valid()) return {};
    const Dims dims = parts[0].dims(), places(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(outer));
    std::vector<int64_t> inner, start(dims.size(), 0), stop(dims.size(), slice_end);
    int64_t count = 1;
    for (size_t i = outer; i < dims.size(); ++i) {
        inner.push_back(static_cast<int64_t>(i));
        count *= dims[i].value();
    }
    if (count > max_inline_terms) return sum(term(parts), inner);
    Value total;
    for (int64_t n = 0; n < count; ++n) {
        int64_t rest = n;
        for (size_t i = dims.size(); i-- > outer;) {
            start[i] = rest % dims[i].value();
            stop[i] = start[i] + 1;
            rest /= dims[i].value();
        }
        std::vector<Value> picked;
        for (const Value& part : parts) picked.push_back(reshape(slice(part, start, stop), places));
        const Value next = term(picked);
        total = total.valid() ? add(total, next) : next;
    }
    return total;
}

}  // namespace darner
