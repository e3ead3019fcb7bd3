// SPDX-License-Identifier: MIT
// Cases of the op table test; see op_check_cases.h.
#include "darner/runtime/op_check_cases.h"

#include "darner/graph/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace darner {

CaseOperand spread(Dims dims, DType dtype) { return {{dtype, std::move(dims)}}; }
CaseOperand drawn(Domain domain, Dims dims, DType dtype) { return {{dtype, std::move(dims)}, domain}; }
CaseOperand ties(Dims dims) { return {f32(std::move(dims)), Domain::ties}; }
CaseOperand index(Dims dims, int64_t limit, DType dtype) { return {{dtype, std::move(dims)}, Domain::index, limit}; }
CaseOperand wild_index(Dims dims, int64_t limit) { return {i32(std::move(dims)), Domain::wild_index, limit}; }
CaseOperand left_out() { return {{}, Domain::spread, 0, true}; }

bool accepts(const OpDef& op, const OpCase& c) {
    std::vector<const Type*> types;
    for (const CaseOperand& o : c.operands) types.push_back(&o.type);
    std::vector<AttrValue> attrs(op_registry().defaults(op).begin(), op_registry().defaults(op).end());
    for (const auto& [name, value] : c.attrs) attrs[static_cast<size_t>(op.find_attr(name) - op.attrs.data())] = value;
    Call call;
    call.op = &op;
    call.types = types;
    call.attrs = attrs;
    return op.infer(call).has_value();
}

namespace {

using Cases = std::vector<OpCase>;
using Ints = std::vector<int64_t>;
using Lists = std::vector<std::vector<int64_t>>;

constexpr std::array all_dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                                   DType::u8,  DType::i32, DType::u32,  DType::i64, DType::boolean};

// --- elementwise ----------------------------------------------------------------------------------------------------

// Operands that must stay where an op is defined and smooth. All others are drawn from `spread`.
struct DomainOf {
    std::string_view op;
    size_t operand;
    Domain domain;
};
constexpr DomainOf domains[] = {
    {"log", 0, Domain::positive},   {"sqrt", 0, Domain::positive},      {"rsqrt", 0, Domain::positive},
    {"pow", 0, Domain::positive},   {"pow", 1, Domain::fixed},          {"div", 1, Domain::nonzero},
    {"rem", 1, Domain::nonzero},    {"mod", 1, Domain::nonzero},        {"log2", 0, Domain::positive},
    {"log1p", 0, Domain::positive}, {"reciprocal", 0, Domain::nonzero}, {"asin", 0, Domain::unit},
    {"acos", 0, Domain::unit},      {"atanh", 0, Domain::unit},         {"acosh", 0, Domain::above_one},
    {"tan", 0, Domain::unit},
};
// Attributes that are checked besides their defaults, and those without a default.
struct AttrVariant {
    std::string_view op, attr;
    double value;
};
constexpr AttrVariant attr_variants[] = {
    {"clamp", "min", -0.5},
    {"clamp", "max", 1},
    {"elu", "alpha", 0.5},
    {"celu", "alpha", 2.5},
    {"leaky_relu", "negative_slope", -0.3},
    {"softplus", "beta", 2},
    {"hard_sigmoid", "alpha", 0.2},
    {"hard_tanh", "max", 0.25},
    {"thresholded_relu", "alpha", 0.1},
};
// Ops whose stated bound is absolute below magnitude 1.
constexpr std::string_view absolute_below_one[] = {"log", "log2", "sin", "cos"};

Domain domain_of(const OpDef& op, size_t operand) {
    for (const DomainOf& d : domains)
        if (d.op == op.name && d.operand == operand) return d.domain;
    return Domain::spread;
}

