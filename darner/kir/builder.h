// SPDX-License-Identifier: MIT
// Builds a Kernel. Pure instructions are value-numbered within their scope, constants are folded, and index arithmetic is
// simplified with known upper bounds (x % n is x when x < n), so archetypes may write the plain formula and emit it often.
// Misuse (mixed types, a constant index that is none) is our own mistake: CHECK.
#pragma once

#include "darner/kir/kernel.h"

#include <functional>
#include <initializer_list>
#include <string_view>

namespace darner::kir {

class Builder;

// A value together with its builder, so that formulas read as formulas. Operators ask for equal types; a C++ number on one
// side becomes a constant of the other side's type. Comparisons give boolean.
struct Expr {
    Builder* builder = nullptr;
    ValueId id = {};
    bool valid() const { return builder != nullptr; }
    const Type& type() const;
};

struct BindingRef {
    uint32_t index = 0;
};
struct ArrayRef {
    uint32_t index = 0;
};

class Builder {
public:
    explicit Builder(std::string name);
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;
    ~Builder();

    // Declarations. A binding's index is its slot in the dispatch.
    void workgroup_size(uint32_t x, uint32_t y = 1, uint32_t z = 1);
    void require_subgroup_size(uint32_t size);
    BindingRef binding(std::string name, Scalar scalar, uint8_t lanes, Access access, uint64_t elements);
    ArrayRef workgroup_array(std::string name, Type type, uint32_t count);
    ArrayRef private_array(std::string name, Type type, uint32_t count);
    Expr param(std::string name);  // u32 word of the record fixed at recording

    // Leaves.
    Expr f32(float v);
    Expr u32(uint32_t v);
    Expr i32(int32_t v);
    Expr boolean(bool v);
    Expr constant(Type type, double v);  // scalar or splat of a vector
    Expr workgroup_id(uint32_t axis);
    Expr num_workgroups(uint32_t axis);
    Expr local_id(uint32_t axis);
    Expr local_index();
    Expr subgroup_id();
    Expr lane_id();
    Expr subgroup_size();
    // States that a u32 value is at most `max`, up to the end of the current block; the caller vouches for it. (A branch on
    // `x < n` states it for its own `then` block.)
    Expr assume_max(Expr v, uint32_t max);
    uint32_t max_of(Expr v) const;  // known upper bound of a u32 value
    bool is_constant(Expr v) const;
    uint32_t constant_bits(Expr v) const;

    // Arithmetic; operators below call these.
    Expr binary(Opcode op, Expr a, Expr b);
    Expr unary(Opcode op, Expr a);
    Expr min(Expr a, Expr b) { return binary(Opcode::min, a, b); }
    Expr max(Expr a, Expr b) { return binary(Opcode::max, a, b); }
    Expr fma(Expr a, Expr b, Expr c);
    Expr neg(Expr a) { return unary(Opcode::neg, a); }
    Expr abs(Expr a) { return unary(Opcode::abs, a); }
    Expr floor(Expr a) { return unary(Opcode::floor, a); }
    Expr ceil(Expr a) { return unary(Opcode::ceil, a); }
    Expr trunc(Expr a) { return unary(Opcode::trunc, a); }
    Expr round_even(Expr a) { return unary(Opcode::round_even, a); }
    Expr exp(Expr a) { return unary(Opcode::exp, a); }
    Expr exp2(Expr a) { return unary(Opcode::exp2, a); }
    Expr log(Expr a) { return unary(Opcode::log, a); }
    Expr log2(Expr a) { return unary(Opcode::log2, a); }
    Expr sqrt(Expr a) { return unary(Opcode::sqrt, a); }
    Expr rsqrt(Expr a) { return unary(Opcode::rsqrt, a); }
    Expr sin(Expr a) { return unary(Opcode::sin, a); }
    Expr cos(Expr a) { return unary(Opcode::cos, a); }
    Expr tanh(Expr a) { return unary(Opcode::tanh, a); }  // clamped: right for any argument
    Expr pow(Expr a, Expr b) { return binary(Opcode::pow, a, b); }
    Expr mul_high(Expr a, Expr b) { return binary(Opcode::mul_high, a, b); }  // u32: high word of the product
    Expr select(Expr condition, Expr if_true, Expr if_false);
    Expr convert(Expr a, Scalar to);
    Expr bitcast(Expr a, Scalar to);
    Expr make_vector(std::initializer_list<Expr> parts);
    Expr make_vector(std::span<const Expr> parts);
    Expr extract(Expr vector, uint32_t lane);
    Expr pack_half2(Expr low, Expr high);  // two f32, rounded to nearest even -> u32
    Expr unpack_half2(Expr word);          // u32 -> vec2<f32>

    // Memory. Loads from `read` bindings are pure: equal loads in one scope are one load.
    Expr load(BindingRef binding, Expr index);
    void store(BindingRef binding, Expr index, Expr value);
    // A scalar component of a vector binding (reads only): scalar index.
    Expr load_scalar(BindingRef binding, Expr scalar_index);
    Expr load(ArrayRef array, Expr index);
    void store(ArrayRef array, Expr index, Expr value);
    Expr atomic(AtomicKind kind, BindingRef binding, Expr index, Expr value);

    // Control. `loop` runs for index = low; index < high; index += step (u32) and gives the carried values at the end.
    using Values = std::vector<Expr>;
    Values loop(Expr low, Expr high, Expr step, Values init,
                const std::function<Values(Expr index, const Values& carried)>& body);
    void loop(Expr low, Expr high, Expr step, const std::function<void(Expr index)>& body);
    Values branch(Expr condition, const std::function<Values()>& then, const std::function<Values()>& otherwise);
    void when(Expr condition, const std::function<void()>& then);
    void barrier();

