// SPDX-License-Identifier: MIT
// The header is read by events, not as a document: that sees names that occur twice, bounds memory by the header's own
// length, and stops at the first thing that does not belong. Offsets are judged only when all of them are known.
#include "darner/io/safetensors.h"

#include "darner/base/bytes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace darner {

namespace {

constexpr size_t length_bytes = 8;
constexpr uint64_t max_header_bytes = 100'000'000;  // the reference implementation's bound
constexpr std::string_view metadata_key = "__metadata__";

constexpr std::pair<std::string_view, std::string_view> element_types[] = {
    {"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}, {"F64", "f64"}, {"I8", "i8"},
    {"U8", "u8"},   {"I32", "i32"}, {"U32", "u32"},   {"I64", "i64"}, {"BOOL", "bool"}};

// A hostile name may be as long as the header; a message need not.
std::string_view shown(std::string_view name) { return name.substr(0, 200); }

struct Entry {
    std::string name, dtype;  // dtype in the graph's spelling
    std::vector<int64_t> dims;
    uint64_t begin = 0, end = 0;  // in the data behind the header
};

struct Header {
    std::vector<Entry> entries;
    std::map<std::string, std::string> metadata;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"format": "pt"}}
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit HeaderReader(const std::string& where) : where_(where) {}

    Result<Header> read(std::string_view text) {
        const bool good = nlohmann::json::sax_parse(text.begin(), text.end(), this);
        if (error_) return *std::move(error_);
        CHECK(good, "the JSON reader stopped without an error");
        return std::move(header_);
    }

    bool null() override { return unexpected("null"); }
    bool boolean(bool) override { return unexpected("a boolean"); }
    bool number_integer(number_integer_t value) override { return unexpected(fmt::format("the number {}", value)); }
    bool number_float(number_float_t, const string_t& text) override { return unexpected("the number " + text.substr(0, 32)); }
    bool binary(binary_t&) override { return unexpected("binary data"); }

    bool number_unsigned(number_unsigned_t value) override {
        if (!in_array_) return unexpected(fmt::format("the number {}", value));
        if (field_ == "data_offsets") {
            offsets_.push_back(value);
            return offsets_.size() <= 2 || fail("\"data_offsets\" has more than two numbers");
        }
        if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return fail("an extent of \"shape\" is too large");
        if (entry_.dims.size() == max_array_rank) return fail(fmt::format("\"shape\" has more than {} extents", max_array_rank));
        entry_.dims.push_back(static_cast<int64_t>(value));
        return true;
    }

    bool string(string_t& value) override {
        if (in_metadata()) {
            header_.metadata[field_] = std::move(value);
            return true;
        }
        if (depth_ != 2 || in_array_ || field_ != "dtype") return unexpected("a text");
        for (const auto& [spelling, dtype] : element_types)
            if (spelling == value) entry_.dtype = dtype;
        if (!entry_.dtype.empty()) return true;
        error_ = unsupported(
            fmt::format("[safetensors] \"{}\": the element type {} is not supported", shown(name_), shown(value)), where_);
        return false;
    }

    bool start_object(size_t) override {
        if (depth_ == 2 || in_array_) return unexpected("an object");
        if (++depth_ == 2) {
            fields_.clear();
            offsets_.clear();
            entry_ = {};
        }
        return true;
    }

    bool key(string_t& value) override {
        if (depth_ == 1) {
            name_ = value;
            return names_.insert(std::move(value)).second || fail("the name occurs twice");
        }
        field_ = value;
        if (!fields_.insert(std::move(value)).second) return fail(fmt::format("the entry \"{}\" occurs twice", shown(field_)));
        if (in_metadata() || field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") return true;
        return fail(fmt::format("unknown entry \"{}\"", shown(field_)));
    }

    bool end_object() override {
        if (--depth_ == 0 || name_ == metadata_key) return true;
        for (const char* needed : {"dtype", "shape", "data_offsets"})
            if (!fields_.contains(needed)) return fail(fmt::format("the entry \"{}\" is missing", needed));
        if (offsets_.size() != 2) return fail("\"data_offsets\" has fewer than two numbers");
        entry_.name = name_;
        entry_.begin = offsets_[0];
        entry_.end = offsets_[1];
        header_.entries.push_back(std::move(entry_));
        return true;
    }

    bool start_array(size_t) override {
        if (depth_ != 2 || in_array_ || in_metadata() || field_ == "dtype") return unexpected("a list");
        in_array_ = true;
        return true;
    }
    bool end_array() override {
        in_array_ = false;
        return true;
    }

    bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
        // Positions count from 1 within the header.
        error_ =
            invalid(fmt::format("[safetensors] the header is not valid JSON at byte {}", length_bytes + position - 1), where_);
        return false;
    }

private:
    bool in_metadata() const { return depth_ == 2 && name_ == metadata_key; }
    bool fail(const std::string& what) {
        error_ = invalid(fmt::format("[safetensors] \"{}\": {}", shown(name_), what), where_);
        return false;
    }
    bool unexpected(const std::string& what) {
        if (depth_ == 0) {
            error_ = invalid(fmt::format("[safetensors] the header is {}, expected an object", what), where_);
            return false;
        }
        if (depth_ == 1) return fail(fmt::format("got {}, expected an object", what));
        const char* expected = in_metadata() || field_ == "dtype" ? "a text" : "a list of numbers of 0 or more";
        return fail(fmt::format("\"{}\" holds {}, expected {}", shown(field_), what, expected));
    }

