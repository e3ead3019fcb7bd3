// SPDX-License-Identifier: MIT
// Text form of attributes, both ways, and conversion of what callers pass.
#include "darner/graph/attr.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace darner {

namespace {

std::string_view trim(std::string_view s) {
    constexpr std::string_view blanks = " \t\r\n";
    while (!s.empty() && blanks.find(s.front()) != s.npos) s.remove_prefix(1);
    while (!s.empty() && blanks.find(s.back()) != s.npos) s.remove_suffix(1);
    return s;
}

// The elements of "[a,b,c]", split at the commas outside inner brackets.
std::optional<std::vector<std::string_view>> split_list(std::string_view text) {
    text = trim(text);
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
    text = trim(text.substr(1, text.size() - 2));
    std::vector<std::string_view> elements;
    if (text.empty()) return elements;
    int depth = 0;
    size_t start = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '[') ++depth;
        if (text[i] == ']' && --depth < 0) return std::nullopt;
        if (text[i] == ',' && depth == 0) {
            elements.push_back(trim(text.substr(start, i - start)));
            start = i + 1;
        }
    }
    if (depth != 0) return std::nullopt;
    elements.push_back(trim(text.substr(start)));
    return elements;
}

std::optional<std::vector<int64_t>> parse_integers(std::string_view text) {
    const auto elements = split_list(text);
    if (!elements) return std::nullopt;
    std::vector<int64_t> values;
    for (std::string_view element : *elements) {
        const auto value = parse_integer(element);
        if (!value) return std::nullopt;
        values.push_back(*value);
    }
    return values;
}

std::optional<std::vector<std::vector<int64_t>>> parse_integer_lists(std::string_view text) {
    const auto elements = split_list(text);
    if (!elements) return std::nullopt;
    std::vector<std::vector<int64_t>> lists;
    for (std::string_view element : *elements) {
        auto list = parse_integers(element);
        if (!list) return std::nullopt;
        lists.push_back(std::move(*list));
    }
    return lists;
}

bool is_choice(std::string_view choices, std::string_view text) {
    while (true) {
        const size_t bar = choices.find('|');
        if (choices.substr(0, bar) == text) return true;
        if (bar == choices.npos) return false;
        choices.remove_prefix(bar + 1);
    }
}

template <class T>
std::optional<AttrValue> wrap(std::optional<T> value) {
    if (!value) return std::nullopt;
    return AttrValue(std::move(*value));
}

std::optional<AttrValue> parse_kind(const AttrDef& def, std::string_view text) {
    switch (def.kind) {
        case AttrKind::integer: return wrap(parse_integer(text));
        case AttrKind::real: return wrap(parse_real(text));
        case AttrKind::boolean:
            if (text == "true") return AttrValue(true);
            if (text == "false") return AttrValue(false);
            return std::nullopt;
        case AttrKind::choice:
            if (!is_choice(def.choices, text)) return std::nullopt;
            return AttrValue(std::string(text));
        case AttrKind::integers: return wrap(parse_integers(text));
        case AttrKind::integer_lists: return wrap(parse_integer_lists(text));
        case AttrKind::dtype: return wrap(parse_dtype(text));
        case AttrKind::dims: {
            Result<Dims> dims = parse_dims(text);
            if (!dims) return std::nullopt;
            return AttrValue(std::move(*dims));
        }
    }
    return std::nullopt;
}

}  // namespace

const char* to_string(AttrKind kind) {
    switch (kind) {
        case AttrKind::integer: return "integer";
        case AttrKind::real: return "real";
        case AttrKind::boolean: return "boolean";
        case AttrKind::choice: return "choice";
        case AttrKind::integers: return "integers";
        case AttrKind::integer_lists: return "integer_lists";
        case AttrKind::dtype: return "dtype";
        case AttrKind::dims: return "dims";
    }
    return "?";
}