// Operands of one dtype; a condition (the first operand where equal dtypes are refused) is bool.
void add_map_case(const OpDef& op, DType dtype, const Dims& dims, Domain domain,
                  std::vector<std::pair<std::string, AttrValue>> attrs, Cases& cases) {
    OpCase c;
    c.attrs = std::move(attrs);
    for (size_t i = 0; i < op.operands.size(); ++i) {
        const Domain own = domain_of(op, i);
        c.operands.push_back({{dtype, dims}, own == Domain::spread ? domain : own});
    }
    c.smooth = dtype == DType::f32 && domain != Domain::ties;
    for (const auto& [name, value] : c.attrs)
        if (const DType* target = std::get_if<DType>(&value))
            c.smooth = c.smooth && (*target == DType::f32 || *target == DType::f64);
    c.absolute_from = absolute_below(op);
    if (!accepts(op, c)) {
        c.operands[0].type.dtype = DType::boolean;
        if (!accepts(op, c)) return;
    }
    cases.push_back(std::move(c));
}

Cases map_cases(const OpDef& op) {
    Cases cases;
    for (const DType target : all_dtypes) {
        const bool has_target = op.find_attr("dtype") != nullptr;
        if (!has_target && target != DType::f32) continue;
        std::vector<std::pair<std::string, AttrValue>> attrs;
        if (has_target) attrs.emplace_back("dtype", target);
        for (const DType dtype : all_dtypes) add_map_case(op, dtype, {3, 17}, Domain::spread, attrs, cases);
        add_map_case(op, DType::f32, {7}, Domain::ties, attrs, cases);
        if (has_target && target != DType::f32) continue;
        for (const Dims& dims : {Dims{}, Dims{1}, Dims{2, 3, 5}, Dims{257}, Dims{0, 3}})
            add_map_case(op, dims.size() == 1 && dims[0] == Dim(257) ? DType::f16 : DType::f32, dims, Domain::spread, attrs,
                         cases);
        for (const Dims& dims : {Dims{}, Dims{5}}) add_map_case(op, DType::boolean, dims, Domain::spread, attrs, cases);
    }
    for (const AttrVariant& variant : attr_variants)
        if (variant.op == op.name)
            for (const DType dtype : {DType::f32, DType::f16, DType::i32})
                add_map_case(op, dtype, {3, 17}, Domain::spread, {{std::string(variant.attr), variant.value}}, cases);
    return cases;
}

Cases gelu_cases(const OpDef& op) {
    Cases cases = map_cases(op);
    for (const DType dtype : {DType::f32, DType::bf16})
        add_map_case(op, dtype, {3, 17}, Domain::spread, {{"approximate", std::string("tanh")}}, cases);
    return cases;
}

// --- ops with attributes --------------------------------------------------------------------------------------------

Cases reshape_cases(const OpDef&) {
    const auto to = [](Dims from, Dims dims, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(from), dtype)}, {{"shape", std::move(dims)}}};
    };
    return {to({}, {1, 1}),
            to({6}, {2, 3}),
            to({2, 3, 5}, {5, 6}),
            to({4, 1, 6}, {2, 2, 3, 2}),
            to({2, 17}, {34}),
            to({3, 2, 5}, {6, 1, 5}),
            to({0, 3}, {5, 0}),
            to({4, 9}, {6, 6}),
            to({12}, {3, 4}, DType::u8),
            to({2, 6}, {3, 4}, DType::f16)};
}

Cases transpose_cases(const OpDef&) {
    const auto with = [](Dims from, Ints perm, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(from), dtype)}, {{"perm", std::move(perm)}}};
    };
    return {with({}, {}),
            with({5}, {0}),
            with({2, 3}, {1, 0}),
            with({2, 3, 5}, {2, 0, 1}),
            with({17, 1, 2}, {1, -1, 0}),
            with({0, 3}, {1, 0}),
            with({3, 5}, {1, 0}, DType::i8),
            with({3, 5}, {1, 0}, DType::bf16)};
}

