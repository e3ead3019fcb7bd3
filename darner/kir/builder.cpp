// SPDX-License-Identifier: MIT
// Declarations, value numbering, placement, memory and control of the Builder. The rules of arithmetic are in simplify.cpp.
//
// Placement: a pure instruction goes into the innermost open block that one of its operands needs, looking outwards through
// loops only. So what does not change in a loop is computed before it, and nothing is hoisted out of a branch. Loads and
// subgroup operations stay where they are written. Leaves (constants, ids) stand at the top of the body.
#include "darner/kir/builder.h"

#include "darner/base/check.h"
#include "darner/base/hash.h"
#include "darner/kir/arithmetic.h"
#include "darner/kir/cleanup.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace darner::kir {

namespace {

constexpr uint32_t unknown = 0xffffffffu;
constexpr uint32_t max_workgroups = 65535;  // per dimension, of every device
constexpr uint32_t max_subgroup_size = 128;

uint32_t saturate(uint64_t v) { return v > unknown ? unknown : static_cast<uint32_t>(v); }

// The smallest 2^k - 1 that is at least v.
uint32_t fill_below(uint32_t v) { return v == 0 ? 0 : unknown >> std::countl_zero(v); }

uint32_t column_major_flag(bool column_major) { return column_major ? coop_column_major : 0u; }

bool is_u32(Type type) { return type.scalar == Scalar::u32 && !type.is_coop(); }

}  // namespace

struct Builder::Scope {
    BlockId block;
    bool is_loop = false;
    std::unordered_map<Key, ValueId, KeyHash> numbered;
    std::vector<std::pair<ValueId, uint32_t>> undo;  // bounds to restore at the end, newest last
};

size_t Builder::KeyHash::operator()(const Key& key) const {
    Hasher hash;
    hash.word(static_cast<uint64_t>(key.op) | static_cast<uint64_t>(key.type.scalar) << 8 | uint64_t{key.type.lanes} << 16 |
              uint64_t{key.type.rows} << 24 | uint64_t{key.type.cols} << 32 | static_cast<uint64_t>(key.type.use) << 40);
    hash.word(uint64_t{key.aux} << 32 | key.aux2);
    hash.word(uint64_t{key.version} << 32 | key.count);
    hash.word(uint64_t{key.operands[0].value} << 32 | key.operands[1].value);
    hash.word(uint64_t{key.operands[2].value} << 32 | key.operands[3].value);
    return hash.value();
}

const Type& Expr::type() const { return builder->kernel_.at(id).type; }

Builder::Builder(std::string name) {
    kernel_.name = std::move(name);
    kernel_.blocks.emplace_back();
    open_scope(BlockId(0u), false);
}

Builder::~Builder() = default;

// ---- declarations ----

void Builder::workgroup_size(uint32_t x, uint32_t y, uint32_t z) {
    CHECK(!workgroup_size_set_ && x > 0 && y > 0 && z > 0, "the workgroup size is set once, and positive");
    kernel_.workgroup_size = {x, y, z};
    workgroup_size_set_ = true;
}

void Builder::require_subgroup_size(uint32_t size) {
    CHECK(std::has_single_bit(size) && size <= max_subgroup_size, "subgroup sizes are powers of two up to 128");
    CHECK(!kernel_.required_subgroup_size || kernel_.required_subgroup_size == size, "the subgroup size is set once");
    kernel_.required_subgroup_size = size;
}

BindingRef Builder::binding(std::string name, Scalar scalar, uint8_t lanes, Access access, uint64_t elements) {
    CHECK(lanes == 1 || lanes == 2 || lanes == 4, "binding lanes");
    CHECK(scalar != Scalar::boolean, "bindings hold numbers");
    kernel_.bindings.push_back({std::move(name), scalar, lanes, access, elements});
    binding_version_.push_back(access == Access::read ? 0 : next_version_++);
    return {static_cast<uint32_t>(kernel_.bindings.size() - 1)};
}

ArrayRef Builder::workgroup_array(std::string name, Type type, uint32_t count) {
    CHECK(!type.is_coop() && count > 0, "workgroup arrays hold scalars and vectors");
    kernel_.arrays.push_back({std::move(name), ArraySpace::workgroup, type, count});
    array_version_.push_back(next_version_++);
    return {static_cast<uint32_t>(kernel_.arrays.size() - 1)};
}

