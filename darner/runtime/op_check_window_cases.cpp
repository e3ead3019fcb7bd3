// SPDX-License-Identifier: MIT
// Cases of the op table test for windows along axes, pools and norms.
#include "darner/runtime/op_check_cases.h"

namespace darner {
namespace {

using Cases = std::vector<OpCase>;
using Ints = std::vector<int64_t>;

// --- windows --------------------------------------------------------------------------------------------------------

struct WindowCase {
    Dims x;
    Ints axes, sizes, steps = {}, dilations = {}, divisors = {};
    DType dtype = DType::f32;
};

// Overlapping, touching, with gaps, dilated; steps that are fractions; one window; several axes, also not in order.
const std::vector<WindowCase>& window_cases_of_x() {
    static const std::vector<WindowCase> cases = {
        {{7}, {0}, {3}},
        {{2, 9}, {1}, {3}, {2}},
        {{9}, {0}, {2}, {2}},
        {{11}, {0}, {2}, {4}},
        {{17}, {0}, {4}, {1}, {3}},
        {{17}, {0}, {3}, {2}, {4}},
        {{16}, {0}, {4}, {6}, {2}},
        {{5}, {-1}, {5}},
        {{1}, {0}, {1}},
        {{3, 5, 2}, {1}, {2}, {3}},
        {{2, 5, 7}, {1, 2}, {3, 2}, {2, 1}},
        {{4, 6, 2}, {1, 0}, {2, 3}, {2, 1}, {3, 1}},
        {{3, 4, 5}, {0, 1, 2}, {2, 2, 3}, {1, 2, 1}},
        {{8}, {0}, {3}, {5}, {}, {3}},  // places 0, 1, 3, 5
        {{7}, {0}, {1}, {3}, {}, {7}},  // each element more than once
        {{2, 9, 9}, {1, 2}, {5, 5}},    // 25 terms
        {{70}, {0}, {33}},
        {{0, 6}, {1}, {2}},
        {{3}, {}, {}},
        {{9, 3}, {0}, {3}, {2}, {}, {}, DType::f16},
        {{9}, {0}, {3}, {2}, {}, {}, DType::i32},
        {{9}, {0}, {3}, {2}, {}, {}, DType::u8},
    };
    return cases;
}

std::vector<std::pair<std::string, AttrValue>> attrs_of(const WindowCase& w) {
    return {{"axes", w.axes}, {"steps", w.steps}, {"dilations", w.dilations}, {"divisors", w.divisors}};
}

Cases unfold_cases(const OpDef&) {
    Cases cases;
    for (const WindowCase& w : window_cases_of_x()) {
        OpCase c{{spread(w.x, w.dtype)}, attrs_of(w), w.dtype == DType::f32};
        c.attrs.emplace_back("sizes", w.sizes);
        cases.push_back(std::move(c));
    }
    cases.push_back({{spread({5}, DType::boolean)}, {{"axes", Ints{0}}, {"sizes", Ints{2}}}, false});
    return cases;
}

// Operands of the shape that unfold gives.
Cases fold_cases(const OpDef&) {
    Cases cases;
    const auto entry = [](const Ints& values, size_t i) { return values.empty() ? 1 : values[i]; };
    for (const WindowCase& w : window_cases_of_x()) {
        Dims dims = w.x;
        Ints lengths;
        for (size_t i = 0; i < w.axes.size(); ++i) {
            Dim& extent = dims[*normalize_axis(w.axes[i], w.x.size())];
            lengths.push_back(extent.value());
            const int64_t starts = extent.value() - (w.sizes[i] - 1) * entry(w.dilations, i);
            extent = (starts * entry(w.divisors, i) + entry(w.steps, i) - 1) / entry(w.steps, i);
        }
        dims.insert(dims.end(), w.sizes.begin(), w.sizes.end());
        OpCase c{{spread(dims, w.dtype)}, attrs_of(w), w.dtype == DType::f32};
        c.attrs.emplace_back("lengths", lengths);
        cases.push_back(std::move(c));
    }
    return cases;
}

// --- pools ----------------------------------------------------------------------------------------------------------

Cases pool_cases(const OpDef& op) {
    Cases cases;
    const bool average = op.find_attr("count_include_pad") != nullptr;
    const auto add = [&](CaseOperand x, Ints window, Ints strides = {}, Ints padding = {}, Ints dilation = {},
                         bool ceil = false) {
        for (const bool include : {true, false}) {
            if (!include && (!average || (padding.empty() && !ceil))) continue;
            const bool smooth = x.type.dtype == DType::f32 && (average || x.domain == Domain::spread);
            OpCase c{
                {x},
                {{"window", window}, {"strides", strides}, {"padding", padding}, {"dilation", dilation}, {"ceil_mode", ceil}},
                smooth};
            if (average) c.attrs.emplace_back("count_include_pad", include);
            if (accepts(op, c)) cases.push_back(std::move(c));
        }
    };
    add(spread({6}), {2});
    add(spread({1}), {1});
    add(spread({2, 3, 8, 9}), {2, 3});
    add(spread({1, 2, 7, 7}), {3, 3}, {2, 2}, {1, 1, 1, 1});
    add(spread({3, 5, 6}), {3, 2}, {1, 1}, {0, 2, 1, 0});
    add(spread({2, 9}), {3}, {2}, {1, 2}, {2});
    add(spread({2, 7}), {2}, {2}, {}, {}, true);
    add(spread({2, 6}), {3}, {2}, {1, 1}, {}, true);
    add(spread({5}), {3}, {4}, {0, 2}, {}, true);
    add(spread({4, 5}), {4, 5}, {1, 1});
    add(spread({2, 4, 5, 6}), {2, 3, 2}, {2, 1, 3}, {1, 0, 0, 1, 1, 1});
    add(spread({2, 4, 5, 6}), {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1});
    add(spread({1, 3}), {2}, {1}, {1, 1}, {3});  // windows that have nothing but padding
    add(spread({2, 80}), {35}, {2});
    add(spread({0, 3, 4}), {2, 2});
    add(ties({3, 6, 6}), {3, 3}, {1, 1}, {1, 1, 1, 1});
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::u32})
        add(spread({2, 5, 7}, dtype), {2, 3}, {2, 2}, {1, 0, 0, 1});
    return cases;
}

