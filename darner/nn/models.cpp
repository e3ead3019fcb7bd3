// SPDX-License-Identifier: MIT
// Networks of usual form.
#include "darner/nn/models.h"

#include <fmt/format.h>

#include <array>

namespace darner {
namespace {

Error misfit(std::string_view model, std::string text, Where where) {
    return invalid(fmt::format("[{}] {}", model, text), *where.file ? fmt::format("{}:{}", where.file, where.line) : "");
}

// "" when a decoder can have these sizes.
std::string reason_against(const DecoderConfig& c) {
    if (c.vocabulary < 1 || c.hidden < 1 || c.intermediate < 1 || c.layers < 0 || c.heads < 1 || c.kv_heads < 1)
        return fmt::format(
            "got vocabulary {}, hidden {}, intermediate {}, layers {}, heads {}, kv_heads {}: expected positive sizes",
            c.vocabulary, c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads);
    if (c.hidden % c.heads != 0 || c.hidden / c.heads % 2 != 0)
        return fmt::format("hidden {} does not divide into {} heads of an even size", c.hidden, c.heads);
    if (c.heads % c.kv_heads != 0) return fmt::format("{} heads do not divide into {} kv_heads", c.heads, c.kv_heads);
    return {};
}

class Decoder {
public:
    // `length`: of the cache; 0: there is none, and positions count from 0.
    Decoder(Value tokens, const DecoderConfig& config, int64_t length, Where where)
        : b_(*tokens.builder), c_(config), length_(length), where_(where), batch_(tokens.dims()[0]), seq_(tokens.dims()[1]) {
        if (length_ == 0) return;
        const Value start = b_.constant(u32(), 0, where_);
        position_ = b_.param("cache.position", u32(), {.init = start, .trainable = false, .role = Role::counter}, where_);
        b_.update(position_, add(position_, b_.constant(u32(), static_cast<double>(seq_.value()), where_), where_), where_);
    }

    Value logits(Value tokens) {
        Value x, table;
        {
            const Builder::Scope scope = b_.scope("model");
            const EmbeddingOptions options{.name = "embed_tokens", .stddev = c_.init_stddev};
            const Embedding embedded = embedding(tokens, c_.vocabulary, c_.hidden, options, where_);
            x = embedded.rows;
            table = embedded.weight;
            for (int64_t i = 0; i < c_.layers; ++i) {
                const Builder::Scope layer = b_.scope(fmt::format("layers.{}", i));
                x = x + self_attention(norm(x, "input_layernorm"), i);
                x = x + swiglu(norm(x, "post_attention_layernorm"));
            }
            x = norm(x, "norm");
        }
        return c_.tied_embeddings ? linear(x, table, {}, where_) : project(x, c_.vocabulary, "lm_head");
    }

private:
    Value project(Value x, int64_t features, std::string name) {
        return linear(x, features, {.name = std::move(name), .bias = false, .stddev = c_.init_stddev}, where_);
    }
    Value norm(Value x, std::string name) { return rms_norm(x, {.name = std::move(name), .eps = c_.eps}, where_); }

    int64_t head_dim() const { return c_.hidden / c_.heads; }

    // [batch, heads, seq, head_dim]
    Value heads_of(Value x, int64_t heads, std::string name) {
        const Value rows = reshape(project(x, heads * head_dim(), std::move(name)), {batch_, seq_, heads, head_dim()}, where_);
        return transpose(rows, {0, 2, 1, 3}, where_);
    }
    Value rotated(Value x) { return rotary(x, {.position = position_, .theta = c_.rope_theta}, where_); }

    // All keys or values so far, where there is a cache.
    Value with_cache(Value fresh, int64_t layer, std::string_view kind) {
        if (length_ == 0) return fresh;
        const Type type = f32({batch_, c_.kv_heads, length_, head_dim()});
        const ParamOptions options{.init = b_.constant(type, 0, where_), .trainable = false, .role = Role::data};
        const Value cache = b_.param(fmt::format("cache.layers.{}.{}", layer, kind), type, options, where_);
        const Value first = b_.constant(u32({1}), 0, where_);
        const std::array<Value, 4> start = {first, first, reshape(position_, {1}, where_), first};
        const Value all = dynamic_update_slice(cache, fresh, concat(start, 0, where_), where_);
        b_.update(cache, all, where_);
        return all;
    }

