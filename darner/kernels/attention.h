// SPDX-License-Identifier: MIT
// The attention archetype: flash attention, forward and backward. A workgroup owns a tile of queries (or, for the gradients of k
// and v, of keys) and walks over the other side tile by tile; weights live in registers and workgroup memory only, and are
// computed again in the backward passes from each query's largest score and sum. Two forms, chosen by caps:
//   staged     tiles in workgroup memory, a register tile an invocation: for GPUs;
//   register   an invocation owns one query or key, no workgroup memory and no barriers: where barriers are dear.
// Sums run over the other side in ascending order, and over the heads that share a key head in theirs: no atomics.
#pragma once

#include "darner/base/result.h"
#include "darner/kernels/grid.h"

namespace darner::kernels {

enum class AttentionPass : uint8_t { forward, query_gradient, key_gradient };

struct AttentionSpec {
    AttentionPass pass = AttentionPass::forward;
    uint32_t batch = 1, kv_heads = 1, group = 1;  // `group` query heads share a key head
    uint32_t queries = 1, keys = 1;
    uint32_t depth = 1, width = 1;  // features of q and k; of v and the result
    bool causal = false;
    uint32_t window = 0;
    float scale = 1, soft_cap = 0, dropout = 0;

    // An element of an operand. `head` is a query head for q, dy, rows, mask and bits, a key head for k and v.
    using Element = std::function<kir::Expr(kir::Builder&, kir::Expr batch, kir::Expr head, kir::Expr place, kir::Expr feature)>;
    Element q, k, v, dy;
    Element rows;        // feature 0: largest score, 1: sum of exponentials, 2: sum of dy * y
    Element mask, bits;  // of query `place` and key `feature`; may be left out. A mask is boolean or f32
    std::function<kir::Expr(kir::Builder&, kir::Expr batch)> position;  // i32; may be left out
    // Results: those that are not set are not computed.
    using Store =
        std::function<void(kir::Builder&, kir::Expr batch, kir::Expr head, kir::Expr place, kir::Expr feature, kir::Expr value)>;
    Store y, numbers;  // of forward; numbers are features 0 and 1 of `rows`
    Store dq;
    Store dk, dv;
};

// Multiplications and additions, as if nothing were masked.
uint64_t attention_flops(const AttentionSpec& spec);

Result<Grid> build_attention(kir::Builder& b, const AttentionSpec& spec, const Caps& caps);

}  // namespace darner::kernels