    const std::string& where_;
    Header header_;
    std::optional<Error> error_;
    int depth_ = 0;
    bool in_array_ = false;
    std::set<std::string> names_, fields_;
    std::string name_, field_;
    Entry entry_;
    std::vector<uint64_t> offsets_;
};

// Types against sizes, and the bytes covered exactly once. `data_begin` is only for messages.
Result<void> check_offsets(std::vector<Entry>& entries, uint64_t data_begin, uint64_t data_bytes, const std::string& where) {
    for (const Entry& entry : entries) {
        const std::string type = fmt::format("{}[{}]", entry.dtype, fmt::join(entry.dims, ","));
        const std::optional<uint64_t> bytes = array_bytes(entry.dtype, entry.dims);
        if (!bytes)
            return invalid(fmt::format("[safetensors] \"{}\": the shape of {} is too large", shown(entry.name), type), where);
        if (entry.begin > entry.end || entry.end > data_bytes)
            return invalid(fmt::format("[safetensors] \"{}\": the offsets [{}, {}] are not within the {} bytes of data",
                                       shown(entry.name), entry.begin, entry.end, data_bytes),
                           where);
        if (entry.end - entry.begin != *bytes)
            return invalid(fmt::format("[safetensors] \"{}\": {} needs {} bytes, its offsets [{}, {}] span {}", shown(entry.name),
                                       type, *bytes, entry.begin, entry.end, entry.end - entry.begin),
                           where);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name); });
    uint64_t covered = 0;
    for (const Entry& entry : entries) {
        if (entry.begin != covered)
            return invalid(fmt::format("[safetensors] \"{}\" {} at byte {} of the file", shown(entry.name),
                                       entry.begin < covered ? "overlaps another tensor" : "leaves a hole before it",
                                       data_begin + std::min(entry.begin, covered)),
                           where);
        covered = entry.end;
    }
    if (covered != data_bytes)
        return invalid(fmt::format("[safetensors] {} bytes from byte {} of the file on belong to no tensor", data_bytes - covered,
                                   data_begin + covered),
                       where);
    return {};
}

Result<uint64_t> header_length(std::span<const std::byte> prefix, uint64_t file_bytes, const std::string& where) {
    if (file_bytes < length_bytes)
        return invalid(fmt::format("[safetensors] the file has {} bytes, expected 8 or more", file_bytes), where);
    const uint64_t length = load_le<uint64_t>(prefix.data());
    if (length > max_header_bytes)
        return invalid(fmt::format("[safetensors] the header says {} bytes, at most {} are allowed: not a safetensors file?",
                                   length, max_header_bytes),
                       where);
    if (length > file_bytes - length_bytes)
        return invalid(
            fmt::format("[safetensors] the header says {} bytes, the file has {} left", length, file_bytes - length_bytes),
            where);
    return length;
}

Result<Header> parse_header(std::string_view text, uint64_t file_bytes, const std::string& where) {
    if (!text.starts_with('{')) return invalid("[safetensors] the header does not start with '{' at byte 8", where);
    TRY(Header header, HeaderReader(where).read(text));
    const uint64_t data_begin = length_bytes + text.size();
    TRY(check_offsets(header.entries, data_begin, file_bytes - data_begin, where));
    return header;
}

void add_tensor(Safetensors& to, Entry entry, std::vector<std::byte> data) {
    if (entry.dtype == "bool") normalize_bools(data);
    to.tensors.emplace(std::move(entry.name), Array{std::move(entry.dtype), std::move(entry.dims), std::move(data)});
}

// A JSON string; nothing when the text is not UTF-8, which the library would have replaced.
std::optional<std::string> quoted(const std::string& text) {
    using nlohmann::json;
    std::string out = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
    const json back = json::parse(out, nullptr, false);
    if (!back.is_string() || back.get_ref<const std::string&>() != text) return std::nullopt;
    return out;
}

Error not_utf8(const std::string& what, const std::string& path) {
    return invalid(fmt::format("[safetensors] {} is not valid UTF-8", what), path);
}

