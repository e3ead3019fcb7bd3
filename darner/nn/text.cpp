// SPDX-License-Identifier: MIT
// UTF-8 in and out; vocabularies.
#include "darner/nn/text.h"

#include "darner/base/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace darner {
namespace {

constexpr char32_t code_points = 0x110000;
constexpr uint64_t most_characters = 0x7fffffff;

void append(std::string& text, char32_t c) {
    if (c < 0x80) {
        text += static_cast<char>(c);
        return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr std::array<unsigned, 4> lead{0, 0xc0, 0xe0, 0xf0};
    text += static_cast<char>(lead[static_cast<size_t>(more)] | c >> 6 * more);
    for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
}

Array token_array(size_t count, bool bytes) {
    Array array{bytes ? "u8" : "i32", {static_cast<int64_t>(count)}, {}};
    array.data.resize(count * (bytes ? 1 : 4));
    return array;
}

}  // namespace

Result<char32_t> next_character(std::string_view text, size_t& at) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const char32_t first = byte(at);
    const size_t length = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xe ? 3 : first >> 3 == 0x1e ? 4 : 0;
    constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};  // of a length: what is below it has a shorter form
    char32_t c = length == 1 ? first : first & (0x7fu >> length);
    bool good = length > 0 && at + length <= text.size();
    for (size_t i = 1; good && i < length; ++i) {
        good = byte(at + i) >> 6 == 0x2;
        c = c << 6 | (byte(at + i) & 0x3fu);
    }
    if (!good || c < least[length] || c >= code_points || (c >= 0xd800 && c < 0xe000)) {
        Error error =
            invalid(fmt::format("[text] byte {} (0x{:02x}) is not part of valid UTF-8", at, static_cast<unsigned>(first)));
        error.hint = "convert the text, for example: iconv -f latin1 -t utf-8 OLD > NEW";
        return error;
    }
    at += length;
    return c;
}

Result<std::vector<int32_t>> Vocabulary::tokens(std::string_view text) const {
    std::vector<int32_t> found;
    for (size_t at = 0; at < text.size();) {
        const size_t start = at;
        TRY(const char32_t c, next_character(text, at));
        const auto place = std::lower_bound(characters.begin(), characters.end(), c);
        if (place == characters.end() || *place != c)
            return invalid(fmt::format("[text] \"{}\" (U+{:04X}) does not occur in the text that the network learnt from",
                                       text.substr(start, at - start), static_cast<uint32_t>(c)));
        found.push_back(static_cast<int32_t>(place - characters.begin()));
    }
    return found;
}

std::string Vocabulary::text(std::span<const int32_t> tokens) const {
    std::string text;
    for (int32_t token : tokens) append(text, characters.at(static_cast<size_t>(token)));
    return text;
}

std::string Vocabulary::text() const {
    std::string text;
    for (char32_t c : characters) append(text, c);
    return text;
}

Result<Vocabulary> parse_vocabulary(std::string_view text) {
    Vocabulary vocabulary;
    for (size_t at = 0; at < text.size();) {
        TRY(const char32_t c, next_character(text, at));
        if (!vocabulary.characters.empty() && c <= vocabulary.characters.back())
            return invalid("[text] the characters of the vocabulary are not in ascending order");
        vocabulary.characters.push_back(c);
    }
    return vocabulary;
}

// Two passes over the bytes, so that nothing larger than the text and its tokens is ever in memory.
Result<TextSet> make_text_set(std::string_view text, const std::string& where) {
    const auto fail = [&](Error error) {
        error.where = where;
        return error;
    };
    std::vector<int32_t> token_of(code_points, -1);
    size_t count = 0;
    for (size_t at = 0; at < text.size(); ++count) {
        const Result<char32_t> c = next_character(text, at);
        if (!c) return fail(c.error());
        token_of[*c] = 0;
    }
    if (count > most_characters)
        return fail({ErrorKind::limit, fmt::format("[text] {} characters, expected at most {}", count, most_characters)});
    TextSet set;
    for (char32_t c = 0; c < code_points; ++c) {
        if (token_of[c] < 0) continue;
        token_of[c] = static_cast<int32_t>(set.vocabulary.characters.size());
        set.vocabulary.characters.push_back(c);
    }
    const bool bytes = set.vocabulary.size() <= 256;
    set.tokens = token_array(count, bytes);
    std::byte* out = set.tokens.data.data();
    for (size_t at = 0; at < text.size();) {
        const int32_t token = token_of[*next_character(text, at)];
        if (bytes)
            *out++ = static_cast<std::byte>(token);
        else
            out = std::copy_n(reinterpret_cast<const std::byte*>(&token), 4, out);
    }
    return set;
}

Result<TextSet> load_text(const std::string& path) {
    TRY(const std::string text, read_text_file(path, 4 * most_characters));
    return make_text_set(text, path);
}

}  // namespace darner
