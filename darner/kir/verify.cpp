// SPDX-License-Identifier: MIT
// Structure of a kernel: tables, ids, scoping, and the types of every opcode.
#include "darner/kir/verify.h"

#include "darner/kir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace darner::kir {

namespace {

constexpr int max_depth = 200;                   // of nested blocks: passes over the IR recurse
constexpr uint32_t max_private_elements = 4096;  // more than any device has registers for
constexpr size_t max_reported = 50;

bool is_integer(Type t) { return !t.is_coop() && (t.scalar == Scalar::i32 || t.scalar == Scalar::u32); }
bool is_boolean(Type t) { return !t.is_coop() && t.scalar == Scalar::boolean; }
bool is_real(Type t) { return !t.is_coop() && (t.scalar == Scalar::f32 || t.scalar == Scalar::f16); }
bool is_number(Type t) { return is_integer(t) || is_real(t); }

bool is_valid(Type t) {
    if (t.scalar > Scalar::bf16) return false;
    if (t.rows || t.cols) return t.rows && t.cols && t.lanes == 1 && is_float(t.scalar) && t.use <= CoopUse::accumulator;
    return t.lanes == 1 || t.lanes == 2 || t.lanes == 4;
}

class Verifier {
public:
    explicit Verifier(const Kernel& kernel)
        : kernel_(kernel),
          seen_(kernel.instructions.size()),
          visible_(kernel.instructions.size()),
          entered_(kernel.blocks.size()) {}

    Result<void> run() {
        check_tables();
        if (kernel_.blocks.empty())
            report("there is no body");
        else
            check_block(BlockId(0u), 0);
        if (problems_.empty()) return {};
        std::string text = fmt::format("[kernel {}] ", kernel_.name);
        for (size_t i = 0; i < problems_.size() && i < max_reported; ++i) text += (i ? "\n  " : "") + problems_[i];
        if (problems_.size() > max_reported) text += fmt::format("\n  and {} more", problems_.size() - max_reported);
        return invalid(text);
    }

private:
    void report(const std::string& what) { problems_.push_back(what); }
    void report(ValueId v, const std::string& what) {
        problems_.push_back(fmt::format("`{}`: {}", instruction_text(kernel_, v), what));
    }

    // ---- tables ----

    template <class Table, class Name>
    void check_names(const char* kind, const Table& table, Name&& name_of) {
        std::set<std::string> names;
        for (const auto& entry : table) {
            const std::string& name = name_of(entry);
            if (name.empty())
                report(fmt::format("a {} has no name", kind));
            else if (!names.insert(name).second)
                report(fmt::format("two {}s are named {}", kind, name));
        }
    }

    void check_tables() {
        auto name = [](const auto& entry) -> const std::string& { return entry.name; };
        if (kernel_.name.empty()) report("the kernel has no name");
        check_names("binding", kernel_.bindings, name);
        check_names("array", kernel_.arrays, name);
        check_names("param", kernel_.params, [](const std::string& n) -> const std::string& { return n; });
        if (kernel_.params.size() > max_param_words)
            report(fmt::format("{} params: at most {} are allowed", kernel_.params.size(), max_param_words));
        const auto& size = kernel_.workgroup_size;
        if (!size[0] || !size[1] || !size[2])
            report(fmt::format("workgroup size {} {} {}: expected positive sizes", size[0], size[1], size[2]));
        else if (uint64_t{size[0]} * size[1] > 0xffffffffu || uint64_t{size[0]} * size[1] * size[2] > 0xffffffffu)
            report("the workgroup has more than 2^32 invocations");
        uint32_t subgroup = kernel_.required_subgroup_size;
        if (subgroup && ((subgroup & (subgroup - 1)) || subgroup > 128))
            report(fmt::format("required subgroup size {}: expected a power of two up to 128", subgroup));
        for (const Binding& b : kernel_.bindings) {
            Type type{b.scalar, b.lanes};
            if (!is_valid(type) || is_boolean(type))
                report(fmt::format("binding {}: elements of type {}", b.name, to_string(type)));
            if (b.access > Access::inout) report(fmt::format("binding {}: unknown access", b.name));
            if (b.in_written_buffer && b.access != Access::read)
                report(fmt::format("binding {}: in_written_buffer is for what is read", b.name));
        }
        for (const Array& a : kernel_.arrays) {
            if (!is_valid(a.type)) report(fmt::format("array {}: elements of type {}", a.name, to_string(a.type)));
            if (a.count == 0) report(fmt::format("array {}: no elements", a.name));
            if (a.space == ArraySpace::private_ && a.count > max_private_elements)
                report(fmt::format("array {}: {} private elements, allowed are {}", a.name, a.count, max_private_elements));
            if (a.type.is_coop() && a.space == ArraySpace::workgroup)
                report(fmt::format("array {}: cooperative matrices live in private arrays", a.name));
        }
    }

