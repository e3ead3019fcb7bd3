// SPDX-License-Identifier: MIT
// Norms and dropout as layers, with PyTorch's names, starts and defaults: `weight` of ones, `bias` of zeros, and of batch norms
// `running_mean`, `running_var` and `num_batches_tracked`.
//
// Batch norm and dropout do one thing in training and another afterwards, so they are told which. A network is a function of
// the mode, called once for the training graph and once for that of evaluation; params of one name are one state:
//     Value net(Value x, Mode mode) { return Sequential{linear(64), batch_norm(mode), relu(), dropout(mode, 0.1)}(x); }
#pragma once

#include "darner/nn/layers.h"

#include <optional>
#include <string>

namespace darner {

enum class Mode : uint8_t { training, inference };

struct LayerNormOptions {
    std::string name = {};
    int64_t axis = -1;  // the first normalised axis
    bool weight = true, bias = true;
    double eps = 1e-5;
};
Value layer_norm(Value x, LayerNormOptions options, Where where = Where::here());

// Over axis 1, the channels, of x [N, C, ..].
struct ChannelNormOptions {
    std::string name = {};
    bool affine = true;  // has `weight` and `bias`
    double eps = 1e-5;
};
Value group_norm(Value x, int64_t groups, ChannelNormOptions options, Where where = Where::here());
Value instance_norm(Value x, ChannelNormOptions options, Where where = Where::here());  // PyTorch's default is affine = false

struct BatchNormOptions {
    std::string name = {};
    bool affine = true;
    double eps = 1e-5;
    std::optional<double> momentum = 0.1;  // share of the newest batch in the running statistics; none: their plain mean
};
// In training with the statistics of x, of which the running ones take their share at the end of the step (the variance with
// the number of elements less one in the divisor); afterwards with the running statistics.
Value batch_norm(Value x, Mode mode, BatchNormOptions options = {}, Where where = Where::here());

// In training each element is 0 with probability p and else divided by 1 - p, by the module's seed and step; afterwards x.
Value dropout(Value x, Mode mode, double p = 0.5, Where where = Where::here());

Layer layer_norm(LayerNormOptions options = {}, Where where = Where::here());
Layer group_norm(int64_t groups, ChannelNormOptions options = {}, Where where = Where::here());
Layer instance_norm(ChannelNormOptions options = {}, Where where = Where::here());
Layer batch_norm(Mode mode, BatchNormOptions options = {}, Where where = Where::here());
Layer dropout(Mode mode, double p = 0.5, Where where = Where::here());

}  // namespace darner