    // Subgroups.
    Expr subgroup_reduce(ReduceKind kind, Expr v);
    Expr subgroup_broadcast(Expr v, uint32_t lane);
    Expr subgroup_shuffle_xor(Expr v, uint32_t mask);

    // Cooperative matrices. Index and stride count elements of the binding or array (vectors of `lanes`).
    Expr coop_fill(Type coop, Expr scalar);
    Expr coop_load(Type coop, BindingRef binding, Expr index, Expr stride, bool column_major = false);
    Expr coop_load(Type coop, ArrayRef array, Expr index, Expr stride, bool column_major = false);
    void coop_store(BindingRef binding, Expr index, Expr stride, Expr matrix, bool column_major = false);
    void coop_store(ArrayRef array, Expr index, Expr stride, Expr matrix, bool column_major = false);
    Expr coop_mul_add(Expr a, Expr b, Expr c);
    Expr coop_convert(Expr matrix, Scalar to);
    Expr coop_map(Opcode op, Expr matrix, Expr scalar);

    // Ends building; the builder is empty afterwards.
    Kernel finish();

    const Kernel& kernel() const { return kernel_; }

private:
    struct Key {
        Opcode op;
        Type type;
        uint32_t aux, aux2, version;
        std::array<ValueId, 4> operands;
        uint8_t count;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        size_t operator()(const Key& key) const;
    };
    struct Scope;
    using Ids = std::vector<ValueId>;
    // Where a pure instruction may stand: at the top of the kernel, before the loops that it does not depend on, or here.
    enum class Motion { leaf, invariant, fixed };

    // builder.cpp: numbering, placement, scopes.
    Expr pure(Opcode op, Type type, const Ids& operands, uint32_t aux = 0, uint32_t aux2 = 0, Motion motion = Motion::invariant,
              uint32_t version = 0);
    ValueId append(const Instruction& inst, const Ids& operands, size_t scope);
    void effect(Opcode op, const Ids& operands, uint32_t aux = 0, uint32_t aux2 = 0);
    Expr constant_of_bits(Type type, uint32_t bits);
    void check_operand(ValueId v) const;
    size_t scope_of(ValueId v) const;  // index of the open scope in which v stands
    uint32_t bound(Opcode op, Type type, const Ids& operands, uint32_t aux) const;
    void set_max(ValueId v, uint32_t max);
    void assume(Expr condition);
    uint32_t& version(bool array, uint32_t memory);
    void new_versions(bool also_private);
    void open_scope(BlockId block, bool is_loop);
    void close_scope(const Values& yields);
    ValueId add_argument(BlockId block, Type type, uint32_t index, uint32_t max);
    Values results_of(ValueId control, const Values& like);
    Expr load_memory(bool array, uint32_t memory, Opcode op, Type type, const Ids& operands, uint32_t aux2 = 0);

    // simplify.cpp: each gives an invalid Expr where no rule applies.
    Expr fold(Opcode op, Type type, const Ids& operands);
    Expr simplify(Opcode op, Expr a, Expr b);
    Expr simplify_integer(Opcode op, Expr a, Expr b);
    Expr simplify_float(Opcode op, Expr a, Expr b);
    Expr simplify_comparison(Opcode op, Expr a, Expr b);
    Expr divide_u32(Expr a, uint32_t divisor);
    Expr remainder_u32(Expr a, uint32_t divisor);

    Kernel kernel_;
    std::vector<Scope> scopes_;
    std::vector<BlockId> home_;                              // per value: the block that it stands in
    std::vector<uint32_t> max_;                              // per value: upper bound of a u32 (of each lane)
    std::vector<uint32_t> binding_version_, array_version_;  // changed by stores, so that loads behind them are new
    uint32_t next_version_ = 1;
    bool workgroup_size_set_ = false;
    friend struct Expr;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator%(Expr a, Expr b);
Expr operator&(Expr a, Expr b);
Expr operator|(Expr a, Expr b);
Expr operator^(Expr a, Expr b);
Expr operator<<(Expr a, Expr b);
Expr operator>>(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
Expr operator!=(Expr a, Expr b);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator!(Expr a);

template <class N>
concept Number = std::is_arithmetic_v<N> && !std::is_same_v<N, bool>;
template <Number N>
Expr operator+(Expr a, N b) {
    return a + a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator-(Expr a, N b) {
    return a - a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator*(Expr a, N b) {
    return a * a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator/(Expr a, N b) {
    return a / a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator%(Expr a, N b) {
    return a % a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator&(Expr a, N b) {
    return a & a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator|(Expr a, N b) {
    return a | a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator^(Expr a, N b) {
    return a ^ a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator<<(Expr a, N b) {
    return a << a.builder->constant(u32_type, static_cast<double>(b));
}
template <Number N>
Expr operator>>(Expr a, N b) {
    return a >> a.builder->constant(u32_type, static_cast<double>(b));
}
template <Number N>
Expr operator==(Expr a, N b) {
    return a == a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator!=(Expr a, N b) {
    return a != a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator<(Expr a, N b) {
    return a < a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator<=(Expr a, N b) {
    return a <= a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator>(Expr a, N b) {
    return a > a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator>=(Expr a, N b) {
    return a >= a.builder->constant(a.type(), static_cast<double>(b));
}
template <Number N>
Expr operator-(N a, Expr b) {
    return b.builder->constant(b.type(), static_cast<double>(a)) - b;
}
template <Number N>
Expr operator+(N a, Expr b) {
    return b + a;
}
template <Number N>
Expr operator*(N a, Expr b) {
    return b * a;
}
template <Number N>
Expr operator/(N a, Expr b) {
    return b.builder->constant(b.type(), static_cast<double>(a)) / b;
}

}  // namespace darner::kir