ArrayRef Builder::private_array(std::string name, Type type, uint32_t count) {
    CHECK(count > 0, "an array has elements");
    kernel_.arrays.push_back({std::move(name), ArraySpace::private_, type, count});
    array_version_.push_back(next_version_++);
    return {static_cast<uint32_t>(kernel_.arrays.size() - 1)};
}

Expr Builder::param(std::string name) {
    auto known = std::find(kernel_.params.begin(), kernel_.params.end(), name);
    auto index = static_cast<uint32_t>(known - kernel_.params.begin());
    if (known == kernel_.params.end()) {
        CHECK(kernel_.params.size() < max_param_words, "a kernel has at most 16 params");
        kernel_.params.push_back(std::move(name));
    }
    return pure(Opcode::param, u32_type, {}, index, 0, Motion::leaf);
}

// ---- leaves ----

Expr Builder::constant_of_bits(Type type, uint32_t bits) { return pure(Opcode::constant, type, {}, bits, 0, Motion::leaf); }
Expr Builder::f32(float v) { return constant_of_bits(f32_type, std::bit_cast<uint32_t>(v)); }
Expr Builder::u32(uint32_t v) { return constant_of_bits(u32_type, v); }
Expr Builder::i32(int32_t v) { return constant_of_bits(i32_type, static_cast<uint32_t>(v)); }
Expr Builder::boolean(bool v) { return constant_of_bits(boolean_type, v); }

Expr Builder::constant(Type type, double v) {
    CHECK(!type.is_coop(), "a cooperative matrix is made by coop_fill");
    if (is_float(type.scalar)) return constant_of_bits(type, from_float(type.scalar, static_cast<float>(v)));
    if (type.scalar == Scalar::boolean) return constant_of_bits(type, v != 0);
    bool fits = type.scalar == Scalar::i32 ? v >= -0x1p31 && v < 0x1p31 : v > -1 && v < 0x1p32;
    CHECK(fits && v == std::trunc(v), "the integer constant is not of its type: " + std::to_string(v));
    return constant_of_bits(type, static_cast<uint32_t>(static_cast<int64_t>(v)));
}

Expr Builder::workgroup_id(uint32_t axis) {
    CHECK(axis < 3);
    return pure(Opcode::workgroup_id, u32_type, {}, axis, 0, Motion::leaf);
}

Expr Builder::num_workgroups(uint32_t axis) {
    CHECK(axis < 3);
    return pure(Opcode::num_workgroups, u32_type, {}, axis, 0, Motion::leaf);
}

Expr Builder::local_id(uint32_t axis) {
    CHECK(axis < 3);
    return pure(Opcode::local_id, u32_type, {}, axis, 0, Motion::leaf);
}

Expr Builder::local_index() { return pure(Opcode::local_index, u32_type, {}, 0, 0, Motion::leaf); }

Expr Builder::subgroup_id() { return pure(Opcode::subgroup_id, u32_type, {}, 0, 0, Motion::leaf); }

Expr Builder::lane_id() { return pure(Opcode::lane_id, u32_type, {}, 0, 0, Motion::leaf); }

Expr Builder::subgroup_size() {
    if (kernel_.required_subgroup_size) return u32(kernel_.required_subgroup_size);
    return pure(Opcode::subgroup_size, u32_type, {}, 0, 0, Motion::leaf);
}

// ---- bounds ----

bool Builder::is_constant(Expr v) const { return kernel_.at(v.id).op == Opcode::constant; }

uint32_t Builder::constant_bits(Expr v) const {
    CHECK(is_constant(v), "not a constant");
    return kernel_.at(v.id).aux;
}

uint32_t Builder::max_of(Expr v) const {
    CHECK(is_u32(v.type()), "bounds are kept for u32 values");
    return max_[v.id.value];
}

// Lowers a bound until the current scope closes.
void Builder::set_max(ValueId v, uint32_t max) {
    uint32_t& known = max_[v.value];
    if (max >= known) return;
    if (scopes_.size() > 1) scopes_.back().undo.push_back({v, known});
    known = max;
}

Expr Builder::assume_max(Expr v, uint32_t max) {
    CHECK(is_u32(v.type()), "bounds are kept for u32 values");
    if (!is_constant(v)) set_max(v.id, max);
    return v;
}

