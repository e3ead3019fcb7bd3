// SPDX-License-Identifier: MIT
// Optimizers as graph functions: from params, their gradients and the step to new values of the params and of the optimizer's
// moments. Formulas and defaults are PyTorch's. The expression is the same for each param and the moments of one kind are
// named in the order of the params, so that the planner can run it once over a window of many params.
#pragma once

#include "darner/graph/builder.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace darner {

// The factor of the learning rate at a step: from `step`, a float that counts from 0, to a value of its type. Without one the
// rate is constant.
using Schedule = std::function<Value(Value step)>;

// Grows from 0 over the first `warmup` steps, stays 1 up to step `decay_from`, then falls like 1 / sqrt(step). It does not depend
// on where a training ends, so one that goes on further is the same training.
Schedule warmup_and_decay(uint32_t warmup, uint32_t decay_from, Where where = Where::here());

struct SgdOptions {
    double learning_rate = 1e-3;
    double momentum = 0;
    bool nesterov = false;
    double weight_decay = 0;
    Schedule schedule = {};
};
// weight_decay is added to the gradient (L2 regularisation).
struct AdamOptions {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
    Schedule schedule = {};
};
// weight_decay shrinks the param itself (decoupled).
struct AdamWOptions {
    double learning_rate = 1e-3;
    double beta1 = 0.9, beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 1e-2;
    Schedule schedule = {};
};

struct TrainedParam {
    std::string name;
    Value param, gradient;
};
struct StateUpdate {
    Value param, value;
};

struct Optimizer {
    std::string name;
    // `step` counts from 0. Moments are made as params of role moment: "adam.m.NAME". Mistakes in the options go to the
    // builder.
    std::function<std::vector<StateUpdate>(Builder&, std::span<const TrainedParam>, Value step)> updates;
};

// What they add to a graph has the place of the call that makes the optimizer.
Optimizer sgd(SgdOptions options = {}, Where where = Where::here());
Optimizer adam(AdamOptions options = {}, Where where = Where::here());
Optimizer adamw(AdamWOptions options = {}, Where where = Where::here());

// By the name of the command's --optimizer: sgd (with a momentum of 0.9), adam or adamw. The learning rate is within the range of
// f32, in which updates are computed.
Result<Optimizer> optimizer_named(const std::string& name, double learning_rate, Schedule schedule = {},
                                  Where where = Where::here());

// 1 - beta^t without the cancellation of that form: the bias correction of a running mean.
Value one_minus_power(double beta, Value t, Where where = Where::here());

}  // namespace darner
