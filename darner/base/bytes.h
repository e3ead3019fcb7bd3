// SPDX-License-Identifier: MIT
// Fixed-width numbers in byte streams, at any alignment. The formats that darner writes are little-endian; hosts are too.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace darner {

static_assert(std::endian::native == std::endian::little, "darner stores tensors in little-endian hosts only");

// The caller has checked that sizeof(T) bytes are there.
template <class T>
requires(std::is_integral_v<T>) T load_le(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

template <class T>
requires(std::is_integral_v<T>) T load_be(const std::byte* from) {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>((value << 8) | std::to_integer<T>(from[i]));
    return value;
}

template <class T>
requires(std::is_integral_v<T>) void append_le(std::vector<std::byte>& to, T value) {
    const size_t at = to.size();
    to.resize(at + sizeof(T));
    std::memcpy(to.data() + at, &value, sizeof(T));
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reverses the bytes of each element of `width` bytes, in place: big-endian to little-endian and back.
inline void swap_byte_order(std::span<std::byte> elements, size_t width) {
    if (width < 2) return;
    for (size_t at = 0; at + width <= elements.size(); at += width)
        for (size_t i = 0; i < width / 2; ++i) std::swap(elements[at + i], elements[at + width - 1 - i]);
}

}  // namespace darner
