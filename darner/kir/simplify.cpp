// SPDX-License-Identifier: MIT
// The Builder's arithmetic: type checks, constant folding and algebra. Every rule is exact: integers wrap the same, and a
// float rule holds for all values, signed zeros included. Rules on u32 division rely on the known bounds.
#include "darner/base/check.h"
#include "darner/kir/arithmetic.h"
#include "darner/kir/builder.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace darner::kir {

namespace {

constexpr uint32_t unknown = 0xffffffffu;

bool is_shift(Opcode op) { return op == Opcode::shl || op == Opcode::shr; }
bool is_integer(Type t) { return t.scalar == Scalar::i32 || t.scalar == Scalar::u32; }

bool is_commutative(Opcode op) {
    switch (op) {
        case Opcode::add:
        case Opcode::mul:
        case Opcode::min:
        case Opcode::max:
        case Opcode::bit_and:
        case Opcode::bit_or:
        case Opcode::bit_xor:
        case Opcode::mul_high:
        case Opcode::eq:
        case Opcode::ne: return true;
        default: return false;
    }
}

Expr operand(Expr e, size_t i) { return {e.builder, e.builder->kernel().operand(e.id, i)}; }
Opcode opcode(Expr e) { return e.builder->kernel().at(e.id).op; }
bool is_constant(Expr e) { return opcode(e) == Opcode::constant; }
uint32_t bits(Expr e) { return e.builder->kernel().at(e.id).aux; }
bool is_bits(Expr e, uint32_t value) { return is_constant(e) && bits(e) == value; }

// e == base * factor.
struct Product {
    Expr base;
    uint32_t factor;
};
Product as_product(Expr e) {
    if (opcode(e) == Opcode::mul && is_constant(operand(e, 1))) return {operand(e, 0), bits(operand(e, 1))};
    if (opcode(e) == Opcode::shl && is_constant(operand(e, 1)) && bits(operand(e, 1)) < 32)
        return {operand(e, 0), 1u << bits(operand(e, 1))};
    return {e, 1};
}

// e == base / divisor (u32).
struct Quotient {
    Expr base;
    uint32_t divisor;
};
Quotient as_quotient(Expr e) {
    if (opcode(e) == Opcode::div && is_constant(operand(e, 1)) && bits(operand(e, 1)) != 0)
        return {operand(e, 0), bits(operand(e, 1))};
    if (opcode(e) == Opcode::shr && is_constant(operand(e, 1)) && bits(operand(e, 1)) < 32)
        return {operand(e, 0), 1u << bits(operand(e, 1))};
    return {e, 1};
}

// e == base % divisor (u32); divisor 0 when it is no remainder.
Quotient as_remainder(Expr e) {
    if (opcode(e) == Opcode::rem && is_constant(operand(e, 1))) return {operand(e, 0), bits(operand(e, 1))};
    if (opcode(e) == Opcode::bit_and && is_constant(operand(e, 1)) && std::has_single_bit(bits(operand(e, 1)) + 1))
        return {operand(e, 0), bits(operand(e, 1)) + 1};
    return {e, 0};
}

// x / c * (c m) + x % c * m == x m: an index taken apart and put together again. x may itself be a quotient.
std::optional<Expr> rejoin(Expr a, Expr b) {
    Product high = as_product(a), low = as_product(b);
    Quotient rest = as_remainder(low.base), whole = as_quotient(high.base);
    if (rest.divisor == 0) return std::nullopt;
    Quotient inner = as_quotient(rest.base);
    bool same = inner.base.id == whole.base.id && uint64_t{inner.divisor} * rest.divisor == whole.divisor;
    if (!same || uint64_t{low.factor} * rest.divisor != high.factor) return std::nullopt;
    return rest.base * low.factor;
}

// `sum` + `term` where the term rejoins one of the sum's terms.
std::optional<Expr> rejoin_into(Expr sum, Expr term, int depth = 0) {
    if (auto joined = rejoin(sum, term)) return joined;
    if (auto joined = rejoin(term, sum)) return joined;
    if (opcode(sum) != Opcode::add || depth == 4) return std::nullopt;
    for (size_t side = 0; side < 2; ++side)
        if (auto joined = rejoin_into(operand(sum, side), term, depth + 1)) return operand(sum, 1 - side) + *joined;
    return std::nullopt;
}

// A u32 sum of products with constant factors. A term without base is a constant.
struct Term {
    Expr base;
    uint64_t factor;
};
using Terms = std::vector<Term>;
constexpr size_t max_terms = 12;

// False when the sum has too many terms or may exceed 32 bits: then nothing may be concluded.
bool collect_terms(Expr e, uint64_t factor, Terms& terms, uint64_t& most) {
    if (!is_constant(e) && opcode(e) == Opcode::add)
        return collect_terms(operand(e, 0), factor, terms, most) && collect_terms(operand(e, 1), factor, terms, most);
    Product product = as_product(e);
    if (!is_constant(e) && product.factor != 1 && product.factor != 0) {
        if (factor * product.factor > unknown) return false;
        return collect_terms(product.base, factor * product.factor, terms, most);
    }
    uint64_t bound = e.builder->max_of(e);
    if (bound != 0 && factor > unknown / bound) return false;
    most += bound * factor;
    if (is_constant(e))
        terms.push_back({{}, bound * factor});
    else
        terms.push_back({e, factor});
    return most <= unknown && terms.size() <= max_terms;
}

// Terms split into those divisible by `divisor` (already divided) and the rest.
struct Split {
    Terms multiples, rest;
    uint64_t rest_max = 0;
};
Split split_terms(const Terms& terms, uint64_t divisor) {
    Split s;
    for (const Term& t : terms) {
        if (!t.base.valid()) {
            if (t.factor >= divisor) s.multiples.push_back({{}, t.factor / divisor});
            if (t.factor % divisor) s.rest.push_back({{}, t.factor % divisor});
            s.rest_max += t.factor % divisor;
        } else if (t.factor % divisor == 0) {
            s.multiples.push_back({t.base, t.factor / divisor});
        } else {
            s.rest.push_back(t);
            s.rest_max += t.factor * t.base.builder->max_of(t.base);
        }
    }
    return s;
}

// How a sum splits by a divisor d: by d itself, or by a factor c of d such that the rest stays below c.
struct SumByDivisor {
    Split split;
    uint32_t by;
};
std::optional<SumByDivisor> split_sum(Expr sum, uint32_t divisor) {
    Terms terms;
    uint64_t most = 0;
    if (!collect_terms(sum, 1, terms, most)) return std::nullopt;
    Split whole = split_terms(terms, divisor);
    if (!whole.multiples.empty()) return SumByDivisor{std::move(whole), divisor};
    std::vector<uint64_t> factors;
    for (const Term& t : terms)
        if (t.base.valid())
            if (uint64_t c = std::gcd(t.factor, uint64_t{divisor}); c > 1) factors.push_back(c);
    std::sort(factors.rbegin(), factors.rend());
    for (uint64_t c : factors) {
        Split part = split_terms(terms, c);
        if (!part.multiples.empty() && part.rest_max < c) return SumByDivisor{std::move(part), static_cast<uint32_t>(c)};
    }
    return std::nullopt;
}

Expr rebuild(const Terms& terms, Expr like) {
    Builder& b = *like.builder;
    Expr sum = b.constant(like.type(), 0);
    for (const Term& t : terms) {
        Expr factor = b.constant(like.type(), static_cast<double>(t.factor));
        sum = sum + (t.base.valid() ? t.base * factor : factor);
    }
    return sum;
}

}  // namespace