Cases broadcast_cases(const OpDef&) {
    const auto with = [](Dims from, Dims shape, Ints axes, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(from), dtype)}, {{"shape", std::move(shape)}, {"axes", std::move(axes)}}};
    };
    return {
        with({}, {3, 5}, {}),          with({3}, {3, 5}, {0}),           with({5}, {3, 5}, {1}), with({2, 1}, {2, 3, 5}, {0, 2}),
        with({1, 1}, {17, 2}, {0, 1}), with({2, 3}, {2, 3}, {0, 1}),     with({0}, {2, 0}, {1}), with({1}, {0}, {0}),
        with({5}, {3, 5}, {-1}),       with({3}, {3, 4}, {0}, DType::u8)};
}

Cases slice_cases(const OpDef&) {
    const auto with = [](Dims from, Ints start, Ints stop, Ints step = {}, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(from), dtype)},
                      {{"start", std::move(start)}, {"stop", std::move(stop)}, {"step", std::move(step)}}};
    };
    return {with({}, {}, {}),
            with({5}, {1}, {4}),
            with({17}, {2}, {17}, {5}),
            with({3, 5}, {0, -4}, {2, -1}, {1, 2}),
            with({5}, {3}, {3}),
            with({0, 2}, {0, 0}, {0, 1}),
            with({2, 3, 5}, {1, 0, 4}, {2, 3, 5}),
            with({7}, {4}, {2}),
            with({7}, {1}, {6}, {2}, DType::i8)};
}

Cases concat_cases(const OpDef&) {
    const auto along = [](int64_t axis, std::vector<CaseOperand> parts) { return OpCase{std::move(parts), {{"axis", axis}}}; };
    return {along(0, {spread({3})}),
            along(0, {spread({2}), spread({0}), spread({3})}),
            along(1, {spread({2, 1}), spread({2, 17})}),
            along(-2, {spread({1, 2, 5}), spread({1, 3, 5}), spread({1, 1, 5})}),
            along(0, {spread({0}), spread({0})}),
            along(0, {spread({3}, DType::u8), spread({4}, DType::u8)})};
}

Cases pad_cases(const OpDef&) {
    const auto with = [](Dims from, Ints low, Ints high, Ints interior, double value, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(from), dtype)},
                      {{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}, {"value", value}}};
    };
    return {with({}, {}, {}, {}, 3),
            with({3}, {1}, {2}, {}, 0),
            with({3}, {0}, {0}, {2}, 0.5),
            with({2, 5}, {1, 0}, {0, 3}, {1, 0}, -1),
            with({0}, {2}, {3}, {4}, 7),
            with({1, 17}, {0, 0}, {0, 0}, {}, 1),
            with({5}, {2}, {0}, {1}, 9, DType::i8),
            with({3}, {1}, {1}, {}, 1, DType::boolean)};
}

Cases gather_cases(const OpDef&) {
    const auto along = [](int64_t axis, CaseOperand table, CaseOperand indices) {
        return OpCase{{std::move(table), std::move(indices)}, {{"axis", axis}}};
    };
    return {along(0, spread({5}), index({}, 5)),
            along(0, spread({5, 3}), index({7}, 5)),
            along(1, spread({2, 5, 3}), index({2, 2}, 5)),
            along(-1, spread({3, 17}), index({4}, 17, DType::u32)),
            along(0, spread({5, 2}), wild_index({9}, 5)),
            along(0, spread({3, 2}), index({0}, 3)),
            along(0, spread({3, 0}), index({2}, 3)),
            along(0, spread({1}), wild_index({5}, 1)),
            along(0, spread({6, 3}, DType::u8), index({4}, 6))};
}

