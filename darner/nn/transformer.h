// SPDX-License-Identifier: MIT
// Attention and transformer blocks as layers, with PyTorch's params and starts; sequences are [batch, length, features]
// (batch_first). What a block does in training only (dropout) depends on the mode: see norms.h.
#pragma once

#include "darner/nn/norms.h"

#include <string_view>

namespace darner {

struct MultiheadAttentionOptions {
    std::string name = {};
    bool bias = true;
    bool causal = false;
    Value mask = {};  // broadcast to [batch, heads, queries, keys]; bool (true: visible, unlike PyTorch's) or added to the scores
    double dropout = 0;  // of attention weights, in training
};
// torch.nn.MultiheadAttention: `in_proj_weight` [3 features, features], `in_proj_bias`, `out_proj.weight`, `out_proj.bias`. Key
// and value have one length and the features of the query.
Value multihead_attention(Value query, Value key, Value value, int64_t heads, Mode mode, MultiheadAttentionOptions options = {},
                          Where where = Where::here());

struct TransformerLayerOptions {
    std::string name = {};
    int64_t feedforward = 2048;
    std::string_view activation = "relu";  // or "gelu"
    bool norm_first = false;
    double dropout = 0.1, eps = 1e-5;
    bool causal = false;
    Value mask = {};
};
// torch.nn.TransformerEncoderLayer: `self_attn`, `linear1`, `linear2`, `norm1`, `norm2`.
Value transformer_encoder_layer(Value x, int64_t heads, Mode mode, TransformerLayerOptions options = {},
                                Where where = Where::here());

}  // namespace darner
