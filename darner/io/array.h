// SPDX-License-Identifier: MIT
// Array: a tensor on the host as the container formats know it: the graph's dtype spelling, dense row-major elements,
// little-endian, bool as one byte 0 or 1. It has no arithmetic; f16 and bf16 are bits.
#pragma once

#include "darner/base/check.h"
#include "darner/base/result.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace darner {

// More axes than any use has; NumPy's own bound. Keeps hostile shapes, and messages about them, short.
inline constexpr size_t max_array_rank = 64;

struct Array {
    std::string dtype;          // f32 f16 bf16 f64 i8 u8 i32 u32 i64 bool
    std::vector<int64_t> dims;  // empty: a scalar
    std::vector<std::byte> data;

    bool operator==(const Array&) const = default;
};

// Bytes of one element; 0 when darner has no such dtype.
size_t dtype_bytes(std::string_view dtype);

// Bytes of a whole array. Nothing for an unknown dtype, too many axes, a negative extent or a size that overflows.
std::optional<uint64_t> array_bytes(std::string_view dtype, std::span<const int64_t> dims);

// dtype known, dims valid, data of the size that they ask for. Writers refuse what does not pass.
Result<void> verify(const Array& array);

// "f32[2,3]", as in the graph's text.
std::string type_text(const Array& array);

// Any byte but 0 is true elsewhere; here a true is 1.
void normalize_bools(std::span<std::byte> bools);

template <class T>
constexpr std::string_view dtype_of() {
    if constexpr (std::is_same_v<T, float>) return "f32";
    if constexpr (std::is_same_v<T, double>) return "f64";
    if constexpr (std::is_same_v<T, int8_t>) return "i8";
    if constexpr (std::is_same_v<T, uint8_t>) return "u8";
    if constexpr (std::is_same_v<T, int32_t>) return "i32";
    if constexpr (std::is_same_v<T, uint32_t>) return "u32";
    if constexpr (std::is_same_v<T, int64_t>) return "i64";
    return {};
}

template <class T>
Array make_array(std::vector<int64_t> dims, std::span<const T> values) {
    static_assert(!dtype_of<T>().empty(), "no dtype has this element type");
    const auto bytes = std::as_bytes(values);
    Array array{std::string(dtype_of<T>()), std::move(dims), {bytes.begin(), bytes.end()}};
    CHECK(verify(array).has_value(), "the number of values does not match the dims");
    return array;
}

template <class T>
Array make_array(std::vector<int64_t> dims, std::initializer_list<T> values) {
    return make_array<T>(std::move(dims), std::span<const T>(values.begin(), values.size()));
}

// The elements, when the dtype is T's own; anything else is our mistake.
template <class T>
std::span<const T> values_of(const Array& array) {
    CHECK(array.dtype == dtype_of<T>(), "values_of: the array is " + array.dtype);
    return {reinterpret_cast<const T*>(array.data.data()), array.data.size() / sizeof(T)};
}

}  // namespace darner