// What a branch's `then` block may rely on.
void Builder::assume(Expr condition) {
    const Instruction& inst = kernel_.at(condition.id);
    if (inst.operand_count != 2) return;
    Expr a{this, kernel_.operand(condition.id, 0)}, b{this, kernel_.operand(condition.id, 1)};
    if (inst.op == Opcode::bit_and) {
        assume(a);
        assume(b);
    } else if (a.type() == u32_type && !is_constant(a)) {
        uint32_t limit = max_of(b);
        if (inst.op == Opcode::le || inst.op == Opcode::eq) set_max(a.id, limit);
        if (inst.op == Opcode::lt && limit > 0) set_max(a.id, limit - 1);
    }
}

uint32_t Builder::bound(Opcode op, Type type, const Ids& operands, uint32_t aux) const {
    if (!is_u32(type)) return unknown;
    auto max = [&](size_t i) -> uint64_t { return max_[operands[i].value]; };
    auto fixed = [&](size_t i) { return kernel_.at(operands[i]).op == Opcode::constant; };
    const auto& size = kernel_.workgroup_size;
    uint32_t lanes = kernel_.required_subgroup_size ? kernel_.required_subgroup_size : max_subgroup_size;
    switch (op) {
        case Opcode::constant: return aux;
        case Opcode::workgroup_id: return max_workgroups - 1;
        case Opcode::num_workgroups: return max_workgroups;
        // A workgroup size that is set later bounds nothing that is made before it.
        case Opcode::local_id: return workgroup_size_set_ ? size[aux] - 1 : unknown;
        case Opcode::local_index: return workgroup_size_set_ ? kernel_.invocations() - 1 : unknown;
        case Opcode::subgroup_id:
            return workgroup_size_set_ ? (kernel_.invocations() - 1) / std::max(1u, kernel_.required_subgroup_size) : unknown;
        case Opcode::lane_id: return lanes - 1;
        case Opcode::subgroup_size: return lanes;
        case Opcode::add: return saturate(max(0) + max(1));
        case Opcode::mul: return saturate(max(0) * max(1));
        case Opcode::fma: return max(0) * max(1) > unknown ? unknown : saturate(max(0) * max(1) + max(2));
        // Only a constant minuend that covers the subtrahend rules out wrap-around.
        case Opcode::sub: return fixed(0) && max(1) <= max(0) ? static_cast<uint32_t>(max(0)) : unknown;
        case Opcode::div: return static_cast<uint32_t>(fixed(1) && max(1) ? max(0) / max(1) : max(0));
        case Opcode::rem: return static_cast<uint32_t>(std::min(max(0), max(1) ? max(1) - 1 : 0));
        case Opcode::min:
        case Opcode::bit_and: return static_cast<uint32_t>(std::min(max(0), max(1)));
        case Opcode::max: return static_cast<uint32_t>(std::max(max(0), max(1)));
        case Opcode::bit_or:
        case Opcode::bit_xor: return fill_below(static_cast<uint32_t>(max(0) | max(1)));
        case Opcode::shl: return fixed(1) && max(1) < 32 ? saturate(max(0) << max(1)) : unknown;
        case Opcode::shr: return static_cast<uint32_t>(fixed(1) && max(1) < 32 ? max(0) >> max(1) : max(0));
        case Opcode::mul_high: return static_cast<uint32_t>((max(0) * max(1)) >> 32);
        case Opcode::select: return static_cast<uint32_t>(std::max(max(1), max(2)));
        case Opcode::convert: return kernel_.at(operands[0]).type.scalar == Scalar::boolean ? 1 : unknown;
        case Opcode::extract:
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: return static_cast<uint32_t>(max(0));
        case Opcode::subgroup_reduce: {
            auto kind = static_cast<ReduceKind>(aux);
            if (kind == ReduceKind::add) return saturate(max(0) * lanes);
            if (kind == ReduceKind::bit_or) return fill_below(static_cast<uint32_t>(max(0)));
            return kind == ReduceKind::mul ? unknown : static_cast<uint32_t>(max(0));
        }
        case Opcode::make_vector: {
            uint64_t most = 0;
            for (size_t i = 0; i < operands.size(); ++i) most = std::max(most, max(i));
            return static_cast<uint32_t>(most);
        }
        default: return unknown;
    }
}

// ---- numbering and placement ----