Expr Builder::fold(Opcode op, Type type, const Ids& operands) {
    uint32_t word[3] = {0, 0, 0};
    for (size_t i = 0; i < operands.size() && i < 3; ++i) {
        if (kernel_.at(operands[i]).op != Opcode::constant) return {};
        word[i] = kernel_.at(operands[i]).aux;
    }
    Scalar from = kernel_.at(operands[0]).type.scalar;
    uint32_t result = 0;
    bool known = false;
    auto compare = [&](auto a, auto b) { known = with_comparison(op, [&](auto f) { result = f(a, b); }); };
    if (op == Opcode::convert) {
        result = convert_word(from, type.scalar, word[0]);
        known = true;
    } else if (is_comparison(op)) {
        if (is_float(from))
            compare(to_float(from, word[0]), to_float(from, word[1]));
        else if (from == Scalar::i32)
            compare(static_cast<int32_t>(word[0]), static_cast<int32_t>(word[1]));
        else
            compare(word[0], word[1]);
    } else if (is_float(type.scalar)) {
        auto use = [&](auto f) {
            result = from_float(from, f(to_float(from, word[0]), to_float(from, word[1]), to_float(from, word[2])));
        };
        known = with_float_function(op, use);
    } else {
        if ((op == Opcode::div || op == Opcode::rem) && word[1] == 0) return {};
        if (is_shift(op) && word[1] >= 32) return {};
        auto words = [&](auto f) { result = f(word[0], word[1], word[2]); };
        auto with_sign = [&](auto f) {
            if constexpr (std::is_invocable_r_v<int32_t, decltype(f), int32_t, int32_t, int32_t>)
                result = static_cast<uint32_t>(f(static_cast<int32_t>(word[0]), static_cast<int32_t>(word[1]), 0));
        };
        if (op == Opcode::bit_not)
            result = type.scalar == Scalar::boolean ? word[0] ^ 1u : ~word[0], known = true;
        else
            known = with_word_function(op, words);
        if (!known && type.scalar == Scalar::i32)
            known = with_integer_function<int32_t>(op, with_sign);
        else if (!known)
            known = with_integer_function<uint32_t>(op, words);
    }
    // No infinite or NaN literal may appear that the kernel's author did not write.
    if (known && is_float(type.scalar) && !std::isfinite(to_float(type.scalar, result))) return {};
    return known ? constant_of_bits(type, result) : Expr{};
}

