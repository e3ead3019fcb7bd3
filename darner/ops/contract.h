// SPDX-License-Identifier: MIT
// The axes of a `dot`, normalised: what its inference, reference, gradient and the planner's contraction agree on.
#pragma once

#include "darner/graph/op_def.h"

#include <algorithm>

namespace darner {

// Of each operand: batch and contracted axes as the attributes list them, free axes ascending. The result's axes are the
// batch axes, the free axes of a, the free axes of b.
struct DotAxes {
    std::vector<size_t> batch_a, batch_b, contract_a, contract_b, free_a, free_b;
};
DotAxes dot_axes(const Call& c);  // inference has checked them

// Into how many pieces to cut `extent` where at least `pieces` are wanted: evenly where a number up to twice as large does it.
inline int64_t even_pieces(int64_t extent, int64_t pieces) {
    for (int64_t count = pieces; count <= std::min(extent, 2 * pieces); ++count)
        if (extent % count == 0) return count;
    return pieces;
}

}  // namespace darner
