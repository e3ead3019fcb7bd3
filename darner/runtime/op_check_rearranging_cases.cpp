// SPDX-License-Identifier: MIT
// Cases of the op table test for ops that rearrange, look up, resize and sum up; see op_check_cases.h.
#include "darner/runtime/op_check_cases.h"

namespace darner {
namespace {

using Cases = std::vector<OpCase>;
using Ints = std::vector<int64_t>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

OpCase unary(CaseOperand x, Attrs attrs, bool smooth = true) { return {{std::move(x)}, std::move(attrs), smooth}; }

Cases stack_cases(const OpDef&) {
    const auto along = [](int64_t axis, std::vector<CaseOperand> parts) { return OpCase{std::move(parts), {{"axis", axis}}}; };
    return {along(0, {spread({})}),
            along(0, {spread({3}), spread({3})}),
            along(-1, {spread({2, 3}), spread({2, 3}), spread({2, 3})}),
            along(1, {spread({2, 5}), spread({2, 5})}),
            along(0, {spread({0}), spread({0})}),
            along(1, {spread({3}, DType::u8), spread({3}, DType::u8)})};
}

Cases split_cases(const OpDef&) {
    const auto part = [](CaseOperand x, Ints sizes, int64_t index, int64_t axis) {
        return unary(std::move(x), {{"sizes", std::move(sizes)}, {"index", index}, {"axis", axis}});
    };
    return {part(spread({5}), {2, 3}, 0, 0),
            part(spread({2, 17}), {4, 0, 13}, 2, -1),
            part(spread({2, 17}), {4, 0, 13}, 1, 1),
            part(spread({6, 3}), {6}, 0, 0),
            part(spread({6, 2}, DType::f16), {1, 2, 3}, 1, 0),
            part(spread({7}, DType::i8), {3, 4}, 1, 0)};
}

Cases tile_cases(const OpDef&) {
    const auto times = [](CaseOperand x, Ints repeats) { return unary(std::move(x), {{"repeats", std::move(repeats)}}); };
    return {times(spread({}), {}),
            times(spread({3}), {2}),
            times(spread({2, 3}), {3, 1}),
            times(spread({1, 5}), {4, 2}),
            times(spread({2, 3}), {0, 2}),
            times(spread({0, 2}), {3, 2}),
            times(spread({3}, DType::u8), {5})};
}

Cases interleave_cases(const OpDef&) {
    const auto times = [](CaseOperand x, int64_t repeats, int64_t axis) {
        return unary(std::move(x), {{"repeats", repeats}, {"axis", axis}});
    };
    return {times(spread({3}), 2, 0),    times(spread({2, 3, 5}), 3, 1), times(spread({2, 3}), 1, -1),
            times(spread({2, 3}), 0, 0), times(spread({0, 3}), 2, 0),    times(spread({5}, DType::i8), 3, 0)};
}

Cases reverse_cases(const OpDef&) {
    const auto over = [](CaseOperand x, Ints axes) { return unary(std::move(x), {{"axes", std::move(axes)}}); };
    return {over(spread({}), {}),     over(spread({17}), {0}),   over(spread({2, 3, 5}), {-1, 0}),
            over(spread({3, 5}), {}), over(spread({0, 3}), {0}), over(spread({7}, DType::u8), {0})};
}

Cases flatten_cases(const OpDef&) {
    const auto from = [](CaseOperand x, int64_t start, int64_t end) {
        return unary(std::move(x), {{"start_axis", start}, {"end_axis", end}});
    };
    return {from(spread({}), 0, -1), from(spread({2, 3, 5}), 1, -1), from(spread({2, 3, 5}), 0, 1), from(spread({0, 3}), 0, -1),
            from(spread({3}), 0, 0)};
}

Cases squeeze_cases(const OpDef&) {
    const auto without = [](Dims dims, Ints axes) { return unary(spread(std::move(dims)), {{"axes", std::move(axes)}}); };
    return {without({1, 3, 1}, {}), without({1, 3, 1}, {-1}), without({1}, {0}), without({1, 0}, {0}), without({3}, {})};
}

Cases unsqueeze_cases(const OpDef&) {
    const auto with = [](Dims dims, Ints axes) { return unary(spread(std::move(dims)), {{"axes", std::move(axes)}}); };
    return {with({3, 5}, {1}), with({}, {0, 1}), with({3}, {-1, 0}), with({0}, {1}), with({3}, {})};
}

Cases margin_cases(const OpDef&) {
    const auto by = [](Dims dims, Ints low, Ints high, DType dtype = DType::f32) {
        return unary(spread(std::move(dims), dtype), {{"low", std::move(low)}, {"high", std::move(high)}});
    };
    return {by({}, {}, {}),
            by({5}, {2}, {0}),
            by({5}, {4}, {4}),
            by({2, 3}, {1, 0}, {0, 2}),
            by({17, 2}, {3, 1}, {5, 1}),
            by({0, 3}, {0, 1}, {0, 2}),
            by({3}, {1}, {2}, DType::i8),
            by({3}, {1}, {2}, DType::f16)};
}

Cases triangle_cases(const OpDef&) {
    const auto at = [](CaseOperand x, int64_t diagonal) { return unary(std::move(x), {{"diagonal", diagonal}}); };
    return {at(spread({3, 3}), 0),
            at(spread({2, 5}), 1),
            at(spread({2, 5, 3}), -1),
            at(spread({5, 2}), -9),
            at(spread({1, 1}), 1),
            at(spread({0, 3, 3}), 0),
            at(spread({4, 4}, DType::i32), 2),
            at(spread({3, 3}, DType::boolean), 0)};
}

Cases gather_elements_cases(const OpDef&) {
    const auto along = [](int64_t axis, CaseOperand x, CaseOperand indices) {
        const bool smooth = x.type.dtype == DType::f32;
        return OpCase{{std::move(x), std::move(indices)}, {{"axis", axis}}, smooth};
    };
    return {along(0, spread({5}), index({7}, 5)),
            along(1, spread({3, 17}), index({3, 1}, 17)),
            along(0, spread({5, 3}), index({2, 2}, 5, DType::u32)),
            along(-1, spread({2, 3, 5}), wild_index({2, 3, 9}, 5)),
            along(1, spread({3, 4}), index({0, 2}, 4)),
            along(0, spread({6, 3}, DType::u8), index({4, 3}, 6)),
            along(0, spread({6, 3}, DType::f16), index({4, 3}, 6))};
}

Cases gather_nd_cases(const OpDef&) {
    const auto from = [](CaseOperand x, CaseOperand indices) { return OpCase{{std::move(x), std::move(indices)}}; };
    return {from(spread({5}), index({7, 1}, 5)),    from(spread({3, 4}), wild_index({6, 2}, 4)),
            from(spread({3, 4}), index({2}, 3)),    from(spread({4, 3, 5}), index({2, 3, 2}, 3, DType::u32)),
            from(spread({4, 3}), index({0, 1}, 3)), from(spread({4, 3}, DType::i8), index({5, 2}, 3))};
}

Cases dynamic_slice_cases(const OpDef&) {
    const auto window = [](CaseOperand x, CaseOperand start, Ints sizes) {
        return OpCase{{std::move(x), std::move(start)}, {{"sizes", std::move(sizes)}}};
    };
    return {window(spread({17}), index({1}, 10), {5}),
            window(spread({5, 7}), wild_index({2}, 5), {2, 7}),
            window(spread({2, 3, 5}), index({3}, 3, DType::u32), {1, 2, 2}),
            window(spread({5, 3}), wild_index({2}, 4), {0, 2}),
            window(spread({5, 3}), wild_index({2}, 9), {5, 3}),
            window(spread({9}, DType::u8), index({1}, 5), {3})};
}

Cases dynamic_update_cases(const OpDef&) {
    const auto put = [](CaseOperand x, CaseOperand update, CaseOperand start) {
        return OpCase{{std::move(x), std::move(update), std::move(start)}};
    };
    return {put(spread({17}), spread({5}), index({1}, 10)),
            put(spread({5, 7}), spread({2, 7}), wild_index({2}, 5)),
            put(spread({2, 3, 5}), spread({1, 2, 2}), index({3}, 3, DType::u32)),
            put(spread({5, 3}), spread({0, 2}), wild_index({2}, 4)),
            put(spread({5, 3}), spread({5, 3}), wild_index({2}, 9)),
            put(spread({9}, DType::u8), spread({3}, DType::u8), index({1}, 5))};
}

Cases one_hot_cases(const OpDef&) {
    const auto of = [](CaseOperand indices, int64_t classes, int64_t axis, DType dtype) {
        return unary(std::move(indices), {{"classes", classes}, {"axis", axis}, {"dtype", dtype}});
    };
    return {of(index({7}, 5), 5, -1, DType::f32),        of(index({}, 3), 3, 0, DType::i32),
            of(wild_index({2, 3}, 4), 4, 1, DType::f16), of(index({3}, 2, DType::u32), 2, 0, DType::boolean),
            of(index({0}, 2), 2, -1, DType::f32),        of(index({3}, 2), 0, -1, DType::u8)};
}

Cases resize_cases(const OpDef&) {
    const auto to = [](Dims dims, Ints axes, Ints sizes, const char* mode, bool corners = false, DType dtype = DType::f32) {
        return unary(
            spread(std::move(dims), dtype),
            {{"axes", std::move(axes)}, {"sizes", std::move(sizes)}, {"mode", std::string(mode)}, {"align_corners", corners}},
            dtype == DType::f32);
    };
    return {to({5}, {0}, {10}, "nearest"),
            to({2, 7}, {1}, {3}, "nearest"),
            to({7}, {0}, {4}, "nearest_exact"),
            to({2, 3, 5}, {1, 2}, {6, 7}, "linear"),
            to({2, 5, 7}, {-1, 1}, {4, 9}, "linear", true),
            to({5}, {0}, {1}, "linear", true),
            to({1}, {0}, {4}, "linear"),
            to({3}, {0}, {48}, "linear"),
            to({3, 2}, {0}, {0}, "nearest"),
            to({0, 3}, {1}, {5}, "linear"),
            to({3, 4}, {1}, {7}, "linear", false, DType::f16)};
}

Cases reduction_cases(const OpDef& op) {
    Cases cases;
    const auto add = [&](CaseOperand x, Ints axes, bool keep, bool smooth = true) {
        OpCase c = unary(std::move(x), {{"axes", std::move(axes)}, {"keep", keep}}, smooth);
        if (accepts(op, c)) cases.push_back(std::move(c));
    };
    for (const DType dtype : {DType::f32, DType::boolean}) {
        add(spread({}, dtype), {}, false);
        add(spread({1}, dtype), {0}, true);
        add(spread({3, 5}, dtype), {}, false);
        add(spread({17, 2}, dtype), {0}, false);
        add(spread({2, 3, 5}, dtype), {-1}, true);
        add(spread({2, 3, 5}, dtype), {2, 0}, false);
        add(spread({3, 0}, dtype), {1}, true);
        add(spread({0, 3}, dtype), {1}, false);
    }
    add(spread({2, 40}), {1}, false);
    add(ties({4, 7}), {1}, false, false);
    add(spread({5, 2}, DType::f16), {1}, false, false);  // a product of more could overflow
    for (const DType dtype : {DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::u32})
        add(spread({3, 5}, dtype), {1}, false, false);
    return cases;
}

Cases variance_cases(const OpDef& op) {
    Cases cases = reduction_cases(op);
    for (const int64_t correction : {0, 2})
        cases.push_back(unary(spread({3, 17}), {{"axes", Ints{1}}, {"keep", false}, {"correction", correction}}));
    return cases;
}

Cases argmin_cases(const OpDef&) {
    const auto along = [](CaseOperand x, int64_t axis, bool keep) {
        return unary(std::move(x), {{"axis", axis}, {"keep", keep}}, false);
    };
    return {along(spread({5}), 0, false),
            along(spread({3, 17}), -1, true),
            along(ties({5, 9}), 1, false),
            along(spread({9, 5}, DType::i32), 0, false),
            along(spread({3, 9}, DType::u8), 1, false),
            along(spread({3, 9}, DType::u32), 1, false),
            along(spread({0, 3}), 1, false)};
}

Cases cumsum_cases(const OpDef&) {
    const auto along = [](CaseOperand x, int64_t axis, bool exclusive, bool reverse) {
        const bool smooth = x.type.dtype == DType::f32;
        return unary(std::move(x), {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}, smooth);
    };
    return {along(spread({5}), 0, false, false),
            along(spread({2, 17}), 1, true, false),
            along(spread({70, 2}), 0, false, true),
            along(spread({2, 65, 3}), 1, true, true),
            along(spread({1}), 0, true, false),
            along(spread({3, 0}), 1, true, true),
            along(spread({9}, DType::i8), 0, false, false),
            along(spread({30}, DType::f16), 0, false, false)};
}

constexpr CaseGenerator generators[] = {
    {"stack", stack_cases},
    {"split", split_cases},
    {"tile", tile_cases},
    {"repeat_interleave", interleave_cases},
    {"reverse", reverse_cases},
    {"flatten", flatten_cases},
    {"squeeze", squeeze_cases},
    {"unsqueeze", unsqueeze_cases},
    {"pad_edge", margin_cases},
    {"pad_reflect", margin_cases},
    {"tril", triangle_cases},
    {"triu", triangle_cases},
    {"gather_elements", gather_elements_cases},
    {"gather_nd", gather_nd_cases},
    {"dynamic_slice", dynamic_slice_cases},
    {"dynamic_update_slice", dynamic_update_cases},
    {"one_hot", one_hot_cases},
    {"resize", resize_cases},
    {"argmin", argmin_cases},
    {"any", reduction_cases},
    {"all", reduction_cases},
    {"variance", variance_cases},
    {"std", variance_cases},
    {"log_sum_exp", reduction_cases},
    {"prod", reduction_cases},
    {"l1_norm", reduction_cases},
    {"l2_norm", reduction_cases},
    {"cumsum", cumsum_cases},
};

}  // namespace

std::span<const CaseGenerator> rearranging_cases() { return generators; }

}  // namespace darner