Cases adaptive_cases(const OpDef& op) {
    Cases cases;
    const auto add = [&](CaseOperand x, Ints size) {
        const bool smooth = x.type.dtype == DType::f32 && x.domain == Domain::spread;
        OpCase c{{std::move(x)}, {{"output_size", std::move(size)}}, smooth};
        if (accepts(op, c)) cases.push_back(std::move(c));
    };
    add(spread({6}), {3});
    add(spread({1}), {1});
    add(spread({2, 7}), {3});
    add(spread({2, 5}), {4});
    add(spread({3, 4}), {9});
    add(spread({2, 3}), {6});
    add(spread({2, 3, 7, 5}), {3, 3});
    add(spread({1, 2, 8, 9}), {4, 2});
    add(spread({2, 3, 5, 7}), {1, 1});
    add(spread({2, 4, 5, 6}), {3, 2, 4});
    add(spread({2, 97}), {2});
    add(spread({0, 5}), {3});
    add(ties({2, 7, 7}), {3, 4});
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u32}) add(spread({2, 7}, dtype), {3});
    return cases;
}

// --- norms ----------------------------------------------------------------------------------------------------------

CaseOperand maybe(bool given, Dims dims, Domain domain = Domain::fixed, DType dtype = DType::f32) {
    return given ? drawn(domain, std::move(dims), dtype) : left_out();
}

