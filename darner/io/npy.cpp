// SPDX-License-Identifier: MIT
// The header is a Python dictionary with three entries; the reader below knows just the literals that may occur in it and
// counts byte offsets for its messages.
#include "darner/io/npy.h"

#include "darner/base/bytes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace darner {

namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct ElementType {
    std::string_view npy;  // kind and width, without the byte order
    std::string_view dtype;
};
constexpr ElementType element_types[] = {{"f4", "f32"}, {"f2", "f16"}, {"f8", "f64"}, {"i1", "i8"},  {"u1", "u8"},
                                         {"i4", "i32"}, {"u4", "u32"}, {"i8", "i64"}, {"b1", "bool"}};

struct Header {
    std::string descr;
    bool fortran_order = false;
    std::vector<int64_t> dims;
};

// Reads the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } in any order and spacing.
class HeaderReader {
public:
    HeaderReader(std::string_view text, size_t offset, const std::string& where) : text_(text), offset_(offset), where_(where) {}

    Result<Header> read() {
        Header header;
        bool has_descr = false, has_order = false, has_shape = false;
        TRY(expect('{'));
        while (!take('}')) {
            TRY(const std::string key, quoted());
            TRY(expect(':'));
            bool* seen = key == "descr"           ? &has_descr
                         : key == "fortran_order" ? &has_order
                         : key == "shape"         ? &has_shape
                                                  : nullptr;
            if (!seen) return fail(fmt::format("unknown header entry '{}'", key));
            if (std::exchange(*seen, true)) return fail(fmt::format("the header entry '{}' occurs twice", key));
            if (seen == &has_descr) {
                TRY(header.descr, descr());
            } else if (seen == &has_order) {
                TRY(header.fortran_order, boolean());
            } else {
                TRY(header.dims, shape());
            }
            if (!take(',') && !peek('}')) return fail("expected ',' or '}' in the header");
        }
        skip_space();
        if (at_ != text_.size()) return fail("unexpected text behind the header's '}'");
        if (!has_descr || !has_order || !has_shape)
            return fail(fmt::format("the header lacks the entry '{}'", !has_descr   ? "descr"
                                                                       : !has_order ? "fortran_order"
                                                                                    : "shape"));
        return header;
    }

private:
    Error fail(std::string message) const { return invalid(fmt::format("[npy] {} at byte {}", message, offset_ + at_), where_); }

    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    }
    bool peek(char c) {
        skip_space();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool take(char c) {
        if (!peek(c)) return false;
        ++at_;
        return true;
    }
    Result<void> expect(char c) {
        if (!take(c)) return fail(fmt::format("expected '{}' in the header", c));
        return {};
    }
    bool take_word(std::string_view word) {
        skip_space();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    Result<std::string> quoted() {
        skip_space();
        const char quote = at_ < text_.size() ? text_[at_] : '\0';
        if (quote != '\'' && quote != '"') return fail("expected a quoted text in the header");
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) return fail("unfinished text in the header");
        const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
        const bool plain = std::all_of(inside.begin(), inside.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\\'; });
        if (inside.size() > 64 || !plain) return fail("unreadable text in the header");
        at_ = end + 1;
        return std::string(inside);
    }
    Result<std::string> descr() {
        if (peek('[') || peek('('))
            return unsupported(
                fmt::format("[npy] records are not supported (byte {}): save each field as an array", offset_ + at_), where_);
        return quoted();
    }
    Result<bool> boolean() {
        if (take_word("True")) return true;
        if (take_word("False")) return false;
        return fail("expected True or False in the header");
    }
    Result<std::vector<int64_t>> shape() {
        std::vector<int64_t> dims;
        TRY(expect('('));
        while (!take(')')) {
            skip_space();
            int64_t extent = 0;
            const char* begin = text_.data() + at_;
            const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), extent);
            if (failure == std::errc::result_out_of_range) return fail("an extent of the shape is too large");
            if (failure != std::errc() || extent < 0) return fail("expected an extent of 0 or more in the shape");
            at_ += static_cast<size_t>(end - begin);
            if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 marked its long integers
            if (dims.size() == max_array_rank) return fail(fmt::format("more than {} extents in the shape", max_array_rank));
            dims.push_back(extent);
            // (4) is a number in Python, (4,) a tuple.
            if (!take(',') && (!peek(')') || dims.size() == 1)) return fail("expected ',' in the shape");
        }
        return dims;
    }

    std::string_view text_;
    size_t offset_ = 0, at_ = 0;
    const std::string& where_;
};

Error no_dtype(std::string_view descr, const std::string& where) {
    const std::string_view type = descr.substr(1);
    std::string_view reason = "it is not a number";
    if (type == "i2" || type == "u2") reason = "there are no 16-bit integer tensors; save it as int32";
    if (type == "u8") reason = "there are no unsigned 64-bit tensors; save it as int64 or uint32";
    if (type.starts_with('c')) reason = "there are no complex tensors; save the real and the imaginary part";
    if (type.starts_with('f')) reason = "only float16, float32 and float64 are";
    if (type.starts_with('O')) reason = "it holds Python objects";
    // NumPy writes extension types, bfloat16 among them, as raw bytes of their width.
    if (type.starts_with('V')) reason = "raw bytes have no type; save bfloat16 data as float32 or in a safetensors file";
    return unsupported(fmt::format("[npy] the element type '{}' is not supported: {}", descr, reason), where);
}

