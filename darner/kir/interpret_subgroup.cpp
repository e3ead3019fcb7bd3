// SPDX-License-Identifier: MIT
// The checking interpreter: subgroup operations and cooperative matrices.
#include "darner/kir/interpreter.h"

#include "darner/kir/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::kir {

namespace {

Opcode opcode_of(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::add: return Opcode::add;
        case ReduceKind::min: return Opcode::min;
        case ReduceKind::max: return Opcode::max;
        case ReduceKind::mul: return Opcode::mul;
        case ReduceKind::bit_and: return Opcode::bit_and;
        case ReduceKind::bit_or: return Opcode::bit_or;
    }
    return Opcode::add;
}

}  // namespace

bool Interpreter::is_uniform(const uint32_t* value, uint32_t begin, uint32_t end) const {
    return std::all_of(value + begin, value + end, [&](uint32_t v) { return v == value[begin]; });
}

// Halves the values until one is left, as a butterfly does.
void Interpreter::reduce_subgroup(ValueId v, const Instruction& inst, uint32_t begin, uint32_t end) {
    Opcode op = opcode_of(static_cast<ReduceKind>(inst.aux));
    Scalar scalar = inst.type.scalar;
    std::array<uint32_t, 128> part;
    auto reduce = [&](auto f) {
        for (uint32_t c = 0; c < inst.type.lanes; ++c) {
            uint32_t count = end - begin;
            std::copy_n(in(v, 0) + c * lanes_ + begin, count, part.data());
            for (; count > 1; count = (count + 1) / 2)
                for (uint32_t i = 0, half = (count + 1) / 2; i + half < count; ++i) part[i] = f(part[i], part[i + half]);
            std::fill(out(v) + c * lanes_ + begin, out(v) + c * lanes_ + end, part[0]);
        }
    };
    auto words = [&](auto f) { reduce([&](uint32_t a, uint32_t b) { return f(a, b, 0); }); };
    if (is_float(scalar)) {
        with_float_function(op, [&](auto f) {
            reduce([&](uint32_t a, uint32_t b) { return from_float(scalar, f(to_float(scalar, a), to_float(scalar, b), 0)); });
        });
    } else if (!with_word_function(op, words)) {
        if (scalar == Scalar::i32)
            with_integer_function<int32_t>(op, [&](auto f) {
                reduce([&](uint32_t a, uint32_t b) {
                    return static_cast<uint32_t>(f(static_cast<int32_t>(a), static_cast<int32_t>(b), 0));
                });
            });
        else
            with_integer_function<uint32_t>(op, words);
    }
}

bool Interpreter::run_subgroup(ValueId v, const Instruction& inst, const Active& active) {
    return for_subgroups(v, active, [&](uint32_t, uint32_t begin, uint32_t end) {
        if (inst.op == Opcode::subgroup_reduce) {
            reduce_subgroup(v, inst, begin, end);
            return true;
        }
        bool broadcast = inst.op == Opcode::subgroup_broadcast;
        for (uint32_t lane = begin; lane < end; ++lane) {
            uint32_t source = begin + (broadcast ? inst.aux : (lane - begin) ^ inst.aux);
            if (source >= end) return fail(v, lane, fmt::format("lane {} is not in the subgroup", source - begin));
            for (uint32_t c = 0; c < inst.type.lanes; ++c) out(v)[c * lanes_ + lane] = in(v, 0)[c * lanes_ + source];
        }
        return true;
    });
}

bool Interpreter::run_coop(ValueId v, const Instruction& inst, const Active& active) {
    auto round = [](Scalar scalar, float value) { return std::bit_cast<uint32_t>(to_float(scalar, from_float(scalar, value))); };
    const Type& type = inst.type;
    size_t elements = size_t{type.rows} * type.cols;
    return for_subgroups(v, active, [&](uint32_t s, uint32_t begin, uint32_t end) {
        if (inst.op == Opcode::coop_load || inst.op == Opcode::coop_store) return run_coop_memory(v, inst, s);
        uint32_t* to = out(v) + s * elements;
        if (inst.op == Opcode::coop_fill) {
            if (!is_uniform(in(v, 0), begin, end)) return fail(v, begin, "the scalar of coop_fill differs within the subgroup");
            std::fill_n(to, elements, std::bit_cast<uint32_t>(to_float(type.scalar, in(v, 0)[begin])));
        } else if (inst.op == Opcode::coop_convert) {
            for (size_t i = 0; i < elements; ++i) to[i] = round(type.scalar, std::bit_cast<float>(in(v, 0)[s * elements + i]));
        } else if (inst.op == Opcode::coop_map) {
            if (!is_uniform(in(v, 1), begin, end)) return fail(v, begin, "the scalar of coop_map differs within the subgroup");
            float scalar = to_float(type.scalar, in(v, 1)[begin]);
            with_float_function(static_cast<Opcode>(inst.aux), [&](auto f) {
                for (size_t i = 0; i < elements; ++i)
                    to[i] = round(type.scalar, f(std::bit_cast<float>(in(v, 0)[s * elements + i]), scalar, 0));
            });
        } else {
            const Type& left = kernel_.at(kernel_.operand(v, 0)).type;
            const uint32_t *a = in(v, 0) + size_t{left.rows} * left.cols * s, *b = in(v, 1) + size_t{left.cols} * type.cols * s;
            const uint32_t* c = in(v, 2) + s * elements;
            for (uint32_t row = 0; row < type.rows; ++row) {
                for (uint32_t column = 0; column < type.cols; ++column) {
                    float sum = std::bit_cast<float>(c[row * type.cols + column]);
                    for (uint32_t k = 0; k < left.cols; ++k)
                        sum += std::bit_cast<float>(a[row * left.cols + k]) * std::bit_cast<float>(b[k * type.cols + column]);
                    to[row * type.cols + column] = round(type.scalar, sum);
                }
            }
        }
        return true;
    });
}

}  // namespace darner::kir
