// SPDX-License-Identifier: MIT
// Does a kernel fit a device? Bindings, sizes, subgroup, 16-bit and cooperative-matrix features against Caps, before any
// driver sees the kernel.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

namespace darner {

// What a kernel uses beyond plain 32-bit arithmetic.
struct KernelFeatures {
    bool subgroup = false;  // any subgroup id or operation
    bool subgroup_reduce = false, subgroup_broadcast = false, subgroup_shuffle = false;
    bool f16_storage = false;     // an f16 binding
    bool f16_arithmetic = false;  // f16 values in more than loads, stores and conversions to and from f32
    bool bf16 = false;
    bool coop = false, coop_bf16 = false;
};
KernelFeatures features_of(const kir::Kernel& kernel);

// All reasons in one error: `limit` when only sizes are exceeded, `unsupported` when a feature is lacking.
Result<void> check_limits(const kir::Kernel& kernel, const Caps& caps);

}  // namespace darner
