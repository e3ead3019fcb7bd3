// SPDX-License-Identifier: MIT
// Kernel IR to a SPIR-V 1.5 module for Vulkan 1.2 and later. The entry point is "main"; binding i of the kernel is descriptor
// set 0, binding i; params are a push-constant block of u32 words in order. The Vulkan memory model is used where Caps have it.
// Fails (unsupported, limit) when the kernel needs what Caps lack, with all reasons; see limits.h.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

#include <cstdint>
#include <vector>

namespace darner {

struct SpirvOptions {
    // Private arrays of cooperative matrices become values merged by phis instead of Function-storage arrays. For measurements:
    // drivers have computed wrong sums from such phis.
    bool coop_accumulators_as_phis = false;
    // NonPrivatePointer on accesses that invocations share, under the Vulkan memory model. Off is for measurements only: without
    // it a barrier does not order those accesses.
    bool non_private_pointer = true;
    // Forbid fusing a*b+c into one rounding.
    bool no_contraction = false;
};

Result<std::vector<uint32_t>> emit_spirv(const kir::Kernel& kernel, const Caps& caps, const SpirvOptions& options = {});

}  // namespace darner