Cases layer_norm_cases(const OpDef&) {
    const auto with = [](Dims x, Dims w, int64_t axis, bool weight, bool bias, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(x), dtype), maybe(weight, w, Domain::fixed, dtype), maybe(bias, w, Domain::fixed, dtype)},
                      {{"axis", axis}},
                      dtype == DType::f32};
    };
    return {with({3, 5}, {5}, -1, true, true),
            with({17, 257}, {257}, 1, true, true),
            with({2, 3, 5}, {3, 5}, 1, true, true),
            with({3, 5}, {3, 5}, 0, false, false),
            with({1, 7}, {7}, -1, false, true),
            with({2, 7}, {7}, -1, true, false),
            with({1, 1100}, {1100}, -1, true, true),
            with({0, 5}, {5}, -1, true, true),
            with({3, 5}, {5}, -1, true, true, DType::f16)};
}

Cases standardize_cases(const OpDef&) {
    const auto over = [](Dims x, Ints axes, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(x), dtype)}, {{"axes", std::move(axes)}}, dtype == DType::f32};
    };
    return {over({7}, {}),
            over({3, 5}, {1}),
            over({3, 5}, {0}),
            over({2, 3, 5}, {0, 2}),
            over({2, 3, 5}, {1}),
            over({0, 3}, {1}),
            over({3, 5}, {-1}, DType::bf16)};
}

Cases group_norm_cases(const OpDef&) {
    const auto with = [](Dims x, int64_t groups, bool weight, bool bias) {
        const Dims channels = {x[1]};
        return OpCase{{spread(std::move(x)), maybe(weight, channels), maybe(bias, channels)}, {{"groups", groups}}};
    };
    return {with({2, 6, 5}, 3, true, true),         with({3, 4}, 2, true, true),
            with({1, 4, 3, 5}, 1, true, false),     with({2, 3, 7}, 3, false, true),
            with({3, 5, 2, 2, 3}, 1, false, false), with({0, 4, 3}, 2, true, true)};
}

Cases instance_norm_cases(const OpDef&) {
    const auto with = [](Dims x, bool weight, bool bias) {
        const Dims channels = {x[1]};
        return OpCase{{spread(std::move(x)), maybe(weight, channels), maybe(bias, channels)}};
    };
    return {with({2, 3, 5}, true, true), with({1, 2, 3, 7}, true, false), with({3, 1, 17}, false, true),
            with({2, 2, 2, 3, 2}, false, false), with({0, 3, 4}, true, true)};
}

Cases batch_norm_cases(const OpDef&) {
    const auto with = [](Dims x, bool weight, bool bias, bool running, DType dtype = DType::f32) {
        const Dims channels = {x[1]};
        return OpCase{{spread(std::move(x), dtype), maybe(weight, channels, Domain::fixed, dtype),
                       maybe(bias, channels, Domain::fixed, dtype), maybe(running, channels, Domain::fixed, dtype),
                       maybe(running, channels, Domain::chance, dtype)},
                      {},
                      dtype == DType::f32};
    };
    return {with({5, 3}, true, true, false),
            with({2, 3, 7}, true, false, false),
            with({3, 2, 3, 5}, false, true, false),
            with({2, 1, 17}, true, true, false),
            with({2, 2, 2, 3, 3}, false, false, false),
            with({1, 3, 5}, true, true, false),
            with({5, 3}, true, true, true),
            with({2, 3, 4, 5}, false, false, true),
            with({0, 3, 2}, true, true, true),
            with({5, 3}, true, true, false, DType::f16),
            with({5, 3}, true, true, true, DType::bf16)};
}

constexpr CaseGenerator generators[] = {
    {"unfold", unfold_cases},
    {"fold", fold_cases},
    {"fold_terms", fold_cases},
    {"max_pool", pool_cases},
    {"avg_pool", pool_cases},
    {"adaptive_max_pool", adaptive_cases},
    {"adaptive_avg_pool", adaptive_cases},
    {"layer_norm", layer_norm_cases},
    {"standardize", standardize_cases},
    {"group_norm", group_norm_cases},
    {"instance_norm", instance_norm_cases},
    {"batch_norm", batch_norm_cases},
};

}  // namespace

std::span<const CaseGenerator> window_cases() { return generators; }

}  // namespace darner
