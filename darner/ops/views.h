// SPDX-License-Identifier: MIT
// The range of one axis that a `slice` takes, with negative and open ends resolved.
#pragma once

#include "darner/graph/op_def.h"

#include <limits>

namespace darner {

inline constexpr int64_t slice_end = std::numeric_limits<int64_t>::max();  // a `stop` that means the end of the axis

struct SliceRange {
    Dim start, stop;
    int64_t step = 1;
};
SliceRange slice_range(const Call& c, size_t axis);

}  // namespace darner
