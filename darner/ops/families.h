// SPDX-License-Identifier: MIT
// The op families, one table a file. A new family is a function here and a line in registry.cpp.
#pragma once

#include "darner/graph/op_def.h"

namespace darner {

std::span<const OpDef> elementwise_ops();  // arithmetic, math functions
std::span<const OpDef> compare_ops();      // comparisons, logic, select, cast, materialize
std::span<const OpDef> shape_ops();        // reshape, transpose, broadcast, slice
std::span<const OpDef> index_ops();        // concat, pad, gather, scatter_add, iota
std::span<const OpDef> reduce_ops();       // sum, mean, max, min, argmax
std::span<const OpDef> contract_ops();     // dot, matmul, linear
std::span<const OpDef> normalize_ops();    // softmax, log_softmax, rms_norm
std::span<const OpDef> loss_ops();         // cross_entropy, mse
std::span<const OpDef> random_ops();       // random_bits, uniform, normal

}  // namespace darner
