// SPDX-License-Identifier: MIT
// Parses the text form into graphs through Builder, so that broadcasting, defaults and inference are those of C++ programs.
// Calls under construction are kept on a stack of their own: the depth of nesting is bounded by memory, not by the call stack.
#include "darner/base/nearest.h"
#include "darner/graph/attr.h"
#include "darner/graph/builder.h"
#include "darner/graph/lexer.h"
#include "darner/graph/text.h"
#include "darner/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace darner {

namespace {

// A part of an expression: a value, or a bare number or truth value that takes the type of its neighbour.
struct Item {
    Value value = {};
    bool is_literal = false;
    Token literal = {};
};

// A call whose operands are being read.
struct Frame {
    const OpDef* op = nullptr;
    size_t at = 0;
    std::vector<Item> operands;
    std::vector<bool> given;  // by operand
    std::vector<std::pair<std::string_view, AttrValue>> attrs;
    size_t slot = 0;       // of the operand being read
    bool by_name = false;  // positional operands may not follow
};

bool is_literal_word(const Token& token) {
    return token.is("true") || token.is("false") || token.is("inf") || token.is("nan") || token.kind == TokenKind::number;
}

class Parser {
public:
    Parser(std::string_view text, std::string_view file) : lexer_(text), file_(file) { advance(); }

    Result<Module> module() {
        Module module;
        skip_newlines();
        while (token_.kind != TokenKind::end) {
            TRY(Graph graph, this->graph());
            module.graphs.push_back(std::move(graph));
            skip_newlines();
        }
        if (module.graphs.empty()) return error(token_.at, "got no graph, expected \"graph NAME {\"");
        if (Result<void> checked = verify(module); !checked) return error(0, checked.error().message);
        return module;
    }

private:
    // --- tokens and errors ------------------------------------------------------------------------------------------
    void advance() { token_ = lexer_.next(); }
    void skip_newlines() {
        while (token_.kind == TokenKind::newline) advance();
    }
    Error error(size_t at, std::string message, std::string hint = {}) const {
        const std::string position = lexer_.position(at);
        Error error = invalid(std::move(message), file_.empty() ? position : fmt::format("{}:{}", file_, position));
        error.hint = std::move(hint);
        return error;
    }
    Error unexpected(std::string_view expected) const {
        return error(token_.at, fmt::format("got {}, expected {}", token_.describe(), expected));
    }
    Result<void> expect(char c) {
        if (!token_.is(c)) return unexpected(fmt::format("\"{}\"", c));
        advance();
        return {};
    }
    // The builder's first error, at a place in the text.
    Result<void> check_builder(size_t at) const {
        if (!builder_->failed()) return {};
        return error(at, builder_->error().message, builder_->error().hint);
    }

    // --- names ------------------------------------------------------------------------------------------------------
    struct Definition {
        Value value;
        size_t at = 0;
    };
    // Generated names and quoted ones that look like them are different names.
    static std::string key(const Token& token) {
        return token.kind == TokenKind::temporary ? std::string(token.text) : "=" + token.name();
    }

    Result<void> define(const Token& name, Value value) {
        const auto [entry, is_new] = names_.emplace(key(name), Definition{value, name.at});
        if (!is_new)
            return error(name.at, fmt::format("{} is defined already, at {}", spell(name), lexer_.position(entry->second.at)));
        return {};
    }
    static std::string spell(const Token& token) { return fmt::format("\"{}\"", token.name()); }

    Result<Value> look_up(const Token& name) const {
        if (const auto found = names_.find(key(name)); found != names_.end()) return found->second.value;
        std::vector<std::string_view> known;
        for (const auto& [known_key, definition] : names_)
            if (known_key[0] == '=') known.push_back(std::string_view(known_key).substr(1));
        std::sort(known.begin(), known.end());
        return error(name.at, fmt::format("there is no value {}: names must be defined above their use", spell(name)),
                     did_you_mean(name.name(), known));
    }

    // --- graphs and statements --------------------------------------------------------------------------------------
    Result<Graph> graph() {
        if (!token_.is("graph")) return unexpected("\"graph\"");
        const size_t at = token_.at;
        advance();
        if (!token_.is_name()) return unexpected("the graph's name");
        Builder builder{token_.name()};
        builder_ = &builder;
        names_.clear();
        advance();
        TRY(expect('{'));
        while (true) {
            skip_newlines();
            if (token_.is('}')) break;
            TRY(statement());
        }
        advance();
        if (token_.kind != TokenKind::newline && token_.kind != TokenKind::end) return unexpected("the end of the line");
        TRY(check_builder(at));
        Result<Graph> graph = builder.finish();
        if (!graph) return error(at, graph.error().message, graph.error().hint);
        return graph;
    }

