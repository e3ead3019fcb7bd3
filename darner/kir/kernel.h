// SPDX-License-Identifier: MIT
// Kernel IR: what one compute kernel does, structured and typed, with nothing that only one target has. Kernels are
// made with kir::Builder (builder.h), checked by verify() (verify.h), run by the interpreter (interpret.h), printed and
// parsed as text (text.h), and turned into SPIR-V or WGSL by emit/.
//
// Semantics
//   Values       SSA. A value is the instruction that makes it (or a block argument). Instructions sit in blocks; a block
//                sees the values of the blocks round it. No gotos: control is `loop` and `branch`.
//   Integers     i32 and u32 wrap. Shift counts are below 32. Division and remainder truncate; the divisor is never zero
//                (a graph op that allows it guards with select); the interpreter reports a zero divisor.
//   Floats       f32 arithmetic is correctly rounded or better where contracted to fma; no promise is made for NaN and
//                infinity through min, max and comparisons, so tests for them go through bitcast. Math functions have the
//                bounds of Vulkan and WGSL (exp: 3 + 2|x| ULP, sin and cos: 2^-11 absolute in [-pi, pi], ...).
//   Conversions  float to int truncates and saturates, NaN gives 0 (emitters add what the target lacks); int to float rounds
//                to nearest; i32 to u32 and back keep the bits; bool to number gives 0 or 1; number to bool is x != 0.
//   Constants    A constant's aux holds its bits: 16-bit scalars in the low half, a boolean as 0 or 1. A constant of a vector
//                type is a splat.
//   f16, bf16    f16 has arithmetic; bf16 is only stored, loaded, selected, converted and used in cooperative matrices.
//   Order        Instructions of one invocation happen in order. Between invocations of one workgroup only `barrier` orders
//                accesses; between workgroups nothing does within a dispatch.
//   Bounds       An access outside a binding or array is a bug of the kernel: the interpreter reports it; devices may do
//                anything. Archetypes clamp or guard.
//   Barriers     `barrier` stands only in control flow that is uniform over the workgroup: not below a branch or a loop
//                whose condition or bounds depend on a local id or on loaded data. There is no early return.
//   Bindings     A binding has one element scalar. Element index i of lanes L touches scalars [i*L, (i+1)*L). A `load` of
//                scalar type from a vector binding reads one component: its index counts scalars. A storage range is bound
//                once per dispatch (in-place kernels have one `inout` binding).
//   Storage      Bindings hold 32-bit scalars, or f16/bf16 where Caps say so. Smaller dtypes are packed into u32 words by
//                kernels/storage.h; one invocation owns each word it writes.
//   Private      Private arrays are indexed by constants only; cooperative accumulators live in them.
//   Cooperative  Cooperative matrices belong to a subgroup; every invocation of it takes part, in uniform control flow. Memory
//                behind a load or store has the matrix's scalar, or u32 words that pack two of its 16-bit elements.
#pragma once

#include "darner/base/ids.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace darner::kir {

enum class Scalar : uint8_t { boolean, i32, u32, f32, f16, bf16 };
const char* to_string(Scalar scalar);
constexpr uint32_t byte_size(Scalar s) { return s == Scalar::f16 || s == Scalar::bf16 ? 2 : 4; }
constexpr bool is_float(Scalar s) { return s == Scalar::f32 || s == Scalar::f16 || s == Scalar::bf16; }

enum class CoopUse : uint8_t { a, b, accumulator };
const char* to_string(CoopUse use);

// Type of a value: a scalar, a vector of 2 or 4, or a cooperative matrix (rows and cols above zero).
struct Type {
    Scalar scalar = Scalar::f32;
    uint8_t lanes = 1;
    uint8_t rows = 0, cols = 0;
    CoopUse use = CoopUse::a;

    bool is_coop() const { return rows != 0; }
    bool is_scalar() const { return lanes == 1 && rows == 0; }
    Type element() const { return {scalar}; }
    Type with_lanes(uint8_t n) const { return {scalar, n}; }
    bool operator==(const Type&) const = default;
};
inline constexpr Type boolean_type{Scalar::boolean}, i32_type{Scalar::i32}, u32_type{Scalar::u32}, f32_type{Scalar::f32};
inline constexpr Type f16_type{Scalar::f16}, bf16_type{Scalar::bf16};
std::string to_string(const Type& type);  // "f32", "vec4<f32>", "coop<f16,16,16,a>"

// Operands are listed behind each opcode; `aux` is the instruction's immediate.
// clang-format off
#define DARNER_KIR_OPCODES(X)                                                                          \
    /* leaves; aux: see Instruction */                                                                 \
    X(constant) X(argument) X(workgroup_id) X(num_workgroups) X(local_id) X(local_index)               \
    X(subgroup_id) X(lane_id) X(subgroup_size) X(param)                                                \
    /* arithmetic, elementwise over vectors: a b (c) */                                                \
    X(add) X(sub) X(mul) X(div) X(rem) X(min) X(max) X(neg) X(abs) X(fma)                              \
    /* integers and booleans */                                                                        \
    X(bit_and) X(bit_or) X(bit_xor) X(bit_not) X(shl) X(shr) X(mul_high)                               \
    /* comparisons give boolean; select: condition, if_true, if_false */                               \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(select)                                                      \
    X(convert) X(bitcast)                                                                              \
    /* float functions */                                                                              \
    X(floor) X(ceil) X(trunc) X(round_even) X(exp) X(exp2) X(log) X(log2) X(sqrt) X(rsqrt)             \
    X(sin) X(cos) X(tanh) X(pow)                                                                       \
    /* vectors; extract: aux is the lane */                                                            \
    X(make_vector) X(extract) X(pack_half2) X(unpack_half2)                                            \
    /* memory; aux is the binding or array. load: index. store: index value */                         \
    X(load) X(store) X(array_load) X(array_store)                                                      \
    /* atomics on u32 or i32 bindings: index value; aux2 is the AtomicKind; gives the old value */     \
    X(atomic)                                                                                          \
    /* control: loop: low high step init...; branch: condition. Results through `result` (aux index) */ \
    X(loop) X(branch) X(result) X(barrier)                                                             \
    /* subgroups; reduce: aux is ReduceKind; broadcast: value, aux lane; shuffle_xor: value, aux mask */ \
    X(subgroup_reduce) X(subgroup_broadcast) X(subgroup_shuffle_xor)                                   \
    /* cooperative matrices. fill: scalar. load: index stride (elements of the binding's or array's      \
       vectors); aux memory, aux2 CoopMemory flags. store: index stride matrix. mul_add: a b c.          \
       map: f32 arithmetic opcode in aux applied to matrix and scalar */                               \
    X(coop_fill) X(coop_load) X(coop_store) X(coop_mul_add) X(coop_convert) X(coop_map)