    // ---- scoping ----

    void check_block(BlockId id, int depth) {
        if (id.value >= kernel_.blocks.size()) return report(fmt::format("block {} does not exist", id.value));
        if (entered_[id.value]) return report(fmt::format("block {} belongs to two instructions", id.value));
        if (depth > max_depth) return report(fmt::format("blocks are nested deeper than {}", max_depth));
        entered_[id.value] = true;
        const Block& block = kernel_.block(id);
        std::vector<ValueId> made;
        auto make = [&](ValueId v) {
            if (v.value >= kernel_.instructions.size())
                report(fmt::format("block {} lists instruction {}, which does not exist", id.value, v.value));
            else if (seen_[v.value])
                report(v, "stands in the kernel twice");
            else
                return seen_[v.value] = true, made.push_back(v), true;
            return false;
        };
        for (ValueId v : block.arguments)
            if (make(v)) visible_[v.value] = true;
        for (ValueId v : block.instructions) {
            if (!make(v)) continue;
            bool usable = check_operands(v);
            if (usable) check_instruction(v);
            const Instruction& inst = kernel_.at(v);
            for (uint32_t n = 0; n < inst.block_count; ++n) check_block(BlockId(inst.first_block.value + n), depth + 1);
            if (inst.block_count && usable) check_yields(v, inst);
            visible_[v.value] = true;
        }
        for (ValueId v : block.yields)
            if (v.value >= visible_.size() || !visible_[v.value])
                report(fmt::format("block {} yields a value that is not visible in it", id.value));
        if (id.value == 0 && (!block.yields.empty() || !block.arguments.empty()))
            report("the body has neither arguments nor yields");
        for (ValueId v : made) visible_[v.value] = false;
    }

    bool check_operands(ValueId v) {
        const Instruction& inst = kernel_.at(v);
        if (inst.op > Opcode::coop_map) return report(v, "unknown opcode"), false;
        if (uint64_t{inst.first_operand} + inst.operand_count > kernel_.operands.size())
            return report(v, "its operands do not exist"), false;
        bool good = true;
        for (ValueId operand : kernel_.operands_of(v)) {
            if (operand.value < visible_.size() && visible_[operand.value]) continue;
            report(v, "uses a value that is not defined before it in a block round it");
            good = false;
        }
        if (!is_valid(inst.type)) return report(v, "has no valid type"), false;
        bool control = inst.op == Opcode::loop || inst.op == Opcode::branch;
        if (!control && inst.block_count) return report(v, "has blocks"), false;
        return good;
    }