Expr Builder::divide_u32(Expr a, uint32_t divisor) {
    if (divisor == 1) return a;
    if (max_of(a) < divisor) return constant_of_bits(a.type(), 0);
    if (Quotient q = as_quotient(a); q.divisor > 1) {
        uint64_t both = uint64_t{q.divisor} * divisor;
        return both > unknown ? constant_of_bits(a.type(), 0) : divide_u32(q.base, static_cast<uint32_t>(both));
    }
    if (auto sum = split_sum(a, divisor)) {
        Expr whole = rebuild(sum->split.multiples, a);
        if (sum->by != divisor) return divide_u32(whole, divisor / sum->by);
        return sum->split.rest_max < divisor ? whole : whole + divide_u32(rebuild(sum->split.rest, a), divisor);
    }
    if (std::has_single_bit(divisor))
        return pure(Opcode::shr, a.type(),
                    {a.id, constant_of_bits(a.type(), static_cast<uint32_t>(std::countr_zero(divisor))).id});
    return pure(Opcode::div, a.type(), {a.id, constant_of_bits(a.type(), divisor).id});
}

Expr Builder::remainder_u32(Expr a, uint32_t divisor) {
    if (divisor == 1) return constant_of_bits(a.type(), 0);
    if (max_of(a) < divisor) return a;
    if (Quotient r = as_remainder(a); r.divisor && r.divisor % divisor == 0) return remainder_u32(r.base, divisor);
    if (auto sum = split_sum(a, divisor)) {
        Expr rest = rebuild(sum->split.rest, a);
        if (sum->by == divisor) return remainder_u32(rest, divisor);
        Expr whole = remainder_u32(rebuild(sum->split.multiples, a), divisor / sum->by);
        return whole * constant_of_bits(a.type(), sum->by) + rest;
    }
    if (std::has_single_bit(divisor)) return pure(Opcode::bit_and, a.type(), {a.id, constant_of_bits(a.type(), divisor - 1).id});
    return pure(Opcode::rem, a.type(), {a.id, constant_of_bits(a.type(), divisor).id});
}

