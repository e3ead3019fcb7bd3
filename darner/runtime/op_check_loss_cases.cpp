// SPDX-License-Identifier: MIT
// Cases of the op table test for losses, gated units and dropout; see op_check_cases.h.
#include "darner/runtime/op_check_cases.h"

namespace darner {
namespace {

using Cases = std::vector<OpCase>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

AttrValue text(const char* value) { return std::string(value); }

void add_class_weights(Cases& cases, bool smoothing) {
    for (const char* reduction : {"mean", "none"}) {
        const Attrs ignoring = {{"reduction", text(reduction)}, {"ignore_index", int64_t{1}}};
        cases.push_back({{spread({7, 5}), index({7}, 5), drawn(Domain::chance, {5})}, {{"reduction", text(reduction)}}});
        cases.push_back({{spread({7, 5}), wild_index({7}, 5), left_out()}, ignoring});
        Attrs all = ignoring;
        all.emplace_back("axis", int64_t{1});
        if (smoothing) all.emplace_back("label_smoothing", 0.1);
        cases.push_back({{spread({2, 4, 3}), wild_index({2, 3}, 4), drawn(Domain::chance, {4})}, all});
    }
}

Cases nll_cases(const OpDef&) {
    Cases cases;
    for (const char* reduction : {"mean", "sum", "none"}) {
        const auto add = [&](Dims logits, CaseOperand labels, int64_t axis) {
            cases.push_back(
                {{spread(std::move(logits)), std::move(labels), left_out()}, {{"axis", axis}, {"reduction", text(reduction)}}});
        };
        add({3, 5}, index({3}, 5), -1);
        add({5}, index({}, 5), 0);
        add({2, 17, 3}, index({2, 3}, 17, DType::u32), 1);
        add({7, 5}, wild_index({7}, 5), -1);
        add({1, 1}, index({1}, 1), -1);
        add({2, 257}, index({2}, 257), -1);
    }
    cases.push_back({{spread({0, 5}), index({0}, 5), left_out()}, {{"reduction", text("sum")}}});
    return cases;
}

Cases plain_nll_cases(const OpDef& op) {
    Cases cases = nll_cases(op);
    add_class_weights(cases, false);
    return cases;
}

Cases cross_entropy_cases(const OpDef& op) {
    Cases cases = nll_cases(op);
    add_class_weights(cases, true);
    const auto soft = [](Dims dims) { return drawn(Domain::chance, std::move(dims)); };
    for (const char* reduction : {"mean", "sum", "none"}) {
        cases.push_back({{spread({3, 5}), soft({3, 5}), left_out()}, {{"reduction", text(reduction)}}});
        cases.push_back({{spread({3, 5}), soft({3, 5}), soft({5})}, {{"reduction", text(reduction)}, {"label_smoothing", 0.25}}});
    }
    cases.push_back({{spread({2, 4, 3}), soft({2, 4, 3}), left_out()}, {{"axis", int64_t{1}}}});
    cases.push_back({{spread({3, 5}), index({3}, 5), left_out()}, {{"label_smoothing", 0.1}}});
    return cases;
}

Cases pair_cases(const OpDef& op) {
    Cases cases;
    const bool log_probabilities = op.find_attr("log_target") != nullptr;
    const bool signs = op.find_attr("margin") != nullptr;
    const auto target = [&](const Dims& dims) { return drawn(log_probabilities ? Domain::chance : Domain::fixed, dims); };
    for (const char* reduction : {"mean", "sum", "none"})
        for (const Dims& dims : {Dims{}, Dims{17}, Dims{3, 5}})
            cases.push_back({{spread(dims), target(dims)}, {{"reduction", text(reduction)}}});
    cases.push_back({{spread({0}), target({0})}, {{"reduction", text("sum")}}});
    cases.push_back({{spread({9}, DType::f16), drawn(Domain::chance, {9}, DType::f16)}, {}, false});
    if (!log_probabilities) cases.push_back({{ties({9}), drawn(Domain::ties, {9})}, {}, false});
    for (const char* attr : {"delta", "beta"})
        if (op.find_attr(attr))
            for (const double value : {0.3, 0.0}) {
                OpCase c{{spread({17}), target({17})}, {{attr, value}}};
                if (accepts(op, c)) cases.push_back(std::move(c));
            }
    if (signs) cases.push_back({{spread({17}), target({17})}, {{"margin", 0.25}}});
    if (log_probabilities) {
        cases.push_back({{spread({3, 5}), drawn(Domain::fixed, {3, 5})}, {{"log_target", true}}});
        cases.push_back({{spread({3, 5}), target({3, 5})}, {{"reduction", text("batchmean")}}});
    }
    return cases;
}

Cases bce_cases(const OpDef&) {
    Cases cases;
    const auto chance = [](Dims dims) { return drawn(Domain::chance, std::move(dims)); };
    for (const char* reduction : {"mean", "sum", "none"}) {
        const Attrs attrs = {{"reduction", text(reduction)}};
        cases.push_back({{spread({17}), chance({17}), left_out(), left_out()}, attrs});
        cases.push_back({{spread({3, 5}), chance({3, 5}), chance({5}), chance({3, 1})}, attrs});
        cases.push_back({{spread({}), chance({}), left_out(), chance({})}, attrs});
    }
    cases.push_back({{spread({0, 3}), chance({0, 3}), left_out(), chance({3})}, {{"reduction", text("sum")}}});
    return cases;
}

Cases prelu_cases(const OpDef&) {
    const auto with = [](Dims x, Dims weight, int64_t axis) {
        return OpCase{{spread(std::move(x)), drawn(Domain::fixed, std::move(weight))}, {{"axis", axis}}};
    };
    return {with({2, 3, 5}, {3}, 1), with({2, 3}, {1}, 1), with({5}, {}, 1),
            with({3, 17}, {17}, -1), with({2, 1}, {1}, 1), with({0, 3}, {3}, 1)};
}

Cases glu_cases(const OpDef&) {
    const auto along = [](CaseOperand x, int64_t axis, bool smooth = true) {
        return OpCase{{std::move(x)}, {{"axis", axis}}, smooth};
    };
    return {along(spread({6}), -1), along(spread({3, 4, 5}), 1), along(spread({2, 0}), 1),
            along(spread({2, 6}, DType::f16), 1, false)};
}

Cases dropout_cases(const OpDef& op) {
    Cases cases;
    const CaseOperand key = drawn(Domain::random_key, {2}, DType::u32), counter = drawn(Domain::random_key, {}, DType::u32);
    for (const Dims& dims : {Dims{}, Dims{17}, Dims{2, 3, 5}, Dims{0}, Dims{1000}}) {
        for (const double p : {0.5, 0.0, 1.0, 0.1}) {
            OpCase c{{op.find_attr("p") ? spread(dims) : drawn(Domain::chance, dims), key, counter}, {{"stream", int64_t{3}}}};
            if (op.find_attr("p")) c.attrs.emplace_back("p", p);
            if (op.find_attr("p") || p == 0.5) cases.push_back(std::move(c));
        }
    }
    return cases;
}

constexpr CaseGenerator generators[] = {
    {"cross_entropy", cross_entropy_cases},
    {"nll", plain_nll_cases},
    {"mse", pair_cases},
    {"l1", pair_cases},
    {"huber", pair_cases},
    {"smooth_l1", pair_cases},
    {"hinge", pair_cases},
    {"hinge_embedding", pair_cases},
    {"kl_div", pair_cases},
    {"binary_cross_entropy_with_logits", bce_cases},
    {"prelu", prelu_cases},
    {"glu", glu_cases},
    {"bernoulli", dropout_cases},
    {"dropout", dropout_cases},
};

}  // namespace

std::span<const CaseGenerator> loss_cases() { return generators; }

}  // namespace darner