    Result<void> statement() {
        const size_t first_node = builder_->graph().nodes.size();
        const bool assigns = lexer_.peek() == '=';
        if (!assigns && token_.is("output")) {
            TRY(output());
        } else if (!assigns && token_.is("update")) {
            TRY(update());
        } else if (token_.is_name() || token_.kind == TokenKind::temporary) {
            TRY(definition(first_node));
        } else {
            return unexpected("a statement (NAME = ..., output, update) or \"}\"");
        }
        TRY(provenance(first_node));
        if (token_.kind == TokenKind::newline || token_.is('}')) return {};
        return unexpected("the end of the line");
    }

    Result<void> definition(size_t first_node) {
        const Token name = token_;
        advance();
        TRY(expect('='));
        const bool is_leaf = std::string_view("({=,;\n}").find(lexer_.peek()) == std::string_view::npos;
        if (is_leaf && (token_.is("input") || token_.is("param"))) {
            if (name.kind == TokenKind::temporary)
                return error(name.at, fmt::format("got {}, expected a name of its own for an input or param", spell(name)));
            TRY(Value value, leaf(name));
            return define(name, value);
        }
        TRY(Value value, value_of(nullptr));
        TRY(define(name, value));
        const bool is_new = value.id.value >= first_node;
        if (is_new && name.kind != TokenKind::temporary) builder_->set_name(value, name.name());
        return {};
    }

    Result<Value> leaf(const Token& name) {
        const bool is_input = token_.is("input");
        advance();
        TRY(Type type, this->type());
        bool per_step = false;
        ParamOptions options;
        std::vector<std::string> seen;
        while (token_.kind == TokenKind::identifier) {
            const Token attr = token_;
            const std::string attr_name = attr.name();
            if (std::find(seen.begin(), seen.end(), attr_name) != seen.end())
                return error(attr.at, fmt::format("{} is given twice", spell(attr)));
            seen.push_back(attr_name);
            if (is_input && attr.is("per_step")) {
                TRY(per_step, flag(true));
            } else if (!is_input && attr.is("trainable")) {
                TRY(options.trainable, flag(false));
            } else if (!is_input && attr.is("init")) {
                advance();
                TRY(expect('='));
                TRY(options.init, value_of(&type));
            } else if (!is_input && attr.is("role")) {
                TRY(options.role, role());
            } else {
                const std::vector<std::string_view> known = is_input ? std::vector<std::string_view>{"per_step"}
                                                                     : std::vector<std::string_view>{"init", "trainable", "role"};
                return error(attr.at,
                             fmt::format("{} has no attribute {}: expected {}", is_input ? "an input" : "a param", spell(attr),
                                         fmt::join(known, ", ")),
                             did_you_mean(attr_name, known));
            }
        }
        const Value value = is_input ? per_step ? builder_->input_per_step(name.name(), type, Where{})
                                                : builder_->input(name.name(), type, Where{})
                                     : builder_->param(name.name(), type, options, Where{});
        TRY(check_builder(name.at));
        return value;
    }

    // `NAME=true` or `NAME=false`; the name alone where that is allowed.
    Result<bool> flag(bool alone_is_true) {
        advance();
        if (alone_is_true && !token_.is('=')) return true;
        if (!token_.is('=')) return unexpected("\"=\"");
        const RawText raw = lexer_.raw_value();
        if (raw.text != "true" && raw.text != "false")
            return error(raw.at, fmt::format("got \"{}\", expected true or false", raw.text));
        advance();
        return raw.text == "true";
    }

    Result<Role> role() {
        advance();
        if (!token_.is('=')) return unexpected("\"=\"");
        const RawText raw = lexer_.raw_value();
        const std::optional<Role> role = parse_role(raw.text);
        if (!role)
            return error(raw.at, fmt::format("got \"{}\", expected a role: param, moment, statistic, counter or data", raw.text));
        advance();
        return *role;
    }