Expr Builder::simplify_integer(Opcode op, Expr a, Expr b) {
    bool is_signed = a.type().scalar == Scalar::i32, b_known = kir::is_constant(b);
    uint32_t c = b_known ? bits(b) : 0;
    auto constant_bits = [&](uint32_t v) { return constant_of_bits(a.type(), v); };
    // (x op c1) op c2 -> x op (c1 op c2) for an associative op.
    bool chained = b_known && opcode(a) == op && kir::is_constant(operand(a, 1));
    switch (op) {
        case Opcode::add:
            if (b_known && c == 0) return a;
            if (chained) return operand(a, 0) + constant_bits(bits(operand(a, 1)) + c);
            if (!is_signed)
                if (auto joined = rejoin_into(a, b)) return *joined;
            if (!is_signed && opcode(b) == Opcode::add)
                if (auto joined = rejoin_into(b, a)) return *joined;
            return {};
        case Opcode::sub:
            if (b_known && c == 0) return a;
            if (a.id == b.id) return constant_bits(0);
            if (opcode(a) == Opcode::add && operand(a, 0).id == b.id) return operand(a, 1);
            if (opcode(a) == Opcode::add && operand(a, 1).id == b.id) return operand(a, 0);
            if (b_known && opcode(a) == Opcode::add && kir::is_constant(operand(a, 1)))
                return operand(a, 0) + constant_bits(bits(operand(a, 1)) - c);
            return {};
        case Opcode::mul:
            if (b_known && c == 0) return b;
            if (b_known && c == 1) return a;
            if (chained) return operand(a, 0) * constant_bits(bits(operand(a, 1)) * c);
            return {};
        case Opcode::div:
            if (b_known && c == 1) return a;
            return !is_signed && b_known && c != 0 ? divide_u32(a, c) : Expr{};
        case Opcode::rem:
            if (b_known && c == 1) return constant_bits(0);
            if (!is_signed && b_known && c != 0) return remainder_u32(a, c);
            return {};
        case Opcode::min:
        case Opcode::max:
            if (a.id == b.id) return a;
            if (chained) return binary(op, operand(a, 0), binary(op, operand(a, 1), b));
            if (!is_signed && b_known && max_of(a) <= c) return op == Opcode::min ? a : b;
            if (!is_signed && b_known && c == 0) return op == Opcode::min ? b : a;
            return {};
        case Opcode::shl:
        case Opcode::shr: return b_known && c == 0 ? a : Expr{};
        default: return {};
    }
}

Expr Builder::simplify_float(Opcode op, Expr a, Expr b) {
    uint32_t one = from_float(a.type().scalar, 1.0f), minus_zero = from_float(a.type().scalar, -0.0f);
    switch (op) {
        case Opcode::add: return is_bits(b, minus_zero) ? a : Expr{};  // x + 0 is not x for x = -0
        case Opcode::sub: return is_bits(b, 0) ? a : Expr{};
        case Opcode::mul:
        case Opcode::div: return is_bits(b, one) ? a : Expr{};
        case Opcode::pow: return is_bits(b, one) ? a : Expr{};
        case Opcode::min:
        case Opcode::max: return a.id == b.id ? a : Expr{};
        default: return {};
    }
}

Expr Builder::simplify_comparison(Opcode op, Expr a, Expr b) {
    Type result{Scalar::boolean, a.type().lanes};
    auto decided = [&](bool v) { return constant_of_bits(result, v); };
    if (is_float(a.type().scalar)) return {};  // even x == x is open: x may be NaN
    if (a.id == b.id) return decided(op == Opcode::eq || op == Opcode::le);
    if (a.type().scalar == Scalar::boolean && kir::is_constant(b))
        return (bits(b) == 1) == (op == Opcode::eq) ? a : unary(Opcode::bit_not, a);
    if (a.type().scalar != Scalar::u32) return {};
    bool a_known = kir::is_constant(a), b_known = kir::is_constant(b);
    uint32_t value_a = a_known ? bits(a) : 0, value_b = b_known ? bits(b) : 0;
    switch (op) {
        case Opcode::lt:
            if (b_known && max_of(a) < value_b) return decided(true);
            if (a_known && value_a >= max_of(b)) return decided(false);
            if (b_known && value_b == 0) return decided(false);
            return {};
        case Opcode::le:
            if (b_known && max_of(a) <= value_b) return decided(true);
            if (a_known && value_a > max_of(b)) return decided(false);
            if (a_known && value_a == 0) return decided(true);
            return {};
        case Opcode::eq:
        case Opcode::ne:
            if (b_known && value_b > max_of(a)) return decided(op == Opcode::ne);
            return {};
        default: return {};
    }
}

