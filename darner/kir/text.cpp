// SPDX-License-Identifier: MIT
// The printer of the kernel text. It also prints kernels that verify() refuses, so it takes no index on trust.
#include "darner/kir/text.h"

#include "darner/kir/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace darner::kir {

namespace {

constexpr int max_depth = 256;  // of blocks; a cycle in a broken kernel ends here

bool has_result(Opcode op) {
    return op != Opcode::store && op != Opcode::array_store && op != Opcode::barrier && op != Opcode::coop_store;
}

bool is_identifier(std::string_view name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
    return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

std::string quoted(std::string_view name) {
    if (is_identifier(name)) return std::string(name);
    std::string text = "\"";
    for (unsigned char c : name) {
        if (c == '"' || c == '\\')
            text += '\\', text += static_cast<char>(c);
        else if (c < 32 || c == 127)
            text += fmt::format("\\x{:02x}", c);
        else
            text += static_cast<char>(c);
    }
    return text + "\"";
}

std::string constant_text(Scalar scalar, uint32_t bits) {
    switch (scalar) {
        case Scalar::boolean: return bits == 0 ? "false" : bits == 1 ? "true" : fmt::format("bits {:#x}", bits);
        case Scalar::i32: return std::to_string(static_cast<int32_t>(bits));
        case Scalar::u32: return std::to_string(bits);
        default: break;
    }
    float value = to_float(scalar, bits);
    bool exact = std::isfinite(value) && from_float(scalar, value) == bits;
    return exact ? fmt::format("{}", value) : fmt::format("bits {:#x}", bits);
}

class Printer {
public:
    explicit Printer(const Kernel& kernel)
        : kernel_(kernel),
          number_(kernel.instructions.size(), ValueId::none),
          numbered_(kernel.blocks.size()),
          printed_(kernel.blocks.size()) {
        if (!kernel.blocks.empty()) number_block(BlockId(0u), 0);
    }

    std::string kernel() {
        line(0, "kernel " + quoted(kernel_.name) + " {");
        const auto& size = kernel_.workgroup_size;
        line(1, fmt::format("workgroup {} {} {}", size[0], size[1], size[2]));
        if (kernel_.required_subgroup_size) line(1, fmt::format("subgroup {}", kernel_.required_subgroup_size));
        for (const Binding& b : kernel_.bindings)
            line(1, fmt::format("binding {} : {} {} {}{}", quoted(b.name), to_string(Type{b.scalar, b.lanes}),
                                to_string(b.access), b.elements, b.in_written_buffer ? " in_written_buffer" : ""));
        for (const Array& a : kernel_.arrays)
            line(1, fmt::format("array {} : {} {} {}", quoted(a.name), a.space == ArraySpace::workgroup ? "workgroup" : "private",
                                to_string(a.type), a.count));
        for (const std::string& p : kernel_.params) line(1, "param " + quoted(p));
        if (!kernel_.blocks.empty()) block(BlockId(0u), 1);
        line(0, "}");
        return std::move(out_);
    }

    // Without blocks: "%9 = branch %2".
    std::string instruction(ValueId v) const {
        const Instruction& i = kernel_.at(v);
        std::string text;
        if (i.op == Opcode::loop || i.op == Opcode::branch)
            text = value(v) + " = ";
        else if (has_result(i.op))
            text = value(v) + " : " + to_string(i.type) + " = ";
        return text + body(v, i);
    }

private:
    void line(int depth, const std::string& text) { out_ += std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n"; }

    void number_block(BlockId id, int depth) {
        if (id.value >= kernel_.blocks.size() || depth > max_depth || numbered_[id.value]) return;
        numbered_[id.value] = true;
        auto give = [&](ValueId v) {
            if (v.value < number_.size() && number_[v.value] == ValueId::none) number_[v.value] = next_++;
        };
        const Block& b = kernel_.block(id);
        for (ValueId v : b.arguments) give(v);
        for (ValueId v : b.instructions) {
            if (v.value >= kernel_.instructions.size()) continue;
            const Instruction& i = kernel_.at(v);
            if (has_result(i.op)) give(v);
            for (uint32_t n = 0; n < i.block_count; ++n) number_block(BlockId(i.first_block.value + n), depth + 1);
        }
    }

    std::string value(ValueId v) const {
        if (v.value >= number_.size() || number_[v.value] == ValueId::none) return "%?";
        return fmt::format("%{}", number_[v.value]);
    }

    std::string operand(ValueId v, size_t i) const {
        const Instruction& inst = kernel_.at(v);
        size_t at = size_t{inst.first_operand} + i;
        return i < inst.operand_count && at < kernel_.operands.size() ? value(kernel_.operands[at]) : "%?";
    }

    std::string operands(ValueId v, size_t from = 0) const {
        std::string text;
        for (size_t i = from; i < kernel_.at(v).operand_count; ++i) text += (i > from ? ", " : "") + operand(v, i);
        return text;
    }

    // The name of entry `index` of a table, or @index where the name would not lead back to it.
    template <class Table, class Name>
    static std::string reference(const Table& table, uint32_t index, Name&& name_of) {
        if (index >= table.size()) return fmt::format("@{}", index);
        const std::string& name = name_of(table[index]);
        auto same = std::count_if(table.begin(), table.end(), [&](const auto& entry) { return name_of(entry) == name; });
        return same == 1 ? quoted(name) : fmt::format("@{}", index);
    }
    std::string memory(bool array, uint32_t index) const {
        auto name = [](const auto& entry) -> const std::string& { return entry.name; };
        return array ? reference(kernel_.arrays, index, name) : reference(kernel_.bindings, index, name);
    }
    std::string coop_memory(const Instruction& i) const {
        bool array = i.aux2 & coop_from_array;
        return (array ? "array " : "binding ") + memory(array, i.aux);
    }

    std::string loop_header(ValueId v, const Instruction& i) const {
        std::string text = "loop";
        if (i.block_count == 0 || i.first_block.value >= kernel_.blocks.size()) return text + " " + operands(v);
        const Block& b = kernel_.block(i.first_block);
        text += " " + (b.arguments.empty() ? "%?" : value(b.arguments[0])) + " : u32 = " + operand(v, 0) + ", " + operand(v, 1) +
                ", " + operand(v, 2);
        if (b.arguments.size() < 2) return text;
        text += " carry (";
        for (size_t a = 1; a < b.arguments.size(); ++a) {
            bool known = b.arguments[a].value < kernel_.instructions.size();
            text += (a > 1 ? ", " : "") + value(b.arguments[a]) + " : " +
                    (known ? to_string(kernel_.at(b.arguments[a]).type) : "?") + " = " + operand(v, a + 2);
        }
        return text + ")";
    }

    std::string body(ValueId v, const Instruction& i) const {
        std::string op = to_string(i.op);
        if (is_id_with_axis(i.op)) return fmt::format("{} {}", op, i.aux);
        switch (i.op) {
            case Opcode::constant: return op + " " + constant_text(i.type.scalar, i.aux);
            case Opcode::argument: return fmt::format("{} {}", op, i.aux);
            case Opcode::param:
                return op + " " + reference(kernel_.params, i.aux, [](const std::string& n) -> const std::string& { return n; });
            case Opcode::extract:
            case Opcode::subgroup_broadcast:
            case Opcode::subgroup_shuffle_xor: return fmt::format("{} {} {}", op, i.aux, operands(v));
            case Opcode::load: return fmt::format("{} {}[{}]", op, memory(false, i.aux), operand(v, 0));
            case Opcode::store: return fmt::format("{} {}[{}], {}", op, memory(false, i.aux), operand(v, 0), operand(v, 1));
            case Opcode::array_load: return fmt::format("{} {}[{}]", op, memory(true, i.aux), operand(v, 0));
            case Opcode::array_store: return fmt::format("{} {}[{}], {}", op, memory(true, i.aux), operand(v, 0), operand(v, 1));
            case Opcode::atomic:
                return fmt::format("{} {} {}[{}], {}", op, to_string(static_cast<AtomicKind>(i.aux2)), memory(false, i.aux),
                                   operand(v, 0), operand(v, 1));
            case Opcode::loop: return loop_header(v, i);
            case Opcode::result: return fmt::format("{} {}.{}", op, operand(v, 0), i.aux);
            case Opcode::subgroup_reduce:
                return fmt::format("{} {} {}", op, to_string(static_cast<ReduceKind>(i.aux)), operands(v));
            case Opcode::coop_map: return fmt::format("{} {} {}", op, to_string(static_cast<Opcode>(i.aux)), operands(v));
            case Opcode::coop_load:
            case Opcode::coop_store: {
                std::string text = fmt::format("{} {}[{}] stride {}", op, coop_memory(i), operand(v, 0), operand(v, 1));
                if (i.aux2 & coop_column_major) text += " column_major";
                return i.op == Opcode::coop_store ? text + ", " + operand(v, 2) : text;
            }
            default: return i.operand_count ? op + " " + operands(v) : op;
        }
    }

    void block(BlockId id, int depth) {
        if (id.value >= kernel_.blocks.size() || depth > max_depth || printed_[id.value]) return;
        printed_[id.value] = true;
        const Block& b = kernel_.block(id);
        for (ValueId v : b.instructions) {
            if (v.value >= kernel_.instructions.size()) {
                line(depth, "%?");
                continue;
            }
            const Instruction& i = kernel_.at(v);
            line(depth, instruction(v) + (i.block_count ? " {" : ""));
            for (uint32_t n = 0; n < i.block_count; ++n) {
                BlockId inner(i.first_block.value + n);
                if (n > 0) {
                    bool empty = inner.value < kernel_.blocks.size() && kernel_.block(inner).instructions.empty() &&
                                 kernel_.block(inner).yields.empty();
                    if (empty) continue;
                    line(depth, "} else {");
                }
                block(inner, depth + 1);
            }
            if (i.block_count) line(depth, "}");
        }
        if (b.yields.empty()) return;
        std::string text = "yield ";
        for (size_t y = 0; y < b.yields.size(); ++y) text += (y ? ", " : "") + value(b.yields[y]);
        line(depth, text);
    }

    const Kernel& kernel_;
    std::string out_;
    std::vector<uint32_t> number_;
    std::vector<bool> numbered_, printed_;  // blocks; a broken kernel may list one twice
    uint32_t next_ = 0;
};

}  // namespace

std::string to_text(const Kernel& kernel) { return Printer(kernel).kernel(); }

std::string instruction_text(const Kernel& kernel, ValueId instruction) {
    if (instruction.value >= kernel.instructions.size()) return "%?";
    return Printer(kernel).instruction(instruction);
}

}  // namespace darner::kir