    // Yields against the loop's arguments and initial values, or against each other in a branch.
    void check_yields(ValueId v, const Instruction& inst) {
        auto type_of = [&](ValueId value) { return value.value < kernel_.instructions.size() ? kernel_.at(value).type : Type{}; };
        if (uint64_t{inst.first_block.value} + inst.block_count > kernel_.blocks.size()) return;
        const Block& first = kernel_.block(inst.first_block);
        if (inst.op == Opcode::loop) {
            size_t carried = inst.operand_count >= 3 ? inst.operand_count - 3u : 0u;
            if (first.arguments.size() != carried + 1 || first.yields.size() != carried)
                return report(v, fmt::format("{} initial values, {} arguments and {} yields: expected n, n + 1 and n", carried,
                                             first.arguments.size(), first.yields.size()));
            for (size_t i = 0; i <= carried; ++i) {
                ValueId argument = first.arguments[i];
                if (argument.value >= kernel_.instructions.size()) continue;
                if (kernel_.at(argument).op != Opcode::argument || kernel_.at(argument).aux != i)
                    report(v, fmt::format("argument {} of its block is none", i));
                Type expected = i == 0 ? u32_type : type_of(kernel_.operand(v, i + 2));
                if (type_of(argument) != expected || (i > 0 && type_of(first.yields[i - 1]) != expected))
                    report(v, fmt::format("argument {} and its yield: expected {}", i, to_string(expected)));
            }
        } else if (inst.op == Opcode::branch && inst.block_count == 2) {
            const Block& second = kernel_.block(BlockId(inst.first_block.value + 1));
            if (!first.arguments.empty() || !second.arguments.empty()) report(v, "the blocks of a branch have no arguments");
            bool same = first.yields.size() == second.yields.size();
            for (size_t i = 0; same && i < first.yields.size(); ++i) same = type_of(first.yields[i]) == type_of(second.yields[i]);
            if (!same) report(v, "its two blocks yield different types");
        }
    }

    // ---- types ----

    Type operand_type(ValueId v, size_t i) const { return kernel_.at(kernel_.operand(v, i)).type; }
    bool expect(ValueId v, bool good, const std::string& what) {
        if (!good) report(v, what);
        return good;
    }
    bool expect_operands(ValueId v, size_t n) {
        return expect(v, kernel_.at(v).operand_count == n,
                      fmt::format("{} operands, expected {}", kernel_.at(v).operand_count, n));
    }
    // n operands of the type of the result, which satisfies `allowed`.
    void check_same(ValueId v, size_t n, bool (*allowed)(Type), const char* kind) {
        if (!expect_operands(v, n)) return;
        const Type& type = kernel_.at(v).type;
        for (size_t i = 0; i < n; ++i)
            if (!expect(v, operand_type(v, i) == type,
                        fmt::format("operand {} is {}, expected {}", i, to_string(operand_type(v, i)), to_string(type))))
                return;
        expect(v, allowed(type), fmt::format("works on {}, not on {}", kind, to_string(type)));
    }

    void check_instruction(ValueId v) {
        const Instruction& inst = kernel_.at(v);
        if (is_id(inst.op)) return check_leaf(v, inst);
        if (is_float_function(inst.op)) return check_same(v, 1, is_real, "f32 and f16");
        switch (inst.op) {
            case Opcode::constant:
            case Opcode::argument:
            case Opcode::param: return check_leaf(v, inst);
            case Opcode::add:
            case Opcode::sub:
            case Opcode::mul:
            case Opcode::div:
            case Opcode::rem:
            case Opcode::min:
            case Opcode::max: return check_same(v, 2, is_number, "numbers");
            case Opcode::neg:
            case Opcode::abs: return check_same(v, 1, is_number, "numbers");
            case Opcode::fma: return check_same(v, 3, is_real, "f32 and f16");
            case Opcode::pow: return check_same(v, 2, is_real, "f32 and f16");
            case Opcode::bit_and:
            case Opcode::bit_or:
            case Opcode::bit_xor:
                return check_same(
                    v, 2, [](Type t) { return is_integer(t) || is_boolean(t); }, "integers and booleans");
            case Opcode::bit_not:
                return check_same(
                    v, 1, [](Type t) { return is_integer(t) || is_boolean(t); }, "integers and booleans");
            case Opcode::shl:
            case Opcode::shr: return check_same(v, 2, is_integer, "integers");
            case Opcode::mul_high:
                return check_same(
                    v, 2, [](Type t) { return is_integer(t) && t.scalar == Scalar::u32; }, "u32");
            case Opcode::load:
            case Opcode::store:
            case Opcode::array_load:
            case Opcode::array_store:
            case Opcode::atomic: return check_memory(v, inst);
            case Opcode::loop:
            case Opcode::branch:
            case Opcode::result:
            case Opcode::barrier: return check_control(v, inst);
            case Opcode::subgroup_reduce:
            case Opcode::subgroup_broadcast:
            case Opcode::subgroup_shuffle_xor: return check_subgroup(v, inst);
            case Opcode::coop_fill:
            case Opcode::coop_load:
            case Opcode::coop_store:
            case Opcode::coop_mul_add:
            case Opcode::coop_convert:
            case Opcode::coop_map: return check_coop(v, inst);
            default: return check_shape(v, inst);
        }
    }

