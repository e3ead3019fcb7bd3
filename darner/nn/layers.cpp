// SPDX-License-Identifier: MIT
// Layers with params.
#include "darner/nn/layers.h"

#include <fmt/format.h>

#include <cmath>

namespace darner {
namespace {

std::string source(Where where) { return *where.file ? fmt::format("{}:{}", where.file, where.line) : std::string(); }

std::string param_name(const std::string& layer, std::string_view param) {
    return layer.empty() ? std::string(param) : fmt::format("{}.{}", layer, param);
}

// The extent of the last axis of a float value; an error, and nothing, when there is none.
std::optional<int64_t> last_extent(std::string_view layer, Value x, Where where) {
    if (!x.valid() || x.builder->failed()) return std::nullopt;
    const bool fits = is_float(x.dtype()) && x.rank() > 0 && x.dims().back().is_constant();
    if (fits) return x.dims().back().value();
    x.builder->fail(invalid(
        fmt::format("[{}] got {}, expected floats with a last axis of known extent", layer, to_string(x.type())), source(where)));
    return std::nullopt;
}

// The axes behind the channels; an error, and nothing, when there are none: a reduction over no axes is one over all.
std::vector<int64_t> spatial_axes(std::string_view layer, Value x, Where where) {
    std::vector<int64_t> axes;
    if (!x.valid() || x.builder->failed()) return axes;
    for (size_t a = 2; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
    if (axes.empty())
        x.builder->fail(invalid(fmt::format("[{}] got {}, expected [N, C, ..] with at least one axis behind the channels", layer,
                                            to_string(x.type())),
                                source(where)));
    return axes;
}

}  // namespace

Value global_max_pool(Value x, Where where) {
    const std::vector<int64_t> axes = spatial_axes("global_max_pool", x, where);
    return axes.empty() ? Value{} : max(x, axes, true, where);
}

Value global_avg_pool(Value x, Where where) {
    const std::vector<int64_t> axes = spatial_axes("global_avg_pool", x, where);
    return axes.empty() ? Value{} : mean(x, axes, true, where);
}

Value uniform_init(Builder& builder, const Type& type, double bound, Where where) {
    if (bound == 0) return builder.constant(type, 0.0, where);
    const Value draws = uniform(builder.seed(), builder.constant(u32(), 0.0, where), type.dims, -bound, bound, where);
    return type.dtype == DType::f32 ? draws : cast(draws, type.dtype, where);
}

Value normal_init(Builder& builder, const Type& type, double stddev, Where where) {
    const Value draws = normal(builder.seed(), builder.constant(u32(), 0.0, where), type.dims, 0, stddev, where);
    return type.dtype == DType::f32 ? draws : cast(draws, type.dtype, where);
}

Embedding embedding(Value indices, int64_t count, int64_t features, EmbeddingOptions options, Where where) {
    if (!indices.valid()) return {};
    Builder& b = *indices.builder;
    if (count < 0 || features < 0) {
        b.fail(invalid(fmt::format("[embedding] got a table of {} x {}, expected sizes that are not negative", count, features),
                       source(where)));
        return {};
    }
    const Type type{options.dtype, {count, features}};
    const Value weight =
        b.param(param_name(options.name, "weight"), type, {.init = normal_init(b, type, options.stddev, where)}, where);
    return {gather(weight, indices, 0, where), weight};
}

Value linear(Value x, int64_t out_features, LinearOptions options, Where where) {
    const std::optional<int64_t> in_features = last_extent("linear", x, where);
    if (!in_features) return {};
    Builder& b = *x.builder;
    if (out_features < 0) {
        b.fail(invalid(fmt::format("[linear] out_features is {}: it cannot be negative", out_features), source(where)));
        return {};
    }
    const double bound = *in_features > 0 ? 1 / std::sqrt(static_cast<double>(*in_features)) : 0;
    const auto param = [&](std::string_view name, Dims dims, bool normal) {
        const Type type{x.dtype(), std::move(dims)};
        const Value init =
            normal ? normal_init(b, type, options.stddev, where) : uniform_init(b, type, options.stddev > 0 ? 0 : bound, where);
        return b.param(param_name(options.name, name), type, {.init = init}, where);
    };
    const Value weight = param("weight", {out_features, *in_features}, options.stddev > 0);
    const Value bias = options.bias ? param("bias", {out_features}, false) : Value{};
    return linear(x, weight, bias, where);
}

Value rms_norm(Value x, RmsNormOptions options, Where where) {
    const std::optional<int64_t> features = last_extent("rms_norm", x, where);
    if (!features) return {};
    Value weight;
    if (options.weight) {
        const Type type{x.dtype(), {*features}};
        const Value ones = x.builder->constant(type, 1.0, where);
        weight = x.builder->param(param_name(options.name, "weight"), type, {.init = ones}, where);
    }
    return rms_norm(x, weight, {}, -1, options.eps, where);
}

Layer linear(int64_t out_features, LinearOptions options, Where where) {
    return {[=](Value x) { return linear(x, out_features, options, where); }};
}
Layer rms_norm(RmsNormOptions options, Where where) {
    return {[=](Value x) { return rms_norm(x, options, where); }};
}
Layer relu(Where where) {
    return {[=](Value x) { return relu(x, where); }};
}
Layer sigmoid(Where where) {
    return {[=](Value x) { return sigmoid(x, where); }};
}
Layer tanh(Where where) {
    return {[=](Value x) { return tanh(x, where); }};
}

Layer silu(Where where) {
    return {[=](Value x) { return silu(x, where); }};
}
Layer mish(Where where) {
    return {[=](Value x) { return mish(x, where); }};
}
Layer hard_swish(Where where) {
    return {[=](Value x) { return hard_swish(x, where); }};
}
Layer gelu(std::string_view approximate, Where where) {
    return {[kind = std::string(approximate), where](Value x) { return gelu(x, kind, where); }};
}
Layer elu(double alpha, Where where) {
    return {[=](Value x) { return elu(x, alpha, where); }};
}
Layer leaky_relu(double negative_slope, Where where) {
    return {[=](Value x) { return leaky_relu(x, negative_slope, where); }};
}
Layer softplus(double beta, Where where) {
    return {[=](Value x) { return softplus(x, beta, where); }};
}
Layer max_pool(std::vector<int64_t> window, PoolOptions options, Where where) {
    return {[=](Value x) { return max_pool(x, window, options, where); }};
}
Layer avg_pool(std::vector<int64_t> window, PoolOptions options, Where where) {
    return {[=](Value x) { return avg_pool(x, window, options, where); }};
}
Layer adaptive_max_pool(std::vector<int64_t> output_size, Where where) {
    return {[=](Value x) { return adaptive_max_pool(x, output_size, where); }};
}
Layer adaptive_avg_pool(std::vector<int64_t> output_size, Where where) {
    return {[=](Value x) { return adaptive_avg_pool(x, output_size, where); }};
}
Layer global_max_pool(Where where) {
    return {[=](Value x) { return global_max_pool(x, where); }};
}
Layer global_avg_pool(Where where) {
    return {[=](Value x) { return global_avg_pool(x, where); }};
}
Layer flatten(int64_t start_axis, Where where) {
    return {[=](Value x) { return flatten(x, start_axis, -1, where); }};
}

Value Sequential::operator()(Value x) const {
    if (!x.valid()) return {};
    Builder& builder = *x.builder;
    for (size_t i = 0; i < layers_.size(); ++i) {
        const Builder::Scope scope = builder.scope(std::to_string(i));
        x = layers_[i](x);
    }
    return x;
}

Sequential::operator Layer() const {
    return {[copy = *this](Value x) { return copy(x); }};
}

}  // namespace darner