Expr Builder::simplify(Opcode op, Expr a, Expr b) {
    if (is_comparison(op)) return simplify_comparison(op, a, b);
    bool bitwise = op == Opcode::bit_and || op == Opcode::bit_or || op == Opcode::bit_xor;
    if (!bitwise) return is_float(a.type().scalar) ? simplify_float(op, a, b) : simplify_integer(op, a, b);
    uint32_t ones = a.type().scalar == Scalar::boolean ? 1u : unknown;
    if (a.id == b.id) return op == Opcode::bit_xor ? constant_of_bits(a.type(), 0) : a;
    if (!kir::is_constant(b)) return {};
    if (opcode(a) == op && kir::is_constant(operand(a, 1))) return binary(op, operand(a, 0), binary(op, operand(a, 1), b));
    if (bits(b) == 0) return op == Opcode::bit_and ? b : a;
    if (bits(b) == ones) return op == Opcode::bit_and ? a : op == Opcode::bit_or ? b : unary(Opcode::bit_not, a);
    // x & mask where the mask covers every possible bit.
    if (op == Opcode::bit_and && a.type().scalar == Scalar::u32) {
        uint32_t possible = max_of(a) == 0 ? 0 : unknown >> std::countl_zero(max_of(a));
        if ((possible & ~bits(b)) == 0) return a;
    }
    return {};
}

Expr Builder::binary(Opcode op, Expr a, Expr b) {
    CHECK(a.builder == this && b.builder == this, "operands of another builder");
    check_operand(a.id);
    check_operand(b.id);
    Type type = a.type();
    if (is_shift(op)) {
        CHECK(is_integer(type) && is_integer(b.type()), "shifts work on integers");
        if (kir::is_constant(b))
            b = constant_of_bits(type, bits(b));
        else if (b.type().scalar != type.scalar)
            b = bitcast(b, type.scalar);
    }
    CHECK(type == b.type(), std::string(to_string(op)) + " of " + to_string(type) + " and " + to_string(b.type()));
    CHECK(!type.is_coop(), "arithmetic on cooperative matrices goes through coop_map");
    CHECK(type.scalar != Scalar::bf16, "bf16 has no arithmetic");
    if (type.scalar == Scalar::boolean)
        CHECK(op == Opcode::bit_and || op == Opcode::bit_or || op == Opcode::bit_xor || op == Opcode::eq || op == Opcode::ne,
              std::string(to_string(op)) + " of booleans");
    if (op == Opcode::mul_high) CHECK(type.scalar == Scalar::u32, "mul_high works on u32");
    if (op == Opcode::pow) CHECK(is_float(type.scalar), "pow works on floats");
    if (op == Opcode::bit_and || op == Opcode::bit_or || op == Opcode::bit_xor)
        CHECK(!is_float(type.scalar), "bitwise operation on floats");

    if (op == Opcode::gt || op == Opcode::ge) {
        std::swap(a, b);
        op = op == Opcode::gt ? Opcode::lt : Opcode::le;
    }
    if (is_commutative(op)) {
        bool swap = kir::is_constant(a) != kir::is_constant(b) ? kir::is_constant(a) : b.id < a.id;
        if (swap) std::swap(a, b);
    }
    Type result = is_comparison(op) ? Type{Scalar::boolean, type.lanes} : type;
    if (Expr known = fold(op, result, {a.id, b.id}); known.valid()) return known;
    if (Expr simple = simplify(op, a, b); simple.valid()) return simple;
    // Before a loop that never runs, a divisor or count may be what the operation does not allow.
    bool partial = is_integer(type) && (op == Opcode::div || op == Opcode::rem || is_shift(op)) && !kir::is_constant(b);
    return pure(op, result, {a.id, b.id}, 0, 0, partial ? Motion::fixed : Motion::invariant);
}

Expr Builder::unary(Opcode op, Expr a) {
    check_operand(a.id);
    Type type = a.type();
    CHECK(!type.is_coop() && type.scalar != Scalar::bf16, std::string(to_string(op)) + " of " + to_string(type));
    if (op == Opcode::bit_not)
        CHECK(!is_float(type.scalar), "bit_not of a float");
    else if (op == Opcode::neg || op == Opcode::abs)
        CHECK(type.scalar != Scalar::boolean, std::string(to_string(op)) + " of a boolean");
    else
        CHECK(is_float(type.scalar), std::string(to_string(op)) + " of " + to_string(type));

    if (Expr known = fold(op, type, {a.id}); known.valid()) return known;
    if ((op == Opcode::neg || op == Opcode::bit_not) && opcode(a) == op) return operand(a, 0);
    if (op == Opcode::abs && (opcode(a) == Opcode::abs || type.scalar == Scalar::u32)) return a;
    if (op == Opcode::abs && opcode(a) == Opcode::neg && is_float(type.scalar)) return unary(op, operand(a, 0));
    if (is_rounding(op) && is_rounding(opcode(a))) return a;
    if (op == Opcode::bit_not && is_comparison(opcode(a)) && !is_float(operand(a, 0).type().scalar)) {
        Expr x = operand(a, 0), y = operand(a, 1);
        if (opcode(a) == Opcode::eq) return x != y;
        if (opcode(a) == Opcode::ne) return x == y;
        if (opcode(a) == Opcode::lt) return y <= x;
        if (opcode(a) == Opcode::le) return y < x;
    }
    // Drivers compute tanh through exp and overflow; beyond 15 it is 1 to the last bit. A NaN passes through.
    if (op == Opcode::tanh) {
        Expr limit = constant(type, 15), zero = constant(type, 0);
        a = select(abs(a) > limit, select(a < zero, constant(type, -15), limit), a);
    }
    return pure(op, type, {a.id});
}