    void check_leaf(ValueId v, const Instruction& inst) {
        if (!expect_operands(v, 0)) return;
        if (inst.op == Opcode::constant) {
            expect(v, !inst.type.is_coop(), "cooperative matrices come from coop_fill");
            expect(v, inst.type.scalar != Scalar::boolean || inst.aux <= 1, "a boolean is 0 or 1");
            expect(v, byte_size(inst.type.scalar) == 4 || inst.aux <= 0xffff, "a 16-bit constant has 16 bits");
            return;
        }
        expect(v, inst.op != Opcode::argument, "an argument stands among a loop's arguments only");
        expect(v, inst.type == u32_type, "is a u32");
        if (inst.op == Opcode::param) expect(v, inst.aux < kernel_.params.size(), "there is no such param");
        if (is_id_with_axis(inst.op)) expect(v, inst.aux < 3, "an axis is 0, 1 or 2");
    }

    // Comparisons, select, conversions and vectors.
    void check_shape(ValueId v, const Instruction& inst) {
        const Type& type = inst.type;
        size_t n = is_comparison(inst.op) || inst.op == Opcode::pack_half2 ? 2
                   : inst.op == Opcode::select                             ? 3
                   : inst.op == Opcode::make_vector                        ? type.lanes
                                                                           : 1;
        if (!expect_operands(v, n)) return;
        Type first = operand_type(v, 0);
        if (is_comparison(inst.op)) {
            expect(v, first == operand_type(v, 1),
                   fmt::format("compares {} with {}", to_string(first), to_string(operand_type(v, 1))));
            bool equality = inst.op == Opcode::eq || inst.op == Opcode::ne;
            expect(v, is_number(first) || (equality && is_boolean(first)), "cannot compare " + to_string(first));
            expect(v, type == (Type{Scalar::boolean, first.lanes}),
                   "a comparison of " + to_string(first) + " is no " + to_string(type));
        } else if (inst.op == Opcode::select) {
            expect(v, operand_type(v, 1) == type && operand_type(v, 2) == type && !type.is_coop(),
                   "both values have the type of the result");
            expect(v, first == (Type{Scalar::boolean, type.lanes}), "the condition is " + to_string(first));
        } else if (inst.op == Opcode::convert || inst.op == Opcode::bitcast) {
            expect(v, !type.is_coop() && !first.is_coop() && type.lanes == first.lanes, to_string(first) + " has other lanes");
            bool bits = inst.op == Opcode::bitcast;
            expect(v, !bits || (byte_size(type.scalar) == byte_size(first.scalar) && !is_boolean(type) && !is_boolean(first)),
                   to_string(first) + " has other bits");
        } else if (inst.op == Opcode::make_vector) {
            bool good = !type.is_coop() && type.lanes > 1;
            for (size_t i = 0; i < n; ++i) good = good && operand_type(v, i) == type.element();
            expect(v, good, "the parts are not the lanes of a " + to_string(type));
        } else if (inst.op == Opcode::extract) {
            expect(v, !first.is_coop() && inst.aux < first.lanes && type == first.element(),
                   "there is no such lane in " + to_string(first));
        } else if (inst.op == Opcode::pack_half2) {
            expect(v, type == u32_type && first == f32_type && operand_type(v, 1) == f32_type, "takes two f32 and gives a u32");
        } else {
            expect(v, type == f32_type.with_lanes(2) && first == u32_type, "takes a u32 and gives a vec2<f32>");
        }
    }

