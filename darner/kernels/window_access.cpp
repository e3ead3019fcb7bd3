// SPDX-License-Identifier: MIT
// Instructions keep their ids: what replaces one takes its place as the last of the new ones. Cleaning up renumbers in the end.
#include "darner/kernels/window_access.h"

#include "darner/base/check.h"
#include "darner/kir/cleanup.h"

namespace darner::kernels {

namespace {

using kir::BlockId;
using kir::Instruction;
using kir::Opcode;
using kir::ValueId;

class Rewriter {
public:
    Rewriter(const kir::Kernel& kernel, const WindowAccess& access) : k_(kernel), access_(access) {
        CHECK(kernel.params.empty(), "a kernel is cut once, before it has params");
        uint32_t next = 0;
        for (size_t b = 0; b < kernel.bindings.size(); ++b) {
            first_.push_back(next);
            next += access.windows[b];
        }
    }

    kir::Kernel run() {
        for (size_t i = 0; i < access_.origins.size(); ++i) origins_.push_back(origin(i));
        const size_t blocks = k_.blocks.size();
        for (size_t b = 0; b < blocks; ++b) {
            std::vector<ValueId> before;
            std::swap(before, k_.blocks[b].instructions);
            list_.clear();
            for (ValueId v : before) rewrite(v);
            k_.blocks[b].instructions = std::move(list_);
        }
        auto& body = k_.blocks[0].instructions;
        body.insert(body.begin(), leaves_.begin(), leaves_.end());
        bind_windows();
        return kir::remove_dead_code(k_);
    }

private:
    ValueId origin(size_t i) {
        const auto& [is_param, value] = access_.origins[i];
        if (!is_param) return constant(value);
        const auto index = static_cast<uint32_t>(k_.params.size());
        k_.params.push_back(i < 3 ? std::string("first_") + "xyz"[i] : "origin_" + std::to_string(i - 3));
        return leaf({.op = Opcode::param, .type = kir::u32_type, .aux = index});
    }

    bool is_zero(ValueId v) const { return k_.at(v).op == Opcode::constant && k_.at(v).aux == 0; }
    ValueId constant(uint32_t value) { return leaf({.op = Opcode::constant, .type = kir::u32_type, .aux = value}); }
    ValueId leaf(Instruction inst) {
        k_.instructions.push_back(inst);
        leaves_.push_back(ValueId(k_.instructions.size() - 1));
        return leaves_.back();
    }

    void set_operands(Instruction& inst, const std::vector<ValueId>& operands) {
        inst.first_operand = static_cast<uint32_t>(k_.operands.size());
        inst.operand_count = static_cast<uint16_t>(operands.size());
        k_.operands.insert(k_.operands.end(), operands.begin(), operands.end());
    }
    ValueId append(Instruction inst, const std::vector<ValueId>& operands) {
        set_operands(inst, operands);
        k_.instructions.push_back(inst);
        list_.push_back(ValueId(k_.instructions.size() - 1));
        return list_.back();
    }
    ValueId u32(Opcode op, ValueId a, ValueId b) { return append({.op = op, .type = kir::u32_type}, {a, b}); }
    // The instruction of id v becomes this one and stands here.
    void become(ValueId v, Instruction inst, const std::vector<ValueId>& operands) {
        set_operands(inst, operands);
        k_.instructions[v.value] = inst;
        list_.push_back(v);
    }

    void rewrite(ValueId v) {
        const Instruction inst = k_.at(v);
        switch (inst.op) {
            case Opcode::workgroup_id:
                if (is_zero(origins_[inst.aux])) break;
                return become(v, {.op = Opcode::add, .type = kir::u32_type}, {append(inst, {}), origins_[inst.aux]});
            case Opcode::num_workgroups:
                return become(v, {.op = Opcode::constant, .type = kir::u32_type, .aux = access_.groups[inst.aux]}, {});
            case Opcode::coop_load:
            case Opcode::coop_store:
                if ((inst.aux2 & kir::coop_from_array) != 0) break;
                [[fallthrough]];
            case Opcode::load:
            case Opcode::store:
            case Opcode::atomic: return rewrite_access(v);
            default: break;
        }
        list_.push_back(v);
    }

    struct Access {
        Instruction inst;
        std::vector<ValueId> operands;  // the index first
        bool component;                 // of a vector binding: the index counts scalars
        uint32_t binding;
    };

    ValueId window_origin(const Access& access, uint32_t window) {
        const ValueId first = origins_[3 + first_[access.binding] + window];
        if (!access.component || is_zero(first)) return first;
        return u32(Opcode::mul, first, constant(k_.bindings[access.binding].lanes));
    }

    void rewrite_access(ValueId v) {
        Access access{k_.at(v), {}, false, k_.at(v).aux};
        for (ValueId operand : k_.operands_of(v)) access.operands.push_back(operand);
        access.component = access.inst.op == Opcode::load && access.inst.type.lanes < k_.bindings[access.binding].lanes;
        const uint32_t windows = access_.windows[access.binding];
        if (windows > 1) return pick_window(v, access, 0, windows);
        become_access(v, access, 0);
    }

    // The access in one window: v itself, or a new instruction.
    void become_access(ValueId v, Access access, uint32_t window) {
        const ValueId first = access_.whole[access.binding] ? ValueId{} : window_origin(access, window);
        if (first.valid() && !is_zero(first)) access.operands[0] = u32(Opcode::sub, access.operands[0], first);
        access.inst.aux = first_[access.binding] + window;
        if (v.valid())
            become(v, access.inst, access.operands);
        else
            append(access.inst, access.operands);
    }

    // index < the next window's origin ? this window : the windows behind it. Only the window that has the element is accessed.
    void pick_window(ValueId v, const Access& access, uint32_t window, uint32_t end) {
        const bool gives = access.inst.op != Opcode::store;
        const ValueId before =
            append({.op = Opcode::lt, .type = kir::boolean_type}, {access.operands[0], window_origin(access, window + 1)});
        const BlockId first(k_.blocks.size());
        k_.blocks.resize(k_.blocks.size() + 2);
        for (uint32_t side = 0; side < 2; ++side) {
            std::vector<ValueId> outside;
            std::swap(outside, list_);
            const uint32_t next = window + side;
            if (side == 0 || next + 1 == end)
                become_access({}, access, next);
            else
                pick_window({}, access, next, end);
            kir::Block& block = k_.blocks[first.value + side];
            if (gives) block.yields = {list_.back()};
            block.instructions = std::move(list_);
            list_ = std::move(outside);
        }
        const ValueId control = append({.op = Opcode::branch, .type = {}, .block_count = 2, .first_block = first}, {before});
        if (!gives) return;
        const Instruction result{.op = Opcode::result, .type = access.inst.type};
        if (v.valid())
            become(v, result, {control});
        else
            append(result, {control});
    }

    void bind_windows() {
        std::vector<kir::Binding> bindings;
        for (size_t b = 0; b < k_.bindings.size(); ++b)
            for (uint32_t w = 0; w < access_.windows[b]; ++w) {
                bindings.push_back(k_.bindings[b]);
                if (w > 0) bindings.back().name += "_" + std::to_string(w);
                if (!access_.whole[b]) bindings.back().elements = 0;
            }
        k_.bindings = std::move(bindings);
    }

    kir::Kernel k_;
    const WindowAccess& access_;
    std::vector<uint32_t> first_;  // by binding: its first window
    std::vector<ValueId> origins_, leaves_, list_;
};

}  // namespace

kir::Kernel with_windows(const kir::Kernel& kernel, const WindowAccess& access) { return Rewriter(kernel, access).run(); }

}  // namespace darner::kernels
