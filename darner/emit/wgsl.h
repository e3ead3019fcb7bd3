// SPDX-License-Identifier: MIT
// Kernel IR to WGSL text. The entry point is "main"; binding i of the kernel is @group(0) @binding(i); params, if any, are a
// uniform struct of u32 words at @binding(number of bindings). Fails with all reasons when the kernel needs what WGSL or Caps
// lack (bf16, cooperative matrices, f16 without the feature, ...).
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

#include <string>

namespace darner {

Result<std::string> emit_wgsl(const kir::Kernel& kernel, const Caps& caps);

}  // namespace darner