Cases scatter_add_cases(const OpDef&) {
    const auto along = [](int64_t axis, int64_t size, CaseOperand indices, CaseOperand updates) {
        return OpCase{{std::move(indices), std::move(updates)}, {{"size", size}, {"axis", axis}}};
    };
    return {along(0, 5, index({}, 5), spread({})),
            along(0, 5, index({17}, 5), spread({17, 3})),
            along(1, 4, index({2, 3}, 4), spread({2, 2, 3, 5})),
            along(-1, 3, index({4}, 3, DType::u32), spread({2, 4})),
            along(0, 3, wild_index({9}, 3), spread({9, 2})),
            along(0, 3, index({0}, 3), spread({0, 2})),
            along(0, 0, wild_index({3}, 1), spread({3})),
            along(0, 4, index({6}, 4), spread({6}, DType::i32))};
}

Cases iota_cases(const OpDef&) {
    Cases cases;
    for (const DType dtype : all_dtypes)
        if (dtype != DType::boolean) cases.push_back({{}, {{"shape", Dims{3, 17}}, {"dtype", dtype}, {"axis", int64_t{-1}}}});
    cases.push_back({{}, {{"shape", Dims{300}}, {"dtype", DType::u8}, {"axis", int64_t{0}}}});
    cases.push_back({{}, {{"shape", Dims{2, 0}}, {"dtype", DType::f32}, {"axis", int64_t{0}}}});
    return cases;
}

Cases reduction_cases(const OpDef& op) {
    Cases cases;
    const auto add = [&](CaseOperand x, Ints axes, bool keep, bool smooth = true) {
        OpCase c{{std::move(x)}, {{"axes", std::move(axes)}, {"keep", keep}}, smooth};
        if (accepts(op, c)) cases.push_back(std::move(c));
    };
    add(spread({}), {}, false);
    add(spread({1}), {0}, true);
    add(spread({3, 5}), {}, false);
    add(spread({17, 2}), {0}, false);
    add(spread({2, 3, 5}), {-1}, true);
    add(spread({2, 3, 5}), {2, 0}, false);
    add(spread({5, 257}), {1}, false);
    add(spread({0, 3}), {1}, false);
    add(spread({3, 0}), {1}, true);
    add(ties({4, 7}), {1}, false, false);
    for (const DType dtype : all_dtypes) add(spread({3, 5}, dtype), {1}, false, dtype == DType::f32);
    return cases;
}

Cases argmax_cases(const OpDef&) {
    const auto along = [](CaseOperand x, int64_t axis, bool keep, bool smooth = true) {
        return OpCase{{std::move(x)}, {{"axis", axis}, {"keep", keep}}, smooth};
    };
    return {along(spread({5}), 0, false),
            along(spread({3, 17}), -1, true),
            along(spread({2, 3, 5}), 1, false),
            along(spread({1}), 0, false),
            along(ties({5, 9}), 1, false, false),
            along(spread({3, 5}, DType::i32), 1, false),
            along(spread({3, 5}, DType::u8), 0, false),
            along(spread({0, 3}), 1, false)};
}

Cases dot_cases(const OpDef&) {
    const auto with = [](Dims a, Dims b, Lists contract, Lists batch, int64_t length, DType dtype = DType::f32) {
        return OpCase{{spread(std::move(a), dtype), spread(std::move(b), dtype)},
                      {{"contract", std::move(contract)}, {"batch", std::move(batch)}},
                      dtype == DType::f32,
                      length};
    };
    return {with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5),
            with({5, 3}, {2, 5}, {{0}, {1}}, {{}, {}}, 5),
            with({17}, {17}, {{0}, {0}}, {{}, {}}, 17),
            with({3}, {2}, {{}, {}}, {{}, {}}, 1),
            with({2, 3, 5}, {5, 2, 3}, {{2}, {0}}, {{0}, {1}}, 5),
            with({2, 3, 5, 2}, {5, 2, 3, 7}, {{1, 2}, {2, 0}}, {{0}, {1}}, 15),
            with({3, 0}, {0, 2}, {{1}, {0}}, {{}, {}}, 0),
            with({0, 3}, {3, 2}, {{1}, {0}}, {{}, {}}, 3),
            with({1, 257}, {257, 1}, {{1}, {0}}, {{}, {}}, 257),
            with({67, 33}, {33, 65}, {{-1}, {-2}}, {{}, {}}, 33),
            with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5, DType::f16),
            with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5, DType::bf16),
            with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5, DType::i32),
            with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5, DType::u32),
            with({3, 5}, {5, 2}, {{1}, {0}}, {{}, {}}, 5, DType::f64)};
}

