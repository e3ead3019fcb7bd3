// SPDX-License-Identifier: MIT
// Tokens of the text form. Types and attribute values are not tokens: the parser asks for them as raw text and hands them to
// the parsers of dims and attributes. A newline is a token except between parentheses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace darner {

enum class TokenKind : uint8_t { end, newline, identifier, quoted, temporary, number, punctuation, invalid };

struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;  // as written
    std::string value;      // of a quoted name: without quotes and escapes
    size_t at = 0;          // offset in the file

    bool is(char c) const { return kind == TokenKind::punctuation && text[0] == c; }
    bool is(std::string_view word) const { return kind == TokenKind::identifier && text == word; }
    bool is_name() const { return kind == TokenKind::identifier || kind == TokenKind::quoted; }
    std::string name() const { return kind == TokenKind::quoted ? value : std::string(text); }
    std::string describe() const;  // for "got ..."
};

// Text that was taken as it stands, without comments.
struct RawText {
    std::string text;
    size_t at = 0;
};

class Lexer {
public:
    explicit Lexer(std::string_view text) : text_(text) {}

    Token next();
    char peek();            // the next character that is neither blank nor comment, '\0' at the end
    bool at_end_of_line();  // nothing left of the statement
    // A bracketed list, newlines included, or a run of characters up to a blank or a delimiter. Empty text where a bracket is
    // not closed.
    RawText raw_value();
    RawText raw_path();                     // FILE of a provenance suffix
    std::string position(size_t at) const;  // "3:14"
    size_t line(size_t at) const;

private:
    void skip_blanks();
    Token token(TokenKind kind, size_t start) const { return {kind, text_.substr(start, at_ - start), {}, start}; }
    Token quoted(size_t start);
    std::string_view text_;
    size_t at_ = 0;
    int parentheses_ = 0;
};

bool is_plain_name(std::string_view name);      // can be written without quotes
std::string quote(std::string_view text);       // "..." with escapes
std::string spell_name(std::string_view name);  // as it is, or quoted where needed
bool is_path_character(char c);

}  // namespace darner