struct Element {
    std::string_view dtype;
    bool big_endian = false;
};

Result<Element> element_of(std::string_view descr, const std::string& where) {
    const char order = descr.empty() ? '\0' : descr[0];
    if (order != '<' && order != '>' && order != '|' && order != '=')
        return invalid(fmt::format("[npy] the element type '{}' does not start with a byte order", descr), where);
    for (const ElementType& known : element_types) {
        if (known.npy != descr.substr(1)) continue;
        if (order == '|' && dtype_bytes(known.dtype) > 1)
            return invalid(fmt::format("[npy] the element type '{}' lacks a byte order", descr), where);
        return Element{known.dtype, order == '>'};
    }
    return no_dtype(descr, where);
}

// Fortran order has the first axis fastest. Walks the elements in C order and keeps the source position up to date.
std::vector<std::byte> to_c_order(std::span<const std::byte> source, std::span<const int64_t> dims, size_t width) {
    std::vector<std::byte> out(source.size());
    std::vector<size_t> strides(dims.size()), index(dims.size(), 0);
    size_t stride = width;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        strides[axis] = stride;
        stride *= static_cast<size_t>(dims[axis]);
    }
    size_t from = 0;
    for (size_t to = 0; to < out.size(); to += width) {
        std::memcpy(out.data() + to, source.data() + from, width);
        for (size_t axis = dims.size(); axis-- > 0;) {
            from += strides[axis];
            if (++index[axis] < static_cast<size_t>(dims[axis])) break;
            from -= strides[axis] * index[axis];
            index[axis] = 0;
        }
    }
    return out;
}

// What precedes the header's text: magic, version and the text's length.
struct Prefix {
    size_t bytes = 0, header_bytes = 0;
};

// NumPy refuses headers above 10,000 bytes unless told otherwise; those of the types that are read here have hundreds.
constexpr size_t max_header_bytes = size_t{1} << 20, longest_prefix = 12;

// `start` is the file's first longest_prefix bytes, or all that it has.
Result<Prefix> parse_prefix(std::span<const std::byte> start, const std::string& where) {
    if (!text_of(start).starts_with(magic)) return invalid("[npy] not a .npy file: it does not start with \\x93NUMPY", where);
    if (start.size() < 8) return invalid("[npy] the file ends inside its version at byte 8", where);
    const auto major = std::to_integer<uint32_t>(start[6]), minor = std::to_integer<uint32_t>(start[7]);
    if (major < 1 || major > 3 || minor != 0)
        return unsupported(fmt::format("[npy] format version {}.{} is not known: expected 1.0, 2.0 or 3.0", major, minor), where);
    const size_t bytes = major == 1 ? 10 : longest_prefix;
    if (start.size() < bytes) return invalid("[npy] the file ends inside its header length at byte 8", where);
    return Prefix{bytes, major == 1 ? load_le<uint16_t>(start.data() + 8) : load_le<uint32_t>(start.data() + 8)};
}

struct Layout {
    Array array;  // still without its data
    Element element;
    bool fortran_order = false;
    uint64_t data_begin = 0, data_bytes = 0;
};

Error short_header(const Prefix& prefix, size_t left, const std::string& where) {
    return invalid(
        fmt::format("[npy] the header says {} bytes at byte {}, the file has {} left", prefix.header_bytes, prefix.bytes, left),
        where);
}

Result<Layout> parse_header(std::string_view text, const Prefix& prefix, const std::string& where) {
    HeaderReader reader(text, prefix.bytes, where);
    TRY(Header header, reader.read());
    TRY(const Element element, element_of(header.descr, where));
    Layout layout{{std::string(element.dtype), std::move(header.dims), {}}, element, header.fortran_order};
    const std::optional<uint64_t> bytes = array_bytes(layout.array.dtype, layout.array.dims);
    if (!bytes) return invalid(fmt::format("[npy] the shape of {} is too large", type_text(layout.array)), where);
    layout.data_begin = prefix.bytes + prefix.header_bytes;
    layout.data_bytes = *bytes;
    return layout;
}

Error wrong_size(const Layout& layout, std::string_view has, const std::string& where) {
    return invalid(fmt::format("[npy] {} needs {} bytes of data from byte {}, the file has {}", type_text(layout.array),
                               layout.data_bytes, layout.data_begin, has),
                   where);
}

Array with_data(Layout layout, std::vector<std::byte> data) {
    Array array = std::move(layout.array);
    const size_t width = dtype_bytes(array.dtype);
    array.data = layout.fortran_order && array.dims.size() > 1 ? to_c_order(data, array.dims, width) : std::move(data);
    if (layout.element.big_endian) swap_byte_order(array.data, width);
    if (array.dtype == "bool") normalize_bools(array.data);
    return array;
}

using FilePointer = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error system_error(const char* what, const std::string& path) {
    return io_error(fmt::format("cannot {}: {}", what, std::generic_category().message(errno)), path);
}

