// SPDX-License-Identifier: MIT
// Cases of attention, of the kernels behind it, and of rotary; see op_check_cases.h.
#include "darner/runtime/op_check_cases.h"

namespace darner {
namespace {

using Cases = std::vector<OpCase>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

struct Sizes {
    int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, depth = 1, width = 1;
    Dims q() const { return {batch, heads, queries, depth}; }
    Dims k() const { return {batch, kv_heads, keys, depth}; }
    Dims v() const { return {batch, kv_heads, keys, width}; }
    Dims y() const { return {batch, heads, queries, width}; }
};
constexpr Sizes usual{2, 4, 2, 5, 7, 3, 2};

CaseOperand boolean(Dims dims) { return {{DType::boolean, std::move(dims)}}; }

Cases own_cases(const OpDef&) {
    Cases cases;
    const auto add = [&](const Sizes& s, Attrs attrs = {}, CaseOperand mask = left_out(), CaseOperand position = left_out(),
                         DType dtype = DType::f32) {
        attrs.emplace_back("stream", int64_t{3});
        cases.push_back({{spread(s.q(), dtype), spread(s.k(), dtype), spread(s.v(), dtype), std::move(mask), std::move(position),
                          left_out(), left_out()},
                         std::move(attrs),
                         dtype == DType::f32});
    };
    const Attrs causal = {{"causal", true}};
    add(usual);
    add({1, 1, 1, 1, 1, 1, 1});
    add({1, 3, 1, 4, 4, 17, 17}, causal);
    add({1, 2, 2, 9, 3, 1, 5}, causal);
    // Several tiles. Scores stay small: those of large operands choose one key, and differences show the choice change.
    add({2, 1, 1, 35, 70, 4, 33}, {{"window", int64_t{9}}});
    cases.back().operands[0].domain = cases.back().operands[1].domain = Domain::unit;
    add({1, 2, 1, 70, 35, 5, 4}, {{"causal", true}, {"window", int64_t{11}}});
    cases.back().operands[0].domain = cases.back().operands[1].domain = Domain::unit;
    add({1, 1, 1, 3, 4, 80, 1}, {{"scale", 0.05}, {"soft_cap", 2.0}});
    add({1, 1, 1, 2, 5, 1, 130}, causal);
    add(usual, {}, boolean({5, 7}));
    add(usual, causal, boolean({2, 1, 1, 7}));
    add(usual, {}, spread({4, 1, 7}));
    add(usual, {{"soft_cap", 1.5}}, spread({2, 4, 5, 1}));
    add(usual, {}, spread({1}));
    add({2, 6, 2, 1, 40, 4, 4}, causal, left_out(), index({}, 40, DType::u32));
    add({3, 2, 1, 2, 40, 4, 4}, {{"causal", true}, {"window", int64_t{6}}}, left_out(), wild_index({3}, 40));
    add({2, 2, 2, 3, 8, 4, 4}, {{"window", int64_t{3}}}, boolean({3, 8}), wild_index({2}, 8));
    for (const Sizes& empty : {Sizes{0, 2, 1, 3, 4, 2, 2}, Sizes{1, 2, 1, 0, 4, 2, 2}, Sizes{1, 2, 1, 3, 0, 2, 2}}) add(empty);
    add(usual, causal, left_out(), left_out(), DType::f16);
    add(usual, {}, left_out(), left_out(), DType::bf16);
    for (const double p : {0.5, 0.1, 1.0}) {
        const CaseOperand key = drawn(Domain::random_key, {2}, DType::u32), counter = drawn(Domain::random_key, {}, DType::u32);
        cases.push_back({{spread(usual.q()), spread(usual.k()), spread(usual.v()), left_out(), left_out(), key, counter},
                         {{"dropout", p}, {"causal", p == 0.1}, {"stream", int64_t{3}}}});
    }
    return cases;
}

// Operands that rows of numbers from elsewhere go with: small, at all magnitudes.
Cases kernel_cases(const OpDef& op) {
    Cases cases;
    const bool backward = op.operands.size() == 8, of_mask = op.name == "attention_dmask";
    const auto add = [&](const Sizes& s, Attrs attrs, CaseOperand mask = left_out(), bool at_position = false,
                         bool bits = false) {
        const auto drawn_as = [&](Dims dims) {
            return backward ? drawn(Domain::unit, std::move(dims)) : spread(std::move(dims));
        };
        attrs.emplace_back("scale", 0.5);
        OpCase c{{drawn_as(s.q()), drawn_as(s.k()), drawn_as(s.v()), std::move(mask)}, std::move(attrs)};
        c.operands.push_back(at_position ? wild_index({s.batch}, s.keys) : left_out());
        c.operands.push_back(bits ? drawn(Domain::random_key, {s.batch, s.heads, s.queries, (s.keys + 3) / 4 * 4}, DType::u32)
                                  : left_out());
        if (backward) {
            c.operands.push_back(drawn(Domain::unit, s.y()));
            c.operands.push_back(drawn(Domain::chance, {s.batch, s.heads, s.queries, 3}));
        }
        if (!of_mask || (!c.operands[3].left_out && is_float(c.operands[3].type.dtype))) cases.push_back(std::move(c));
    };
    const auto additive = [](Dims dims) { return drawn(Domain::unit, std::move(dims)); };
    add(usual, {});
    add(usual, {{"causal", true}}, additive({1, 4, 1, 7}));
    add(usual, {{"window", int64_t{3}}}, boolean({2, 1, 5, 7}), true);
    add({1, 1, 1, 33, 34, 17, 5}, {{"soft_cap", 0.7}}, additive({1, 1, 33, 34}));
    add(usual, {{"dropout", 0.3}}, additive({1, 1, 1, 1}), false, true);
    return cases;
}

Cases rotary_cases(const OpDef&) {
    const auto with = [](Dims x, Attrs attrs = {}, CaseOperand position = left_out(), DType dtype = DType::f32) {
        return OpCase{{spread(std::move(x), dtype), std::move(position)}, std::move(attrs), dtype == DType::f32};
    };
    const Attrs interleaved = {{"layout", std::string("interleaved")}};
    return {with({5, 4}),
            with({2, 3, 5, 8}, interleaved),
            with({2, 3, 8}, {{"dims", int64_t{4}}, {"theta", 100.0}}),
            with({2, 1, 3, 7}, {{"layout", std::string("interleaved")}, {"dims", int64_t{6}}, {"offset", int64_t{9}}}),
            with({2, 3, 5, 2}, {}, index({}, 50, DType::u32)),
            with({3, 2, 4, 4}, interleaved, index({3}, 50)),
            with({2, 2, 4, 4}, {{"offset", int64_t{-2}}}, index({2, 4}, 50)),
            with({2, 4, 4}, {}, index({1, 4}, 50)),
            with({1, 3}, {{"dims", int64_t{0}}}),
            with({0, 3, 4}),
            with({2, 3, 4}, {}, left_out(), DType::f16)};
}

constexpr CaseGenerator generators[] = {
    {"attention", own_cases},          {"attention_forward", kernel_cases},
    {"attention_rows", kernel_cases},  {"attention_dq", kernel_cases},
    {"attention_dk", kernel_cases},    {"attention_dv", kernel_cases},
    {"attention_dmask", kernel_cases}, {"rotary", rotary_cases},
};

}  // namespace

std::span<const CaseGenerator> attention_cases() { return generators; }

}  // namespace darner
