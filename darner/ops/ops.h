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
Value ceil(Value x, Where where = Where::here());
Value trunc(Value x, Where where = Where::here());
Value round(Value x, Where where = Where::here());
Value reciprocal(Value x, Where where = Where::here());
Value exp2(Value x, Where where = Where::here());
Value expm1(Value x, Where where = Where::here());
Value log2(Value x, Where where = Where::here());
Value log1p(Value x, Where where = Where::here());
Value tan(Value x, Where where = Where::here());
Value asin(Value x, Where where = Where::here());
Value acos(Value x, Where where = Where::here());
Value atan(Value x, Where where = Where::here());
Value sinh(Value x, Where where = Where::here());
Value cosh(Value x, Where where = Where::here());
Value asinh(Value x, Where where = Where::here());
Value acosh(Value x, Where where = Where::here());
Value atanh(Value x, Where where = Where::here());
Value erf(Value x, Where where = Where::here());
Value erfc(Value x, Where where = Where::here());
Value mod(Value a, Value b, Where where = Where::here());
Value logaddexp(Value a, Value b, Where where = Where::here());
Value atan2(Value y, Value x, Where where = Where::here());
// Either bound may be left out.
Value clamp(Value x, std::optional<double> min, std::optional<double> max, Where where = Where::here());

// Bits of integers; tests of floats.
Value bitwise_and(Value a, Value b, Where where = Where::here());
Value bitwise_or(Value a, Value b, Where where = Where::here());
Value bitwise_xor(Value a, Value b, Where where = Where::here());
Value bitwise_not(Value x, Where where = Where::here());
Value bitwise_left_shift(Value x, Value count, Where where = Where::here());
Value bitwise_right_shift(Value x, Value count, Where where = Where::here());
Value isnan(Value x, Where where = Where::here());
Value isinf(Value x, Where where = Where::here());
Value isfinite(Value x, Where where = Where::here());

// Activations.
Value silu(Value x, Where where = Where::here());
Value selu(Value x, Where where = Where::here());
Value mish(Value x, Where where = Where::here());
Value softsign(Value x, Where where = Where::here());
Value log_sigmoid(Value x, Where where = Where::here());
Value hard_sigmoid(Value x, Where where = Where::here());
Value hard_swish(Value x, Where where = Where::here());
Value relu6(Value x, Where where = Where::here());
Value gelu(Value x, std::string_view approximate = "none", Where where = Where::here());
Value elu(Value x, double alpha = 1, Where where = Where::here());
Value celu(Value x, double alpha = 1, Where where = Where::here());
Value softplus(Value x, double beta = 1, Where where = Where::here());
Value leaky_relu(Value x, double negative_slope = 0.01, Where where = Where::here());
Value prelu(Value x, Value weight, int64_t axis = 1, Where where = Where::here());
Value hard_tanh(Value x, double min = -1, double max = 1, Where where = Where::here());
Value thresholded_relu(Value x, double alpha = 1, Where where = Where::here());
Value glu(Value x, int64_t axis = -1, Where where = Where::here());
Value swiglu(Value gate, Value up, Where where = Where::here());
Value geglu(Value gate, Value up, std::string_view approximate = "none", Where where = Where::here());

