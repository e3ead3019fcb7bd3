// SPDX-License-Identifier: MIT
// Networks of usual form, with the param names and layouts that PyTorch's users know, so that state dicts fit both ways.
#pragma once

#include "darner/nn/layers.h"

#include <span>

namespace darner {

// Linear layers with relu between: params 0.weight, 0.bias, 2.weight, ... as in torch.nn.Sequential(Linear, ReLU, Linear).
Value mlp(Value x, std::span<const int64_t> hidden, int64_t classes, Where where = Where::here());

// 3x3 convolutions with padding, each with relu and a 2x2 max pool, then a linear layer: params as in
// torch.nn.Sequential(Conv2d, ReLU, MaxPool2d, Conv2d, ReLU, MaxPool2d, Flatten, Linear). x: [batch, channels, height, width].
Value cnn(Value x, std::span<const int64_t> channels, int64_t classes, Where where = Where::here());

// A decoder-only transformer as Llama has it: RMSNorm before each block, rotary positions on halves of a head, causal attention
// whose key and value heads serve heads / kv_heads query heads each, SwiGLU, no biases.
struct DecoderConfig {
    int64_t vocabulary = 0, hidden = 0, intermediate = 0;
    int64_t layers = 0, heads = 0, kv_heads = 0;  // a head has hidden / heads features, an even number
    double rope_theta = 10000, eps = 1e-5;
    bool tied_embeddings = true;  // logits are products with the embedding table; else `lm_head.weight`
    double init_stddev = 0.02;    // of all weights but the norms', which start at one
};

// SmolLM2-135M: 134,515,008 params.
DecoderConfig smollm2_135m();

// Logits f32[batch, seq, vocabulary] of token ids i32[batch, seq], which count positions from 0. Params are named as in Hugging
// Face's checkpoints: model.embed_tokens.weight, model.layers.0.self_attn.q_proj.weight, ..., model.norm.weight.
Value decoder(Value tokens, const DecoderConfig& config, Where where = Where::here());

// The same for a sequence that grows: logits of the next tokens i32[batch, new], given what earlier steps have seen. The graph
// keeps keys and values of up to `length` positions in state (`cache.layers.0.keys` f32[batch, kv_heads, length, head_dim], ...)
// and in `cache.position` u32[] how many it has, which each step advances: put it to 0 to start anew. Tokens beyond `length`
// overwrite the last ones.
Value decode(Value tokens, const DecoderConfig& config, int64_t length, Where where = Where::here());

// Mean cross entropy of the logits at each position against the token at the next.
Value next_token_loss(Value logits, Value tokens, Where where = Where::here());

}  // namespace darner
