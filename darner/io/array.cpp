// SPDX-License-Identifier: MIT
// The dtype table of the container formats and the checks on sizes.
#include "darner/io/array.h"

#include "darner/base/checked.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace darner {

size_t dtype_bytes(std::string_view dtype) {
    static constexpr std::pair<std::string_view, size_t> known[] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i8", 1},
                                                                    {"u8", 1},  {"i32", 4}, {"u32", 4},  {"i64", 8}, {"bool", 1}};
    for (const auto& [name, bytes] : known)
        if (name == dtype) return bytes;
    return 0;
}

std::optional<uint64_t> array_bytes(std::string_view dtype, std::span<const int64_t> dims) {
    const size_t width = dtype_bytes(dtype);
    const std::optional<uint64_t> count = checked_product(dims);
    if (width == 0 || dims.size() > max_array_rank || !count) return std::nullopt;
    return checked_mul(*count, width);
}

Result<void> verify(const Array& array) {
    if (dtype_bytes(array.dtype) == 0) return invalid(fmt::format("[array] there is no dtype \"{}\"", array.dtype));
    if (array.dims.size() > max_array_rank)
        return invalid(fmt::format("[array] {} axes, expected {} at most", array.dims.size(), max_array_rank));
    const std::optional<uint64_t> bytes = array_bytes(array.dtype, array.dims);
    if (!bytes) return invalid(fmt::format("[array] no array can have the type {}", type_text(array)));
    if (*bytes != array.data.size())
        return invalid(fmt::format("[array] {} has {} bytes of data, expected {}", type_text(array), array.data.size(), *bytes));
    return {};
}

std::string type_text(const Array& array) { return fmt::format("{}[{}]", array.dtype, fmt::join(array.dims, ",")); }

void normalize_bools(std::span<std::byte> bools) {
    for (std::byte& value : bools) value = value == std::byte{0} ? std::byte{0} : std::byte{1};
}

}  // namespace darner