Cases matmul_cases(const OpDef&) {
    const auto of = [](Dims a, Dims b, int64_t length) {
        return OpCase{{spread(std::move(a)), spread(std::move(b))}, {}, true, length};
    };
    return {of({3}, {3}, 3),
            of({2, 3}, {3}, 3),
            of({3}, {3, 4}, 3),
            of({2, 17}, {17, 3}, 17),
            of({3}, {5, 3, 4}, 3),
            of({5, 2, 3}, {3, 4}, 3),
            of({2, 3}, {5, 3, 4}, 3),
            of({2, 1, 2, 3}, {5, 3, 4}, 3),
            of({2, 3, 5}, {2, 5, 1}, 5),
            of({0, 2, 3}, {0, 3, 2}, 3)};
}

Cases linear_cases(const OpDef&) {
    return {{{spread({3, 5}), spread({2, 5}), spread({2})}, {}, true, 5},
            {{spread({5}), spread({3, 5}), left_out()}, {}, true, 5},
            {{spread({2, 3, 17}), spread({1, 17}), spread({1})}, {}, true, 17},
            {{spread({0, 3}), spread({2, 3}), spread({2})}, {}, true, 3},
            {{spread({4, 5}, DType::f16), spread({3, 5}, DType::f16), spread({3}, DType::f16)}, {}, false, 5}};
}

Cases softmax_cases(const OpDef&) {
    const auto along = [](CaseOperand x, int64_t axis, bool smooth = true) {
        return OpCase{{std::move(x)}, {{"axis", axis}}, smooth};
    };
    return {along(spread({5}), -1),      along(spread({3, 17}), 1), along(spread({5, 3}), 0),
            along(spread({2, 3, 5}), 1), along(spread({1, 1}), 0),  along(spread({0, 3}), 1),
            along(spread({2, 257}), -1), along(ties({3, 5}), -1),   along(spread({3, 5}, DType::f16), -1, false)};
}

Cases rms_norm_cases(const OpDef&) {
    const auto with = [](Dims x, Dims w, int64_t axis, bool weight, bool bias) {
        const CaseOperand of_w{f32(w), Domain::fixed};
        return OpCase{{spread(std::move(x)), weight ? of_w : left_out(), bias ? of_w : left_out()}, {{"axis", axis}}};
    };
    return {with({3, 5}, {5}, -1, true, true),      with({1, 1}, {1}, -1, true, false),    with({17, 257}, {257}, 1, true, true),
            with({2, 3, 5}, {3, 5}, 1, true, true), with({3, 5}, {3, 5}, 0, false, false), with({3, 5}, {5}, -1, false, true),
            with({0, 5}, {5}, -1, true, true)};
}

Cases random_cases(const OpDef&) {
    Cases cases;
    for (const Dims& dims : {Dims{}, Dims{1}, Dims{2, 3, 5}, Dims{17}, Dims{0}, Dims{1000}})
        cases.push_back(
            {{{u32({2}), Domain::random_key}, {u32(), Domain::random_key}}, {{"shape", dims}, {"stream", int64_t{3}}}});
    return cases;
}