    Result<void> output() {
        advance();
        const Token name = token_;
        if (name.kind == TokenKind::temporary)
            return error(name.at, fmt::format("an output needs a name: output NAME = {}", name.text));
        if (!name.is_name()) return unexpected("the output's name");
        advance();
        const bool per_step = token_.is("per_step");
        if (per_step) advance();
        Value value;
        if (token_.is('=')) {
            advance();
            TRY(value, value_of(nullptr));
        } else {
            TRY(value, look_up(name));
        }
        per_step ? builder_->output_per_step(name.name(), value, Where{}) : builder_->output(name.name(), value, Where{});
        return check_builder(name.at);
    }

    Result<void> update() {
        advance();
        const Token name = token_;
        if (!name.is_name()) return unexpected("the name of a param");
        advance();
        TRY(expect('='));
        TRY(Value param, look_up(name));
        const Type type = param.type();
        TRY(Value value, value_of(&type));
        builder_->update(param, value, Where{});
        return check_builder(name.at);
    }

    // @"scope" file:line
    Result<void> provenance(size_t first_node) {
        if (!token_.is('@')) return {};
        Provenance from;
        advance();
        if (token_.kind != TokenKind::quoted) return unexpected("a scope in quotes behind \"@\"");
        from.scope = token_.value;
        if (!lexer_.at_end_of_line()) {
            std::string line;
            size_t at = 0;
            if (lexer_.peek() == '"') {
                advance();
                if (token_.kind != TokenKind::quoted) return unexpected("a file in quotes");
                from.file = token_.value;
                const RawText rest = lexer_.raw_path();
                at = rest.at;
                if (rest.text.starts_with(':')) line = rest.text.substr(1);
            } else {
                const RawText path = lexer_.raw_path();
                at = path.at;
                const size_t colon = path.text.rfind(':');
                if (colon != std::string::npos) line = path.text.substr(colon + 1), from.file = path.text.substr(0, colon);
            }
            const std::optional<int64_t> number = parse_integer(line);
            if (!number || *number < INT32_MIN || *number > INT32_MAX) return error(at, "got no place, expected FILE:LINE");
            from.line = static_cast<int>(*number);
        }
        builder_->set_provenance_since(first_node, builder_->add_provenance(std::move(from)));
        advance();
        return {};
    }

    // --- types and constants ----------------------------------------------------------------------------------------
    Result<Type> type() {
        const std::optional<DType> dtype = token_.kind == TokenKind::identifier ? parse_dtype(token_.text) : std::nullopt;
        if (!dtype) return unexpected("a type like f32[64,784]");
        const size_t at = token_.at;
        if (lexer_.peek() != '[') {
            advance();
            return unexpected("\"[\" and the dims of the type");
        }
        const RawText raw = lexer_.raw_value();
        if (raw.text.empty()) return error(raw.at, "got a \"[\" that is not closed, expected dims like [64,784]");
        Result<Dims> dims = parse_dims(raw.text);
        if (!dims) return error(raw.at, dims.error().message);
        Type type{*dtype, std::move(*dims)};
        if (Result<void> checked = check_type(type); !checked) return error(at, checked.error().message);
        advance();
        return type;
    }

    Result<Value> constant() {
        const size_t at = token_.at;
        advance();
        TRY(Type type, this->type());
        TRY(expect('{'));
        Tensor values;
        values.dtype = type.dtype;
        skip_newlines();
        while (!token_.is('}')) {
            if (!is_literal_word(token_)) return unexpected("a number or \"}\"");
            TRY(append_literal(values, token_));
            advance();
            skip_newlines();
            if (token_.is('}')) break;
            if (!token_.is(',')) return unexpected("\",\" or \"}\"");
            advance();
            skip_newlines();
        }
        const size_t end = token_.at;
        advance();
        const Value value = builder_->constant(std::move(type), std::move(values), Where{});
        TRY(check_builder(values.count() == 1 ? at : end));
        return value;
    }

    Result<void> append_literal(Tensor& values, const Token& token) const {
        const auto fail = [&](std::string_view why) { return error(token.at, fmt::format("{}: got \"{}\"", why, token.text)); };
        const std::string_view text = token.text;
        if (values.dtype == DType::boolean) {
            if (text != "true" && text != "false") return fail("a bool is true or false");
            values.integer.push_back(text == "true");
            return {};
        }
        if (text == "true" || text == "false") return fail(fmt::format("a value of {} is a number", to_string(values.dtype)));
        if (is_float(values.dtype)) {
            const std::optional<double> value = parse_real(text);
            if (!value) return fail("not a number that a double can hold");
            values.real.push_back(*value);
            return {};
        }
        const std::optional<int64_t> value = parse_integer(text);
        if (!value || wrap_to(values.dtype, *value) != *value)
            return fail(fmt::format("not a value of {}", to_string(values.dtype)));
        values.integer.push_back(*value);
        return {};
    }

