// SPDX-License-Identifier: MIT
// Subgroup operations and cooperative matrices (SPV_KHR_cooperative_matrix, scope subgroup).
#include "darner/base/check.h"
#include "darner/emit/spirv_function.h"

namespace darner::spirv {

using kir::Opcode;
using kir::Scalar;
using kir::Type;

SpirvId FunctionEmitter::emit_subgroup(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId a = operand(v, 0), scope = module_.u32(uint32_t(Scope::Subgroup)), result = type(inst.type);
    switch (inst.op) {
        case Opcode::subgroup_reduce: return emit_subgroup_reduce(inst, a);
        case Opcode::subgroup_broadcast: return emit(Op::GroupNonUniformBroadcast, result, {scope, a, module_.u32(inst.aux)});
        case Opcode::subgroup_shuffle_xor: return emit(Op::GroupNonUniformShuffleXor, result, {scope, a, module_.u32(inst.aux)});
        default: bug(__FILE__, __LINE__, "not a subgroup operation");
    }
}

SpirvId FunctionEmitter::emit_subgroup_reduce(const kir::Instruction& inst, SpirvId a) {
    const Scalar s = inst.type.scalar;
    const bool boolean = s == Scalar::boolean;
    auto pick = [&](Op for_float, Op for_signed, Op for_unsigned) {
        return kir::is_float(s) ? for_float : s == Scalar::i32 ? for_signed : for_unsigned;
    };
    Op op = Op::GroupNonUniformFAdd;
    switch (kir::ReduceKind(inst.aux)) {
        case kir::ReduceKind::add: op = pick(Op::GroupNonUniformFAdd, Op::GroupNonUniformIAdd, Op::GroupNonUniformIAdd); break;
        case kir::ReduceKind::mul: op = pick(Op::GroupNonUniformFMul, Op::GroupNonUniformIMul, Op::GroupNonUniformIMul); break;
        case kir::ReduceKind::min: op = pick(Op::GroupNonUniformFMin, Op::GroupNonUniformSMin, Op::GroupNonUniformUMin); break;
        case kir::ReduceKind::max: op = pick(Op::GroupNonUniformFMax, Op::GroupNonUniformSMax, Op::GroupNonUniformUMax); break;
        case kir::ReduceKind::bit_and: op = boolean ? Op::GroupNonUniformLogicalAnd : Op::GroupNonUniformBitwiseAnd; break;
        case kir::ReduceKind::bit_or: op = boolean ? Op::GroupNonUniformLogicalOr : Op::GroupNonUniformBitwiseOr; break;
    }
    const SpirvId scope = module_.u32(uint32_t(Scope::Subgroup)), result = type(inst.type);
    return emit(op, result, {scope, group_operation_reduce, a});
}

SpirvId FunctionEmitter::emit_coop(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId result = type(inst.type);
    switch (inst.op) {
        case Opcode::coop_load: return emit_coop_load(v);
        case Opcode::coop_map: return emit_coop_map(v);
        case Opcode::coop_mul_add:
            return emit(Op::CooperativeMatrixMulAddKHR, result, {operand(v, 0), operand(v, 1), operand(v, 2)});
        case Opcode::coop_convert:
            return type_of(kernel_.operand(v, 0)).scalar == inst.type.scalar ? operand(v, 0)
                                                                             : emit(Op::FConvert, result, {operand(v, 0)});
        case Opcode::coop_fill: {
            const SpirvId element = emit_convert(type_of(kernel_.operand(v, 0)), inst.type.element(), operand(v, 0));
            return emit(Op::CompositeConstruct, result, {element});
        }
        default: bug(__FILE__, __LINE__, "not a cooperative operation");
    }
}

SpirvId FunctionEmitter::coop_pointer(const kir::Instruction& inst, SpirvId index) {
    return inst.aux2 & kir::coop_from_array ? array_element(inst.aux, index) : binding_element(inst.aux, index);
}

bool FunctionEmitter::coop_shared(const kir::Instruction& inst) const {
    const bool shared = inst.aux2 & kir::coop_from_array ? shared_array(inst.aux) : shared_binding(inst.aux);
    return shared && options_.non_private_pointer;
}

SpirvId FunctionEmitter::emit_coop_load(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId layout = module_.u32(inst.aux2 & kir::coop_column_major ? matrix_column_major : matrix_row_major);
    std::vector<Word> words{coop_pointer(inst, operand(v, 0)), layout, operand(v, 1)};
    if (coop_shared(inst)) words.push_back(non_private_pointer);
    return emit(Op::CooperativeMatrixLoadKHR, type(inst.type), words);
}

void FunctionEmitter::emit_coop_store(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const SpirvId layout = module_.u32(inst.aux2 & kir::coop_column_major ? matrix_column_major : matrix_row_major);
    std::vector<Word> words{coop_pointer(inst, operand(v, 0)), operand(v, 2), layout, operand(v, 1)};
    if (coop_shared(inst)) words.push_back(non_private_pointer);
    append(body_, Op::CooperativeMatrixStoreKHR, words);
}

SpirvId FunctionEmitter::emit_coop_map(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const Opcode op = Opcode(inst.aux);
    const SpirvId result = type(inst.type), matrix = operand(v, 0);
    const SpirvId scalar = emit_convert(type_of(kernel_.operand(v, 1)), inst.type.element(), operand(v, 1));
    if (op == Opcode::mul) return emit(Op::MatrixTimesScalar, result, {matrix, scalar});
    if (op == Opcode::add || op == Opcode::sub || op == Opcode::div) {
        const SpirvId splat = emit(Op::CompositeConstruct, result, {scalar});
        return emit(op == Opcode::add ? Op::FAdd : op == Opcode::sub ? Op::FSub : Op::FDiv, result, {matrix, splat});
    }
    return emit_coop_per_element(op, inst.type, matrix, scalar);
}

// What has no matrix form (min, max, pow) visits the elements that this invocation holds; their number is known to the driver
// only.
SpirvId FunctionEmitter::emit_coop_per_element(Opcode op, const Type& t, SpirvId matrix, SpirvId scalar) {
    const SpirvId u32 = type(kir::u32_type), matrix_type = type(t), element_type = type(t.element()), variable = module_.fresh();
    append(variables_, Op::Variable,
           {module_.pointer_type(StorageClass::Function, matrix_type), variable, StorageClass::Function});
    emit_void(Op::Store, {variable, matrix});
    const SpirvId length = emit(Op::CooperativeMatrixLengthKHR, u32, {matrix_type});

    const SpirvId before = block_, header = module_.fresh(), body = module_.fresh(), next = module_.fresh(),
                  merge = module_.fresh();
    branch_to(header);
    begin_block(header);
    const SpirvId index = emit(Op::Phi, u32, {module_.u32(0), before, 0u, next});
    const size_t patch = body_.size() - 2;
    const SpirvId inside = emit(Op::ULessThan, type(kir::boolean_type), {index, length});
    emit_void(Op::LoopMerge, {merge, next, 0u});
    emit_void(Op::BranchConditional, {inside, body, merge});
    begin_block(body);
    const SpirvId pointer = access({StorageClass::Function, variable}, element_type, {index});
    kir::Instruction scalar_op;
    scalar_op.op = op;
    scalar_op.type = t.element();
    const SpirvId element = emit_binary(scalar_op, emit(Op::Load, element_type, {pointer}), scalar);
    emit_void(Op::Store, {pointer, element});
    branch_to(next);
    begin_block(next);
    body_[patch] = emit(Op::IAdd, u32, {index, module_.u32(1)}).value;
    branch_to(header);
    begin_block(merge);
    return emit(Op::Load, matrix_type, {variable});
}

}  // namespace darner::spirv
