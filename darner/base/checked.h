// SPDX-License-Identifier: MIT
// Arithmetic on sizes that come from outside (files, shapes, command lines): nothing wraps around silently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace darner {

// Nothing when the result does not fit.
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

// Product of extents; 1 for none. Nothing for a negative extent or a product that does not fit in int64_t, even where
// another extent is zero: strides are computed from the non-zero ones.
std::optional<uint64_t> checked_product(std::span<const int64_t> extents);

}  // namespace darner
