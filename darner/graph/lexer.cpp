// SPDX-License-Identifier: MIT
// The lexer of the text form, and the spelling of names.
#include "darner/graph/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace darner {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::optional<int> hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return std::nullopt;
}

}  // namespace

bool is_path_character(char c) { return is_name_character(c) || c == '/' || c == '\\' || c == '-' || c == '+' || c == ':'; }

std::string Token::describe() const {
    switch (kind) {
        case TokenKind::end: return "the end of the file";
        case TokenKind::newline: return text == ";" ? "\";\"" : "the end of the line";
        case TokenKind::invalid:
            if (text[0] == '"') return "a string without its closing quote or with a wrong escape";
            if (text[0] >= ' ' && text[0] < 127) return fmt::format("the character \"{}\"", text);
            return fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(text[0]));
        default: {
            constexpr size_t longest = 60;
            return fmt::format("\"{}\"{}", text.substr(0, longest), text.size() > longest ? "..." : "");
        }
    }
}

void Lexer::skip_blanks() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else if (is_blank(c) || (c == '\n' && parentheses_ > 0)) {
            ++at_;
        } else {
            return;
        }
    }
}

char Lexer::peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool Lexer::at_end_of_line() {
    const char c = peek();
    return at_ == text_.size() || c == '\n' || c == ';' || c == '}';
}

Token Lexer::next() {
    skip_blanks();
    const size_t start = at_;
    if (at_ == text_.size()) return token(TokenKind::end, start);
    const char c = text_[at_++];
    const auto run = [&](auto accepts) {
        while (at_ < text_.size() && accepts(text_[at_])) ++at_;
    };
    if (c == '\n' || c == ';') return token(TokenKind::newline, start);
    if (c == '"') return quoted(start);
    if (is_letter(c)) {
        run(is_name_character);
        return token(TokenKind::identifier, start);
    }
    if (c == '%') {
        run(is_digit);
        return token(at_ > start + 1 ? TokenKind::temporary : TokenKind::invalid, start);
    }
    if (is_digit(c) || c == '-' || c == '.') {
        // Letters run along ("-inf", "0x1p", "1e"), and a sign behind an exponent's letter, which in hexadecimal is p.
        run([&](char next) {
            const char before = text_[at_ - 1];
            const std::string_view so_far = text_.substr(start, at_ - start);
            const bool hex = so_far.starts_with("0x") || so_far.starts_with("-0x");
            const bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
            return is_name_character(next) || ((next == '+' || next == '-') && exponent);
        });
        return token(TokenKind::number, start);
    }
    if (std::string_view("(){}=,@:[]").find(c) == std::string_view::npos) return token(TokenKind::invalid, start);
    if (c == '(') ++parentheses_;
    if (c == ')' && parentheses_ > 0) --parentheses_;
    return token(TokenKind::punctuation, start);
}

Token Lexer::quoted(size_t start) {
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
        char c = text_[at_++];
        if (c == '\\') {
            const char escape = at_ < text_.size() ? text_[at_++] : '\0';
            if (escape == '"' || escape == '\\') {
                c = escape;
            } else if (escape == 'n') {
                c = '\n';
            } else if (escape == 't') {
                c = '\t';
            } else if (escape == 'x' && at_ + 2 <= text_.size() && hex_digit(text_[at_]) && hex_digit(text_[at_ + 1])) {
                c = static_cast<char>(*hex_digit(text_[at_]) * 16 + *hex_digit(text_[at_ + 1]));
                at_ += 2;
            } else {
                return token(TokenKind::invalid, start);
            }
        }
        value += c;
    }
    if (at_ == text_.size() || text_[at_] != '"') return token(TokenKind::invalid, start);
    ++at_;
    Token result = token(TokenKind::quoted, start);
    result.value = std::move(value);
    return result;
}

RawText Lexer::raw_value() {
    RawText raw;
    peek();
    raw.at = at_;
    int depth = 0;
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
            continue;
        }
        if (depth == 0 && (is_blank(c) || std::string_view("\n,);}@]=({").find(c) != std::string_view::npos)) return raw;
        if (c == '[') ++depth;
        if (c == ']') --depth;
        raw.text += c;
        ++at_;
        if (c == ']' && depth == 0) return raw;
    }
    if (depth > 0) raw.text.clear();
    return raw;
}

RawText Lexer::raw_path() {
    peek();
    const size_t start = at_;
    while (at_ < text_.size() && is_path_character(text_[at_])) ++at_;
    return {std::string(text_.substr(start, at_ - start)), start};
}

size_t Lexer::line(size_t at) const {
    return 1 + static_cast<size_t>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// Columns count characters: the continuation bytes of UTF-8 are left out.
std::string Lexer::position(size_t at) const {
    const size_t newline = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    size_t column = 1;
    for (size_t i = start; i < at; ++i) column += (static_cast<unsigned char>(text_[i]) & 0xc0) != 0x80;
    return fmt::format("{}:{}", line(at), column);
}

bool is_plain_name(std::string_view name) {
    constexpr std::string_view words[] = {"graph", "input", "param", "constant", "output", "update",
                                          "true",  "false", "inf",   "nan",      "none"};
    return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_name_character) &&
           std::find(std::begin(words), std::end(words), name) == std::end(words);
}

std::string quote(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    out += '"';
    return out;
}

std::string spell_name(std::string_view name) { return is_plain_name(name) ? std::string(name) : quote(name); }

}  // namespace darner
