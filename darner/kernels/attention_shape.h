// SPDX-License-Identifier: MIT
// How the work of an attention kernel is cut: see attention.h for the two forms.
#pragma once

#include "darner/kernels/attention.h"

namespace darner::kernels {

struct AttentionShape {
    bool staged = true;
    uint32_t threads_x = 16, threads_y = 16;  // invocations along the other side and along the owned one
    uint32_t rows = 4, cols = 4;              // scores an invocation
    uint32_t features = 16;                   // staged a step of a product of two tiles
    uint32_t terms = 16;                      // of the other side, staged a step of a weighted sum
    uint32_t columns = 1;                     // of a result, an invocation
    uint32_t chunks = 1;                      // workgroups that share the columns of a result
    Grid grid;

    uint32_t threads() const { return threads_x * threads_y; }
    uint32_t owned() const { return threads_y * rows; }                 // queries or keys of a workgroup
    uint32_t tile() const { return staged ? threads_x * cols : cols; }  // of the other side, a round
    uint32_t chunk_width() const { return staged ? threads_x * columns : columns; }
    uint32_t stage_elements() const;
};

uint32_t owned_count(const AttentionSpec& spec);
uint32_t other_count(const AttentionSpec& spec);
uint32_t results_of(const AttentionSpec& spec);  // weighted sums: y, dq, dk, dv

Result<AttentionShape> attention_shape(const AttentionSpec& spec, const Caps& caps);

}  // namespace darner::kernels