Expr Builder::fma(Expr a, Expr b, Expr c) {
    Type type = a.type();
    CHECK(
        type == b.type() && type == c.type() && !type.is_coop() && type.scalar != Scalar::bf16 && type.scalar != Scalar::boolean,
        "fma of " + to_string(type) + ", " + to_string(b.type()) + " and " + to_string(c.type()));
    if (!is_float(type.scalar)) return a * b + c;
    if (kir::is_constant(a) != kir::is_constant(b) ? kir::is_constant(a) : b.id < a.id) std::swap(a, b);
    if (Expr known = fold(Opcode::fma, type, {a.id, b.id, c.id}); known.valid()) return known;
    if (is_bits(b, from_float(type.scalar, 1.0f))) return a + c;
    if (is_bits(c, from_float(type.scalar, -0.0f))) return a * b;
    return pure(Opcode::fma, type, {a.id, b.id, c.id});
}

Expr Builder::select(Expr condition, Expr if_true, Expr if_false) {
    Type type = if_true.type();
    CHECK(type == if_false.type() && !type.is_coop(), "select of " + to_string(type) + " and " + to_string(if_false.type()));
    CHECK(condition.type().scalar == Scalar::boolean, "the condition of select is boolean");
    if (condition.type().lanes == 1 && type.lanes > 1) {
        if (kir::is_constant(condition))
            condition = constant_of_bits({Scalar::boolean, type.lanes}, bits(condition));
        else
            condition = make_vector(std::vector<Expr>(type.lanes, condition));
    }
    CHECK(condition.type().lanes == type.lanes, "the condition of select has other lanes than its values");
    if (kir::is_constant(condition)) return bits(condition) ? if_true : if_false;
    if (if_true.id == if_false.id) return if_true;
    if (opcode(condition) == Opcode::bit_not) return select(operand(condition, 0), if_false, if_true);
    if (type.scalar == Scalar::boolean && kir::is_constant(if_true) && kir::is_constant(if_false))
        return bits(if_true) ? condition : unary(Opcode::bit_not, condition);
    return pure(Opcode::select, type, {condition.id, if_true.id, if_false.id});
}

Expr Builder::convert(Expr a, Scalar to) {
    Type from = a.type(), type = from;
    CHECK(!from.is_coop(), "convert of a cooperative matrix is coop_convert");
    type.scalar = to;
    if (from == type) return a;
    if (Expr known = fold(Opcode::convert, type, {a.id}); known.valid()) return known;
    if (opcode(a) == Opcode::convert) {
        Expr inner = operand(a, 0);
        // i32 and u32 share their bits, and widening a half loses nothing.
        bool lossless =
            (is_integer(from) && is_integer(inner.type())) ||
            (from.scalar == Scalar::f32 && (inner.type().scalar == Scalar::f16 || inner.type().scalar == Scalar::bf16));
        if (lossless) return convert(inner, to);
    }
    return pure(Opcode::convert, type, {a.id});
}

Expr Builder::bitcast(Expr a, Scalar to) {
    Type from = a.type(), type = from;
    type.scalar = to;
    CHECK(!from.is_coop() && from.scalar != Scalar::boolean && to != Scalar::boolean && byte_size(from.scalar) == byte_size(to),
          "bitcast of " + to_string(from) + " to " + to_string(to));
    if (from == type) return a;
    if (kir::is_constant(a)) return constant_of_bits(type, bits(a));
    if (opcode(a) == Opcode::bitcast) return bitcast(operand(a, 0), to);
    return pure(Opcode::bitcast, type, {a.id});
}

