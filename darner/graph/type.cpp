// SPDX-License-Identifier: MIT
// DTypes, the polynomial arithmetic of Dim, and types. Every step on 64-bit coefficients is checked: a dim that does not fit
// becomes "overflowed" instead of wrapping, since dims come from files.
#include "darner/graph/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace darner {

namespace {

struct DTypeFacts {
    const char* name;
    uint32_t bytes;
};
constexpr DTypeFacts dtype_facts[dtype_count] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i8", 1},
                                                 {"u8", 1},  {"i32", 4}, {"u32", 4},  {"i64", 8}, {"bool", 1}};

// An order of terms that products keep, the leading one first: by degree, then by exponents in the order of the symbols (of two
// sorted lists the one that repeats an earlier symbol comes first).
bool leads(const std::pair<const std::vector<std::string>, int64_t>& a,
           const std::pair<const std::vector<std::string>, int64_t>& b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.first < b.first;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// dim = term (("+" | "-") term)*, term = "-"* factor ("*" factor)*, factor = integer | symbol.
class DimParser {
public:
    explicit DimParser(std::string_view text) : text_(text) {}

    Result<Dim> whole() {
        TRY(Dim dim, sum());
        if (!at_end()) return error("an operator");
        if (dim.overflowed()) return invalid(fmt::format("the dim \"{}\" does not fit in 64 bits", text_));
        return dim;
    }

private:
    Result<Dim> sum() {
        TRY(Dim total, term());
        while (peek() == '+' || peek() == '-') {
            const bool plus = text_[at_++] == '+';
            TRY(Dim next, term());
            total = plus ? total + next : total - next;
        }
        return total;
    }
    Result<Dim> term() {
        int64_t sign = 1;
        while (peek() == '-') sign = -sign, ++at_;
        TRY(Dim product, factor(sign));
        while (peek() == '*') {
            ++at_;
            TRY(Dim next, factor(1));
            product = product * next;
        }
        return product;
    }
    // The sign goes into the number, so that the lowest int64 can be read.
    Result<Dim> factor(int64_t sign) {
        peek();
        const size_t start = at_;
        if (at_ < text_.size() && is_digit(text_[at_])) {
            while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
            const std::string digits = fmt::format("{}{}", sign < 0 ? "-" : "", text_.substr(start, at_ - start));
            int64_t value = 0;
            if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
                return invalid(fmt::format("the number {} does not fit in 64 bits", digits));
            return Dim(value);
        }
        if (at_ < text_.size() && is_name_start(text_[at_])) {
            while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
            return Dim::symbol(text_.substr(start, at_ - start)) * Dim(sign);
        }
        return error("a number or a symbol");
    }
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool at_end() { return peek() == '\0' && at_ == text_.size(); }
    Error error(std::string_view expected) const {
        return invalid(fmt::format("not a dim: got \"{}\", expected {} at \"{}\"", text_, expected, text_.substr(at_)));
    }
    std::string_view text_;
    size_t at_ = 0;
};

}  // namespace

const char* to_string(DType dtype) { return dtype_facts[static_cast<size_t>(dtype)].name; }
uint32_t byte_size(DType dtype) { return dtype_facts[static_cast<size_t>(dtype)].bytes; }

std::optional<DType> parse_dtype(std::string_view text) {
    for (int i = 0; i < dtype_count; ++i)
        if (text == dtype_facts[i].name) return static_cast<DType>(i);
    return std::nullopt;
}

// --- Dim ------------------------------------------------------------------------------------------------------------

Dim Dim::symbol(std::string_view name) {
    Terms terms;
    terms[{std::string(name)}] = 1;
    return from_terms(std::move(terms));
}

Dim Dim::overflow() {
    Dim dim;
    dim.overflowed_ = true;
    return dim;
}

// Canonical: no zero coefficients, a constant alone is kept in its word. So equality of polynomials is equality of maps.
Dim Dim::from_terms(Terms terms) {
    std::erase_if(terms, [](const auto& term) { return term.second == 0; });
    if (terms.empty()) return Dim(0);
    if (terms.size() == 1 && terms.begin()->first.empty()) return Dim(terms.begin()->second);
    Dim dim;
    dim.terms_ = std::make_shared<const Terms>(std::move(terms));
    return dim;
}