    Result<Value> literal_value(const Token& token, const Type& type) const {
        Tensor value;
        value.dtype = type.dtype;
        TRY(append_literal(value, token));
        const Value constant = builder_->constant(type, std::move(value), Where{});
        TRY(check_builder(token.at));
        return constant;
    }

    // iota i32[64] axis=0
    Result<Value> iota() {
        const size_t at = token_.at;
        advance();
        TRY(Type type, this->type());
        int64_t axis = 0;
        if (token_.is("axis")) {
            advance();
            if (!token_.is('=')) return unexpected("\"=\"");
            const RawText raw = lexer_.raw_value();
            const std::optional<int64_t> number = parse_integer(raw.text);
            if (!number) return error(raw.at, fmt::format("got \"{}\", expected an integer", raw.text));
            axis = *number;
            advance();
        }
        const Value value = builder_->iota(std::move(type), axis, Where{});
        TRY(check_builder(at));
        return value;
    }

    // --- expressions ------------------------------------------------------------------------------------------------
    // `literal_type`: what a bare number stands for here; null: it has no type.
    Result<Value> value_of(const Type* literal_type) {
        TRY(Item item, expression());
        if (!item.is_literal) return item.value;
        if (literal_type) return literal_value(item.literal, *literal_type);
        return error(item.literal.at,
                     fmt::format("the number {0} has no type here: write constant f32[] {{{0}}}", item.literal.text));
    }

    Result<Item> expression() {
        std::vector<Frame> frames;
        while (true) {
            // A call opens a frame; anything else is an item at once.
            if (token_.kind == TokenKind::identifier && lexer_.peek() == '(') {
                TRY(Frame frame, open_call());
                const bool closes = token_.is(')');
                frames.push_back(std::move(frame));
                if (!closes) {
                    TRY(bool wants_operand, next_argument(frames.back()));
                    if (wants_operand) continue;
                }
            } else {
                TRY(Item item, primary());
                if (frames.empty()) return item;
                TRY(add_operand(frames.back(), std::move(item)));
                TRY(bool wants_operand, after_argument(frames.back()));
                if (wants_operand) continue;
            }
            // The innermost call is complete, and so may be those around it.
            while (true) {
                TRY(Value value, close_call(frames.back()));
                frames.pop_back();
                Item item{value};
                if (frames.empty()) return item;
                TRY(add_operand(frames.back(), std::move(item)));
                TRY(bool wants_operand, after_argument(frames.back()));
                if (wants_operand) break;
            }
        }
    }

    Result<Item> primary() {
        if (is_literal_word(token_)) {
            Item item;
            item.is_literal = true;
            item.literal = token_;
            advance();
            return item;
        }
        const bool starts_type =
            std::string_view("(,)=@;}\n").find(lexer_.peek()) == std::string_view::npos && !lexer_.at_end_of_line();
        if (token_.is("constant") && starts_type) {
            TRY(Value value, constant());
            return Item{value};
        }
        if (token_.is("iota") && starts_type) {
            TRY(Value value, iota());
            return Item{value};
        }
        if (token_.is_name() || token_.kind == TokenKind::temporary) {
            TRY(Value value, look_up(token_));
            advance();
            return Item{value};
        }
        return unexpected("an expression (a name, a call, a number or a constant)");
    }

    // Name and parenthesis of a call.
    Result<Frame> open_call() {
        Frame frame;
        frame.at = token_.at;
        frame.op = op_registry().find(token_.text);
        if (!frame.op) {
            const std::string nearest = op_registry().nearest(token_.text);
            return error(token_.at, fmt::format("unknown op \"{}\"", token_.text),
                         nearest.empty() ? "" : fmt::format("did you mean \"{}\"?", nearest));
        }
        frame.given.resize(frame.op->operands.size());
        advance();
        TRY(expect('('));
        return frame;
    }

