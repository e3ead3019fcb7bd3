// SPDX-License-Identifier: MIT
#include "darner/emit/wgsl_function.h"

#include "darner/base/check.h"
#include "darner/base/fault.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::wgsl {

using kir::Opcode;
using kir::ValueId;

namespace {

constexpr size_t longest_inlined = 90;  // characters

}  // namespace

void ModuleWriter::line(const std::string& text) {
    body_.append(size_t(depth_) * 2, ' ');
    body_ += text;
    body_ += '\n';
}

const Text& ModuleWriter::text_of(ValueId v) const {
    CHECK(!texts_[v.value].text.empty(), "a kernel uses a value before it is made");
    return texts_[v.value];
}

// How often a value is used, and whether only from the block that makes it: what is used once, there, may be inlined.
void ModuleWriter::count_uses() {
    std::vector<uint32_t> home(kernel_.instructions.size(), UINT32_MAX);
    for (uint32_t b = 0; b < kernel_.blocks.size(); ++b)
        for (ValueId v : kernel_.blocks[b].instructions) home[v.value] = b;
    uses_.assign(kernel_.instructions.size(), 0);
    local_.assign(kernel_.instructions.size(), true);
    repeated_.assign(kernel_.instructions.size(), false);
    for (uint32_t b = 0; b < kernel_.blocks.size(); ++b) {
        auto use = [&](ValueId v) {
            ++uses_[v.value];
            if (home[v.value] != b) local_[v.value] = false;
        };
        for (ValueId v : kernel_.blocks[b].instructions) {
            const std::span<const ValueId> operands = kernel_.operands_of(v);
            std::for_each(operands.begin(), operands.end(), use);
            if (kernel_.at(v).op == Opcode::loop) repeated_[operands[1].value] = repeated_[operands[2].value] = true;
        }
        std::for_each(kernel_.blocks[b].yields.begin(), kernel_.blocks[b].yields.end(), use);
    }
}

// No side effect, and the same wherever in its block it is evaluated.
bool ModuleWriter::pure(ValueId v) const {
    const kir::Instruction& inst = kernel_.at(v);
    switch (inst.op) {
        case Opcode::load: return kernel_.bindings[inst.aux].access == kir::Access::read;
        case Opcode::array_load:
        case Opcode::atomic:
        case Opcode::subgroup_reduce:
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: return false;
        default: return true;
    }
}

void ModuleWriter::bind_let(ValueId v, const std::string& expression) {
    const std::string name = names_.unique(fmt::format("v{}", next_value_++));
    line(fmt::format("let {} = {};", name, expression));
    texts_[v.value] = {name};
}

void ModuleWriter::bind(ValueId v, const Text& e) {
    const bool inlined =
        uses_[v.value] == 1 && local_[v.value] && !repeated_[v.value] && pure(v) && e.text.size() <= longest_inlined;
    if (e.fixed || inlined)
        texts_[v.value] = e;
    else
        bind_let(v, e.text);
}

void ModuleWriter::write_block(const kir::Block& block) {
    for (ValueId v : block.instructions) write_instruction(v);
}

void ModuleWriter::write_instruction(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    switch (inst.op) {
        case Opcode::argument: return;  // set by the loop that owns it
        case Opcode::result: texts_[v.value] = results_.at(kernel_.operand(v, 0))[inst.aux]; return;
        case Opcode::loop: return write_loop(v);
        case Opcode::branch: return write_branch(v);
        case Opcode::barrier: return write_barrier();
        case Opcode::store:
        case Opcode::array_store: return write_store(v);
        case Opcode::atomic:
            if (uses_[v.value] == 0) return line(atomic(v).text + ";");
            return bind_let(v, atomic(v).text);
        default: return bind(v, expression(v));
    }
}

void ModuleWriter::write_store(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const std::string index = operand(v, 0), stored = operand(v, 1);
    if (inst.op == Opcode::array_store)
        line(fmt::format("{}[{}] = {};", array_names_[inst.aux], index, stored));
    else if (atomic_bindings_.count(inst.aux))
        line(fmt::format("atomicStore(&{}, {});", element(inst.aux, index), stored));
    else
        line(fmt::format("{} = {};", element(inst.aux, index), stored));
}

void ModuleWriter::write_barrier() {
    if (!fault(28)) line("workgroupBarrier();");
    const bool exchanged = std::any_of(kernel_.bindings.begin(), kernel_.bindings.end(),
                                       [](const kir::Binding& b) { return b.access == kir::Access::inout; });
    if (exchanged) line("storageBarrier();");
}

void ModuleWriter::write_loop(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const kir::Block& body = kernel_.block(inst.first_block);
    std::vector<std::string> carried;
    for (size_t i = 0; i + 1 < body.arguments.size(); ++i) {
        const ValueId argument = body.arguments[i + 1];
        carried.push_back(names_.unique(fmt::format("c{}", next_value_++)));
        line(fmt::format("var {}: {} = {};", carried[i], type_name(type_of(argument)), operand(v, 3 + i)));
        texts_[argument.value] = {carried[i], true, false, false};
    }
    const std::string index = names_.unique(fmt::format("i{}", next_value_++));
    texts_[body.arguments[0].value] = {index};
    line(fmt::format("for (var {0}: u32 = {1}; {0} {4} {2}; {0} += {3}) {{", index, operand(v, 0), atom(v, 1), atom(v, 2),
                     fault(29) ? "<=" : "<"));
    ++depth_;
    write_block(body);
    // The updates are simultaneous: what the first of them would change for the others is read before.
    std::vector<std::string> next;
    for (ValueId yield : body.yields) {
        const Text& text = text_of(yield);
        if (text.fixed || body.yields.size() == 1) {
            next.push_back(text.text);
            continue;
        }
        next.push_back(names_.unique(fmt::format("v{}", next_value_++)));
        line(fmt::format("let {} = {};", next.back(), text.text));
    }
    for (size_t i = 0; i < next.size(); ++i)
        if (next[i] != carried[i]) line(fmt::format("{} = {};", carried[i], next[i]));
    --depth_;
    line("}");
    std::vector<Text>& results = results_[v];
    for (const std::string& name : carried) results.push_back({name});
}

void ModuleWriter::write_branch(ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const kir::Block& then_block = kernel_.block(inst.first_block);
    const kir::Block& else_block = kernel_.blocks[inst.first_block.value + 1];
    std::vector<Text>& results = results_[v];
    for (ValueId yield : then_block.yields) {
        results.push_back({names_.unique(fmt::format("r{}", next_value_++))});
        line(fmt::format("var {}: {};", results.back().text, type_name(type_of(yield))));
    }
    auto side = [&](const kir::Block& block) {
        ++depth_;
        write_block(block);
        for (size_t i = 0; i < block.yields.size(); ++i)
            line(fmt::format("{} = {};", results[i].text, text_of(block.yields[i]).text));
        --depth_;
    };
    line(fmt::format("if ({}) {{", operand(v, 0)));
    side(then_block);
    if (!else_block.instructions.empty() || !else_block.yields.empty()) {
        line("} else {");
        side(else_block);
    }
    line("}");
}

}  // namespace darner::wgsl
