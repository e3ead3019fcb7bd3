// SPDX-License-Identifier: MIT
// Attention that would touch more than the device's bindings reach, in two halves: of the batch, of the key heads, or, of one
// head, of the sequence that its workgroups walk along. Halves of the keys have weights of their own and are joined by their
// largest scores and sums; gradients add up.
#pragma once

#include "darner/graph/builder.h"

namespace darner::plan {

// `node` is of one of the attention kernels and `operands` are its, of `b`. Invalid where nothing is left to halve.
Value split_attention(Builder& b, const Node& node, const std::vector<Value>& operands);

}  // namespace darner::plan
