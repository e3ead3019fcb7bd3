// SPDX-License-Identifier: MIT
// The rank is one byte and each extent 32 bits, so the header is small; its product is checked before the data is looked at.
#include "darner/io/idx.h"

#include "darner/base/bytes.h"
#include "darner/io/gzip.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace darner {

namespace {

Result<std::string_view> dtype_of_code(uint32_t code, const std::string& where) {
    switch (code) {
        case 0x08: return std::string_view("u8");
        case 0x09: return std::string_view("i8");
        case 0x0c: return std::string_view("i32");
        case 0x0d: return std::string_view("f32");
        case 0x0e: return std::string_view("f64");
        case 0x0b: return unsupported("[idx] 16-bit integers (type 0x0b) are not supported: save it as 32-bit", where);
    }
    return invalid(fmt::format("[idx] unknown element type {:#04x} at byte 2", code), where);
}

Result<Array> parse_plain(std::span<const std::byte> file, const std::string& where) {
    if (file.size() < 4) return invalid(fmt::format("[idx] not an IDX file: it has {} bytes", file.size()), where);
    if (file[0] != std::byte{0} || file[1] != std::byte{0})
        return invalid("[idx] not an IDX file: its first two bytes are not zero", where);
    TRY(const std::string_view dtype, dtype_of_code(std::to_integer<uint32_t>(file[2]), where));
    const size_t rank = std::to_integer<size_t>(file[3]), data_begin = 4 + 4 * rank;
    if (rank > max_array_rank)
        return unsupported(fmt::format("[idx] {} axes at byte 3, expected {} at most", rank, max_array_rank), where);
    if (file.size() < data_begin)
        return invalid(fmt::format("[idx] the file ends inside its {} extents at byte {}", rank, file.size()), where);
    Array array{std::string(dtype), {}, {}};
    for (size_t axis = 0; axis < rank; ++axis) array.dims.push_back(load_be<uint32_t>(file.data() + 4 + 4 * axis));
    const std::optional<uint64_t> bytes = array_bytes(dtype, array.dims);
    if (!bytes) return invalid(fmt::format("[idx] the shape of {} is too large", type_text(array)), where);
    const std::span<const std::byte> data = file.subspan(data_begin);
    if (*bytes != data.size())
        return invalid(fmt::format("[idx] {} needs {} bytes of data from byte {}, the file has {}", type_text(array), *bytes,
                                   data_begin, data.size()),
                       where);
    array.data.assign(data.begin(), data.end());
    swap_byte_order(array.data, dtype_bytes(dtype));
    return array;
}

}  // namespace

Result<Array> parse_idx(std::span<const std::byte> file, const std::string& where, uint64_t max_bytes) {
    if (!is_gzip(file)) return parse_plain(file, where);
    TRY(const std::vector<std::byte> unpacked, gunzip(file, max_bytes, where));
    return parse_plain(unpacked, where);
}

Result<Array> read_idx(const std::string& path, uint64_t max_bytes) {
    TRY(const std::vector<std::byte> file, read_file(path, max_bytes));
    return parse_idx(file, path, max_bytes);
}

}  // namespace darner