// clang-format on

enum class Opcode : uint8_t {
#define X(name) name,
    DARNER_KIR_OPCODES(X)
#undef X
};
const char* to_string(Opcode op);

// Classes of opcodes, which stand together in the list above.
// Where an invocation is: u32 leaves that the target provides. The first three have an axis, in aux.
constexpr bool is_id(Opcode op) { return op >= Opcode::workgroup_id && op <= Opcode::subgroup_size; }
constexpr bool is_id_with_axis(Opcode op) { return op >= Opcode::workgroup_id && op <= Opcode::local_id; }
constexpr bool is_comparison(Opcode op) { return op >= Opcode::eq && op <= Opcode::ge; }
constexpr bool is_rounding(Opcode op) { return op >= Opcode::floor && op <= Opcode::round_even; }
// The float functions of one operand; `pow` is the one of two.
constexpr bool is_float_function(Opcode op) { return op >= Opcode::floor && op <= Opcode::tanh; }

enum class ReduceKind : uint8_t { add, min, max, mul, bit_and, bit_or };
enum class AtomicKind : uint8_t { add, min, max, exchange, bit_or };
const char* to_string(ReduceKind kind);
const char* to_string(AtomicKind kind);

// aux2 of coop_load and coop_store.
enum CoopMemory : uint32_t {
    coop_from_array = 1,    // aux names an array, else a binding
    coop_column_major = 2,  // else row-major
};

struct ValueTag;
struct BlockTag;
using ValueId = Id<ValueTag>;
using BlockId = Id<BlockTag>;

struct Instruction {
    Opcode op = Opcode::constant;
    Type type;                   // of the result; meaningless where there is none (store, barrier, ...)
    uint32_t first_operand = 0;  // into Kernel::operands
    uint16_t operand_count = 0;
    uint16_t block_count = 0;  // loop: 1; branch: 2 (then, else)
    BlockId first_block = {};  // blocks of one instruction have consecutive ids
    uint32_t aux = 0;          // axis, parameter, binding, array, lane, result or argument index; bits of a constant
    uint32_t aux2 = 0;
};

// arguments: of a loop, the index and then the carried values; of a branch, none.
// yields: of a loop, the next carried values; of a branch, its results.
struct Block {
    std::vector<ValueId> arguments, instructions, yields;
};

enum class Access : uint8_t { read, write, inout };
const char* to_string(Access access);

struct Binding {
    std::string name;
    Scalar scalar = Scalar::f32;
    uint8_t lanes = 1;
    Access access = Access::read;
    uint64_t elements = 0;  // of `lanes` scalars, that the kernel may touch; checked by the interpreter. 0: all of the window
    // Of a read binding: other bytes of the same buffer are written in the dispatch. Targets that allow one access per buffer and
    // dispatch then declare it writable; nothing else changes.
    bool in_written_buffer = false;
};

enum class ArraySpace : uint8_t { workgroup, private_ };

struct Array {
    std::string name;
    ArraySpace space = ArraySpace::workgroup;
    Type type;  // scalar or vector; cooperative matrix only when private
    uint32_t count = 0;
};

struct Kernel {
    std::string name;
    std::array<uint32_t, 3> workgroup_size = {1, 1, 1};
    uint32_t required_subgroup_size = 0;  // 0: any
    std::vector<Binding> bindings;
    std::vector<Array> arrays;
    std::vector<std::string> params;  // u32 words fixed at recording, 16 at most
    std::vector<Instruction> instructions;
    std::vector<ValueId> operands;
    std::vector<Block> blocks;  // blocks[0] is the body

    const Instruction& at(ValueId v) const { return instructions[v.value]; }
    std::span<const ValueId> operands_of(ValueId v) const {
        const Instruction& i = at(v);
        return {operands.data() + i.first_operand, i.operand_count};
    }
    ValueId operand(ValueId v, size_t i) const { return operands[at(v).first_operand + i]; }
    const Block& block(BlockId b) const { return blocks[b.value]; }
    uint32_t invocations() const { return workgroup_size[0] * workgroup_size[1] * workgroup_size[2]; }
    uint32_t workgroup_bytes() const;  // of all workgroup arrays
};

inline constexpr uint32_t max_param_words = 16;

// Hash of everything but the names: kernels of equal hash share one pipeline.
uint64_t structural_hash(const Kernel& kernel);
// Equal in everything that the hash covers, for kernels of one numbering (a Builder's finish() numbers in text order).
bool same_structure(const Kernel& x, const Kernel& y);

}  // namespace darner::kir
