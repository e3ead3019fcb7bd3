// SPDX-License-Identifier: MIT
// Networks of usual form.
#pragma once

#include "darner/nn/layers.h"

#include <span>

namespace darner {

// Linear layers with relu between: params 0.weight, 0.bias, 2.weight, ... as in torch.nn.Sequential(Linear, ReLU, Linear).
Value mlp(Value x, std::span<const int64_t> hidden, int64_t classes, Where where = Where::here());

}  // namespace darner
