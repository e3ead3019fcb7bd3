// SPDX-License-Identifier: MIT
// Liveness by a worklist, then a rebuild in text order. A carried value of a loop lives when its result or its argument
// is used; a control instruction lives when a result is used or something in its blocks has an effect.
#include "darner/kir/cleanup.h"

#include <algorithm>

namespace darner::kir {

namespace {

bool has_effect(Opcode op) {
    return op == Opcode::store || op == Opcode::array_store || op == Opcode::atomic || op == Opcode::barrier ||
           op == Opcode::coop_store;
}

class DeadCode {
public:
    explicit DeadCode(const Kernel& kernel)
        : kernel_(kernel),
          live_(kernel.instructions.size()),
          owner_(kernel.instructions.size()),
          block_owner_(kernel.blocks.size()),
          slots_(kernel.instructions.size()),
          renamed_(kernel.instructions.size()) {
        for (size_t b = 0; b < kernel.blocks.size(); ++b) {
            const Block& block = kernel.blocks[b];
            for (ValueId v : block.arguments) owner_[v.value] = BlockId(b);
            for (ValueId v : block.instructions) {
                owner_[v.value] = BlockId(b);
                const Instruction& inst = kernel.at(v);
                for (uint32_t n = 0; n < inst.block_count; ++n) block_owner_[inst.first_block.value + n] = v;
                if (inst.block_count) slots_[v.value].resize(kernel.block(inst.first_block).yields.size());
            }
        }
    }

    Kernel run() {
        for (const Block& block : kernel_.blocks)
            for (ValueId v : block.instructions)
                if (has_effect(kernel_.at(v).op)) mark(v);
        while (!work_.empty()) {
            ValueId v = work_.back();
            work_.pop_back();
            visit(v);
        }
        out_.name = kernel_.name;
        out_.workgroup_size = kernel_.workgroup_size;
        out_.required_subgroup_size = kernel_.required_subgroup_size;
        out_.bindings = kernel_.bindings;
        out_.arrays = kernel_.arrays;
        out_.params = kernel_.params;
        out_.blocks.emplace_back();
        copy_block(BlockId(0u), BlockId(0u));
        return std::move(out_);
    }

private:
    void mark(ValueId v) {
        if (live_[v.value]) return;
        live_[v.value] = true;
        work_.push_back(v);
    }

    // Value `slot` of a loop or branch is needed.
    void mark_slot(ValueId control, uint32_t slot) {
        if (slots_[control.value][slot]) return;
        slots_[control.value][slot] = true;
        const Instruction& inst = kernel_.at(control);
        for (uint32_t n = 0; n < inst.block_count; ++n) mark(kernel_.blocks[inst.first_block.value + n].yields[slot]);
        if (inst.op == Opcode::loop) mark(kernel_.operand(control, 3 + slot));
    }

    void visit(ValueId v) {
        const Instruction& inst = kernel_.at(v);
        ValueId around = block_owner_[owner_[v.value].value];
        if (around.valid()) mark(around);
        if (inst.op == Opcode::result) {
            mark(kernel_.operand(v, 0));
            mark_slot(kernel_.operand(v, 0), inst.aux);
        } else if (inst.op == Opcode::argument) {
            if (inst.aux > 0) mark_slot(around, inst.aux - 1);
        } else {
            // Initial values of a loop are marked slot by slot.
            size_t count = inst.op == Opcode::loop ? 3 : inst.operand_count;
            for (size_t i = 0; i < count; ++i) mark(kernel_.operand(v, i));
        }
    }

    ValueId rename(ValueId v) const { return renamed_[v.value]; }

    ValueId copy_instruction(ValueId v) {
        ValueId id(out_.instructions.size());
        renamed_[v.value] = id;
        Instruction inst = kernel_.at(v);
        bool is_loop = inst.op == Opcode::loop;
        inst.first_operand = static_cast<uint32_t>(out_.operands.size());
        for (size_t i = 0; i < kernel_.at(v).operand_count; ++i)
            if (!is_loop || i < 3 || slots_[v.value][i - 3]) out_.operands.push_back(rename(kernel_.operand(v, i)));
        inst.operand_count = static_cast<uint16_t>(out_.operands.size() - inst.first_operand);
        if (inst.op == Opcode::result) inst.aux = slot_index(kernel_.operand(v, 0), inst.aux);
        if (inst.block_count) {
            inst.first_block = BlockId(out_.blocks.size());
            out_.blocks.resize(out_.blocks.size() + inst.block_count);
        }
        out_.instructions.push_back(inst);
        return id;
    }

    uint32_t slot_index(ValueId control, uint32_t slot) const {
        const auto& slots = slots_[control.value];
        return static_cast<uint32_t>(std::count(slots.begin(), slots.begin() + slot, true));
    }

    void copy_block(BlockId from, BlockId to) {
        const Block& block = kernel_.block(from);
        ValueId control = block_owner_[from.value];
        auto needed = [&](size_t slot) { return slots_[control.value][slot]; };
        for (size_t i = 0; i < block.arguments.size(); ++i) {
            if (i > 0 && !needed(i - 1)) continue;
            ValueId id = copy_instruction(block.arguments[i]);
            out_.instructions[id.value].aux = static_cast<uint32_t>(out_.blocks[to.value].arguments.size());
            out_.blocks[to.value].arguments.push_back(id);
        }
        for (ValueId v : block.instructions) {
            if (!live_[v.value]) continue;
            ValueId id = copy_instruction(v);
            out_.blocks[to.value].instructions.push_back(id);
            Instruction inst = kernel_.at(v);
            BlockId first = out_.instructions[id.value].first_block;
            for (uint32_t n = 0; n < inst.block_count; ++n)
                copy_block(BlockId(inst.first_block.value + n), BlockId(first.value + n));
        }
        for (size_t i = 0; i < block.yields.size(); ++i)
            if (needed(i)) out_.blocks[to.value].yields.push_back(rename(block.yields[i]));
    }

    const Kernel& kernel_;
    Kernel out_;
    std::vector<bool> live_;
    std::vector<BlockId> owner_;            // per value: its block
    std::vector<ValueId> block_owner_;      // per block: its control instruction, none for the body
    std::vector<std::vector<bool>> slots_;  // per control instruction: which carried values or results are needed
    std::vector<ValueId> renamed_, work_;
};

}  // namespace

Kernel remove_dead_code(const Kernel& kernel) { return DeadCode(kernel).run(); }

}  // namespace darner::kir
