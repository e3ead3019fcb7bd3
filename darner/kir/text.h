// SPDX-License-Identifier: MIT
// The text form of a kernel, printed and parsed without loss:
//
//   kernel scale {
//     workgroup 64 1 1
//     binding x : f32 read 1000
//     binding y : f32 write 1000
//     array tile : workgroup f32 64
//     param count
//     %0 : u32 = local_id 0
//     %1 : u32 = param count
//     %2 : bool = lt %0, %1
//     %3 : f32 = constant 0.5
//     %4 = branch %2 {
//       %5 : f32 = load x[%0]
//       %6 : f32 = mul %5, %3
//       store y[%0], %6
//     }
//   }
//
// Values are numbered in text order. Loops are `%n = loop %i : u32 = low, high, step carry (%c : f32 = init) { ... yield v }`;
// results of loops and branches are read by `result %n.0`. Float constants are the shortest decimals that read back to the same
// bits, or `bits 0x7fc00000` where infinite or NaN. A name that is no identifier is quoted; one that is not unique is written
// @index.
// `#` starts a comment.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"

#include <string>
#include <string_view>

namespace darner::kir {

std::string to_text(const Kernel& kernel);

// One instruction without its blocks, numbered as in to_text(); for messages.
std::string instruction_text(const Kernel& kernel, ValueId instruction);

// Reads one kernel. An error names line and column and what was expected there. The kernel is well formed enough to be
// printed and verified; whether it is right is for verify() to say.
Result<Kernel> parse(std::string_view text);

}  // namespace darner::kir
