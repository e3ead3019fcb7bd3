// SPDX-License-Identifier: MIT
#include "darner/kir/features.h"

namespace darner::kir {
namespace {

// 16-bit storage alone lets a kernel load f16 values, convert them to and from f32, and store them.
bool moves_f16_only(Opcode op) { return op == Opcode::load || op == Opcode::store || op == Opcode::convert; }

bool has_result(Opcode op) {
    return op != Opcode::store && op != Opcode::array_store && op != Opcode::coop_store && op != Opcode::barrier &&
           op != Opcode::loop && op != Opcode::branch;
}

}  // namespace

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
