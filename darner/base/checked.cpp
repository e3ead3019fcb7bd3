// SPDX-License-Identifier: MIT
// Overflow-safe products of extents.
#include "darner/base/checked.h"

namespace darner {

std::optional<uint64_t> checked_product(std::span<const int64_t> extents) {
    int64_t product = 1;
    bool empty = false;
    for (int64_t extent : extents) {
        if (extent < 0) return std::nullopt;
        if (extent == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, extent, &product))
            return std::nullopt;
    }
    return empty ? 0 : static_cast<uint64_t>(product);
}

}  // namespace darner
