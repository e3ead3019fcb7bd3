// SPDX-License-Identifier: MIT
#include "darner/nn/transformer.h"

#include <fmt/format.h>

#include <cmath>

namespace darner {
namespace {

void fail(Value x, std::string text, Where where) {
    x.builder->fail(invalid(std::move(text), *where.file ? fmt::format("{}:{}", where.file, where.line) : ""));
}

// [batch, length, features] with features that divide into the heads.
bool fits(std::string_view layer, Value x, int64_t heads, Where where) {
    if (!x.valid() || x.builder->failed()) return false;
    const bool sequence = is_float(x.dtype()) && x.rank() == 3 && x.dims()[2].is_constant();
    if (sequence && heads > 0 && x.dims()[2].value() > 0 && x.dims()[2].value() % heads == 0) return true;
    fail(x,
         fmt::format("[{}] got {} for {} heads, expected floats [batch, length, features] that divide into them", layer,
                     to_string(x.type()), heads),
         where);
    return false;
}

// The projections of query, key and value by thirds of one weight; by all of it at once where they are one tensor.
std::array<Value, 3> projections(const std::array<Value, 3>& inputs, Value weight, Value bias, int64_t features, Where where) {
    constexpr int64_t end = std::numeric_limits<int64_t>::max();
    const bool one = inputs[0].id == inputs[1].id && inputs[1].id == inputs[2].id;
    const Value all = one ? linear(inputs[0], weight, bias, where) : Value{};
    std::array<Value, 3> parts;
    for (int64_t i = 0; i < 3; ++i) {
        const int64_t first = i * features, last = first + features;
        if (one) {
            parts[static_cast<size_t>(i)] = slice(all, {0, 0, first}, {end, end, last}, {}, where);
            continue;
        }
        const Value b = bias.valid() ? slice(bias, {first}, {last}, {}, where) : Value{};
        parts[static_cast<size_t>(i)] =
            linear(inputs[static_cast<size_t>(i)], slice(weight, {first, 0}, {last, end}, {}, where), b, where);
    }
    return parts;
}

}  // namespace

Value multihead_attention(Value query, Value key, Value value, int64_t heads, Mode mode, MultiheadAttentionOptions options,
                          Where where) {
    for (const Value& v : {query, key, value})
        if (!fits("multihead_attention", v, heads, where)) return {};
    Builder& b = *query.builder;
    const int64_t features = query.dims()[2].value();
    for (const Value& v : {key, value})
        if (v.dims()[2] != Dim(features)) {
            fail(query, fmt::format("[multihead_attention] got {} for queries of {} features", to_string(v.type()), features),
                 where);
            return {};
        }
    const std::string prefix = options.name.empty() ? "" : options.name + ".";
    const auto param = [&](std::string_view name, Dims dims, double bound) {
        const Type type{query.dtype(), std::move(dims)};
        return b.param(prefix + std::string(name), type, {.init = uniform_init(b, type, bound, where)}, where);
    };
    const auto width = static_cast<double>(features);
    const Value weight = param("in_proj_weight", {3 * features, features}, std::sqrt(6 / (4 * width)));
    const Value bias = options.bias ? param("in_proj_bias", {3 * features}, 0) : Value{};
    const Value out_weight = param("out_proj.weight", {features, features}, 1 / std::sqrt(width));
    const Value out_bias = options.bias ? param("out_proj.bias", {features}, 0) : Value{};

    std::array<Value, 3> parts = projections({query, key, value}, weight, bias, features, where);
    for (Value& part : parts) {
        const Dims dims = {part.dims()[0], part.dims()[1], heads, features / heads};
        part = transpose(reshape(part, dims, where), {0, 2, 1, 3}, where);
    }
    AttentionOptions attending{.mask = options.mask, .causal = options.causal};
    if (mode == Mode::training && options.dropout > 0) {
        attending.dropout = options.dropout;
        attending.key = b.seed();
        attending.counter = b.step();
    }
    const Value mixed = attention(parts[0], parts[1], parts[2], attending, where);
    return linear(reshape(transpose(mixed, {0, 2, 1, 3}, where), query.dims(), where), out_weight, out_bias, where);
}

Value transformer_encoder_layer(Value x, int64_t heads, Mode mode, TransformerLayerOptions options, Where where) {
    if (!fits("transformer_encoder_layer", x, heads, where)) return {};
    if (options.activation != "relu" && options.activation != "gelu") {
        fail(x, fmt::format("[transformer_encoder_layer] got activation {}, expected relu or gelu", options.activation), where);
        return {};
    }
    const int64_t features = x.dims()[2].value();
    std::optional<Builder::Scope> scope;
    if (!options.name.empty()) scope.emplace(*x.builder, options.name);
    const auto attend = [&](Value v) {
        const MultiheadAttentionOptions attending{
            .name = "self_attn", .causal = options.causal, .mask = options.mask, .dropout = options.dropout};
        return dropout(multihead_attention(v, v, v, heads, mode, attending, where), mode, options.dropout, where);
    };
    const auto feed_forward = [&](Value v) {
        Value inner = linear(v, options.feedforward, {.name = "linear1"}, where);
        inner = options.activation == "relu" ? relu(inner, where) : gelu(inner, "none", where);
        const Value y = linear(dropout(inner, mode, options.dropout, where), features, {.name = "linear2"}, where);
        return dropout(y, mode, options.dropout, where);
    };
    const auto norm = [&](Value v, std::string name) {
        return layer_norm(v, LayerNormOptions{.name = std::move(name), .eps = options.eps}, where);
    };
    if (options.norm_first) {
        x = x + attend(norm(x, "norm1"));
        return x + feed_forward(norm(x, "norm2"));
    }
    x = norm(x + attend(x), "norm1");
    return norm(x + feed_forward(x), "norm2");
}

}  // namespace darner
