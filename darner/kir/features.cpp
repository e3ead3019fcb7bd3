// SPDX-License-Identifier: MIT
#include "darner/kir/features.h"

#include "darner/base/checked.h"

#include <algorithm>

namespace darner::kir {
namespace {

// 16-bit storage alone lets a kernel load f16 values, convert them to and from f32, and store them.
bool moves_f16_only(Opcode op) { return op == Opcode::load || op == Opcode::store || op == Opcode::convert; }

bool has_result(Opcode op) {
    return op != Opcode::store && op != Opcode::array_store && op != Opcode::coop_store && op != Opcode::barrier &&
           op != Opcode::loop && op != Opcode::branch;
}

std::optional<uint64_t> u32_constant(const Kernel& kernel, ValueId v) {
    if (kernel.at(v).op != Opcode::constant || kernel.at(v).type != u32_type) return std::nullopt;
    return kernel.at(v).aux;
}

std::optional<uint64_t> rounds_in(const Kernel& kernel, BlockId block) {
    uint64_t total = 0;
    for (const ValueId v : kernel.block(block).instructions) {
        const Instruction& inst = kernel.at(v);
        std::optional<uint64_t> rounds = 0;
        if (inst.op == Opcode::loop) {
            const std::optional<uint64_t> own = rounds_of(kernel, v), body = rounds_in(kernel, inst.first_block);
            const std::optional<uint64_t> nested = own && body ? checked_mul(*own, *body) : std::nullopt;
            rounds = nested ? checked_add(*nested, *own) : std::nullopt;
        } else if (inst.op == Opcode::branch) {
            const std::optional<uint64_t> then = rounds_in(kernel, inst.first_block),
                                          otherwise = rounds_in(kernel, BlockId(inst.first_block.value + 1));
            rounds = then && otherwise ? std::optional(std::max(*then, *otherwise)) : std::nullopt;
        }
        const std::optional<uint64_t> sum = rounds ? checked_add(total, *rounds) : std::nullopt;
        if (!sum) return std::nullopt;
        total = *sum;
    }
    return total;
}

}  // namespace

std::optional<uint64_t> rounds_of(const Kernel& kernel, ValueId loop) {
    const uint64_t low = u32_constant(kernel, kernel.operand(loop, 0)).value_or(0);
    const std::optional<uint64_t> high = u32_constant(kernel, kernel.operand(loop, 1)),
                                  step = u32_constant(kernel, kernel.operand(loop, 2));
    if (!high || !step || *step == 0) return std::nullopt;
    return *high > low ? (*high - low + *step - 1) / *step : 0;
}

std::optional<uint64_t> total_rounds(const Kernel& kernel) { return rounds_in(kernel, BlockId(0)); }

bool touches(const Kernel& kernel, const Instruction& inst, Scalar scalar) {
    if (has_result(inst.op) && inst.type.scalar == scalar) return true;
    for (uint32_t i = 0; i < inst.operand_count; ++i) {
        const Instruction& operand = kernel.at(kernel.operands[inst.first_operand + i]);
        if (has_result(operand.op) && operand.type.scalar == scalar) return true;
    }
    return false;
}

KernelFeatures features_of(const Kernel& kernel) {
    KernelFeatures f;
    auto storage = [&](Scalar scalar, bool binding) {
        if (scalar == Scalar::f16) (binding ? f.f16_storage : f.f16_arithmetic) = true;
        if (scalar == Scalar::bf16) f.bf16 = true;
    };
    for (const Binding& b : kernel.bindings) storage(b.scalar, true);
    for (const Array& a : kernel.arrays) storage(a.type.scalar, false);
    for (const Instruction& inst : kernel.instructions) {
        switch (inst.op) {
            case Opcode::subgroup_reduce: f.subgroup = f.subgroup_reduce = true; break;
            case Opcode::subgroup_broadcast: f.subgroup = f.subgroup_broadcast = true; break;
            case Opcode::subgroup_shuffle_xor: f.subgroup = f.subgroup_shuffle = true; break;
            case Opcode::subgroup_id:
            case Opcode::lane_id:
            case Opcode::subgroup_size: f.subgroup = true; break;
            default: break;
        }
        if (touches(kernel, inst, Scalar::f16) && !moves_f16_only(inst.op)) f.f16_arithmetic = true;
        if (touches(kernel, inst, Scalar::bf16)) f.bf16 = true;
        if (has_result(inst.op) && inst.type.is_coop()) {
            f.coop = true;
            f.coop_bf16 |= inst.type.scalar == Scalar::bf16;
        }
    }
    return f;
}

}  // namespace darner::kir