// Comparisons give bool; logic on bool.
Value eq(Value a, Value b, Where where = Where::here());
Value ne(Value a, Value b, Where where = Where::here());
Value lt(Value a, Value b, Where where = Where::here());
Value le(Value a, Value b, Where where = Where::here());
Value gt(Value a, Value b, Where where = Where::here());
Value ge(Value a, Value b, Where where = Where::here());
Value logical_and(Value a, Value b, Where where = Where::here());
Value logical_or(Value a, Value b, Where where = Where::here());
Value logical_xor(Value a, Value b, Where where = Where::here());
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
Value gather_elements(Value x, Value indices, int64_t axis = 0, Where where = Where::here());
Value gather_nd(Value x, Value indices, Where where = Where::here());
Value dynamic_slice(Value x, Value start, std::vector<int64_t> sizes, Where where = Where::here());
Value dynamic_update_slice(Value x, Value update, Value start, Where where = Where::here());
Value one_hot(Value indices, int64_t classes, int64_t axis = -1, DType dtype = DType::f32, Where where = Where::here());
Value stack(std::span<const Value> parts, int64_t axis = 0, Where where = Where::here());
// All parts of x, which has the extents `sizes` along `axis`.
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis = 0, Where where = Where::here());
Value tile(Value x, std::vector<int64_t> repeats, Where where = Where::here());
Value repeat_interleave(Value x, int64_t repeats, int64_t axis = 0, Where where = Where::here());
Value reverse(Value x, std::vector<int64_t> axes = {}, Where where = Where::here());
Value flatten(Value x, int64_t start_axis = 0, int64_t end_axis = -1, Where where = Where::here());
Value squeeze(Value x, std::vector<int64_t> axes = {}, Where where = Where::here());
Value unsqueeze(Value x, std::vector<int64_t> axes, Where where = Where::here());
Value pad_edge(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Where where = Where::here());
Value pad_reflect(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Where where = Where::here());
Value tril(Value x, int64_t diagonal = 0, Where where = Where::here());
Value triu(Value x, int64_t diagonal = 0, Where where = Where::here());
struct ResizeOptions {
    std::string_view mode = "nearest";
    bool align_corners = false;
};
Value resize(Value x, std::vector<int64_t> axes, std::vector<int64_t> sizes, ResizeOptions options = {},
             Where where = Where::here());

// Windows along axes, and their sum where they came from: each is the other's transpose. Options left empty are 1 on every axis.
struct WindowOptions {
    std::vector<int64_t> steps = {}, dilations = {}, divisors = {};
};
Value unfold(Value x, std::vector<int64_t> axes, std::vector<int64_t> sizes, const WindowOptions& options = {},
             Where where = Where::here());
Value fold(Value y, std::vector<int64_t> axes, std::vector<int64_t> lengths, const WindowOptions& options = {},
           Where where = Where::here());
// Pools over the last axes. Strides left empty are the window's extents; padding is [lo0, hi0, lo1, hi1, ..].
struct PoolOptions {
    std::vector<int64_t> strides = {}, padding = {}, dilation = {};
    bool ceil_mode = false;
    bool count_include_pad = true;  // of avg_pool
};
Value max_pool(Value x, std::vector<int64_t> window, const PoolOptions& options = {}, Where where = Where::here());
Value avg_pool(Value x, std::vector<int64_t> window, const PoolOptions& options = {}, Where where = Where::here());
Value adaptive_max_pool(Value x, std::vector<int64_t> output_size, Where where = Where::here());
Value adaptive_avg_pool(Value x, std::vector<int64_t> output_size, Where where = Where::here());

