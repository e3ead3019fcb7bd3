// SPDX-License-Identifier: MIT
// What the arithmetic opcodes compute on one lane: the single definition behind constant folding and the interpreter.
// Each with_... function calls `use` with the lane function of an opcode and says whether there is one. Values are 32-bit
// words: f16 and bf16 sit in the low half, booleans are 0 or 1.
#pragma once

#include "darner/kir/half.h"
#include "darner/kir/kernel.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace darner::kir {

// Functions (float, float, float) -> float. Transcendentals go through double, so that they hardly depend on the libm.
template <class Use>
bool with_float_function(Opcode op, Use&& use) {
    using std::bit_cast;
    switch (op) {
        case Opcode::add: use([](float a, float b, float) { return a + b; }); return true;
        case Opcode::sub: use([](float a, float b, float) { return a - b; }); return true;
        case Opcode::mul: use([](float a, float b, float) { return a * b; }); return true;
        case Opcode::div: use([](float a, float b, float) { return a / b; }); return true;
        case Opcode::rem: use([](float a, float b, float) { return std::fmod(a, b); }); return true;
        // A NaN gives way to the other operand, so that the order of operands does not matter.
        case Opcode::min: use([](float a, float b, float) { return b < a || a != a ? b : a; }); return true;
        case Opcode::max: use([](float a, float b, float) { return a < b || a != a ? b : a; }); return true;
        case Opcode::neg: use([](float a, float, float) { return -a; }); return true;
        case Opcode::abs: use([](float a, float, float) { return std::fabs(a); }); return true;
        // The product is exact in double; unlike std::fma this needs no hardware support to be fast.
        case Opcode::fma:
            use([](float a, float b, float c) { return static_cast<float>(double(a) * double(b) + double(c)); });
            return true;
        case Opcode::floor: use([](float a, float, float) { return std::floor(a); }); return true;
        case Opcode::ceil: use([](float a, float, float) { return std::ceil(a); }); return true;
        case Opcode::trunc: use([](float a, float, float) { return std::trunc(a); }); return true;
        case Opcode::round_even: use([](float a, float, float) { return std::nearbyint(a); }); return true;
        case Opcode::exp: use([](float a, float, float) { return static_cast<float>(std::exp(double(a))); }); return true;
        case Opcode::exp2: use([](float a, float, float) { return static_cast<float>(std::exp2(double(a))); }); return true;
        case Opcode::log: use([](float a, float, float) { return static_cast<float>(std::log(double(a))); }); return true;
        case Opcode::log2: use([](float a, float, float) { return static_cast<float>(std::log2(double(a))); }); return true;
        case Opcode::sqrt: use([](float a, float, float) { return std::sqrt(a); }); return true;
        case Opcode::rsqrt:
            use([](float a, float, float) { return static_cast<float>(1.0 / std::sqrt(double(a))); });
            return true;
        case Opcode::sin: use([](float a, float, float) { return static_cast<float>(std::sin(double(a))); }); return true;
        case Opcode::cos: use([](float a, float, float) { return static_cast<float>(std::cos(double(a))); }); return true;
        case Opcode::tanh: use([](float a, float, float) { return static_cast<float>(std::tanh(double(a))); }); return true;
        case Opcode::pow:
            use([](float a, float b, float) { return static_cast<float>(std::pow(double(a), double(b))); });
            return true;
        default: return false;
    }
}

