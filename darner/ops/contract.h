// SPDX-License-Identifier: MIT
// The axes of a `dot`, normalised: what its inference, reference, gradient and the planner's contraction agree on.
#pragma once

#include "darner/graph/op_def.h"

namespace darner {

// Of each operand: batch and contracted axes as the attributes list them, free axes ascending. The result's axes are the
// batch axes, the free axes of a, the free axes of b.
struct DotAxes {
    std::vector<size_t> batch_a, batch_b, contract_a, contract_b, free_a, free_b;
};
DotAxes dot_axes(const Call& c);  // inference has checked them

}  // namespace darner