size_t Builder::scope_of(ValueId v) const {
    for (size_t s = scopes_.size(); s-- > 0;)
        if (scopes_[s].block == home_[v.value]) return s;
    CHECK(false, "a value is used outside the block that makes it, in kernel " + kernel_.name);
    return 0;
}

void Builder::check_operand(ValueId v) const {
    CHECK(v.value < home_.size(), "an operand is no value of this builder, in kernel " + kernel_.name);
    scope_of(v);
}

ValueId Builder::append(const Instruction& inst, const Ids& operands, size_t scope) {
    CHECK(!scopes_.empty(), "the builder is finished");
    for (ValueId v : operands) check_operand(v);
    CHECK(operands.size() < 0x10000, "too many operands");
    ValueId id(kernel_.instructions.size());
    Instruction& made = kernel_.instructions.emplace_back(inst);
    made.first_operand = static_cast<uint32_t>(kernel_.operands.size());
    made.operand_count = static_cast<uint16_t>(operands.size());
    kernel_.operands.insert(kernel_.operands.end(), operands.begin(), operands.end());
    home_.push_back(scopes_[scope].block);
    max_.push_back(bound(inst.op, inst.type, operands, inst.aux));
    if (inst.op != Opcode::argument) kernel_.blocks[scopes_[scope].block.value].instructions.push_back(id);
    return id;
}

void Builder::effect(Opcode op, const Ids& operands, uint32_t aux, uint32_t aux2) {
    append({.op = op, .type = {}, .aux = aux, .aux2 = aux2}, operands, scopes_.size() - 1);
}

Expr Builder::pure(Opcode op, Type type, const Ids& operands, uint32_t aux, uint32_t aux2, Motion motion, uint32_t version) {
    Key key{op, type, aux, aux2, version, {}, static_cast<uint8_t>(operands.size())};
    CHECK(operands.size() <= 4 && !scopes_.empty());
    std::copy(operands.begin(), operands.end(), key.operands.begin());
    for (size_t s = scopes_.size(); s-- > 0;)
        if (auto it = scopes_[s].numbered.find(key); it != scopes_[s].numbered.end()) return {this, it->second};

    if (op != Opcode::constant && is_u32(type) && bound(op, type, operands, aux) == 0) return constant_of_bits(type, 0);
    size_t scope = scopes_.size() - 1;
    if (motion == Motion::leaf) {
        scope = 0;
    } else if (motion == Motion::invariant) {
        size_t needed = 0;
        for (ValueId v : operands) needed = std::max(needed, scope_of(v));
        while (scope > needed && scopes_[scope].is_loop) --scope;
    }
    ValueId id = append({.op = op, .type = type, .aux = aux, .aux2 = aux2}, operands, scope);
    scopes_[scope].numbered.emplace(key, id);
    // A bound that rests on an assumption of an inner block does not hold outside it.
    if (is_u32(type) && max_[id.value] != unknown && motion != Motion::leaf)
        for (size_t s = scopes_.size(); s-- > scope + 1;)
            if (!scopes_[s].undo.empty()) {
                scopes_[s].undo.push_back({id, unknown});
                break;
            }
    return {this, id};
}

// ---- memory ----

uint32_t& Builder::version(bool array, uint32_t memory) { return array ? array_version_[memory] : binding_version_[memory]; }

void Builder::new_versions(bool also_private) {
    for (size_t b = 0; b < kernel_.bindings.size(); ++b)
        if (kernel_.bindings[b].access != Access::read) binding_version_[b] = next_version_++;
    for (size_t a = 0; a < kernel_.arrays.size(); ++a)
        if (also_private || kernel_.arrays[a].space == ArraySpace::workgroup) array_version_[a] = next_version_++;
}

Expr Builder::load_memory(bool array, uint32_t memory, Opcode op, Type type, const Ids& operands, uint32_t aux2) {
    return pure(op, type, operands, memory, aux2, Motion::fixed, version(array, memory));
}

Expr Builder::load(BindingRef binding, Expr index) {
    const Binding& b = kernel_.bindings[binding.index];
    CHECK(index.type() == u32_type, "an index is u32");
    CHECK(b.access != Access::write, "load from write-only binding " + b.name);
    return load_memory(false, binding.index, Opcode::load, {b.scalar, b.lanes}, {index.id});
}