Expr Builder::make_vector(std::initializer_list<Expr> parts) { return make_vector(std::span(parts.begin(), parts.size())); }

Expr Builder::make_vector(std::span<const Expr> parts) {
    CHECK(parts.size() == 2 || parts.size() == 4, "vectors have 2 or 4 lanes");
    Ids operands;
    bool splat = true, whole = true;
    for (size_t i = 0; i < parts.size(); ++i) {
        Expr part = parts[i];
        CHECK(part.type().is_scalar() && part.type() == parts[0].type(), "a vector is made of equal scalars");
        splat = splat && kir::is_constant(part) && part.id == parts[0].id;
        const Instruction& inst = kernel_.at(part.id);
        whole = whole && inst.op == Opcode::extract && inst.aux == i && operand(part, 0).id == operand(parts[0], 0).id &&
                operand(part, 0).type().lanes == parts.size();
        operands.push_back(part.id);
    }
    Type type = parts[0].type().with_lanes(static_cast<uint8_t>(parts.size()));
    if (splat) return constant_of_bits(type, bits(parts[0]));
    if (whole) return operand(parts[0], 0);
    return pure(Opcode::make_vector, type, operands);
}

Expr Builder::extract(Expr vector, uint32_t lane) {
    Type type = vector.type();
    CHECK(!type.is_coop() && lane < type.lanes, "lane " + std::to_string(lane) + " of " + to_string(type));
    if (type.lanes == 1) return vector;
    if (kir::is_constant(vector)) return constant_of_bits(type.element(), bits(vector));
    if (opcode(vector) == Opcode::make_vector) return operand(vector, lane);
    return pure(Opcode::extract, type.element(), {vector.id}, lane);
}

Expr Builder::pack_half2(Expr low, Expr high) {
    CHECK(low.type() == f32_type && high.type() == f32_type, "pack_half2 takes two f32");
    if (kir::is_constant(low) && kir::is_constant(high))
        return u32(convert_word(Scalar::f32, Scalar::f16, bits(low)) | convert_word(Scalar::f32, Scalar::f16, bits(high)) << 16);
    return pure(Opcode::pack_half2, u32_type, {low.id, high.id});
}

Expr Builder::unpack_half2(Expr word) {
    CHECK(word.type() == u32_type, "unpack_half2 takes a u32");
    return pure(Opcode::unpack_half2, f32_type.with_lanes(2), {word.id});
}

Expr operator+(Expr a, Expr b) { return a.builder->binary(Opcode::add, a, b); }
Expr operator-(Expr a, Expr b) { return a.builder->binary(Opcode::sub, a, b); }
Expr operator*(Expr a, Expr b) { return a.builder->binary(Opcode::mul, a, b); }
Expr operator/(Expr a, Expr b) { return a.builder->binary(Opcode::div, a, b); }
Expr operator%(Expr a, Expr b) { return a.builder->binary(Opcode::rem, a, b); }
Expr operator&(Expr a, Expr b) { return a.builder->binary(Opcode::bit_and, a, b); }
Expr operator|(Expr a, Expr b) { return a.builder->binary(Opcode::bit_or, a, b); }
Expr operator^(Expr a, Expr b) { return a.builder->binary(Opcode::bit_xor, a, b); }
Expr operator<<(Expr a, Expr b) { return a.builder->binary(Opcode::shl, a, b); }
Expr operator>>(Expr a, Expr b) { return a.builder->binary(Opcode::shr, a, b); }
Expr operator==(Expr a, Expr b) { return a.builder->binary(Opcode::eq, a, b); }
Expr operator!=(Expr a, Expr b) { return a.builder->binary(Opcode::ne, a, b); }
Expr operator<(Expr a, Expr b) { return a.builder->binary(Opcode::lt, a, b); }
Expr operator<=(Expr a, Expr b) { return a.builder->binary(Opcode::le, a, b); }
Expr operator>(Expr a, Expr b) { return a.builder->binary(Opcode::gt, a, b); }
Expr operator>=(Expr a, Expr b) { return a.builder->binary(Opcode::ge, a, b); }
Expr operator-(Expr a) { return a.builder->unary(Opcode::neg, a); }
Expr operator!(Expr a) { return a.builder->unary(Opcode::bit_not, a); }

}  // namespace darner::kir