constexpr CaseGenerator generators[] = {
    {"reshape", reshape_cases},     {"transpose", transpose_cases},     {"broadcast", broadcast_cases},
    {"slice", slice_cases},         {"concat", concat_cases},           {"pad", pad_cases},
    {"gather", gather_cases},       {"scatter_add", scatter_add_cases}, {"iota", iota_cases},
    {"sum", reduction_cases},       {"mean", reduction_cases},          {"max", reduction_cases},
    {"min", reduction_cases},       {"argmax", argmax_cases},           {"dot", dot_cases},
    {"matmul", matmul_cases},       {"linear", linear_cases},           {"softmax", softmax_cases},
    {"log_softmax", softmax_cases}, {"rms_norm", rms_norm_cases},       {"random_bits", random_cases},
    {"uniform", random_cases},      {"normal", random_cases},           {"gelu", gelu_cases},
    {"geglu", gelu_cases},
};

}  // namespace

double absolute_below(const OpDef& op) {
    return std::find(std::begin(absolute_below_one), std::end(absolute_below_one), op.name) == std::end(absolute_below_one) ? 0
                                                                                                                            : 1;
}

std::string OpCase::label() const {
    std::string text;
    for (const CaseOperand& o : operands) text += (text.empty() ? "" : " ") + (o.left_out ? std::string("-") : to_string(o.type));
    for (const auto& [name, value] : attrs) text += fmt::format(" {}={}", name, to_text(value));
    return text;
}

std::vector<OpCase> op_cases(const OpDef& op) {
    for (const std::span<const CaseGenerator> table : {std::span<const CaseGenerator>(generators), rearranging_cases(),
                                                       loss_cases(), conv_cases(), window_cases(), attention_cases()})
        for (const CaseGenerator& g : table)
            if (g.op == op.name) return g.cases(op);
    return op.batch == Batch::pointwise ? map_cases(op) : Cases{};
}

bool is_multiplied(Domain domain) {
    return domain != Domain::fixed && domain != Domain::unit && domain != Domain::chance && domain != Domain::above_one;
}

// A golden-ratio sequence: evenly spread, all values different, the same on every machine.
Tensor case_values(const CaseOperand& operand, size_t number, double magnitude) {
    const Type& type = operand.type;
    Tensor t = Tensor::zeros(type.dtype, type.shape());
    const bool real = is_float(type.dtype);
    for (int64_t i = 0; i < t.count(); ++i) {
        double whole = 0;
        const double u = std::modf(static_cast<double>(i + 1) * 0.6180339887498949 + 0.37 * static_cast<double>(number), &whole);
        double v = (u - 0.5) * 4;
        switch (operand.domain) {
            case Domain::spread:
            case Domain::fixed: break;
            case Domain::nonzero: v += std::copysign(0.5, v); break;
            case Domain::positive: v = u * 2 + 0.2; break;
            case Domain::unit: v *= 0.42; break;
            case Domain::chance: v = u * 0.9 + 0.05; break;
            case Domain::above_one: v = 1.1 + u * 2 * magnitude; break;
            case Domain::ties: v = std::floor(u * 3) - 1; break;
            case Domain::index: v = std::floor(u * static_cast<double>(operand.limit)); break;
            case Domain::wild_index: v = std::floor(u * static_cast<double>(operand.limit + 6)) - 3; break;
            case Domain::random_key: v = std::floor(u * 4294967295.0); break;
        }
        if (real) {
            t.real[i] = round_to(type.dtype, is_multiplied(operand.domain) ? v * magnitude : v);
        } else if (type.dtype == DType::boolean) {
            t.integer[i] = u < 0.5;
        } else if (operand.domain == Domain::spread || operand.domain == Domain::nonzero || operand.domain == Domain::fixed ||
                   operand.domain == Domain::positive) {
            // Small numbers, then the ends of the range and what overflows. Division by zero is among them.
            const double edge = std::ldexp(1.0, 8 * static_cast<int>(byte_size(type.dtype)) - 1);
            v = i % 5 == 4 ? std::copysign(edge - static_cast<double>(i % 3), v) : std::floor(v * 10 * magnitude);
            t.integer[i] = saturate_to(type.dtype, v);
        } else {
            t.integer[i] = static_cast<int64_t>(v);
        }
    }
    return t;
}

}  // namespace darner