Expr Builder::load_scalar(BindingRef binding, Expr scalar_index) {
    const Binding& b = kernel_.bindings[binding.index];
    CHECK(scalar_index.type() == u32_type, "an index is u32");
    CHECK(b.access != Access::write, "load from write-only binding " + b.name);
    return load_memory(false, binding.index, Opcode::load, {b.scalar}, {scalar_index.id});
}

void Builder::store(BindingRef binding, Expr index, Expr value) {
    const Binding& b = kernel_.bindings[binding.index];
    CHECK(index.type() == u32_type, "an index is u32");
    CHECK(b.access != Access::read, "store to read-only binding " + b.name);
    CHECK(value.type() == (Type{b.scalar, b.lanes}), "stored " + to_string(value.type()) + " to binding " + b.name);
    effect(Opcode::store, {index.id, value.id}, binding.index);
    version(false, binding.index) = next_version_++;
}

Expr Builder::load(ArrayRef array, Expr index) {
    const Array& a = kernel_.arrays[array.index];
    CHECK(index.type() == u32_type, "an index is u32");
    CHECK(a.space == ArraySpace::workgroup || is_constant(index), "a private array's index is a constant: " + a.name);
    return load_memory(true, array.index, Opcode::array_load, a.type, {index.id});
}

void Builder::store(ArrayRef array, Expr index, Expr value) {
    const Array& a = kernel_.arrays[array.index];
    CHECK(index.type() == u32_type, "an index is u32");
    CHECK(a.space == ArraySpace::workgroup || is_constant(index), "a private array's index is a constant: " + a.name);
    CHECK(value.type() == a.type, "stored " + to_string(value.type()) + " to array " + a.name);
    effect(Opcode::array_store, {index.id, value.id}, array.index);
    version(true, array.index) = next_version_++;
}

Expr Builder::atomic(AtomicKind kind, BindingRef binding, Expr index, Expr value) {
    const Binding& b = kernel_.bindings[binding.index];
    CHECK(b.access == Access::inout && b.lanes == 1 && !is_float(b.scalar), "atomics work on inout bindings of i32 or u32");
    CHECK(index.type() == u32_type && value.type() == Type{b.scalar}, "atomic operand types");
    ValueId id = append({.op = Opcode::atomic, .type = {b.scalar}, .aux = binding.index, .aux2 = static_cast<uint32_t>(kind)},
                        {index.id, value.id}, scopes_.size() - 1);
    version(false, binding.index) = next_version_++;
    return {this, id};
}

// ---- control ----

void Builder::open_scope(BlockId block, bool is_loop) { scopes_.push_back({block, is_loop, {}, {}}); }

void Builder::close_scope(const Values& yields) {
    for (Expr v : yields) {
        check_operand(v.id);
        kernel_.blocks[scopes_.back().block.value].yields.push_back(v.id);
    }
    auto& undo = scopes_.back().undo;
    for (size_t i = undo.size(); i-- > 0;) max_[undo[i].first.value] = undo[i].second;
    scopes_.pop_back();
}

ValueId Builder::add_argument(BlockId block, Type type, uint32_t index, uint32_t max) {
    ValueId id = append({.op = Opcode::argument, .type = type, .aux = index}, {}, scopes_.size() - 1);
    kernel_.blocks[block.value].arguments.push_back(id);
    max_[id.value] = max;
    return id;
}

Builder::Values Builder::results_of(ValueId control, const Values& like) {
    Values results;
    for (size_t i = 0; i < like.size(); ++i) {
        Instruction inst{.op = Opcode::result, .type = like[i].type(), .aux = static_cast<uint32_t>(i)};
        results.push_back({this, append(inst, {control}, scopes_.size() - 1)});
    }
    return results;
}

