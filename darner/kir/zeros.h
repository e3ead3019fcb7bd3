// SPDX-License-Identifier: MIT
// Which kernels keep zeros: where the elements that an invocation reads are zero, so are those that it writes, whatever the
// other operands are. An optimizer's kernel may then run over the gaps between params as well.
#pragma once

#include "darner/kir/kernel.h"

namespace darner::kir {

// `zero` has one flag a binding: its elements are zero. The others are free, but finite and no zero divisors. All stores are
// looked at; what the analysis does not follow (loops, atomics, subgroups) does not keep zeros.
bool keeps_zeros(const Kernel& kernel, const std::vector<bool>& zero);

}  // namespace darner::kir
