// SPDX-License-Identifier: MIT
// For gradients of what reads windows: the values that the windows over each place hold, and their sum.
#pragma once

#include "darner/ops/compose.h"

namespace darner {

// y[.., windows, .., elements of a window] -> [.., places, .., terms]: see the op.
Value fold_terms(Value y, std::vector<int64_t> axes, std::vector<int64_t> lengths, const WindowOptions& options);

// The sum over the last axes, from `outer` on, of what `term` makes of `parts`, which all have one shape. A few are added one by
// one where the result is used, so `term` also takes parts without those axes; more are a reduction of their own.
Value sum_terms(std::span<const Value> parts, size_t outer, const std::function<Value(std::span<const Value>)>& term);

}  // namespace darner
