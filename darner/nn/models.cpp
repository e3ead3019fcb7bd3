// SPDX-License-Identifier: MIT
// Networks of usual form.
#include "darner/nn/models.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

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
    Decoder(Value tokens, const DecoderConfig& config, Where where)
        : b_(*tokens.builder), c_(config), where_(where), batch_(tokens.dims()[0]), seq_(tokens.dims()[1]) {}

    Value logits(Value tokens) {
        Value x, table;
        {
            const Builder::Scope scope = b_.scope("model");
            const EmbeddingOptions options{.name = "embed_tokens", .stddev = c_.init_stddev};
            const Embedding embedded = embedding(tokens, c_.vocabulary, c_.hidden, options, where_);
            x = embedded.rows;
            table = embedded.weight;
            prepare_positions();
            for (int64_t i = 0; i < c_.layers; ++i) {
                const Builder::Scope layer = b_.scope(fmt::format("layers.{}", i));
                x = x + attention(norm(x, "input_layernorm"));
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

    int64_t half() const { return c_.hidden / c_.heads / 2; }

    // What all layers share: the rotation of each position and which positions a position may look at.
    void prepare_positions() {
        Tensor frequencies = Tensor::zeros(DType::f32, {half()});
        for (int64_t i = 0; i < half(); ++i)
            frequencies.real[i] = std::pow(c_.rope_theta, -static_cast<double>(i) / static_cast<double>(half()));
        const Value position = b_.iota(i32({seq_, 1, 1}), 0, where_);
        const Value angle = mul(cast(position, DType::f32, where_), b_.constant(f32({half()}), std::move(frequencies), where_));
        cos_ = cos(angle, where_);  // [seq, 1, half]: over heads
        sin_ = sin(angle, where_);
        visible_ = ge(position, b_.iota(i32({seq_}), 0, where_), where_);  // [query, 1, key]
    }

    // Pairs feature i with i + half and turns each pair by its angle. x: [batch, seq, heads, 2 * half].
    Value rotate(Value x) {
        const Value low = slice(x, {0, 0, 0, 0}, {end, end, end, half()}, {}, where_);
        const Value high = slice(x, {0, 0, 0, half()}, {end, end, end, end}, {}, where_);
        const std::array<Value, 2> parts = {low * cos_ - high * sin_, high * cos_ + low * sin_};
        return concat(parts, 3, where_);
    }

    Value heads_of(Value x, int64_t heads, std::string name) {
        return reshape(project(x, heads * 2 * half(), std::move(name)), {batch_, seq_, heads, 2 * half()}, where_);
    }

    Value attention(Value x) {
        const Builder::Scope scope = b_.scope("self_attn");
        const int64_t group = c_.heads / c_.kv_heads;
        const Value q = reshape(rotate(heads_of(x, c_.heads, "q_proj")), {batch_, seq_, c_.kv_heads, group, 2 * half()}, where_);
        const Value k = rotate(heads_of(x, c_.kv_heads, "k_proj")), v = heads_of(x, c_.kv_heads, "v_proj");
        const Value scores = dot(q, k, {{4}, {3}}, {{0, 2}, {0, 2}}, where_) * (1 / std::sqrt(2.0 * static_cast<double>(half())));
        // [batch, kv_head, query, group, key]. So low that its exponential is 0, and no sum with it overflows.
        const Value masked = select(visible_, scores, b_.constant(f32(), -1e30, where_), where_);
        const Value mixed = dot(softmax(masked, -1, where_), v, {{4}, {1}}, {{0, 1}, {0, 2}}, where_);
        const Value rows = reshape(transpose(mixed, {0, 2, 1, 3, 4}, where_), {batch_, seq_, c_.hidden}, where_);
        return project(rows, c_.hidden, "o_proj");
    }

    Value swiglu(Value x) {
        const Builder::Scope scope = b_.scope("mlp");
        const Value gate = project(x, c_.intermediate, "gate_proj");
        return project(gate * sigmoid(gate, where_) * project(x, c_.intermediate, "up_proj"), c_.hidden, "down_proj");
    }

    static constexpr int64_t end = std::numeric_limits<int64_t>::max();  // of an axis, to slice()
    Builder& b_;
    const DecoderConfig& c_;
    Where where_;
    Dim batch_, seq_;
    Value cos_, sin_, visible_;
};

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
    if (!tokens.valid()) return {};
    Builder& b = *tokens.builder;
    const Builder::Place place = b.place(where);
    std::string reason = reason_against(config);
    if (reason.empty() && (tokens.rank() != 2 || tokens.dtype() != DType::i32))
        reason = fmt::format("got tokens {}, expected i32[batch, seq]", to_string(tokens.type()));
    if (!reason.empty()) {
        b.fail(misfit("decoder", std::move(reason), where));
        return {};
    }
    return Decoder(tokens, config, where).logits(tokens);
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
