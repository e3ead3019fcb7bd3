// SPDX-License-Identifier: MIT
// Removes what does not reach a store, an atomic or a barrier: pure instructions, loads, carried values and whole loops and
// branches. What stays is renumbered in the order of the text.
#pragma once

#include "darner/kir/kernel.h"

namespace darner::kir {

Kernel remove_dead_code(const Kernel& kernel);

}  // namespace darner::kir