Builder::Values Builder::loop(Expr low, Expr high, Expr step, Values init,
                              const std::function<Values(Expr index, const Values& carried)>& body) {
    CHECK(low.type() == u32_type && high.type() == u32_type && step.type() == u32_type, "loop bounds are u32");
    CHECK(!is_constant(step) || constant_bits(step) != 0, "the step of a loop is not zero");
    if (is_constant(high) && constant_bits(high) == 0) return init;
    if (is_constant(low) && is_constant(high)) {
        uint64_t first = constant_bits(low), end = constant_bits(high);
        if (first >= end) return init;
        if (is_constant(step) && first + constant_bits(step) >= end) {
            Values last = body(low, init);
            CHECK(last.size() == init.size(), "the body of a loop gives the carried values");
            return last;
        }
    }
    BlockId block(kernel_.blocks.size());
    kernel_.blocks.emplace_back();
    // The second trip sees the stores of the first, so no load from before the loop stands for one in it.
    auto bindings_before = binding_version_, arrays_before = array_version_;
    new_versions(true);
    auto bindings_entry = binding_version_, arrays_entry = array_version_;

    open_scope(block, true);
    uint32_t limit = max_of(high);
    Expr index{this, add_argument(block, u32_type, 0, limit - 1)};
    Values carried;
    for (Expr v : init)
        carried.push_back({this, add_argument(block, v.type(), static_cast<uint32_t>(carried.size() + 1), unknown)});
    Values next = body(index, carried);
    CHECK(next.size() == init.size(), "the body of a loop gives the carried values");
    for (size_t i = 0; i < next.size(); ++i) CHECK(next[i].type() == init[i].type(), "a carried value changes its type");
    close_scope(next);

    for (size_t i = 0; i < bindings_entry.size(); ++i)
        if (binding_version_[i] == bindings_entry[i]) binding_version_[i] = bindings_before[i];
    for (size_t i = 0; i < arrays_entry.size(); ++i)
        if (array_version_[i] == arrays_entry[i]) array_version_[i] = arrays_before[i];

    Ids operands{low.id, high.id, step.id};
    for (Expr v : init) operands.push_back(v.id);
    ValueId control =
        append({.op = Opcode::loop, .type = {}, .block_count = 1, .first_block = block}, operands, scopes_.size() - 1);
    return results_of(control, init);
}

void Builder::loop(Expr low, Expr high, Expr step, const std::function<void(Expr index)>& body) {
    loop(low, high, step, {}, [&](Expr index, const Values&) {
        body(index);
        return Values{};
    });
}

Builder::Values Builder::branch(Expr condition, const std::function<Values()>& then, const std::function<Values()>& otherwise) {
    CHECK(condition.type() == boolean_type, "a branch asks for a boolean");
    if (is_constant(condition)) return constant_bits(condition) ? then() : otherwise();
    BlockId first(kernel_.blocks.size());
    kernel_.blocks.resize(kernel_.blocks.size() + 2);
    open_scope(first, false);
    assume(condition);
    Values if_true = then();
    close_scope(if_true);
    open_scope(BlockId(first.value + 1), false);
    Values if_false = otherwise();
    CHECK(if_true.size() == if_false.size(), "both sides of a branch give the same values");
    for (size_t i = 0; i < if_true.size(); ++i)
        CHECK(if_true[i].type() == if_false[i].type(), "both sides of a branch give the same types");
    close_scope(if_false);
    ValueId control =
        append({.op = Opcode::branch, .type = {}, .block_count = 2, .first_block = first}, {condition.id}, scopes_.size() - 1);
    Values results = results_of(control, if_true);
    for (size_t i = 0; i < results.size(); ++i)
        if (is_u32(results[i].type()))
            max_[results[i].id.value] = std::max(max_[if_true[i].id.value], max_[if_false[i].id.value]);
    return results;
}

void Builder::when(Expr condition, const std::function<void()>& then) {
    branch(
        condition,
        [&] {
            then();
            return Values{};
        },
        [] { return Values{}; });
}

void Builder::barrier() {
    effect(Opcode::barrier, {});
    new_versions(false);
}

// ---- subgroups and cooperative matrices ----

Expr Builder::subgroup_reduce(ReduceKind kind, Expr v) {
    bool bits = kind == ReduceKind::bit_and || kind == ReduceKind::bit_or;
    CHECK(!v.type().is_coop() && (bits ? !is_float(v.type().scalar) : v.type().scalar != Scalar::boolean),
          "operand of subgroup_reduce");
    return pure(Opcode::subgroup_reduce, v.type(), {v.id}, static_cast<uint32_t>(kind), 0, Motion::fixed);
}

Expr Builder::subgroup_broadcast(Expr v, uint32_t lane) {
    CHECK(!v.type().is_coop() && lane < max_subgroup_size, "subgroup_broadcast");
    return pure(Opcode::subgroup_broadcast, v.type(), {v.id}, lane, 0, Motion::fixed);
}

