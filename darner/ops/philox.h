// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four random words from a counter and a key.
#pragma once

#include <array>
#include <cstdint>

namespace darner {

inline constexpr uint32_t philox_multiplier_0 = 0xD2511F53u, philox_multiplier_1 = 0xCD9E8D57u;
inline constexpr uint32_t philox_key_step_0 = 0x9E3779B9u, philox_key_step_1 = 0xBB67AE85u;
inline constexpr int philox_rounds = 10;

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < philox_rounds; ++round) {
        const uint64_t p0 = uint64_t{philox_multiplier_0} * counter[0], p1 = uint64_t{philox_multiplier_1} * counter[2];
        counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
                   static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
        key[0] += philox_key_step_0;
        key[1] += philox_key_step_1;
    }
    return counter;
}

}  // namespace darner
