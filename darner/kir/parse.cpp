// SPDX-License-Identifier: MIT
// The parser of the kernel text: a recursive descent over a small tokenizer. The first error wins and ends the parse.
#include "darner/base/nearest.h"
#include "darner/kir/arithmetic.h"
#include "darner/kir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace darner::kir {

namespace {

constexpr int max_depth = 200;

enum class TokenKind { end, word, quoted, number, value, symbol };
struct Token {
    TokenKind kind = TokenKind::end;
    std::string text;  // of a quoted name: unescaped
    size_t line = 1, column = 1;
};

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Tokenizer {
public:
    explicit Tokenizer(std::string_view text) : text_(text) {}

    Token next() {
        skip_space();
        Token token{.line = line_, .column = at_ - line_start_ + 1};
        if (at_ == text_.size()) return token;
        char c = text_[at_];
        if (c == '"') return quoted(token);
        if (c == '%' || c == '@') {
            token.kind = c == '%' ? TokenKind::value : TokenKind::symbol;
            token.text = text_[at_++];
            if (c == '%')
                while (at_ < text_.size() && is_digit(text_[at_])) token.text += text_[at_++];
            return token;
        }
        bool sign = c == '-' && at_ + 1 < text_.size() && (is_digit(text_[at_ + 1]) || text_[at_ + 1] == '.');
        if (is_digit(c) || sign) {
            token.kind = TokenKind::number;
            token.text = text_[at_++];
            while (at_ < text_.size() && (is_word_char(text_[at_]) || after_exponent(token.text))) token.text += text_[at_++];
            return token;
        }
        token.kind = is_word_char(c) ? TokenKind::word : TokenKind::symbol;
        token.text = text_[at_++];
        if (token.kind == TokenKind::word)
            while (at_ < text_.size() && is_word_char(text_[at_])) token.text += text_[at_++];
        return token;
    }

private:
    // "1e" and "0x1p" go on with a sign.
    bool after_exponent(const std::string& number) const {
        char mark = number.back(), c = text_[at_];
        bool hex = number.find('x') != std::string::npos;
        return (c == '-' || c == '+') && (hex ? mark == 'p' : mark == 'e' || mark == 'E');
    }

    Token quoted(Token token) {
        token.kind = TokenKind::quoted;
        for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
            if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
                token.text += text_[at_];
                continue;
            }
            ++at_;
            uint32_t code = 0;
            if (text_[at_] == 'x' && at_ + 2 < text_.size() &&
                std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, code, 16).ec == std::errc()) {
                token.text += static_cast<char>(code);
                at_ += 2;
            } else {
                token.text += text_[at_];
            }
        }
        if (at_ == text_.size() || text_[at_] != '"')
            token = {TokenKind::symbol, "unfinished name", token.line, token.column};
        else
            ++at_;
        return token;
    }

    void skip_space() {
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '#')
                while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
            else if (text_[at_] == '\n')
                ++line_, line_start_ = at_ + 1;
            else if (!std::isspace(static_cast<unsigned char>(text_[at_])))
                return;
        }
    }

    std::string_view text_;
    size_t at_ = 0, line_ = 1, line_start_ = 0;
};

// Members return false once error_ is set.
class Parser {
public:
    explicit Parser(std::string_view text) : tokenizer_(text) { advance(); }

    Result<Kernel> run() {
        if (!kernel()) return error_;
        return std::move(kernel_);
    }

private:
    // ---- tokens ----

    void advance() { token_ = tokenizer_.next(); }
    bool fail_at(const Token& token, const std::string& what) {
        if (!failed_) error_ = invalid(what, fmt::format("{}:{}", token.line, token.column));
        failed_ = true;
        return false;
    }
    bool expected(const std::string& what) {
        std::string got = token_.kind == TokenKind::end ? "the end" : token_.text;
        return fail_at(token_, "got " + got + ", expected " + what);
    }
    bool is_symbol(const char* s) const { return token_.kind == TokenKind::symbol && token_.text == s; }
    bool is_word(const char* s) const { return token_.kind == TokenKind::word && token_.text == s; }
    bool accept_symbol(const char* s) { return is_symbol(s) && (advance(), true); }
    bool accept_word(const char* s) { return is_word(s) && (advance(), true); }
    bool symbol(const char* s) { return accept_symbol(s) || expected(s); }
    bool word(const char* s) { return accept_word(s) || expected(s); }

