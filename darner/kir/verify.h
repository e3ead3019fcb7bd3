// SPDX-License-Identifier: MIT
// Checks a kernel. All violations come in one error, a line each.
#pragma once

#include "darner/base/result.h"
#include "darner/kir/kernel.h"

#include <vector>

namespace darner::kir {

// Everything: verify_structure(), and that barriers, subgroup and cooperative operations stand in uniform control flow.
Result<void> verify(const Kernel& kernel);

// Tables, ids, dominance and scoping, types of every opcode, access of bindings, constant private indices, names and sizes. What
// passes can be interpreted and emitted without looking at an index twice.
Result<void> verify_structure(const Kernel& kernel);

// How far a value is the same: over the workgroup, over each subgroup, or not at all.
enum class Uniformity : uint8_t { workgroup, subgroup, none };

// Per value. The kernel has passed verify_structure().
std::vector<Uniformity> uniformity(const Kernel& kernel);

}  // namespace darner::kir