// Appends up to `count` bytes; fewer at the end of the file. In growing pieces: what a pipe's header claims need not come.
Result<void> read_up_to(std::FILE* file, uint64_t count, std::vector<std::byte>& into, const std::string& path) {
    constexpr uint64_t first_piece = uint64_t{1} << 20;
    const uint64_t end = into.size() + count;
    while (into.size() < end) {
        const size_t filled = into.size();
        const uint64_t piece = std::min<uint64_t>(end - filled, std::max<uint64_t>(first_piece, filled));
        into.resize(filled + static_cast<size_t>(piece));
        const size_t got = std::fread(into.data() + filled, 1, static_cast<size_t>(piece), file);
        into.resize(filled + got);
        if (std::ferror(file) != 0) return system_error("read the file", path);
        if (got < piece) return {};
    }
    return {};
}

}  // namespace

Result<Array> parse_npy(std::span<const std::byte> file, const std::string& where) {
    TRY(const Prefix prefix, parse_prefix(file.first(std::min(file.size(), longest_prefix)), where));
    const size_t left = file.size() - prefix.bytes;
    if (prefix.header_bytes > left) return short_header(prefix, left, where);
    TRY(Layout layout, parse_header(text_of(file).substr(prefix.bytes, prefix.header_bytes), prefix, where));
    const std::span<const std::byte> data = file.subspan(static_cast<size_t>(layout.data_begin));
    if (layout.data_bytes != data.size()) return wrong_size(layout, fmt::format("{}", data.size()), where);
    return with_data(std::move(layout), {data.begin(), data.end()});
}

Result<Array> read_npy(const std::string& path, uint64_t max_bytes) {
    const FilePointer file(std::fopen(path.c_str(), "rbe"), std::fclose);
    if (file == nullptr) return system_error("open the file", path);
    // Version 1 has two bytes less before its text: what follows is read only once the version says how much there must be.
    std::vector<std::byte> start;
    TRY(read_up_to(file.get(), 8, start, path));
    TRY(read_up_to(file.get(), start.size() == 8 && start[6] == std::byte{1} ? 2 : 4, start, path));
    TRY(const Prefix prefix, parse_prefix(start, path));
    if (prefix.header_bytes > max_header_bytes)
        return limit_error(fmt::format("[npy] the header has {} bytes, the limit is {}", prefix.header_bytes, max_header_bytes),
                           path);
    std::vector<std::byte> header;
    TRY(read_up_to(file.get(), prefix.header_bytes, header, path));
    if (header.size() < prefix.header_bytes) return short_header(prefix, header.size(), path);
    TRY(Layout layout, parse_header(text_of(header), prefix, path));
    if (layout.data_bytes > max_bytes)
        return limit_error(fmt::format("[npy] {} is larger than the limit of {} bytes", type_text(layout.array), max_bytes),
                           path);

    std::vector<std::byte> data;
    TRY(read_up_to(file.get(), layout.data_bytes, data, path));
    if (data.size() < layout.data_bytes) return wrong_size(layout, fmt::format("{}", data.size()), path);
    if (std::fgetc(file.get()) != EOF) return wrong_size(layout, "more", path);
    return with_data(std::move(layout), std::move(data));
}

namespace {

// Everything before the data, which starts at a multiple of 64.
Result<std::string> npy_header(const Array& array) {
    TRY(verify(array));
    const ElementType* type = nullptr;
    for (const ElementType& known : element_types)
        if (known.dtype == array.dtype) type = &known;
    if (!type) {
        Error error = unsupported(fmt::format("[npy] NumPy has no type for {}", array.dtype));
        error.hint = "cast to f32 or write a safetensors file";
        return error;
    }
    std::string shape;
    for (size_t axis = 0; axis < array.dims.size(); ++axis) shape += fmt::format("{}{}", axis ? ", " : "", array.dims[axis]);
    if (array.dims.size() == 1) shape += ',';
    std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                     dtype_bytes(array.dtype) == 1 ? '|' : '<', type->npy, shape);
    const size_t prefix = magic.size() + 4;  // version and length; a length always fits because ranks are bounded
    header.append(63 - (prefix + header.size()) % 64, ' ');
    header += '\n';
    const char version_and_length[] = {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
    return std::string(magic).append(version_and_length, sizeof(version_and_length)) + header;
}

}  // namespace

Result<std::vector<std::byte>> format_npy(const Array& array) {
    TRY(const std::string header, npy_header(array));
    std::vector<std::byte> out;
    out.reserve(header.size() + array.data.size());
    const auto header_bytes = bytes_of(header);
    out.insert(out.end(), header_bytes.begin(), header_bytes.end());
    out.insert(out.end(), array.data.begin(), array.data.end());
    return out;
}

Result<void> write_npy(const std::string& path, const Array& array) {
    Result<std::string> header = npy_header(array);
    if (!header) {
        Error error = std::move(header).error();
        error.where = path;
        return error;
    }
    const std::array<std::span<const std::byte>, 2> pieces = {bytes_of(*header), array.data};
    return write_file(path, pieces);
}

}  // namespace darner
