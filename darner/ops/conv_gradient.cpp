// SPDX-License-Identifier: MIT
// The two transposes of a convolution, as convolutions. By the weights: batch and channels change places, and so do strides and
// dilation. By the data: with q = p + low, x[p] gets dy[i] w[t] for all i stride + t dilation = q. Elements whose q leave the
// same remainder by the stride (a phase) meet the same taps, so each phase is a convolution of stride 1 with those taps in
// reverse; phases with the same number of taps are one convolution with more output channels. Nothing is multiplied by a zero
// that stands for a gap.
#include "darner/ops/compose.h"
#include "darner/ops/conv.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {
namespace {

using Ints = std::vector<int64_t>;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Neighbouring phases [first, first + count) with equally many taps: phase first + i meets the taps from tap + i on in steps, the
// m-th of them at dy[j + lag - m dilation] for the j-th element of the phase. Without taps they are zero.
struct Run {
    int64_t first = 0, count = 1, taps = 0, tap = 0, lag = 0;
};

struct Axis {
    int64_t stride, dilation, low, taps, windows, extent;
    int64_t start = 0, length = 0;         // a phase has elements q = stride (start + j) + phase, j < length
    int64_t step = 1, phase_dilation = 1;  // between a phase's taps, in w and in dy
    std::vector<Run> runs;

    Axis(const ConvGeometry& g, size_t axis, int64_t tap_count, int64_t window_count, int64_t extent_of_x)
        : stride(window_count == 1 ? 1 : g.strides[axis]),  // no second window, no distance to it
          dilation(tap_count == 1 ? 1 : g.dilation[axis]),
          low(low_padding(g, axis)),
          taps(tap_count),
          windows(window_count),
          extent(extent_of_x) {
        start = floor_div(low, stride);
        length = ceil_div(offset() + extent, stride);
        const int64_t common = std::gcd(stride, dilation);
        step = stride / common;
        phase_dilation = dilation / common;
        dilation == 1 ? find_runs() : find_single_phases();
    }

    int64_t offset() const { return low - stride * start; }  // of x[0] among the phases' elements

    void find_runs() {
        const int64_t longer = taps % stride;
        if (longer > 0) runs.push_back({0, longer, taps / stride + 1, 0, 0});
        runs.push_back({longer, stride - longer, taps / stride, longer, 0});
    }

    // Dilated taps reach some of the phases, in an order of their own.
    void find_single_phases() {
        for (int64_t tap = 0; tap < std::min(taps, step); ++tap) {
            const int64_t phase = tap * dilation % stride;
            runs.push_back({phase, 1, ceil_div(taps - tap, step), tap, (phase - tap * dilation) / stride});
        }
        std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
        std::vector<Run> all;
        int64_t next = 0;
        for (const Run& run : runs) {
            if (run.first > next) all.push_back({next, run.first - next});
            all.push_back(run);
            next = run.first + 1;
        }
        if (next < stride) all.push_back({next, stride - next});
        runs = std::move(all);
    }
};

class DataGradient {
public:
    DataGradient(Value dy, Value w, const Dims& x_dims, const ConvGeometry& g)
        : dy_(dy), w_(w), x_dims_(x_dims), groups_(g.groups) {
        for (size_t axis = 0; axis + 2 < x_dims.size(); ++axis)
            axes_.emplace_back(g, axis, w.dims()[2 + axis].value(), dy.dims()[2 + axis].value(), x_dims[2 + axis].value());
        outputs_ = *w.dims()[0].exact_div(Dim(groups_));
    }

    Value run() {
        const bool single = std::all_of(axes_.begin(), axes_.end(), [](const Axis& a) { return a.stride == 1; });
        std::vector<Run> chosen;
        const Value phases = joined(chosen);
        return single ? reshape(phases, x_dims_) : interleaved(phases);
    }

private:
    size_t spatial() const { return axes_.size(); }

    // All phases of the axes from chosen.size() on, as [N, groups, phases.., C / groups, length..].
    Value joined(std::vector<Run>& chosen) {
        const size_t axis = chosen.size();
        if (axis == spatial()) return block(chosen);
        std::vector<Value> parts;
        for (const Run& run : axes_[axis].runs) {
            chosen.push_back(run);
            parts.push_back(joined(chosen));
            chosen.pop_back();
        }
        return parts.size() == 1 ? parts[0] : concat(parts, static_cast<int64_t>(2 + axis));
    }

