// SPDX-License-Identifier: MIT
// SGD, Adam and AdamW. Arithmetic is in f32 for params of narrower types, else in the param's own type.
#include "darner/nn/optimizers.h"

#include "darner/base/nearest.h"
#include "darner/ops/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace darner {
namespace {

DType compute_dtype(DType param) { return param == DType::f64 ? DType::f64 : DType::f32; }

Value cast_if_needed(Value x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

// A moment of a param: zeros at the start.
Value moment(Builder& b, std::string_view kind, const TrainedParam& p) {
    const Type type = p.param.type().with(compute_dtype(p.param.dtype()));
    return b.param(fmt::format("{}.{}", kind, p.name), type,
                   {.init = b.constant(type, 0.0), .trainable = false, .role = Role::moment});
}

// Collects what is wrong with an optimizer's numbers. NaN is never right.
class OptionCheck {
public:
    explicit OptionCheck(std::string_view optimizer) : optimizer_(optimizer) {}
    void not_negative(std::string_view name, double v) {
        if (!(v >= 0) || std::isinf(v)) add(fmt::format("{} is {}, expected a number from 0 on", name, v));
    }
    void fraction(std::string_view name, double v) {
        if (!(v >= 0 && v < 1)) add(fmt::format("{} is {}, expected a number from 0 up to but not 1", name, v));
    }
    void add(const std::string& problem) { problems_ += (problems_.empty() ? "" : "; ") + problem; }
    bool passes(Builder& b) const {
        if (!problems_.empty()) b.fail(invalid(fmt::format("[{}] {}", optimizer_, problems_)));
        return problems_.empty();
    }

private:
    std::string optimizer_, problems_;
};

// The scheduled learning rate, computed once a step; nothing where it is constant.
Value scheduled_rate(const Schedule& schedule, double learning_rate, Value step, DType dtype) {
    return schedule ? materialize(schedule(cast(step, dtype)) * learning_rate) : Value{};
}
Value times_rate(Value x, Value scheduled, double constant) { return scheduled.valid() ? x * scheduled : x * constant; }

std::vector<StateUpdate> sgd_updates(const SgdOptions& o, Builder& b, std::span<const TrainedParam> params, Value step) {
    OptionCheck check("sgd");
    check.not_negative("learning_rate", o.learning_rate);
    check.not_negative("momentum", o.momentum);
    check.not_negative("weight_decay", o.weight_decay);
    if (o.nesterov && o.momentum == 0) check.add("nesterov needs a momentum above 0");
    if (!check.passes(b)) return {};
    std::map<DType, Value> rates;
    std::vector<StateUpdate> updates;
    for (const TrainedParam& trained : params) {
        const DType dtype = compute_dtype(trained.param.dtype());
        if (!rates.contains(dtype)) rates[dtype] = scheduled_rate(o.schedule, o.learning_rate, step, dtype);
        const Value p = cast_if_needed(trained.param, dtype);
        Value g = cast_if_needed(trained.gradient, dtype);
        if (o.weight_decay != 0) g = g + p * o.weight_decay;
        if (o.momentum != 0) {
            const Value buffer = moment(b, "sgd.momentum", trained);
            const Value next = buffer * o.momentum + g;
            updates.push_back({buffer, next});
            g = o.nesterov ? g + next * o.momentum : next;
        }
        updates.push_back(
            {trained.param, cast_if_needed(p - times_rate(g, rates[dtype], o.learning_rate), trained.param.dtype())});
    }
    return updates;
}

// What Adam's update shares between all params, computed once a step.
struct AdamScalars {
    Value rate;  // invalid where it is constant
    Value step_size, root_correction2;
};

AdamScalars adam_scalars(const AdamOptions& o, Value step, DType dtype) {
    const Value t = cast(step, dtype) + 1.0;
    const Value rate = scheduled_rate(o.schedule, o.learning_rate, step, dtype);
    const Value correction1 = one_minus_power(o.beta1, t);
    const Value step_size = rate.valid() ? rate / correction1 : o.learning_rate / correction1;
    return {rate, materialize(step_size), materialize(sqrt(one_minus_power(o.beta2, t)))};
}

// `decoupled_decay` is AdamW's; Adam's own weight_decay is in the options.
std::vector<StateUpdate> adam_updates(std::string_view name, const AdamOptions& o, double decoupled_decay, Builder& b,
                                      std::span<const TrainedParam> params, Value step) {
    OptionCheck check(name);
    check.not_negative("learning_rate", o.learning_rate);
    check.fraction("beta1", o.beta1);
    check.fraction("beta2", o.beta2);
    check.not_negative("eps", o.eps);
    check.not_negative("weight_decay", o.weight_decay + decoupled_decay);
    if (!check.passes(b)) return {};
    std::map<DType, AdamScalars> scalars;
    std::vector<StateUpdate> updates;
    for (const TrainedParam& trained : params) {
        const DType dtype = compute_dtype(trained.param.dtype());
        if (!scalars.contains(dtype)) scalars.emplace(dtype, adam_scalars(o, step, dtype));
        const auto& [rate, step_size, root_correction2] = scalars.at(dtype);
        Value p = cast_if_needed(trained.param, dtype);
        Value g = cast_if_needed(trained.gradient, dtype);
        if (o.weight_decay != 0) g = g + p * o.weight_decay;
        if (decoupled_decay != 0)
            p = rate.valid() ? p - p * (rate * decoupled_decay) : p * (1 - o.learning_rate * decoupled_decay);
        const Value m = moment(b, fmt::format("{}.m", name), trained);
        const Value v = moment(b, fmt::format("{}.v", name), trained);
        const Value next_m = m + (g - m) * (1 - o.beta1);
        const Value next_v = v * o.beta2 + g * g * (1 - o.beta2);
        const Value denominator = sqrt(next_v) / root_correction2 + o.eps;
        updates.push_back({m, next_m});
        updates.push_back({v, next_v});
        updates.push_back({trained.param, cast_if_needed(p - step_size * (next_m / denominator), trained.param.dtype())});
    }
    return updates;
}

}  // namespace

// 1 - e^y for y = t log(beta) <= 0: by the series of e^y - 1 near 0, where 1 - e^y would keep only the digits that the
// device's exp gets right beyond the 1. The logarithm is taken on the host, in double.
Value one_minus_power(double beta, Value t, Where where) {
    if (!t.valid()) return {};
    Builder& b = *t.builder;
    const Builder::Place place = b.place(where);
    if (beta == 0) return b.constant(t.type(), 1.0);
    constexpr double series_from = -0.5;
    constexpr int terms = 12;  // 0.5^13 / 13! is below 1e-13
    const Value y = t * std::log(beta);
    Value series = y * (1.0 / terms) + 1.0;
    for (int n = terms - 1; n >= 2; --n) series = series * y * (1.0 / n) + 1.0;
    return select(gt(y, b.constant(y.type(), series_from)), -(series * y), 1.0 - exp(y));
}

Schedule warmup_and_decay(uint32_t warmup, uint32_t decay_from, Where where) {
    return [=](Value step) {
        const Builder::Place place = step.builder->place(where);
        const Value t = step + 1.0;
        const Value falling = rsqrt(clamp(t * (1.0 / std::max(decay_from, 1u)), 1.0, {}));
        return clamp(t * (1.0 / std::max(warmup, 1u)), {}, 1.0) * falling;
    };
}

Result<Optimizer> optimizer_named(const std::string& name, double learning_rate, Schedule schedule, Where where) {
    using Limits = std::numeric_limits<float>;  // the update flushes what is smaller to zero
    if (!(learning_rate >= Limits::min() && learning_rate <= Limits::max()))
        return invalid(fmt::format("[train] the learning rate is {}, expected a number from {:.3g} to {:.3g}", learning_rate,
                                   Limits::min(), Limits::max()));
    if (name == "sgd") return sgd({.learning_rate = learning_rate, .momentum = 0.9, .schedule = std::move(schedule)}, where);
    if (name == "adam") return adam({.learning_rate = learning_rate, .schedule = std::move(schedule)}, where);
    if (name == "adamw") return adamw({.learning_rate = learning_rate, .schedule = std::move(schedule)}, where);
    Error error = invalid(fmt::format("[train] there is no optimizer {}: expected sgd, adam or adamw", name));
    error.hint = did_you_mean(name, std::vector<std::string>{"sgd", "adam", "adamw"});
    return error;
}

Optimizer sgd(SgdOptions options, Where where) {
    return {"sgd", [=](Builder& b, std::span<const TrainedParam> params, Value step) {
                const Builder::Place place = b.place(where);
                return sgd_updates(options, b, params, step);
            }};
}

Optimizer adam(AdamOptions options, Where where) {
    return {"adam", [=](Builder& b, std::span<const TrainedParam> params, Value step) {
                const Builder::Place place = b.place(where);
                return adam_updates("adam", options, 0, b, params, step);
            }};
}

Optimizer adamw(AdamWOptions options, Where where) {
    const AdamOptions base{options.learning_rate, options.beta1, options.beta2, options.eps, 0, options.schedule};
    return {"adamw", [=](Builder& b, std::span<const TrainedParam> params, Value step) {
                const Builder::Place place = b.place(where);
                return adam_updates("adamw", base, options.weight_decay, b, params, step);
            }};
}

}  // namespace darner