    void check_memory(ValueId v, const Instruction& inst) {
        bool array = inst.op == Opcode::array_load || inst.op == Opcode::array_store;
        bool reads = inst.op == Opcode::load || inst.op == Opcode::array_load;
        if (!expect_operands(v, reads ? 1 : 2)) return;
        if (!expect(v, inst.aux < (array ? kernel_.arrays.size() : kernel_.bindings.size()), "there is no such memory")) return;
        expect(v, operand_type(v, 0) == u32_type, "an index is u32");
        Type value = reads ? inst.type : operand_type(v, 1);
        if (array) {
            const Array& a = kernel_.arrays[inst.aux];
            expect(v, value == a.type, fmt::format("{} in an array of {}", to_string(value), to_string(a.type)));
            if (a.space == ArraySpace::workgroup) return;
            const Instruction& index = kernel_.at(kernel_.operand(v, 0));
            if (expect(v, index.op == Opcode::constant, "the index of a private array is a constant"))
                expect(v, index.aux < a.count, fmt::format("index {} of {}", index.aux, a.count));
            return;
        }
        const Binding& b = kernel_.bindings[inst.aux];
        Type element{b.scalar, b.lanes};
        if (inst.op == Opcode::atomic) {
            expect(v, is_integer(element) && b.lanes == 1 && b.access == Access::inout,
                   "atomics work on inout bindings of i32 and u32");
            expect(v, value == element && inst.type == element, "operand and result have the binding's type");
            expect(v, inst.aux2 <= static_cast<uint32_t>(AtomicKind::bit_or), "unknown kind");
            return;
        }
        expect(v, value == element || (reads && value == element.element()),
               fmt::format("{} in a binding of {}", to_string(value), to_string(element)));
        if (reads)
            expect(v, b.access != Access::write, "loads from a write-only binding");
        else
            expect(v, b.access != Access::read, "stores to a read-only binding");
    }

    void check_control(ValueId v, const Instruction& inst) {
        if (inst.op == Opcode::barrier) {
            expect_operands(v, 0);
        } else if (inst.op == Opcode::loop) {
            expect(v, inst.block_count == 1, "a loop has one block");
            if (!expect(v, inst.operand_count >= 3, "a loop has low, high and step")) return;
            for (size_t i = 0; i < 3; ++i) expect(v, operand_type(v, i) == u32_type, "low, high and step are u32");
            const Instruction& step = kernel_.at(kernel_.operand(v, 2));
            expect(v, step.op != Opcode::constant || step.aux != 0, "the step is zero");
        } else if (inst.op == Opcode::branch) {
            expect(v, inst.block_count == 2, "a branch has two blocks");
            if (expect_operands(v, 1)) expect(v, operand_type(v, 0) == boolean_type, "the condition is a boolean");
        } else if (expect_operands(v, 1)) {
            const Instruction& control = kernel_.at(kernel_.operand(v, 0));
            if (!expect(v, control.block_count && control.first_block.value < kernel_.blocks.size(),
                        "the operand is no loop or branch"))
                return;
            const Block& block = kernel_.block(control.first_block);
            if (!expect(v, inst.aux < block.yields.size(), "there is no such result")) return;
            ValueId yield = block.yields[inst.aux];
            expect(v, yield.value < kernel_.instructions.size() && kernel_.at(yield).type == inst.type,
                   "the result has another type");
        }
    }