    Value block(const std::vector<Run>& runs) {
        Dims dims = {x_dims_[0], Dim(groups_)};
        for (const Run& run : runs) dims.push_back(run.count);
        dims.push_back(w_.dims()[1]);
        for (const Axis& axis : axes_) dims.push_back(axis.length);
        if (std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.taps == 0; }))
            return dy_.builder->constant(dy_.type().with(std::move(dims)), 0.0);
        ConvGeometry g{{}, {}, {}, groups_};
        for (size_t i = 0; i < spatial(); ++i) {
            const Axis& axis = axes_[i];
            const int64_t span = (runs[i].taps - 1) * axis.phase_dilation;
            const int64_t low = span - axis.start - runs[i].lag;
            g.dilation.push_back(axis.phase_dilation);
            g.padding.push_back(low);
            g.padding.push_back(axis.length + span - axis.windows - low);
        }
        return reshape(conv(dy_, kernel(runs), {}, g), dims);
    }

    // The taps of some phases in reverse, with input and output channels exchanged: w[g o, c, t] -> [g phase.. c, o, taps..].
    Value kernel(const std::vector<Run>& runs) {
        const Dim channels = w_.dims()[1];
        Dims apart = {groups_, outputs_, channels};
        Ints high(3, 0);
        Ints start(3, 0), stop(3, slice_end), step(3, 1);                                 // the taps of a single phase
        Dims paired = apart;                                                              // [.., taps, phase, ..]
        Ints pair_start(3, 0), pair_stop(3, slice_end), reversed, perm = {0}, perm_taps;  // of several
        Dims joined = {channels * Dim(groups_), outputs_};
        for (size_t i = 0; i < spatial(); ++i) {
            const Axis& axis = axes_[i];
            const Run& run = runs[i];
            const bool single = run.count == 1;
            const int64_t rows = ceil_div(axis.taps, axis.stride);
            apart.push_back(axis.taps);
            high.push_back(single ? 0 : rows * axis.stride - axis.taps);
            start.push_back(single ? run.tap : 0);
            stop.push_back(slice_end);
            step.push_back(single ? axis.step : 1);
            const auto at = static_cast<int64_t>(paired.size());
            paired.insert(paired.end(), {Dim(single ? run.taps : rows), Dim(single ? 1 : axis.stride)});
            pair_start.insert(pair_start.end(), {0, single ? 0 : run.first});
            pair_stop.insert(pair_stop.end(), {run.taps, single ? 1 : run.first + run.count});
            reversed.push_back(at);
            perm.push_back(at + 1);
            perm_taps.push_back(at);
            joined[0] = joined[0] * Dim(run.count);
            joined.push_back(run.taps);
        }
        perm.insert(perm.end(), {2, 1});
        perm.insert(perm.end(), perm_taps.begin(), perm_taps.end());
        Value v = reshape(w_, apart);
        if (std::any_of(high.begin(), high.end(), [](int64_t h) { return h > 0; })) v = pad(v, Ints(high.size(), 0), high);
        v = slice(reshape(slice(v, start, stop, step), paired), pair_start, pair_stop);
        return reshape(transpose(reverse(v, reversed), perm), joined);
    }

    // [N, groups, phases.., C / groups, length..] with the phases side by side, cut to what x has.
    Value interleaved(Value phases) {
        const auto n = static_cast<int64_t>(spatial());
        Ints perm = {0, 1, 2 + n}, start = {0, 0}, stop = {slice_end, slice_end};
        Dims dims = {x_dims_[0], x_dims_[1]};
        for (int64_t i = 0; i < n; ++i) {
            const Axis& axis = axes_[static_cast<size_t>(i)];
            perm.insert(perm.end(), {3 + n + i, 2 + i});
            dims.push_back(axis.length * axis.stride);
            start.push_back(axis.offset());
            stop.push_back(axis.offset() + axis.extent);
        }
        return slice(reshape(transpose(phases, perm), dims), start, stop);
    }

    Value dy_, w_;
    const Dims& x_dims_;
    int64_t groups_;
    Dim outputs_;  // of a group
    std::vector<Axis> axes_;
};

}  // namespace

Value conv_transpose_data(Value dy, Value w, const Dims& x_dims, const ConvGeometry& geometry) {
    if (!dy.valid() || !w.valid()) return {};
    if (std::find(x_dims.begin() + 2, x_dims.end(), Dim(0)) != x_dims.end())
        return dy.builder->constant(dy.type().with(x_dims), 0.0);  // no element of x, so no window of a phase either
    return DataGradient(dy, w, x_dims, geometry).run();
}

Value conv_transpose_weight(Value x, Value dy, const Dims& w_dims, const ConvGeometry& geometry) {
    if (!x.valid() || !dy.valid()) return {};
    const Dim batch = x.dims()[0];
    Dims apart = {batch, Dim(geometry.groups), w_dims[1]}, joined = {w_dims[1], batch * Dim(geometry.groups)};
    Ints x_perm = {2, 1, 0}, swap = {1, 0};
    ConvGeometry g{geometry.dilation, {}, geometry.strides, geometry.groups};
    for (size_t i = 0; i + 2 < w_dims.size(); ++i) {
        const Dim &extent = x.dims()[2 + i], &windows = dy.dims()[2 + i];
        apart.push_back(extent);
        joined.push_back(extent);
        x_perm.push_back(static_cast<int64_t>(3 + i));
        swap.push_back(static_cast<int64_t>(2 + i));
        const int64_t low = low_padding(geometry, i);
        const int64_t reached =
            (w_dims[2 + i].value() - 1) * geometry.dilation[i] + (windows.value() - 1) * geometry.strides[i] + 1;
        g.padding.push_back(low);
        g.padding.push_back(reached - extent.value() - low);
    }
    const Value channels_first = reshape(transpose(reshape(x, apart), x_perm), joined);
    return transpose(conv(channels_first, transpose(dy, swap), {}, g), swap);
}

bool has_known_extents(const BuildCall& c) {
    for (const size_t i : {size_t{0}, size_t{1}})
        for (size_t axis = i == 0 ? 1 : 0; axis < c.type(i).rank(); ++axis)
            if (!c.type(i).dims[axis].is_constant()) {
                Error error = unsupported(
                    c.error("its transposes need known extents of all axes but the batch: got " + infer::describe(c, i)).message);
                error.hint = "bind the symbols first";
                c.builder->fail(std::move(error));
                return false;
            }
    return true;
}

}  // namespace darner
