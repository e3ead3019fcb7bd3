// SPDX-License-Identifier: MIT
// The op families, one table a file. A new family is a function here and a line in registry.cpp.
#pragma once

#include "darner/graph/op_def.h"

namespace darner {

std::span<const OpDef> elementwise_ops();    // arithmetic, math functions
std::span<const OpDef> function_ops();       // rounding, remainder, more math functions, clamp
std::span<const OpDef> bit_ops();            // bitwise, shifts, tests for NaN and infinity
std::span<const OpDef> activation_ops();     // silu, gelu, elu, softplus, glu and their like
std::span<const OpDef> compare_ops();        // comparisons, logic, select, cast, materialize
std::span<const OpDef> shape_ops();          // reshape, transpose, broadcast, slice
std::span<const OpDef> arrange_ops();        // stack, split, tile, reverse, flatten, squeeze, pads, triangles
std::span<const OpDef> index_ops();          // concat, pad, gather, scatter_add, iota
std::span<const OpDef> lookup_ops();         // gather_elements, gather_nd, dynamic slices, one_hot, where
std::span<const OpDef> resize_ops();         // resize
std::span<const OpDef> unfold_ops();         // unfold, fold: windows along axes
std::span<const OpDef> pool_ops();           // max_pool, avg_pool, adaptive pools
std::span<const OpDef> reduce_ops();         // sum, mean, max, min, argmax
std::span<const OpDef> statistics_ops();     // argmin, variance, log_sum_exp, prod, norms, cumsum
std::span<const OpDef> contract_ops();       // dot, matmul, linear
std::span<const OpDef> normalize_ops();      // softmax, log_softmax
std::span<const OpDef> norm_ops();           // rms_norm, standardize, layer_norm, group_norm, instance_norm, batch_norm
std::span<const OpDef> attention_ops();      // attention and the kernels of its gradients
std::span<const OpDef> rotary_ops();         // rotary
std::span<const OpDef> loss_ops();           // cross_entropy, nll
std::span<const OpDef> distance_loss_ops();  // mse, l1, huber, hinge, kl_div, binary cross entropy
std::span<const OpDef> random_ops();         // random_bits, uniform, normal, bernoulli, dropout

}  // namespace darner