    void check_subgroup(ValueId v, const Instruction& inst) {
        if (!expect_operands(v, 1)) return;
        expect(v, operand_type(v, 0) == inst.type && !inst.type.is_coop(), "the result has the type of the operand");
        if (inst.op != Opcode::subgroup_reduce) {
            expect(v, inst.aux < 128, "no subgroup has that many lanes");
            return;
        }
        auto kind = static_cast<ReduceKind>(inst.aux);
        if (!expect(v, inst.aux <= static_cast<uint32_t>(ReduceKind::bit_or), "unknown kind")) return;
        bool bits = kind == ReduceKind::bit_and || kind == ReduceKind::bit_or;
        expect(v, bits ? is_integer(inst.type) || is_boolean(inst.type) : is_number(inst.type),
               "cannot reduce " + to_string(inst.type));
    }

    void check_coop(ValueId v, const Instruction& inst) {
        bool store = inst.op == Opcode::coop_store;
        if (inst.op == Opcode::coop_load || store) {
            if (!expect_operands(v, store ? 3 : 2)) return;
            return check_coop_memory(v, inst, store ? operand_type(v, 2) : inst.type);
        }
        size_t n = inst.op == Opcode::coop_mul_add ? 3 : inst.op == Opcode::coop_map ? 2 : 1;
        if (!expect_operands(v, n) || !expect(v, inst.type.is_coop(), "gives a cooperative matrix")) return;
        Type first = operand_type(v, 0), result = inst.type;
        if (inst.op == Opcode::coop_fill) {
            expect(v, first == result.element(), "fills with a " + to_string(first));
        } else if (inst.op == Opcode::coop_convert) {
            first.scalar = result.scalar;
            expect(v, first == result, "only the scalar may change");
        } else if (inst.op == Opcode::coop_map) {
            auto op = static_cast<Opcode>(inst.aux);
            expect(v,
                   op == Opcode::add || op == Opcode::sub || op == Opcode::mul || op == Opcode::div || op == Opcode::min ||
                       op == Opcode::max,
                   "maps with an arithmetic opcode");
            expect(v, first == result && operand_type(v, 1) == result.element(), "takes the matrix and a scalar of its type");
        } else {
            Type b = operand_type(v, 1), c = operand_type(v, 2);
            bool uses = first.is_coop() && b.is_coop() && first.use == CoopUse::a && b.use == CoopUse::b &&
                        result.use == CoopUse::accumulator;
            expect(v, uses && c == result, "takes matrices of use a, b and accumulator");
            expect(v, first.cols == b.rows && first.rows == result.rows && b.cols == result.cols && first.scalar == b.scalar,
                   "the shapes do not fit");
        }
    }

    void check_coop_memory(ValueId v, const Instruction& inst, Type matrix) {
        bool array = inst.aux2 & coop_from_array, store = inst.op == Opcode::coop_store;
        if (!expect(v, matrix.is_coop(), "is no cooperative matrix") || !expect(v, inst.aux2 <= 3, "unknown flags")) return;
        if (!expect(v, inst.aux < (array ? kernel_.arrays.size() : kernel_.bindings.size()), "there is no such memory")) return;
        expect(v, operand_type(v, 0) == u32_type && operand_type(v, 1) == u32_type, "index and stride are u32");
        Scalar scalar = array ? kernel_.arrays[inst.aux].type.scalar : kernel_.bindings[inst.aux].scalar;
        bool packed = scalar == Scalar::u32 && byte_size(matrix.scalar) == 2;
        expect(v, scalar == matrix.scalar || packed,
               fmt::format("a matrix of {} in memory of {}", to_string(matrix.scalar), to_string(scalar)));
        if (array) {
            expect(v, kernel_.arrays[inst.aux].space == ArraySpace::workgroup, "reads and writes workgroup arrays and bindings");
        } else if (store) {
            expect(v, kernel_.bindings[inst.aux].access != Access::read, "stores to a read-only binding");
        } else {
            expect(v, kernel_.bindings[inst.aux].access != Access::write, "loads from a write-only binding");
        }
    }

    const Kernel& kernel_;
    std::vector<bool> seen_, visible_, entered_;
    std::vector<std::string> problems_;
};

}  // namespace

Result<void> verify_structure(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace darner::kir
