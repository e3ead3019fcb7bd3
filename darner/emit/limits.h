// SPDX-License-Identifier: MIT
// Does a kernel fit a device? Bindings, sizes, subgroup, 16-bit and cooperative-matrix features against Caps, before any
// driver sees the kernel.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/features.h"
#include "darner/program/caps.h"

namespace darner {

using kir::features_of;
using kir::KernelFeatures;

// All reasons in one error: `limit` when only sizes are exceeded, `unsupported` when a feature is lacking.
Result<void> check_limits(const kir::Kernel& kernel, const Caps& caps);

}  // namespace darner