    Value self_attention(Value x, int64_t layer) {
        const Builder::Scope scope = b_.scope("self_attn");
        const Value q = rotated(heads_of(x, c_.heads, "q_proj"));
        Value k = rotated(heads_of(x, c_.kv_heads, "k_proj")), v = heads_of(x, c_.kv_heads, "v_proj");
        k = with_cache(k, layer, "keys");
        v = with_cache(v, layer, "values");
        const Value mixed = darner::attention(q, k, v, {.position = position_, .causal = true}, where_);
        return project(reshape(transpose(mixed, {0, 2, 1, 3}, where_), {batch_, seq_, c_.hidden}, where_), c_.hidden, "o_proj");
    }

    Value swiglu(Value x) {
        const Builder::Scope scope = b_.scope("mlp");
        const Value gate = project(x, c_.intermediate, "gate_proj");
        return project(gate * sigmoid(gate, where_) * project(x, c_.intermediate, "up_proj"), c_.hidden, "down_proj");
    }

    Builder& b_;
    const DecoderConfig& c_;
    int64_t length_;
    Where where_;
    Dim batch_, seq_;
    Value position_;  // of the first token; invalid: 0
};

// Reports what is wrong: `reason`, or what the config and the type of the tokens give.
bool fits(std::string_view model, Value tokens, const DecoderConfig& config, std::string reason, Where where) {
    if (reason.empty()) reason = reason_against(config);
    if (reason.empty() && (tokens.rank() != 2 || tokens.dtype() != DType::i32))
        reason = fmt::format("got tokens {}, expected i32[batch, seq]", to_string(tokens.type()));
    if (reason.empty()) return true;
    tokens.builder->fail(misfit(model, std::move(reason), where));
    return false;
}

}  // namespace

Value mlp(Value x, std::span<const int64_t> hidden, int64_t classes, Where where) {
    Sequential net;
    for (int64_t features : hidden) {
        net.add(linear(features, {}, where));
        net.add(relu(where));
    }
    net.add(linear(classes, {}, where));
    return net(x);
}

Value cnn(Value x, std::span<const int64_t> channels, int64_t classes, Where where) {
    Sequential net;
    for (int64_t outputs : channels) {
        net.add(conv(outputs, {3, 3}, {.geometry = {.padding = {1, 1, 1, 1}}}, where));
        net.add(relu(where));
        net.add(max_pool({2, 2}, {}, where));
    }
    net.add(flatten(1, where));
    net.add(linear(classes, {}, where));
    return net(x);
}

DecoderConfig smollm2_135m() {
    return {.vocabulary = 49152,
            .hidden = 576,
            .intermediate = 1536,
            .layers = 30,
            .heads = 9,
            .kv_heads = 3,
            .rope_theta = 100000,
            .init_stddev = 1.0 / 24};
}

Value decoder(Value tokens, const DecoderConfig& config, Where where) {
    if (!tokens.valid() || !fits("decoder", tokens, config, {}, where)) return {};
    const Builder::Place place = tokens.builder->place(where);
    return Decoder(tokens, config, 0, where).logits(tokens);
}

Value decode(Value tokens, const DecoderConfig& config, int64_t length, Where where) {
    if (!tokens.valid()) return {};
    std::string reason;
    if (length < 1) reason = fmt::format("got a cache of length {}, expected at least 1", length);
    if (reason.empty() && tokens.rank() == 2 && (!tokens.dims()[0].is_constant() || !tokens.dims()[1].is_constant()))
        reason = fmt::format("got tokens {}, whose extents must be known", to_string(tokens.type()));
    if (reason.empty() && tokens.rank() == 2 && tokens.dims()[1].value() > length)
        reason = fmt::format("got {} tokens for a cache of length {}", tokens.dims()[1].value(), length);
    if (!fits("decode", tokens, config, std::move(reason), where)) return {};
    const Builder::Place place = tokens.builder->place(where);
    return Decoder(tokens, config, length, where).logits(tokens);
}

Value next_token_loss(Value logits, Value tokens, Where where) {
    if (!logits.valid() || !tokens.valid()) return {};
    if (logits.rank() != 3 || tokens.rank() != 2) {
        logits.builder->fail(misfit("next_token_loss",
                                    fmt::format("got logits {} and tokens {}, expected [batch, seq, vocabulary] and [batch, seq]",
                                                to_string(logits.type()), to_string(tokens.type())),
                                    where));
        return {};
    }
    constexpr int64_t end = std::numeric_limits<int64_t>::max();
    const Value predicted = slice(logits, {0, 0, 0}, {end, -1, end}, {}, where);
    return cross_entropy(predicted, slice(tokens, {0, 1}, {end, end}, {}, where), "mean", where);
}

}  // namespace darner