Expr Builder::subgroup_shuffle_xor(Expr v, uint32_t mask) {
    CHECK(!v.type().is_coop() && mask < max_subgroup_size, "subgroup_shuffle_xor");
    return mask == 0 ? v : pure(Opcode::subgroup_shuffle_xor, v.type(), {v.id}, mask, 0, Motion::fixed);
}

Expr Builder::coop_fill(Type coop, Expr scalar) {
    CHECK(coop.is_coop() && scalar.type() == coop.element(), "coop_fill takes a scalar of the matrix");
    return pure(Opcode::coop_fill, coop, {scalar.id});
}

Expr Builder::coop_load(Type coop, BindingRef binding, Expr index, Expr stride, bool column_major) {
    CHECK(coop.is_coop() && index.type() == u32_type && stride.type() == u32_type, "coop_load");
    CHECK(kernel_.bindings[binding.index].access != Access::write, "load from write-only binding");
    return load_memory(false, binding.index, Opcode::coop_load, coop, {index.id, stride.id}, column_major_flag(column_major));
}

Expr Builder::coop_load(Type coop, ArrayRef array, Expr index, Expr stride, bool column_major) {
    CHECK(coop.is_coop() && index.type() == u32_type && stride.type() == u32_type, "coop_load");
    CHECK(kernel_.arrays[array.index].space == ArraySpace::workgroup, "cooperative loads read workgroup arrays");
    return load_memory(true, array.index, Opcode::coop_load, coop, {index.id, stride.id},
                       coop_from_array | column_major_flag(column_major));
}

void Builder::coop_store(BindingRef binding, Expr index, Expr stride, Expr matrix, bool column_major) {
    CHECK(matrix.type().is_coop() && index.type() == u32_type && stride.type() == u32_type, "coop_store");
    CHECK(kernel_.bindings[binding.index].access != Access::read, "store to read-only binding");
    effect(Opcode::coop_store, {index.id, stride.id, matrix.id}, binding.index, column_major_flag(column_major));
    version(false, binding.index) = next_version_++;
}

void Builder::coop_store(ArrayRef array, Expr index, Expr stride, Expr matrix, bool column_major) {
    CHECK(matrix.type().is_coop() && index.type() == u32_type && stride.type() == u32_type, "coop_store");
    CHECK(kernel_.arrays[array.index].space == ArraySpace::workgroup, "cooperative stores write workgroup arrays");
    effect(Opcode::coop_store, {index.id, stride.id, matrix.id}, array.index, coop_from_array | column_major_flag(column_major));
    version(true, array.index) = next_version_++;
}

Expr Builder::coop_mul_add(Expr a, Expr b, Expr c) {
    Type ta = a.type(), tb = b.type(), tc = c.type();
    CHECK(ta.is_coop() && tb.is_coop() && tc.is_coop() && ta.use == CoopUse::a && tb.use == CoopUse::b &&
              tc.use == CoopUse::accumulator,
          "coop_mul_add takes matrices of use a, b, accumulator");
    CHECK(ta.rows == tc.rows && tb.cols == tc.cols && ta.cols == tb.rows, "shapes of coop_mul_add");
    return pure(Opcode::coop_mul_add, tc, {a.id, b.id, c.id});
}

Expr Builder::coop_convert(Expr matrix, Scalar to) {
    Type type = matrix.type();
    CHECK(type.is_coop() && is_float(to), "coop_convert");
    if (type.scalar == to) return matrix;
    type.scalar = to;
    return pure(Opcode::coop_convert, type, {matrix.id});
}

Expr Builder::coop_map(Opcode op, Expr matrix, Expr scalar) {
    CHECK(matrix.type().is_coop() && scalar.type() == matrix.type().element(), "coop_map takes a scalar of the matrix");
    CHECK(op == Opcode::add || op == Opcode::sub || op == Opcode::mul || op == Opcode::div || op == Opcode::min ||
              op == Opcode::max,
          "coop_map applies an arithmetic opcode");
    return pure(Opcode::coop_map, matrix.type(), {matrix.id, scalar.id}, static_cast<uint32_t>(op));
}

Kernel Builder::finish() {
    CHECK(scopes_.size() == 1, "finish() inside a block, or twice");
    scopes_.clear();
    home_.clear();
    max_.clear();
    Kernel done = std::exchange(kernel_, {});
    return remove_dead_code(done);
}

}  // namespace darner::kir
