// SPDX-License-Identifier: MIT
// Typed calls of the ops, for C++ programs, layers and expansions. Each adds a node (elementwise ones broadcast their
// operands); meaning, attributes and gradients are in the op's entry (darner/ops/*.cpp, docs/ops.md).
#pragma once

#include "darner/graph/builder.h"

#include <optional>

namespace darner {

// Elementwise arithmetic.
Value add(Value a, Value b, Where where = Where::here());
Value sub(Value a, Value b, Where where = Where::here());
Value mul(Value a, Value b, Where where = Where::here());
Value div(Value a, Value b, Where where = Where::here());
Value rem(Value a, Value b, Where where = Where::here());
Value pow(Value a, Value b, Where where = Where::here());
Value maximum(Value a, Value b, Where where = Where::here());
Value minimum(Value a, Value b, Where where = Where::here());
Value neg(Value x, Where where = Where::here());
Value abs(Value x, Where where = Where::here());
Value sign(Value x, Where where = Where::here());
Value exp(Value x, Where where = Where::here());
Value log(Value x, Where where = Where::here());
Value sqrt(Value x, Where where = Where::here());
Value rsqrt(Value x, Where where = Where::here());
Value sin(Value x, Where where = Where::here());
Value cos(Value x, Where where = Where::here());
Value tanh(Value x, Where where = Where::here());
Value sigmoid(Value x, Where where = Where::here());
Value relu(Value x, Where where = Where::here());
Value floor(Value x, Where where = Where::here());

// Comparisons give bool; logic on bool.
Value eq(Value a, Value b, Where where = Where::here());
Value ne(Value a, Value b, Where where = Where::here());
Value lt(Value a, Value b, Where where = Where::here());
Value le(Value a, Value b, Where where = Where::here());
Value gt(Value a, Value b, Where where = Where::here());
Value ge(Value a, Value b, Where where = Where::here());
Value logical_and(Value a, Value b, Where where = Where::here());
Value logical_or(Value a, Value b, Where where = Where::here());
Value logical_not(Value a, Where where = Where::here());
Value select(Value condition, Value if_true, Value if_false, Where where = Where::here());
Value cast(Value x, DType dtype, Where where = Where::here());
// y = x, kept in memory: fusion stops here.
Value materialize(Value x, Where where = Where::here());

// Shape.
// One dim may be -1: what the others leave over.
Value reshape(Value x, Dims shape, Where where = Where::here());
Value transpose(Value x, std::vector<int64_t> perm, Where where = Where::here());
Value broadcast(Value x, Dims shape, std::vector<int64_t> axes, Where where = Where::here());
Value slice(Value x, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> step = {},
            Where where = Where::here());
Value concat(std::span<const Value> parts, int64_t axis, Where where = Where::here());
Value pad(Value x, std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior = {}, double value = 0,
          Where where = Where::here());
Value gather(Value table, Value indices, int64_t axis = 0, Where where = Where::here());
// Zeros of `size` along `axis`, plus updates added at indices: the transpose of gather.
Value scatter_add(Value indices, Value updates, int64_t size, int64_t axis = 0, Where where = Where::here());

// Reductions. Empty axes mean all.
Value sum(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value mean(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value max(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value min(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value argmax(Value x, int64_t axis = -1, bool keep = false, Where where = Where::here());

// Contractions.
Value dot(Value a, Value b, std::vector<std::vector<int64_t>> contract, std::vector<std::vector<int64_t>> batch = {{}, {}},
          Where where = Where::here());
Value matmul(Value a, Value b, Where where = Where::here());
Value linear(Value x, Value w, Value b = {}, Where where = Where::here());

// Softmax, norms, losses.
Value softmax(Value x, int64_t axis = -1, Where where = Where::here());
Value log_softmax(Value x, int64_t axis = -1, Where where = Where::here());
Value rms_norm(Value x, Value w = {}, Value b = {}, int64_t axis = -1, double eps = 1e-5, Where where = Where::here());
Value cross_entropy(Value logits, Value labels, std::string_view reduction = "mean", Where where = Where::here());
Value mse(Value prediction, Value target, std::string_view reduction = "mean", Where where = Where::here());

// Random: key u32[2] and counter u32[] decide the values; each call is a stream of its own.
Value random_bits(Value key, Value counter, Dims shape, Where where = Where::here());
Value uniform(Value key, Value counter, Dims shape, double low = 0, double high = 1, Where where = Where::here());
Value normal(Value key, Value counter, Dims shape, double mean = 0, double stddev = 1, Where where = Where::here());

}  // namespace darner
