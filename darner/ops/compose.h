// SPDX-License-Identifier: MIT
// Building blocks of gradient rules and expansions: constants shaped like a value, a reduced value spread out again, and
// half-precision values computed in f32.
#pragma once

#include "darner/ops/infer.h"
#include "darner/ops/ops.h"

namespace darner {

// A constant of `like`'s type.
Value splat(Value like, double value);
// A reduction's result (or anything of its shape) repeated along the reduced axes: back to the shape of the operand.
Value spread(Value reduced, const Dims& dims, const std::vector<size_t>& axes, bool keep);
// Reductions over one axis, spread out again.
Value sum_spread(Value x, size_t axis);
Value max_spread(Value x, size_t axis);

// f16 and bf16 as f32: sums, norms and losses are not computed in half precision. Other dtypes pass.
Value widen(Value x);
Value narrow(Value x, DType dtype);

// What a mean and a variance over `axes` are made of, for f32 and wider. The squares are of distances from the mean, and what
// rounding has left of a mean in those is taken out again, so that nothing cancels where the mean is far from 0.
struct Moments {
    Value centered;  // x - mean
    Value squares;   // the sum of its squares, without the axes
};
Moments moments(Value x, const std::vector<size_t>& axes, int64_t count);

// Indices moved into 0 .. size-1; as they are where size is 0.
Value clamp_indices(Value indices, int64_t size);

// The number of elements along `axes` where it is known; otherwise the builder fails with a message that names the op.
std::optional<int64_t> concrete_count(const BuildCall& c, const Dims& dims, const std::vector<size_t>& axes);

}  // namespace darner
