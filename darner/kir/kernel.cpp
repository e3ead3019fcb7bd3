// SPDX-License-Identifier: MIT
// Names of the kernel IR's enums and types, and the structural hash.
#include "darner/kir/kernel.h"

#include <algorithm>

#include "darner/base/hash.h"

namespace darner::kir {

const char* to_string(Scalar scalar) {
    switch (scalar) {
        case Scalar::boolean: return "bool";
        case Scalar::i32: return "i32";
        case Scalar::u32: return "u32";
        case Scalar::f32: return "f32";
        case Scalar::f16: return "f16";
        case Scalar::bf16: return "bf16";
    }
    return "?";
}

const char* to_string(CoopUse use) {
    switch (use) {
        case CoopUse::a: return "a";
        case CoopUse::b: return "b";
        case CoopUse::accumulator: return "accumulator";
    }
    return "?";
}

std::string to_string(const Type& type) {
    std::string scalar = to_string(type.scalar);
    if (type.is_coop())
        return "coop<" + scalar + "," + std::to_string(type.rows) + "," + std::to_string(type.cols) + "," + to_string(type.use) +
               ">";
    return type.lanes == 1 ? scalar : "vec" + std::to_string(type.lanes) + "<" + scalar + ">";
}

const char* to_string(Opcode op) {
    static constexpr const char* names[] = {
#define X(name) #name,
        DARNER_KIR_OPCODES(X)
#undef X
    };
    return static_cast<size_t>(op) < std::size(names) ? names[static_cast<size_t>(op)] : "?";
}

const char* to_string(ReduceKind kind) {
    switch (kind) {
        case ReduceKind::add: return "add";
        case ReduceKind::min: return "min";
        case ReduceKind::max: return "max";
        case ReduceKind::mul: return "mul";
        case ReduceKind::bit_and: return "bit_and";
        case ReduceKind::bit_or: return "bit_or";
    }
    return "?";
}

const char* to_string(AtomicKind kind) {
    switch (kind) {
        case AtomicKind::add: return "add";
        case AtomicKind::min: return "min";
        case AtomicKind::max: return "max";
        case AtomicKind::exchange: return "exchange";
        case AtomicKind::bit_or: return "bit_or";
    }
    return "?";
}

const char* to_string(Access access) {
    switch (access) {
        case Access::read: return "read";
        case Access::write: return "write";
        case Access::inout: return "inout";
    }
    return "?";
}

uint32_t Kernel::workgroup_bytes() const {
    uint64_t bytes = 0;
    for (const Array& array : arrays)
        if (array.space == ArraySpace::workgroup)
            bytes += (uint64_t{array.count} * array.type.lanes * byte_size(array.type.scalar) + 15) & ~uint64_t{15};
    return bytes > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(bytes);
}

namespace {

void hash_type(Hasher& hash, const Type& type) {
    hash.word(static_cast<uint64_t>(type.scalar) | uint64_t{type.lanes} << 8 | uint64_t{type.rows} << 16 |
              uint64_t{type.cols} << 24 | static_cast<uint64_t>(type.use) << 32);
}

// Values are numbered in the order in which the text would print them, so the hash does not depend on how ids were given out.
struct StructuralHash {
    const Kernel& kernel;
    Hasher hash;
    std::vector<uint32_t> number;
    uint32_t next = 0;

    void value(ValueId v) { hash.word(v.value < number.size() ? number[v.value] : ValueId::none); }

    void block(BlockId id) {
        const Block& b = kernel.block(id);
        hash.word(b.arguments.size());
        for (ValueId v : b.arguments) {
            number[v.value] = next++;
            hash_type(hash, kernel.at(v).type);
        }
        hash.word(b.instructions.size());
        for (ValueId v : b.instructions) {
            const Instruction& i = kernel.at(v);
            number[v.value] = next++;
            hash.add(i.op);
            hash_type(hash, i.type);
            hash.word(uint64_t{i.aux} << 32 | i.aux2);
            hash.word(uint64_t{i.operand_count} << 32 | i.block_count);
            for (ValueId operand : kernel.operands_of(v)) value(operand);
            for (uint32_t n = 0; n < i.block_count; ++n) block(BlockId(i.first_block.value + n));
        }
        hash.word(b.yields.size());
        for (ValueId v : b.yields) value(v);
    }
};

}  // namespace

uint64_t structural_hash(const Kernel& kernel) {
    StructuralHash s{kernel, {}, std::vector<uint32_t>(kernel.instructions.size(), ValueId::none)};
    for (uint32_t size : kernel.workgroup_size) s.hash.word(size);
    s.hash.word(kernel.required_subgroup_size);
    s.hash.word(kernel.bindings.size());
    for (const Binding& b : kernel.bindings) {
        s.hash.word(static_cast<uint64_t>(b.scalar) | uint64_t{b.lanes} << 8 | static_cast<uint64_t>(b.access) << 16 |
                    uint64_t{b.in_written_buffer} << 24);
        s.hash.word(b.elements);
    }
    s.hash.word(kernel.arrays.size());
    for (const Array& a : kernel.arrays) {
        hash_type(s.hash, a.type);
        s.hash.word(uint64_t{a.count} << 1 | static_cast<uint64_t>(a.space));
    }
    s.hash.word(kernel.params.size());
    if (!kernel.blocks.empty()) s.block(BlockId(0u));
    return s.hash.value();
}

bool same_structure(const Kernel& x, const Kernel& y) {
    const auto same_range = [](const auto& a, const auto& b, auto equal) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
    };
    const auto bindings = [](const Binding& a, const Binding& b) {
        return a.scalar == b.scalar && a.lanes == b.lanes && a.access == b.access && a.elements == b.elements &&
               a.in_written_buffer == b.in_written_buffer;
    };
    const auto arrays = [](const Array& a, const Array& b) {
        return a.space == b.space && a.type == b.type && a.count == b.count;
    };
    const auto instructions = [&](const Instruction& a, const Instruction& b) {
        return a.op == b.op && a.type == b.type && a.aux == b.aux && a.aux2 == b.aux2 && a.first_operand == b.first_operand &&
               a.operand_count == b.operand_count && a.block_count == b.block_count && a.first_block == b.first_block;
    };
    const auto blocks = [](const Block& a, const Block& b) {
        return a.arguments == b.arguments && a.instructions == b.instructions && a.yields == b.yields;
    };
    return x.workgroup_size == y.workgroup_size && x.required_subgroup_size == y.required_subgroup_size &&
           x.params.size() == y.params.size() && x.operands == y.operands && same_range(x.bindings, y.bindings, bindings) &&
           same_range(x.arrays, y.arrays, arrays) && same_range(x.instructions, y.instructions, instructions) &&
           same_range(x.blocks, y.blocks, blocks);
}

}  // namespace darner::kir