    // At the start of an argument: reads attributes until an operand (true) or the end of the call (false).
    Result<bool> next_argument(Frame& frame) {
        while (true) {
            if (token_.kind != TokenKind::identifier || lexer_.peek() != '=') {
                if (frame.by_name)
                    return error(token_.at,
                                 fmt::format("[{}] an operand by position may not follow those by name", frame.op->name));
                frame.slot = frame.operands.size();
                return true;
            }
            const Token name = token_;
            const AttrDef* def = frame.op->find_attr(name.text);
            advance();
            if (!def) return named_operand(frame, name);
            const RawText raw = lexer_.raw_value();
            Result<AttrValue> value = parse_attr(*def, raw.text);
            if (!value) return error(raw.at, fmt::format("[{}] {}", frame.op->name, value.error().message));
            const bool twice =
                std::any_of(frame.attrs.begin(), frame.attrs.end(), [&](const auto& a) { return a.first == def->name; });
            if (twice) return error(name.at, fmt::format("[{}] the attribute {} is given twice", frame.op->name, spell(name)));
            frame.attrs.emplace_back(def->name, std::move(*value));
            advance();
            if (token_.is(')')) return false;
            if (!token_.is(',')) return unexpected("\",\" or \")\"");
            advance();
        }
    }

    Result<bool> named_operand(Frame& frame, const Token& name) {
        std::vector<std::string_view> known;
        for (size_t i = 0; i < frame.op->operands.size(); ++i) {
            known.push_back(frame.op->operands[i].name);
            if (known.back() != name.text) continue;
            if (frame.given[i])
                return error(name.at, fmt::format("[{}] the operand {} is given twice", frame.op->name, spell(name)));
            frame.slot = i;
            frame.by_name = true;
            advance();
            return true;
        }
        for (const AttrDef& attr : frame.op->attrs) known.push_back(attr.name);
        return error(name.at, fmt::format("[{}] there is no attribute or operand {}", frame.op->name, spell(name)),
                     did_you_mean(name.text, known));
    }

    Result<void> add_operand(Frame& frame, Item item) const {
        if (frame.operands.size() <= frame.slot) frame.operands.resize(frame.slot + 1);
        if (frame.slot < frame.given.size()) frame.given[frame.slot] = true;
        if (item.is_literal && frame.op->batch != Batch::pointwise)
            return error(item.literal.at,
                         fmt::format("[{0}] a bare number stands only in elementwise calls: got {1}, expected a value such as "
                                     "constant f32[] {{{1}}}",
                                     frame.op->name, item.literal.text));
        frame.operands[frame.slot] = std::move(item);
        return {};
    }

    // Behind an operand: true when another one follows.
    Result<bool> after_argument(Frame& frame) {
        if (token_.is(')')) return false;
        if (!token_.is(',')) return unexpected("\",\" or \")\"");
        advance();
        return next_argument(frame);
    }

    // At the closing parenthesis: numbers become constants of their neighbour's type, then the node is made.
    Result<Value> close_call(Frame& frame) {
        std::vector<Value> operands;
        for (const Item& item : frame.operands) operands.push_back(item.value);
        for (size_t i = 0; i < operands.size(); ++i) {
            const Item& item = frame.operands[i];
            if (!item.is_literal) continue;
            const Item* neighbour = nullptr;
            const auto is_value = [](const Item& other) { return !other.is_literal && other.value.valid(); };
            for (size_t k = i + 1; !neighbour && k < operands.size(); ++k)
                if (is_value(frame.operands[k])) neighbour = &frame.operands[k];
            for (size_t k = i; !neighbour && k-- > 0;)
                if (is_value(frame.operands[k])) neighbour = &frame.operands[k];
            if (!neighbour)
                return error(
                    item.literal.at,
                    fmt::format("[{0}] the number {1} has no neighbour to take its type from: write constant f32[] {{{1}}}",
                                frame.op->name, item.literal.text));
            TRY(operands[i], literal_value(item.literal, neighbour->value.type()));
        }
        const Value value = builder_->call(frame.op->name, operands, frame.attrs, Where{});
        TRY(check_builder(frame.at));
        advance();
        return value;
    }

    Lexer lexer_;
    std::string_view file_;
    Token token_;
    Builder* builder_ = nullptr;
    std::unordered_map<std::string, Definition> names_;
};

}  // namespace

Result<Module> parse_module(std::string_view text, std::string_view file) { return Parser(text, file).module(); }

}  // namespace darner
