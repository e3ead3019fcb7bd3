// SPDX-License-Identifier: MIT
// Emits the body of one kernel as the SPIR-V function of a Module. Split by concern: control flow and memory
// (spirv_function.cpp), arithmetic and conversions (spirv_arithmetic.cpp), subgroups and cooperative matrices (spirv_coop.cpp).
// The kernel is taken to be verified; what breaks its rules is our own mistake and CHECKed.
#pragma once

#include "darner/emit/limits.h"
#include "darner/emit/spirv.h"
#include "darner/emit/spirv_module.h"

#include <map>
#include <utility>

namespace darner::spirv {

class FunctionEmitter {
public:
    FunctionEmitter(const kir::Kernel& kernel, const Caps& caps, const SpirvOptions& options);
    std::vector<uint32_t> emit();

private:
    // One element of a private array whose elements are kept as values: array, index.
    using ElementKey = std::pair<uint32_t, uint32_t>;
    // The value of each element now. Ordered, so that phis come out in the same order every time.
    using Elements = std::map<ElementKey, SpirvId>;
    struct Memory {
        StorageClass storage;
        SpirvId variable;
    };

    // Declarations.
    void declare_capabilities();
    void declare_bindings();
    void declare_arrays();
    void declare_params();
    void load_builtins();
    void load_builtin(kir::Opcode id);

    // Words of the function.
    SpirvId emit(Op op, SpirvId type, std::initializer_list<Word> operands) {
        return emit(op, type, std::span<const Word>(operands.begin(), operands.size()));
    }
    SpirvId emit(Op op, SpirvId type, std::span<const Word> operands);
    SpirvId emit_glsl(Glsl instruction, SpirvId type, std::initializer_list<Word> operands);
    void emit_void(Op op, std::initializer_list<Word> operands) { append(body_, op, operands); }
    void begin_block(SpirvId label);
    void branch_to(SpirvId label) { emit_void(Op::Branch, {label}); }

    // Control flow.
    void emit_block(const kir::Block& block);
    void emit_instruction(kir::ValueId v);
    void emit_loop(kir::ValueId v);
    void emit_branch(kir::ValueId v);
    void emit_barrier();
    void emit_constant(kir::ValueId v);
    SpirvId emit_id(const kir::Instruction& inst);
    SpirvId emit_param(const kir::Instruction& inst);
    void collect_stores(const kir::Block& block, Elements& stored) const;

    // Memory.
    SpirvId access(const Memory& memory, SpirvId pointee, std::initializer_list<Word> indices);
    SpirvId binding_element(uint32_t binding, SpirvId index);
    SpirvId array_element(uint32_t array, SpirvId index);
    bool shared_binding(uint32_t binding) const { return kernel_.bindings[binding].access != kir::Access::read; }
    bool shared_array(uint32_t array) const { return kernel_.arrays[array].space == kir::ArraySpace::workgroup; }
    SpirvId emit_load(SpirvId type, SpirvId pointer, bool shared);
    void emit_store(SpirvId pointer, SpirvId value, bool shared);
    void emit_binding_load(kir::ValueId v);
    void emit_array_load(kir::ValueId v);
    void emit_array_store(kir::ValueId v);
    void emit_atomic(kir::ValueId v);
    bool kept_as_values(uint32_t array) const;
    ElementKey element_key(kir::ValueId v) const;

    // Arithmetic.
    SpirvId emit_arithmetic(kir::ValueId v);
    SpirvId emit_binary(const kir::Instruction& inst, SpirvId a, SpirvId b);
    SpirvId emit_unary(const kir::Instruction& inst, SpirvId a);
    SpirvId emit_comparison(kir::Opcode op, const kir::Type& operand, SpirvId a, SpirvId b);
    SpirvId emit_signed_division(const kir::Type& type, SpirvId a, SpirvId b, kir::ValueId divisor);
    SpirvId emit_division(kir::ValueId v);
    SpirvId emit_convert(const kir::Type& from, const kir::Type& to, SpirvId a);
    SpirvId emit_float_to_int(const kir::Type& from, const kir::Type& to, SpirvId a);
    SpirvId emit_bitcast(const kir::Type& from, const kir::Type& to, SpirvId a);
    SpirvId emit_pack_half2(SpirvId low, SpirvId high);
    SpirvId emit_half_bits(SpirvId pair);
    SpirvId emit_select(kir::ValueId v);

    // Subgroups and cooperative matrices.
    SpirvId emit_subgroup(kir::ValueId v);
    SpirvId emit_subgroup_reduce(const kir::Instruction& inst, SpirvId a);
    SpirvId emit_coop(kir::ValueId v);
    SpirvId emit_coop_load(kir::ValueId v);
    void emit_coop_store(kir::ValueId v);
    SpirvId emit_coop_map(kir::ValueId v);
    SpirvId emit_coop_per_element(kir::Opcode op, const kir::Type& type, SpirvId matrix, SpirvId scalar);
    SpirvId coop_pointer(const kir::Instruction& inst, SpirvId index);
    bool coop_shared(const kir::Instruction& inst) const;

    const kir::Type& type_of(kir::ValueId v) const { return kernel_.at(v).type; }
    SpirvId type(const kir::Type& t) { return module_.type(t); }
    SpirvId value(kir::ValueId v) const;
    SpirvId operand(kir::ValueId v, size_t i) const { return value(kernel_.operand(v, i)); }

    const kir::Kernel& kernel_;
    const Caps& caps_;
    const SpirvOptions& options_;
    const KernelFeatures features_;
    Module module_;
    Section variables_;                                     // Function-storage variables, which open the first block
    Section body_;                                          // everything behind them
    SpirvId block_;                                         // label of the current block
    std::vector<SpirvId> values_;                           // per kir value
    std::map<kir::ValueId, std::vector<SpirvId>> results_;  // of loops and branches
    std::vector<Memory> bindings_, arrays_;
    SpirvId params_;
    std::map<kir::Opcode, SpirvId> builtins_;  // loaded once, at the top
    Elements elements_;
};

}  // namespace darner::spirv