Dim::Terms Dim::terms() const {
    if (terms_) return *terms_;
    Terms terms;
    if (constant_ != 0) terms[{}] = constant_;
    return terms;
}

bool Dim::add_term(Terms& terms, const Terms::key_type& key, int64_t coefficient) {
    int64_t& sum = terms[key];
    return !__builtin_add_overflow(sum, coefficient, &sum);
}

int64_t Dim::value() const {
    CHECK(is_constant(), "the dim " + text() + " is not a constant");
    return constant_;
}

Dim Dim::operator+(const Dim& other) const {
    if (overflowed_ || other.overflowed_) return overflow();
    if (is_constant() && other.is_constant()) {
        int64_t sum = 0;
        return __builtin_add_overflow(constant_, other.constant_, &sum) ? overflow() : Dim(sum);
    }
    Terms sum = terms();
    for (const auto& [key, coefficient] : other.terms())
        if (!add_term(sum, key, coefficient)) return overflow();
    return from_terms(std::move(sum));
}

Dim Dim::operator-(const Dim& other) const {
    if (overflowed_ || other.overflowed_) return overflow();
    if (is_constant() && other.is_constant()) {
        int64_t difference = 0;
        return __builtin_sub_overflow(constant_, other.constant_, &difference) ? overflow() : Dim(difference);
    }
    Terms difference = terms();
    for (const auto& [key, coefficient] : other.terms()) {
        int64_t& left = difference[key];
        if (__builtin_sub_overflow(left, coefficient, &left)) return overflow();
    }
    return from_terms(std::move(difference));
}

Dim Dim::operator*(const Dim& other) const {
    if (overflowed_ || other.overflowed_) return overflow();
    if (is_constant() && other.is_constant()) {
        int64_t product = 0;
        return __builtin_mul_overflow(constant_, other.constant_, &product) ? overflow() : Dim(product);
    }
    Terms result;
    const Terms right = other.terms();
    for (const auto& [a, a_coefficient] : terms()) {
        for (const auto& [b, b_coefficient] : right) {
            std::vector<std::string> key;
            std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(key));
            int64_t product = 0;
            if (__builtin_mul_overflow(a_coefficient, b_coefficient, &product) || !add_term(result, key, product))
                return overflow();
        }
    }
    return from_terms(std::move(result));
}

// Polynomial division by the leading term.
std::optional<Dim> Dim::exact_div(const Dim& divisor) const {
    if (overflowed_ || divisor.overflowed_) return std::nullopt;
    const Terms by = divisor.terms();
    if (by.empty()) return std::nullopt;
    using Term = Terms::value_type;
    const Term& lead = *std::min_element(by.begin(), by.end(), leads);
    Terms rest = terms(), quotient;
    while (!rest.empty()) {
        const Term top = *std::min_element(rest.begin(), rest.end(), leads);
        if (!std::includes(top.first.begin(), top.first.end(), lead.first.begin(), lead.first.end())) return std::nullopt;
        if (lead.second == -1 && top.second == INT64_MIN) return std::nullopt;
        if (top.second % lead.second != 0) return std::nullopt;
        std::vector<std::string> key;
        std::set_difference(top.first.begin(), top.first.end(), lead.first.begin(), lead.first.end(), std::back_inserter(key));
        const int64_t factor = top.second / lead.second;
        quotient[key] = factor;
        for (const auto& [by_key, coefficient] : by) {
            std::vector<std::string> product_key;
            std::merge(key.begin(), key.end(), by_key.begin(), by_key.end(), std::back_inserter(product_key));
            int64_t product = 0;
            if (__builtin_mul_overflow(factor, coefficient, &product)) return std::nullopt;
            int64_t& left = rest[product_key];
            if (__builtin_sub_overflow(left, product, &left)) return std::nullopt;
            if (left == 0) rest.erase(product_key);
        }
    }
    return from_terms(std::move(quotient));
}

bool Dim::operator==(const Dim& other) const {
    if (overflowed_ || other.overflowed_) return false;
    if (is_constant() || other.is_constant()) return is_constant() && other.is_constant() && constant_ == other.constant_;
    return terms_ == other.terms_ || *terms_ == *other.terms_;
}