// Functions (word, word, word) -> word that are the same for i32, u32 and boolean.
template <class Use>
bool with_word_function(Opcode op, Use&& use) {
    switch (op) {
        case Opcode::add: use([](uint32_t a, uint32_t b, uint32_t) { return a + b; }); return true;
        case Opcode::sub: use([](uint32_t a, uint32_t b, uint32_t) { return a - b; }); return true;
        case Opcode::mul: use([](uint32_t a, uint32_t b, uint32_t) { return a * b; }); return true;
        case Opcode::fma: use([](uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }); return true;
        case Opcode::neg: use([](uint32_t a, uint32_t, uint32_t) { return 0u - a; }); return true;
        case Opcode::bit_and: use([](uint32_t a, uint32_t b, uint32_t) { return a & b; }); return true;
        case Opcode::bit_or: use([](uint32_t a, uint32_t b, uint32_t) { return a | b; }); return true;
        case Opcode::bit_xor: use([](uint32_t a, uint32_t b, uint32_t) { return a ^ b; }); return true;
        case Opcode::shl: use([](uint32_t a, uint32_t b, uint32_t) { return a << (b & 31u); }); return true;
        case Opcode::mul_high:
            use([](uint32_t a, uint32_t b, uint32_t) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); });
            return true;
        default: return false;
    }
}

// Functions (T, T, T) -> T of T = int32_t or uint32_t whose meaning depends on the sign. The divisor is not zero.
template <class T, class Use>
bool with_integer_function(Opcode op, Use&& use) {
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (op) {
        // The one quotient that overflows wraps, as all integer arithmetic does.
        case Opcode::div: use([](T a, T b, T) { return is_signed && b == T(-1) ? T(0u - uint32_t(a)) : T(a / b); }); return true;
        case Opcode::rem: use([](T a, T b, T) { return is_signed && b == T(-1) ? T(0) : T(a % b); }); return true;
        case Opcode::min: use([](T a, T b, T) { return b < a ? b : a; }); return true;
        case Opcode::max: use([](T a, T b, T) { return a < b ? b : a; }); return true;
        case Opcode::abs: use([](T a, T, T) { return is_signed && a < T(0) ? T(0u - uint32_t(a)) : a; }); return true;
        case Opcode::shr: use([](T a, T b, T) { return T(a >> (uint32_t(b) & 31u)); }); return true;
        default: return false;
    }
}

// Functions (T, T) -> bool.
template <class Use>
bool with_comparison(Opcode op, Use&& use) {
    switch (op) {
        case Opcode::eq: use([](auto a, auto b) { return a == b; }); return true;
        case Opcode::ne: use([](auto a, auto b) { return a != b; }); return true;
        case Opcode::lt: use([](auto a, auto b) { return a < b; }); return true;
        case Opcode::le: use([](auto a, auto b) { return a <= b; }); return true;
        case Opcode::gt: use([](auto a, auto b) { return a > b; }); return true;
        case Opcode::ge: use([](auto a, auto b) { return a >= b; }); return true;
        default: return false;
    }
}

inline float to_float(Scalar from, uint32_t word) {
    switch (from) {
        case Scalar::f32: return std::bit_cast<float>(word);
        case Scalar::f16: return f16_to_f32(word);
        case Scalar::bf16: return bf16_to_f32(word);
        case Scalar::i32: return static_cast<float>(static_cast<int32_t>(word));
        case Scalar::u32:
        case Scalar::boolean: return static_cast<float>(word);
    }
    return 0;
}

// Rounds to the float scalar `to` and gives its bits.
inline uint32_t from_float(Scalar to, float value) {
    switch (to) {
        case Scalar::f16: return f32_to_f16(value);
        case Scalar::bf16: return f32_to_bf16(value);
        default: return std::bit_cast<uint32_t>(value);
    }
}

// `convert` on one word; see the semantics in kernel.h.
inline uint32_t convert_word(Scalar from, Scalar to, uint32_t word) {
    if (from == to) return word;
    if (is_float(to)) return from_float(to, to_float(from, word));
    if (!is_float(from)) return to == Scalar::boolean ? word != 0 : word;
    float value = to_float(from, word);
    if (to == Scalar::boolean) return value != 0;
    if (std::isnan(value)) return 0;
    if (to == Scalar::u32) return value <= 0 ? 0 : value >= 0x1p32f ? 0xffffffffu : static_cast<uint32_t>(value);
    if (value >= 0x1p31f) return 0x7fffffffu;
    return value <= -0x1p31f ? 0x80000000u : static_cast<uint32_t>(static_cast<int32_t>(value));
}

}  // namespace darner::kir
