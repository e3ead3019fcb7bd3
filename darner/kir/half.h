// SPDX-License-Identifier: MIT
// The two 16-bit float formats as bit patterns: exact widening to f32, narrowing by round to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace darner::kir {

inline float f16_to_f32(uint32_t half) {
    uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero: exact
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

inline uint32_t f32_to_f16(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {
        // Adding 0.5 puts the last bit of a half subnormal (2^-24) at the last bit of the f32 mantissa: it rounds to even.
        float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13);
}

inline float bf16_to_f32(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

inline uint32_t f32_to_bf16(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

}  // namespace darner::kir
