// SPDX-License-Identifier: MIT
// Text as numbers. A token is a character, that is a Unicode code point, as its index among the distinct characters of a text in
// ascending order. Text is UTF-8; what is not is refused with its place.
#pragma once

#include "darner/io/array.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

// The character at byte `at`, which moves behind it. Overlong forms, surrogates and numbers above U+10FFFF are no UTF-8.
Result<char32_t> next_character(std::string_view text, size_t& at);

struct Vocabulary {
    std::vector<char32_t> characters;  // ascending

    int64_t size() const { return static_cast<int64_t>(characters.size()); }
    // The error names the first character that is not in the vocabulary.
    Result<std::vector<int32_t>> tokens(std::string_view text) const;
    std::string text(std::span<const int32_t> tokens) const;
    std::string text() const;  // all characters in order

    bool operator==(const Vocabulary&) const = default;
};

// The reverse of Vocabulary::text(); the order is checked.
Result<Vocabulary> parse_vocabulary(std::string_view text);

struct TextSet {
    Vocabulary vocabulary;
    Array tokens;  // [count]: u8 where 256 values are enough, else i32

    int64_t count() const { return tokens.dims[0]; }
};

// At most 2^31 - 1 characters, which indices of 32 bits can number; errors name `where`.
Result<TextSet> make_text_set(std::string_view text, const std::string& where);
Result<TextSet> load_text(const std::string& path);

}  // namespace darner