    template <class T>
    bool number(T& value, const char* what = "a number") {
        if (token_.kind != TokenKind::number) return expected(what);
        const char *begin = token_.text.data(), *end = begin + token_.text.size();
        bool hex = std::is_unsigned_v<T> && token_.text.starts_with("0x");
        auto [stop, code] = hex ? std::from_chars(begin + 2, end, value, 16) : std::from_chars(begin, end, value);
        if (code != std::errc() || stop != end) return expected(what);
        advance();
        return true;
    }
    bool real(float& value) {
        if (token_.kind != TokenKind::number) return expected("a float");
        std::string_view text = token_.text;
        bool negative = text.starts_with("-");
        if (negative) text.remove_prefix(1);
        bool hex = text.starts_with("0x");
        if (hex) text.remove_prefix(2);
        auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            hex ? std::chars_format::hex : std::chars_format::general);
        if (code != std::errc() || stop != text.data() + text.size()) return expected("a float in range");
        if (negative) value = -value;
        advance();
        return true;
    }
    bool name(std::string& text) {
        if (token_.kind != TokenKind::word && token_.kind != TokenKind::quoted) return expected("a name");
        text = token_.text;
        advance();
        return true;
    }
    // One of the names of an enum; `count` of them.
    template <class Enum>
    bool one_of(Enum& value, uint32_t count, const char* what) {
        if (token_.kind != TokenKind::word) return expected(what);
        for (uint32_t i = 0; i < count; ++i) {
            if (token_.text != to_string(static_cast<Enum>(i))) continue;
            value = static_cast<Enum>(i);
            advance();
            return true;
        }
        return expected(what);
    }

    bool type(Type& type) {
        type = {};
        if (accept_word("coop")) {
            bool good = symbol("<") && scalar(type.scalar) && symbol(",") && number(type.rows) && symbol(",") &&
                        number(type.cols) && symbol(",") && one_of(type.use, 3, "a, b or accumulator") && symbol(">");
            return good && (type.is_coop() || fail_at(token_, "a cooperative matrix has rows"));
        }
        if (is_word("vec2") || is_word("vec4")) {
            type.lanes = token_.text == "vec2" ? 2 : 4;
            advance();
            return symbol("<") && scalar(type.scalar) && symbol(">");
        }
        return scalar(type.scalar);
    }
    bool scalar(Scalar& scalar) { return one_of(scalar, 6, "a type"); }

    // ---- values ----

    bool value(ValueId& id) {
        if (token_.kind != TokenKind::value) return expected("a value");
        auto known = values_.find(token_.text);
        if (known == values_.end()) return fail_at(token_, token_.text + " is not defined above");
        id = known->second;
        advance();
        return true;
    }
    bool define(const Token& token, ValueId id) {
        if (token.text == "%") return fail_at(token, "got %, expected a value with its number");
        if (!values_.emplace(token.text, id).second) return fail_at(token, token.text + " is defined twice");
        return true;
    }
    bool value_list(std::vector<ValueId>& ids) {
        do {
            if (!value(ids.emplace_back())) return false;
        } while (accept_symbol(","));
        return true;
    }

    // An index into a table: a name, or @index where the name does not lead there.
    template <class Table, class Name>
    bool reference(const Table& table, uint32_t& index, const char* kind, Name&& name_of) {
        Token at = token_;
        if (accept_symbol("@")) {
            if (!number(index)) return false;
            return index < table.size() || fail_at(at, fmt::format("there is no {} {}", kind, index));
        }
        std::string text;
        if (!name(text)) return false;
        std::vector<std::string> names;
        for (const auto& entry : table) names.push_back(name_of(entry));
        auto found = std::find(names.begin(), names.end(), text);
        if (found != names.end()) {
            if (std::find(found + 1, names.end(), text) != names.end())
                return fail_at(at, fmt::format("two {}s are named {}: write @index", kind, text));
            index = static_cast<uint32_t>(found - names.begin());
            return true;
        }
        std::string known;
        for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
        return fail_at(at, fmt::format("there is no {} {}; there are: {}", kind, text, known.empty() ? "none" : known));
    }
    bool memory(bool array, uint32_t& index) {
        auto name_of = [](const auto& entry) { return entry.name; };
        return array ? reference(kernel_.arrays, index, "array", name_of)
                     : reference(kernel_.bindings, index, "binding", name_of);
    }

    // ---- kernel ----

    bool kernel() {
        if (!word("kernel") || !name(kernel_.name) || !symbol("{")) return false;
        kernel_.blocks.emplace_back();
        while (token_.kind == TokenKind::word) {
            std::string keyword = token_.text;
            if (keyword == "workgroup" || keyword == "subgroup" || keyword == "binding" || keyword == "array") {
                advance();
                if (!declaration(keyword)) return false;
            } else if (keyword == "param") {
                advance();
                if (!name(kernel_.params.emplace_back())) return false;
            } else {
                break;
            }
        }
        if (!block(BlockId(0u), 0)) return false;
        return token_.kind == TokenKind::end || expected("the end");
    }

    bool declaration(const std::string& keyword) {
        if (keyword == "workgroup") {
            auto& size = kernel_.workgroup_size;
            return number(size[0]) && number(size[1]) && number(size[2]);
        }
        if (keyword == "subgroup") return number(kernel_.required_subgroup_size);
        if (keyword == "binding") {
            Binding& b = kernel_.bindings.emplace_back();
            Type element;
            if (!name(b.name) || !symbol(":") || !type(element)) return false;
            if (element.is_coop()) return fail_at(token_, "a binding holds scalars or vectors");
            b.scalar = element.scalar;
            b.lanes = element.lanes;
            if (!one_of(b.access, 3, "read, write or inout") || !number(b.elements)) return false;
            b.in_written_buffer = accept_word("in_written_buffer");
            return true;
        }
        Array& a = kernel_.arrays.emplace_back();
        if (!name(a.name) || !symbol(":")) return false;
        if (accept_word("private"))
            a.space = ArraySpace::private_;
        else if (!accept_word("workgroup"))
            return expected("workgroup or private");
        return type(a.type) && number(a.count);
    }

    // Up to and with the closing brace.
    bool block(BlockId id, int depth) {
        if (depth > max_depth) return fail_at(token_, fmt::format("blocks are nested deeper than {}", max_depth));
        while (!is_symbol("}")) {
            if (accept_word("yield")) {
                std::vector<ValueId> yields;
                if (!value_list(yields)) return false;
                kernel_.blocks[id.value].yields = yields;
                if (!is_symbol("}")) return expected("} after yield");
                break;
            }
            if (!statement(id, depth)) return false;
        }
        advance();
        return true;
    }

    ValueId append(BlockId block, const Instruction& inst, const std::vector<ValueId>& operands, bool argument = false) {
        ValueId id(kernel_.instructions.size());
        Instruction& made = kernel_.instructions.emplace_back(inst);
        made.first_operand = static_cast<uint32_t>(kernel_.operands.size());
        made.operand_count = static_cast<uint16_t>(operands.size());
        kernel_.operands.insert(kernel_.operands.end(), operands.begin(), operands.end());
        Block& b = kernel_.blocks[block.value];
        (argument ? b.arguments : b.instructions).push_back(id);
        return id;
    }

    bool statement(BlockId block, int depth) {
        Token result = token_;
        bool named = token_.kind == TokenKind::value;
        Instruction inst{.type = {}};
        if (named) {
            advance();
            bool typed = accept_symbol(":");
            if (typed && !type(inst.type)) return false;
            if (!symbol("=")) return false;
            if (!typed && accept_word("loop")) return loop(block, result, depth);
            if (!typed && accept_word("branch")) return branch(block, result, depth);
            if (!typed) return expected("loop or branch behind a value without type");
        }
        Token at = token_;
        if (!opcode(inst.op)) return false;
        bool effect = inst.op == Opcode::store || inst.op == Opcode::array_store || inst.op == Opcode::barrier ||
                      inst.op == Opcode::coop_store;
        if (inst.op == Opcode::loop || inst.op == Opcode::branch || inst.op == Opcode::argument)
            return fail_at(at, fmt::format("{} does not stand here", at.text));
        if (named == effect)
            return fail_at(at, fmt::format("{} {}", at.text, effect ? "gives no value" : "gives a value: expected %n : type ="));
        std::vector<ValueId> operands;
        if (!immediates_and_operands(inst, operands)) return false;
        if (operands.size() > 0xffff) return fail_at(at, "too many operands");
        ValueId id = append(block, inst, operands);
        return !named || define(result, id);
    }

    bool opcode(Opcode& op) {
        constexpr uint32_t count = static_cast<uint32_t>(Opcode::coop_map) + 1;
        if (token_.kind == TokenKind::word) {
            std::vector<std::string> names;
            for (uint32_t i = 0; i < count; ++i) names.push_back(to_string(static_cast<Opcode>(i)));
            auto found = std::find(names.begin(), names.end(), token_.text);
            if (found == names.end()) {
                expected("an instruction");
                error_.hint = did_you_mean(token_.text, names);
                return false;
            }
            op = static_cast<Opcode>(found - names.begin());
            advance();
            return true;
        }
        return expected("an instruction");
    }

    bool constant(Instruction& inst) {
        if (accept_word("bits")) return number(inst.aux);
        switch (inst.type.scalar) {
            case Scalar::boolean:
                inst.aux = is_word("true");
                return accept_word("true") || accept_word("false") || expected("true or false");
            case Scalar::u32: return number(inst.aux, "a number from 0 to 4294967295");
            case Scalar::i32: {
                int32_t value = 0;
                if (!number(value, "a number of 32 bits with sign")) return false;
                inst.aux = static_cast<uint32_t>(value);
                return true;
            }
            default: break;
        }
        float value = 0;
        if (!real(value)) return false;
        inst.aux = from_float(inst.type.scalar, value);
        return true;
    }

    // name[index]
    bool indexed(bool array, Instruction& inst, std::vector<ValueId>& operands) {
        return memory(array, inst.aux) && symbol("[") && value(operands.emplace_back()) && symbol("]");
    }
    bool stored(std::vector<ValueId>& operands) { return symbol(",") && value(operands.emplace_back()); }

    bool immediates_and_operands(Instruction& inst, std::vector<ValueId>& operands) {
        if (is_id(inst.op)) return !is_id_with_axis(inst.op) || number(inst.aux);
        switch (inst.op) {
            case Opcode::constant: return constant(inst);
            case Opcode::barrier: return true;
            case Opcode::param: return reference(kernel_.params, inst.aux, "param", [](const std::string& n) { return n; });
            case Opcode::extract:
            case Opcode::subgroup_broadcast:
            case Opcode::subgroup_shuffle_xor: return number(inst.aux) && value_list(operands);
            case Opcode::load: return indexed(false, inst, operands);
            case Opcode::array_load: return indexed(true, inst, operands);
            case Opcode::store: return indexed(false, inst, operands) && stored(operands);
            case Opcode::array_store: return indexed(true, inst, operands) && stored(operands);
            case Opcode::atomic: {
                AtomicKind kind{};
                if (!one_of(kind, 5, "add, min, max, exchange or bit_or")) return false;
                inst.aux2 = static_cast<uint32_t>(kind);
                return indexed(false, inst, operands) && stored(operands);
            }
            case Opcode::subgroup_reduce: {
                ReduceKind kind{};
                if (!one_of(kind, 6, "add, min, max, mul, bit_and or bit_or")) return false;
                inst.aux = static_cast<uint32_t>(kind);
                return value_list(operands);
            }
            case Opcode::result: return result(inst, operands);
            case Opcode::coop_map: {
                Opcode op{};
                if (!opcode(op)) return false;
                inst.aux = static_cast<uint32_t>(op);
                return value_list(operands);
            }
            case Opcode::coop_load:
            case Opcode::coop_store: {
                bool array = accept_word("array");
                if (!array && !word("binding")) return false;
                if (!indexed(array, inst, operands) || !word("stride") || !value(operands.emplace_back())) return false;
                inst.aux2 = (array ? coop_from_array : 0u) | (accept_word("column_major") ? coop_column_major : 0u);
                return inst.op == Opcode::coop_load || stored(operands);
            }
            default: return value_list(operands);
        }
    }

    // %9.0: the tokenizer leaves the dot and the index to a word.
    bool result(Instruction& inst, std::vector<ValueId>& operands) {
        if (!value(operands.emplace_back())) return false;
        if (token_.kind != TokenKind::word || token_.text.size() < 2 || token_.text[0] != '.')
            return expected(". and the index of a result");
        const char *begin = token_.text.data() + 1, *end = token_.text.data() + token_.text.size();
        auto [stop, code] = std::from_chars(begin, end, inst.aux);
        if (code != std::errc() || stop != end) return expected(". and the index of a result");
        advance();
        return true;
    }

    bool loop(BlockId outer, const Token& result, int depth) {
        std::vector<Token> names{token_};
        std::vector<Type> types(1);
        std::vector<ValueId> operands(3);
        if (token_.kind != TokenKind::value) return expected("the index of the loop");
        advance();
        if (!symbol(":") || !type(types[0]) || !symbol("=")) return false;
        if (!value(operands[0]) || !symbol(",") || !value(operands[1]) || !symbol(",") || !value(operands[2])) return false;
        if (accept_word("carry")) {
            if (!symbol("(")) return false;
            do {
                names.push_back(token_);
                if (token_.kind != TokenKind::value) return expected("a carried value");
                advance();
                if (!symbol(":") || !type(types.emplace_back()) || !symbol("=") || !value(operands.emplace_back())) return false;
            } while (accept_symbol(","));
            if (!symbol(")")) return false;
        }
        if (operands.size() > 0xffff) return fail_at(result, "too many carried values");
        BlockId body(kernel_.blocks.size());
        kernel_.blocks.emplace_back();
        ValueId id = append(outer, {.op = Opcode::loop, .type = {}, .block_count = 1, .first_block = body}, operands);
        for (size_t i = 0; i < names.size(); ++i) {
            ValueId argument =
                append(body, {.op = Opcode::argument, .type = types[i], .aux = static_cast<uint32_t>(i)}, {}, true);
            if (!define(names[i], argument)) return false;
        }
        return symbol("{") && block(body, depth + 1) && define(result, id);
    }

    bool branch(BlockId outer, const Token& result, int depth) {
        std::vector<ValueId> condition(1);
        if (!value(condition[0]) || !symbol("{")) return false;
        BlockId first(kernel_.blocks.size());
        kernel_.blocks.resize(kernel_.blocks.size() + 2);
        ValueId id = append(outer, {.op = Opcode::branch, .type = {}, .block_count = 2, .first_block = first}, condition);
        if (!block(first, depth + 1)) return false;
        if (accept_word("else") && !(symbol("{") && block(BlockId(first.value + 1), depth + 1))) return false;
        return define(result, id);
    }

    Tokenizer tokenizer_;
    Token token_;
    Kernel kernel_;
    std::unordered_map<std::string, ValueId> values_;
    Error error_;
    bool failed_ = false;
};

}  // namespace

Result<Kernel> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace darner::kir
