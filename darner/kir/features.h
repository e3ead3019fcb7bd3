// SPDX-License-Identifier: MIT
// What a kernel uses beyond plain 32-bit arithmetic and how long its loops run: read off its instructions, compared with Caps by
// those who load it.
#pragma once

#include "darner/kir/kernel.h"

#include <cstdint>
#include <optional>

namespace darner::kir {

struct KernelFeatures {
    bool subgroup = false;  // any subgroup id or operation
    bool subgroup_reduce = false, subgroup_broadcast = false, subgroup_shuffle = false;
    bool f16_storage = false;     // an f16 binding
    bool f16_arithmetic = false;  // f16 values in more than loads, stores and conversions to and from f32
    bool bf16 = false;
    bool coop = false, coop_bf16 = false;
};
KernelFeatures features_of(const Kernel& kernel);

// Does the instruction make or take a value of this scalar?
bool touches(const Kernel& kernel, const Instruction& inst, Scalar scalar);

// How often a loop's body runs where its bounds are constants; where only its low bound is none, as often as from 0. Nothing
// when that is not known before the kernel runs.
std::optional<uint64_t> rounds_of(const Kernel& kernel, ValueId loop);
// Rounds of all loops of one invocation together, at most.
std::optional<uint64_t> total_rounds(const Kernel& kernel);

}  // namespace darner::kir
