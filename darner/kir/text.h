// SPDX-License-Identifier: MIT
// The text form of a kernel, printed and parsed without loss:
//
//   kernel scale workgroup(64,1,1) {
//     binding 0 x : f32 read [1000]
//     binding 1 y : vec4<f32> write [250]
//     array tile : workgroup f32 [64]
//     param count
//     %0 = local_id 0
//     %1 = constant f32 0x1p-1
//     %2 = constant u32 1000
//     %3 = lt %0, %2
//     branch %3 {
//       %5 = load f32 x[%0]
//       %6 = mul %5, %1
//       store y[%0], %6
//     }
//   }
//
// Values are numbered in text order. A value's type is written where its operands do not give it. f32 constants are
// hexadecimal floats, or bits as 0x7fc00000 where the value is infinite or NaN.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"

#include <string>
#include <string_view>

namespace darner::kir {

std::string to_text(const Kernel& kernel);

// One instruction without its blocks, values numbered by their ids; for messages.
std::string instruction_text(const Kernel& kernel, ValueId instruction);

// Reads one kernel. An error names line and column and what was expected there. The kernel is well formed enough to be
// printed and verified; whether it is right is for verify() to say.
Result<Kernel> parse(std::string_view text);

}  // namespace darner::kir
