// SPDX-License-Identifier: MIT
// Hashing that is the same on every machine and run: used for structural hashes that reach files and caches.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace darner {

// 64-bit hash built by feeding words; the order of feeding counts.
class Hasher {
public:
    void word(uint64_t v) {
        state_ ^= v + 0x9e3779b97f4a7c15ull + (state_ << 6) + (state_ >> 2);
        state_ ^= state_ >> 32;
        state_ *= 0xd6e8feb86659fd93ull;
        state_ ^= state_ >> 29;
    }
    template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>) void add(T v) { word(static_cast<uint64_t>(v)); }
    void add(double v) { word(std::bit_cast<uint64_t>(v)); }
    void add(std::string_view s) {
        word(s.size());
        while (s.size() >= 8) {
            uint64_t v;
            std::memcpy(&v, s.data(), 8);
            word(v);
            s.remove_prefix(8);
        }
        uint64_t tail = 0;
        std::memcpy(&tail, s.data(), s.size());
        word(tail);
    }
    uint64_t value() const { return state_; }

private:
    uint64_t state_ = 0x2545f4914f6cdd1dull;
};

}  // namespace darner