// Reductions. Empty axes mean all.
Value sum(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value mean(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value max(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value min(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value argmax(Value x, int64_t axis = -1, bool keep = false, Where where = Where::here());
Value argmin(Value x, int64_t axis = -1, bool keep = false, Where where = Where::here());
Value prod(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value any(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value all(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value log_sum_exp(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value l1_norm(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value l2_norm(Value x, std::vector<int64_t> axes = {}, bool keep = false, Where where = Where::here());
Value variance(Value x, std::vector<int64_t> axes = {}, bool keep = false, int64_t correction = 1, Where where = Where::here());
Value std(Value x, std::vector<int64_t> axes = {}, bool keep = false, int64_t correction = 1, Where where = Where::here());
Value cumsum(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false, Where where = Where::here());

// Contractions.
Value dot(Value a, Value b, std::vector<std::vector<int64_t>> contract, std::vector<std::vector<int64_t>> batch = {{}, {}},
          Where where = Where::here());
Value matmul(Value a, Value b, Where where = Where::here());
Value linear(Value x, Value w, Value b = {}, Where where = Where::here());

// Softmax, norms, losses.
Value softmax(Value x, int64_t axis = -1, Where where = Where::here());
Value log_softmax(Value x, int64_t axis = -1, Where where = Where::here());
Value rms_norm(Value x, Value w = {}, Value b = {}, int64_t axis = -1, double eps = 1e-5, Where where = Where::here());
// (x - mean) / sqrt(variance + eps) over axes; empty: all.
Value standardize(Value x, std::vector<int64_t> axes = {}, double eps = 1e-5, Where where = Where::here());
Value layer_norm(Value x, Value w = {}, Value b = {}, int64_t axis = -1, double eps = 1e-5, Where where = Where::here());
// Channels are axis 1 of these.
Value group_norm(Value x, int64_t groups, Value w = {}, Value b = {}, double eps = 1e-5, Where where = Where::here());
Value instance_norm(Value x, Value w = {}, Value b = {}, double eps = 1e-5, Where where = Where::here());
struct BatchNormOperands {
    Value w = {}, b = {};            // scale and shift, one a channel
    Value mean = {}, variance = {};  // running statistics; without them those of x
};
Value batch_norm(Value x, const BatchNormOperands& operands = {}, double eps = 1e-5, Where where = Where::here());
Value cross_entropy(Value logits, Value labels, std::string_view reduction = "mean", Where where = Where::here());
struct CrossEntropyOptions {
    Value weight = {};  // one for each class
    int64_t axis = -1;
    std::string_view reduction = "mean";
    std::optional<int64_t> ignore_index = {};
    double label_smoothing = 0;
};
Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options, Where where = Where::here());
struct NllOptions {
    Value weight = {};
    int64_t axis = -1;
    std::string_view reduction = "mean";
    std::optional<int64_t> ignore_index = {};
};
Value nll(Value log_probabilities, Value labels, const NllOptions& options = {}, Where where = Where::here());
Value mse(Value prediction, Value target, std::string_view reduction = "mean", Where where = Where::here());
Value l1(Value prediction, Value target, std::string_view reduction = "mean", Where where = Where::here());
Value huber(Value prediction, Value target, double delta = 1, std::string_view reduction = "mean", Where where = Where::here());
Value smooth_l1(Value prediction, Value target, double beta = 1, std::string_view reduction = "mean",
                Where where = Where::here());
Value hinge(Value prediction, Value target, double margin = 1, std::string_view reduction = "mean", Where where = Where::here());
Value hinge_embedding(Value prediction, Value target, double margin = 1, std::string_view reduction = "mean",
                      Where where = Where::here());
Value kl_div(Value log_probabilities, Value target, bool log_target = false, std::string_view reduction = "mean",
             Where where = Where::here());
struct BinaryCrossEntropyOptions {
    Value weight = {}, pos_weight = {};  // broadcast to the logits
    std::string_view reduction = "mean";
};
Value binary_cross_entropy_with_logits(Value logits, Value target, const BinaryCrossEntropyOptions& options = {},
                                       Where where = Where::here());

// Attention: q [batch, heads, queries, head_dim], k and v [batch, kv_heads, keys, ..].
struct AttentionOptions {
    Value mask = {};      // broadcast to [batch, heads, queries, keys]; bool (true: visible) or added to the scores
    Value position = {};  // where query 0 stands among the keys, one for all or one for each of the batch; none: at key 0
    bool causal = false;
    int64_t window = 0;  // 0: any distance
    std::optional<double> scale = {};
    double soft_cap = 0, dropout = 0;
    Value key = {}, counter = {};  // with dropout
};
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {}, Where where = Where::here());
struct RotaryOptions {
    Value position = {};  // of the first of the sequence, or of each [batch, length]
    double theta = 10000;
    std::string_view layout = "halves";
    std::optional<int64_t> dims = {};
    int64_t offset = 0;
};
Value rotary(Value x, const RotaryOptions& options = {}, Where where = Where::here());

// Random: key u32[2] and counter u32[] decide the values; each call is a stream of its own.
Value random_bits(Value key, Value counter, Dims shape, Where where = Where::here());
Value uniform(Value key, Value counter, Dims shape, double low = 0, double high = 1, Where where = Where::here());
Value normal(Value key, Value counter, Dims shape, double mean = 0, double stddev = 1, Where where = Where::here());
// 0 or 1, and x with elements put to 0.
Value bernoulli(Value p, Value key, Value counter, Where where = Where::here());
Value dropout(Value x, Value key, Value counter, double p = 0.5, Where where = Where::here());

}  // namespace darner