std::string expected_text(const AttrDef& def) {
    const auto text = [&]() -> std::string {
        switch (def.kind) {
            case AttrKind::integer: return "an integer";
            case AttrKind::real: return "a number";
            case AttrKind::boolean: return "true or false";
            case AttrKind::choice: return fmt::format("one of {}", def.choices);
            case AttrKind::integers: return "a list of integers like [0,1]";
            case AttrKind::integer_lists: return "lists of integers like [[1],[0]]";
            case AttrKind::dtype: return "a dtype like f32";
            case AttrKind::dims: return "dims like [64,n]";
        }
        return "?";
    };
    return fmt::format("{}{}", text(), def.default_text == "none" && def.kind != AttrKind::choice ? ", or none" : "");
}

bool fits(const AttrDef& def, const AttrValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return def.default_text == "none";
    switch (def.kind) {
        case AttrKind::integer: return std::holds_alternative<int64_t>(value);
        case AttrKind::real: return std::holds_alternative<double>(value);
        case AttrKind::boolean: return std::holds_alternative<bool>(value);
        case AttrKind::choice: {
            const auto* text = std::get_if<std::string>(&value);
            return text != nullptr && is_choice(def.choices, *text);
        }
        case AttrKind::integers: return std::holds_alternative<std::vector<int64_t>>(value);
        case AttrKind::integer_lists: return std::holds_alternative<std::vector<std::vector<int64_t>>>(value);
        case AttrKind::dtype: return std::holds_alternative<DType>(value);
        case AttrKind::dims: return std::holds_alternative<Dims>(value);
    }
    return false;
}

std::optional<AttrValue> convert_attr(const AttrDef& def, const AttrValue& value) {
    if (fits(def, value)) return value;
    if (const auto* integer = std::get_if<int64_t>(&value); integer && def.kind == AttrKind::real)
        return AttrValue(static_cast<double>(*integer));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value); list && def.kind == AttrKind::dims)
        return AttrValue(Dims(list->begin(), list->end()));
    if (const auto* name = std::get_if<std::string>(&value); name && def.kind == AttrKind::dtype) return wrap(parse_dtype(*name));
    return std::nullopt;
}

// A choice may itself be called "none" (gelu's `approximate`): it wins over "left out".
Result<AttrValue> parse_attr(const AttrDef& def, std::string_view text) {
    text = trim(text);
    if (std::optional<AttrValue> value = parse_kind(def, text)) return std::move(*value);
    if (text == "none" && def.default_text == "none") return AttrValue();
    return invalid(
        fmt::format("wrong value of \"{}\": got {}, expected {}", def.name, text.empty() ? "nothing" : text, expected_text(def)));
}

std::string to_text(const AttrValue& value) {
    struct Printer {
        std::string operator()(std::monostate) const { return "none"; }
        std::string operator()(int64_t v) const { return fmt::format("{}", v); }
        std::string operator()(double v) const { return real_text(v); }
        std::string operator()(bool v) const { return v ? "true" : "false"; }
        std::string operator()(const std::string& v) const { return v; }
        std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ",")); }
        std::string operator()(const std::vector<std::vector<int64_t>>& lists) const {
            std::vector<std::string> texts;
            for (const std::vector<int64_t>& list : lists) texts.push_back((*this)(list));
            return fmt::format("[{}]", fmt::join(texts, ","));
        }
        std::string operator()(DType v) const { return to_string(v); }
        std::string operator()(const Dims& v) const { return to_string(v); }
    };
    return std::visit(Printer{}, value);
}

std::optional<double> parse_real(std::string_view text) {
    std::string_view digits = text;
    const bool negative = !digits.empty() && digits.front() == '-';
    if (negative) digits.remove_prefix(1);
    double value = 0;
    if (digits == "inf") {
        value = INFINITY;
    } else if (digits == "nan") {
        value = NAN;
    } else {
        const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
        if (hex) digits.remove_prefix(2);
        // from_chars also reads a sign and words such as "infinity", which are not in the grammar.
        if (digits.empty() || digits.front() == '-' || digits.front() == 'i' || digits.front() == 'n' || digits.front() == 'I' ||
            digits.front() == 'N')
            return std::nullopt;
        const auto format = hex ? std::chars_format::hex : std::chars_format::general;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
        if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    }
    return negative ? -value : value;
}

std::optional<int64_t> parse_integer(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    return fmt::format("{}", value);
}

std::string hex_real_text(double value) {
    if (!std::isfinite(value)) return real_text(value);
    return fmt::format("{:a}", value);
}

}  // namespace darner