Result<int64_t> Dim::bind(const SymbolBindings& bindings) const {
    const Error too_large = invalid(fmt::format("the dim {} does not fit in 64 bits", text()));
    if (overflowed_) return too_large;
    if (is_constant()) return constant_;
    int64_t total = 0;
    for (const auto& [symbols, coefficient] : *terms_) {
        int64_t product = coefficient;
        for (const std::string& symbol : symbols) {
            const auto found = bindings.find(symbol);
            if (found == bindings.end()) return invalid(fmt::format("the symbol {} of the dim {} has no value", symbol, text()));
            if (__builtin_mul_overflow(product, found->second, &product)) return too_large;
        }
        if (__builtin_add_overflow(total, product, &total)) return too_large;
    }
    return total;
}

std::string Dim::text() const {
    if (overflowed_) return "overflow";
    if (is_constant()) return fmt::format("{}", constant_);
    std::vector<const Terms::value_type*> order;
    for (const auto& term : *terms_) order.push_back(&term);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return leads(*a, *b); });
    std::string out;
    for (const Terms::value_type* term : order) {
        const auto& [symbols, coefficient] = *term;
        std::string product = fmt::format("{}", fmt::join(symbols, "*"));
        if (symbols.empty()) {
            product = fmt::format("{}", coefficient);
        } else if (coefficient == -1) {
            product.insert(0, 1, '-');
        } else if (coefficient != 1) {
            product = fmt::format("{}*{}", coefficient, product);
        }
        if (!out.empty() && product[0] != '-') out += '+';
        out += product;
    }
    return out;
}

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).whole(); }

Result<Dims> parse_dims(std::string_view text) {
    const auto trim = [](std::string_view s) {
        while (!s.empty() && std::string_view(" \t\r\n").find(s.front()) != s.npos) s.remove_prefix(1);
        while (!s.empty() && std::string_view(" \t\r\n").find(s.back()) != s.npos) s.remove_suffix(1);
        return s;
    };
    text = trim(text);
    if (text.size() < 2 || text.front() != '[' || text.back() != ']')
        return invalid(fmt::format("not a list of dims: got \"{}\", expected [64,n]", text));
    text = trim(text.substr(1, text.size() - 2));
    Dims dims;
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        TRY(Dim dim, parse_dim(text.substr(0, comma)));
        dims.push_back(std::move(dim));
        if (comma == text.size()) break;
        text.remove_prefix(comma + 1);
        if (trim(text).empty()) return invalid("not a list of dims: a comma with nothing behind it");
    }
    return dims;
}

// --- Type -----------------------------------------------------------------------------------------------------------

Dim Type::elements() const {
    Dim product = 1;
    for (const Dim& dim : dims) product = product * dim;
    return product;
}

bool Type::is_concrete() const {
    return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_constant(); });
}

std::vector<int64_t> Type::shape() const {
    std::vector<int64_t> shape;
    shape.reserve(dims.size());
    for (const Dim& dim : dims) shape.push_back(dim.value());
    return shape;
}

int64_t Type::count() const { return elements().value(); }

std::string to_string(const Dims& dims) {
    std::vector<std::string> texts;
    for (const Dim& dim : dims) texts.push_back(dim.text());
    return fmt::format("[{}]", fmt::join(texts, ","));
}

std::string to_string(const Type& type) { return to_string(type.dtype) + to_string(type.dims); }

namespace {

Result<void> check_bounds(const Dims& dims, const std::string& what) {
    int64_t product = 1;
    for (const Dim& dim : dims) {
        if (dim.overflowed()) return invalid(fmt::format("a dim of {} does not fit in 64 bits", what));
        if (!dim.is_constant()) continue;
        if (dim.value() < 0) return invalid(fmt::format("the dim {} of {} is negative", dim.text(), what));
        if (__builtin_mul_overflow(product, std::max<int64_t>(dim.value(), 1), &product) || product > max_elements)
            return limit_error(fmt::format("{} has too many elements: at most 2^31-1 are supported", what));
    }
    return {};
}

}  // namespace

Result<void> check_type(const Type& type) { return check_bounds(type.dims, to_string(type)); }
Result<void> check_dims(const Dims& dims) { return check_bounds(dims, to_string(dims)); }

std::optional<size_t> normalize_axis(int64_t axis, size_t rank) {
    const int64_t signed_rank = static_cast<int64_t>(rank);
    if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
    return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

}  // namespace darner
