// SPDX-License-Identifier: MIT
// The checking interpreter: arithmetic, one loop over the lanes of the workgroup per instruction. These loops are most of the
// interpreter's time, and GCC vectorises loops of unknown length at O3 only.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif
#include "darner/kir/interpreter.h"

#include "darner/kir/arithmetic.h"

#include <fmt/format.h>

#include <bit>

namespace darner::kir {

namespace {

// Lane functions on words, made from functions on floats and on signed integers.
template <class F>
auto on_f32(F f) {
    return [f](uint32_t a, uint32_t b, uint32_t c) {
        return std::bit_cast<uint32_t>(f(std::bit_cast<float>(a), std::bit_cast<float>(b), std::bit_cast<float>(c)));
    };
}
template <class F>
auto on_f16(F f) {
    return [f](uint32_t a, uint32_t b, uint32_t c) { return f32_to_f16(f(f16_to_f32(a), f16_to_f32(b), f16_to_f32(c))); };
}
template <class F>
auto on_i32(F f) {
    return [f](uint32_t a, uint32_t b, uint32_t c) {
        return static_cast<uint32_t>(f(static_cast<int32_t>(a), static_cast<int32_t>(b), static_cast<int32_t>(c)));
    };
}

// Calls use(lane function) for an arithmetic opcode on a scalar type.
template <class Use>
bool with_lane_function(Opcode op, Scalar scalar, Use&& use) {
    if (scalar == Scalar::f32) return with_float_function(op, [&](auto f) { use(on_f32(f)); });
    if (scalar == Scalar::f16) return with_float_function(op, [&](auto f) { use(on_f16(f)); });
    if (op == Opcode::bit_not) {
        uint32_t ones = scalar == Scalar::boolean ? 1u : 0xffffffffu;
        use([ones](uint32_t a, uint32_t, uint32_t) { return a ^ ones; });
        return true;
    }
    if (with_word_function(op, use)) return true;
    if (scalar == Scalar::i32) return with_integer_function<int32_t>(op, [&](auto f) { use(on_i32(f)); });
    return with_integer_function<uint32_t>(op, use);
}

template <class Use>
bool with_lane_comparison(Opcode op, Scalar scalar, Use&& use) {
    return with_comparison(op, [&](auto f) {
        if (is_float(scalar) && scalar != Scalar::f32)
            use([f, scalar](uint32_t a, uint32_t b, uint32_t) { return uint32_t{f(to_float(scalar, a), to_float(scalar, b))}; });
        else if (scalar == Scalar::f32)
            use([f](uint32_t a, uint32_t b, uint32_t) { return uint32_t{f(std::bit_cast<float>(a), std::bit_cast<float>(b))}; });
        else if (scalar == Scalar::i32)
            use([f](uint32_t a, uint32_t b, uint32_t) { return uint32_t{f(static_cast<int32_t>(a), static_cast<int32_t>(b))}; });
        else
            use([f](uint32_t a, uint32_t b, uint32_t) { return uint32_t{f(a, b)}; });
    });
}

// The frequent conversions with both types known to the compiler, the others in general.
template <class Use>
void with_conversion(Scalar from, Scalar to, Use&& use) {
    auto fixed = [&]<Scalar f, Scalar t>() { use([](uint32_t a, uint32_t, uint32_t) { return convert_word(f, t, a); }); };
    if (from == Scalar::u32 && to == Scalar::f32) return fixed.template operator()<Scalar::u32, Scalar::f32>();
    if (from == Scalar::i32 && to == Scalar::f32) return fixed.template operator()<Scalar::i32, Scalar::f32>();
    if (from == Scalar::f32 && to == Scalar::u32) return fixed.template operator()<Scalar::f32, Scalar::u32>();
    if (from == Scalar::f32 && to == Scalar::i32) return fixed.template operator()<Scalar::f32, Scalar::i32>();
    if (from == Scalar::f16 && to == Scalar::f32) return fixed.template operator()<Scalar::f16, Scalar::f32>();
    if (from == Scalar::f32 && to == Scalar::f16) return fixed.template operator()<Scalar::f32, Scalar::f16>();
    use([from, to](uint32_t a, uint32_t, uint32_t) { return convert_word(from, to, a); });
}

}  // namespace

// Divisors and shift counts of the active lanes.
bool Interpreter::check_divisors(ValueId v, const Instruction& inst, const Active& active) {
    const uint32_t* b = in(v, 1);
    bool shift = inst.op == Opcode::shl || inst.op == Opcode::shr;
    for (uint32_t c = 0; c < inst.type.lanes; ++c)
        for (uint32_t lane : active.lanes) {
            uint32_t value = b[c * lanes_ + lane];
            if (shift && value >= 32) return fail(v, lane, fmt::format("shift count {}: expected less than 32", value));
            if (!shift && value == 0) return fail(v, lane, "integer division by zero");
        }
    return true;
}

bool Interpreter::run_arithmetic(ValueId v, const Instruction& inst, const Active& active) {
    uint32_t* to = out(v);
    const Type type = inst.operand_count ? kernel_.at(kernel_.operand(v, 0)).type : inst.type;
    bool dense = active.lanes.size() * 4 >= lanes_;
    bool integers = !is_float(inst.type.scalar);
    if (integers && (inst.op == Opcode::div || inst.op == Opcode::rem || inst.op == Opcode::shl || inst.op == Opcode::shr)) {
        if (!check_divisors(v, inst, active)) return false;
        // Inactive lanes may hold zero divisors.
        if (inst.op == Opcode::div || inst.op == Opcode::rem) dense = active.all;
    }
    const uint32_t* a = in(v, 0);
    const uint32_t* b = inst.operand_count > 1 ? in(v, 1) : a;
    const uint32_t* c = inst.operand_count > 2 ? in(v, 2) : a;
    auto apply = [&](auto f) {
        for (size_t base = 0; base < size_t{inst.type.lanes} * lanes_; base += lanes_)
            each_lane(dense, lanes_, active.lanes, [=](uint32_t i) { to[base + i] = f(a[base + i], b[base + i], c[base + i]); });
    };
    switch (inst.op) {
        case Opcode::select:
            apply([](uint32_t condition, uint32_t yes, uint32_t no) { return condition ? yes : no; });
            return true;
        case Opcode::convert: with_conversion(type.scalar, inst.type.scalar, apply); return true;
        case Opcode::bitcast: apply([](uint32_t value, uint32_t, uint32_t) { return value; }); return true;
        case Opcode::extract:
            a += size_t{inst.aux} * lanes_;
            apply([](uint32_t value, uint32_t, uint32_t) { return value; });
            return true;
        case Opcode::make_vector:
            for (uint32_t part = 0; part < inst.operand_count; ++part)
                std::copy_n(in(v, part), lanes_, to + size_t{part} * lanes_);
            return true;
        case Opcode::pack_half2:
            apply([](uint32_t low, uint32_t high, uint32_t) {
                return f32_to_f16(std::bit_cast<float>(low)) | f32_to_f16(std::bit_cast<float>(high)) << 16;
            });
            return true;
        case Opcode::unpack_half2:
            for (uint32_t half = 0; half < 2; ++half)
                for (uint32_t i = 0; i < lanes_; ++i)
                    to[size_t{half} * lanes_ + i] = std::bit_cast<uint32_t>(f16_to_f32((a[i] >> (16 * half)) & 0xffffu));
            return true;
        default: break;
    }
    if (with_lane_comparison(inst.op, type.scalar, apply)) return true;
    if (with_lane_function(inst.op, inst.type.scalar, apply)) return true;
    return fail(v, active.lanes[0], "the interpreter does not know this instruction");
}

}  // namespace darner::kir