// Names in order; the offsets follow `order`.
Result<std::string> format_header(const Safetensors& contents, std::span<const Entry* const> order, const std::string& path) {
    std::string text = "{";
    if (!contents.metadata.empty()) {
        std::vector<std::string> pairs;
        for (const auto& [key, value] : contents.metadata) {
            const std::optional<std::string> key_text = quoted(key), value_text = quoted(value);
            if (!key_text || !value_text) return not_utf8("the metadata of \"" + key + "\"", path);
            pairs.push_back(*key_text + ":" + *value_text);
        }
        text += fmt::format("\"{}\":{{{}}}", metadata_key, fmt::join(pairs, ","));
    }
    for (const Entry* entry : order) {
        const std::optional<std::string> name = quoted(entry->name);
        if (!name) return not_utf8("the name \"" + entry->name + "\"", path);
        text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", text.size() > 1 ? "," : "",
                            *name, entry->dtype, fmt::join(entry->dims, ","), entry->begin, entry->end);
    }
    text += '}';
    text.append((8 - text.size() % 8) % 8, ' ');
    if (text.size() > max_header_bytes)
        return limit_error(
            fmt::format("[safetensors] the header takes {} bytes, at most {} are allowed", text.size(), max_header_bytes), path);
    return text;
}

std::string_view spelling_of(std::string_view dtype) {
    for (const auto& [spelling, known] : element_types)
        if (known == dtype) return spelling;
    return {};
}

}  // namespace

Result<Safetensors> parse_safetensors(std::span<const std::byte> file, const std::string& where) {
    TRY(const uint64_t length, header_length(file, file.size(), where));
    TRY(Header header, parse_header(text_of(file.subspan(length_bytes, length)), file.size(), where));
    const std::span<const std::byte> data = file.subspan(length_bytes + length);
    Safetensors contents{{}, std::move(header.metadata)};
    for (Entry& entry : header.entries) {
        const auto bytes = data.subspan(entry.begin, entry.end - entry.begin);
        add_tensor(contents, std::move(entry), {bytes.begin(), bytes.end()});
    }
    return contents;
}

Result<Safetensors> read_safetensors(const std::string& path, uint64_t max_bytes) {
    TRY(const InputFile file, InputFile::open(path));
    if (file.size() > max_bytes)
        return limit_error(fmt::format("[safetensors] the file has {} bytes, the limit is {}", file.size(), max_bytes), path);
    std::byte prefix[length_bytes] = {};
    TRY(file.read_at(0, std::span(prefix).first(std::min<uint64_t>(file.size(), length_bytes))));
    TRY(const uint64_t length, header_length(prefix, file.size(), path));
    std::string text(length, '\0');
    TRY(file.read_at(length_bytes, std::as_writable_bytes(std::span(text.data(), text.size()))));
    TRY(Header header, parse_header(text, file.size(), path));
    Safetensors contents{{}, std::move(header.metadata)};
    for (Entry& entry : header.entries) {
        std::vector<std::byte> data(entry.end - entry.begin);
        TRY(file.read_at(length_bytes + length + entry.begin, data));
        add_tensor(contents, std::move(entry), std::move(data));
    }
    return contents;
}

Result<void> write_safetensors(const std::string& path, const Safetensors& contents) {
    struct Placed {
        Entry entry;
        const Array* array;
    };
    std::vector<Placed> placed;
    for (const auto& [name, array] : contents.tensors) {
        if (name == metadata_key) return invalid("[safetensors] no tensor may be called \"__metadata__\"", path);
        if (Result<void> good = verify(array); !good) return invalid(fmt::format("\"{}\": {}", name, good.error().message), path);
        placed.push_back({{name, std::string(spelling_of(array.dtype)), array.dims, 0, 0}, &array});
    }
    std::vector<Placed*> by_width;
    for (Placed& tensor : placed) by_width.push_back(&tensor);
    std::stable_sort(by_width.begin(), by_width.end(), [](const Placed* a, const Placed* b) {
        return dtype_bytes(a->array->dtype) > dtype_bytes(b->array->dtype);
    });
    uint64_t offset = 0;
    for (Placed* tensor : by_width) {
        tensor->entry.begin = offset;
        offset += tensor->array->data.size();
        tensor->entry.end = offset;
    }
    std::vector<const Entry*> names;
    for (const Placed& tensor : placed) names.push_back(&tensor.entry);
    TRY(const std::string header, format_header(contents, names, path));
    std::vector<std::byte> prefix;
    append_le(prefix, uint64_t{header.size()});
    std::vector<std::span<const std::byte>> pieces = {prefix, bytes_of(header)};
    for (const Placed* tensor : by_width) pieces.emplace_back(tensor->array->data);
    return write_file(path, pieces);
}

}  // namespace darner
