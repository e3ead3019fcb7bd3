// SPDX-License-Identifier: MIT
// The uniformity analysis and the checks that rest on it. Values start as uniform and are lowered until nothing changes, which
// settles the carried values of loops.
#include "darner/kir/text.h"
#include "darner/kir/verify.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::kir {

namespace {

Uniformity join(Uniformity a, Uniformity b) { return std::max(a, b); }

bool is_subgroup_operation(Opcode op) {
    return op == Opcode::subgroup_reduce || op == Opcode::subgroup_broadcast || op == Opcode::subgroup_shuffle_xor ||
           (op >= Opcode::coop_fill && op <= Opcode::coop_map);
}

// The operands of a cooperative operation that must be the same over the subgroup.
size_t uniform_operands_end(Opcode op) {
    return op == Opcode::coop_load || op == Opcode::coop_store ? 2 : op == Opcode::coop_fill ? 1 : 0;
}

class Analysis {
public:
    explicit Analysis(const Kernel& kernel) : kernel_(kernel), values_(kernel.instructions.size(), Uniformity::workgroup) {
        do {
            changed_ = false;
            block(BlockId(0u), Uniformity::workgroup);
        } while (changed_);
    }
    const std::vector<Uniformity>& values() const { return values_; }

    std::string problems() {
        checking_ = true;
        block(BlockId(0u), Uniformity::workgroup);
        return std::move(problems_);
    }

private:
    Uniformity of(ValueId v) const { return values_[v.value]; }
    Uniformity operand(ValueId v, size_t i) const { return of(kernel_.operand(v, i)); }
    void lower(ValueId v, Uniformity to) {
        if (to <= of(v)) return;
        values_[v.value] = to;
        changed_ = true;
    }
    void report(ValueId v, const std::string& what) {
        problems_ += fmt::format("{}`{}`: {}", problems_.empty() ? "" : "\n  ", instruction_text(kernel_, v), what);
    }

    void block(BlockId id, Uniformity flow) {
        for (ValueId v : kernel_.block(id).instructions) {
            const Instruction& inst = kernel_.at(v);
            if (inst.op == Opcode::loop)
                loop(v, inst, flow);
            else if (inst.op == Opcode::branch)
                branch(v, inst, flow);
            else if (inst.op == Opcode::result)
                lower(v, slot(kernel_.operand(v, 0), inst.aux));
            else
                lower(v, value(v, inst));
            if (checking_) check(v, inst, flow);
        }
    }

    void loop(ValueId v, const Instruction& inst, Uniformity flow) {
        const Block& body = kernel_.block(inst.first_block);
        lower(body.arguments[0], join(operand(v, 0), operand(v, 2)));
        for (size_t i = 0; i < body.yields.size(); ++i) lower(body.arguments[i + 1], join(operand(v, 3 + i), of(body.yields[i])));
        block(inst.first_block, join(flow, bounds(v)));
    }
    Uniformity bounds(ValueId v) const { return join(operand(v, 0), join(operand(v, 1), operand(v, 2))); }

    void branch(ValueId v, const Instruction& inst, Uniformity flow) {
        for (uint32_t n = 0; n < 2; ++n) block(BlockId(inst.first_block.value + n), join(flow, operand(v, 0)));
    }

    // A result differs where its parts do or where invocations left by different ways.
    Uniformity slot(ValueId control, uint32_t index) const {
        const Instruction& inst = kernel_.at(control);
        const Block& first = kernel_.block(inst.first_block);
        if (inst.op == Opcode::loop) return join(bounds(control), of(first.arguments[index + 1]));
        const Block& second = kernel_.block(BlockId(inst.first_block.value + 1));
        return join(operand(control, 0), join(of(first.yields[index]), of(second.yields[index])));
    }

    Uniformity value(ValueId v, const Instruction& inst) const {
        if (inst.type.is_coop()) return Uniformity::subgroup;
        switch (inst.op) {
            case Opcode::local_id:
            case Opcode::local_index:
            case Opcode::lane_id:
            case Opcode::load:
            case Opcode::array_load:
            case Opcode::atomic: return Uniformity::none;
            case Opcode::subgroup_id: return Uniformity::subgroup;
            case Opcode::subgroup_broadcast: return std::min(operand(v, 0), Uniformity::subgroup);
            // The last subgroup may have fewer lanes, so a sum of equal values need not be equal.
            case Opcode::subgroup_reduce: return Uniformity::subgroup;
            default: break;
        }
        Uniformity all = Uniformity::workgroup;
        for (size_t i = 0; i < inst.operand_count; ++i) all = join(all, operand(v, i));
        return all;
    }

    void check(ValueId v, const Instruction& inst, Uniformity flow) {
        if (inst.op == Opcode::barrier && flow != Uniformity::workgroup)
            report(v, "stands below a branch or loop that is not uniform over the workgroup");
        if (!is_subgroup_operation(inst.op)) return;
        if (flow == Uniformity::none) report(v, "stands below a branch or loop that is not uniform over the subgroup");
        for (size_t i = 0; i < uniform_operands_end(inst.op); ++i)
            if (operand(v, i) == Uniformity::none) report(v, fmt::format("operand {} is not uniform over the subgroup", i));
        if (inst.op == Opcode::coop_map && operand(v, 1) == Uniformity::none)
            report(v, "operand 1 is not uniform over the subgroup");
    }

    const Kernel& kernel_;
    std::vector<Uniformity> values_;
    std::string problems_;
    bool changed_ = false, checking_ = false;
};

}  // namespace

std::vector<Uniformity> uniformity(const Kernel& kernel) { return Analysis(kernel).values(); }

Result<void> verify(const Kernel& kernel) {
    TRY(verify_structure(kernel));
    std::string problems = Analysis(kernel).problems();
    if (!problems.empty()) return invalid(fmt::format("[kernel {}] {}", kernel.name, problems));
    return {};
}

}  // namespace darner::kir
