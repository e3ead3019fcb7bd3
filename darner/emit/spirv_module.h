// SPDX-License-Identifier: MIT
// A SPIR-V module under construction: fresh ids, interned types and constants, and the sections in the order that the
// specification asks for. It knows nothing of kernels beyond their types.
#pragma once

#include "darner/base/ids.h"
#include "darner/emit/spirv_words.h"
#include "darner/kir/kernel.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace darner::spirv {

struct SpirvTag;
using SpirvId = Id<SpirvTag>;

// One operand word: an id, a literal or an enumerator.
struct Word {
    uint32_t value;
    Word(SpirvId id) : value(id.value) {}
    Word(uint32_t literal) : value(literal) {}
    template <class E>
    requires std::is_enum_v<E> Word(E e) : value(static_cast<uint32_t>(e)) {}
};

using Section = std::vector<uint32_t>;
void append(Section& section, Op op, std::span<const Word> operands);
inline void append(Section& section, Op op, std::initializer_list<Word> operands) {
    append(section, op, std::span<const Word>(operands.begin(), operands.size()));
}

class Module {
public:
    SpirvId fresh() { return SpirvId(next_id_++); }

    void capability(Capability c) { capabilities_.insert(c); }
    void extension(std::string_view name) { extensions_.insert(std::string(name)); }
    void name(SpirvId id, std::string_view name);
    void decorate(SpirvId id, Decoration d, std::initializer_list<Word> arguments = {});
    SpirvId glsl();  // the extended instruction set, imported at first use

    // Types. Equal types are one id, except structs, which are told apart by their decorations.
    SpirvId void_type() { return intern(Op::TypeVoid, {}); }
    SpirvId type(const kir::Type& type);
    SpirvId pointer_type(StorageClass storage, SpirvId pointee) { return intern(Op::TypePointer, {storage, pointee}); }
    SpirvId array_type(SpirvId element, uint32_t count);  // no layout: workgroup and private
    SpirvId runtime_array_type(SpirvId element, uint32_t stride);
    SpirvId struct_type(std::span<const SpirvId> members, std::span<const uint32_t> offsets);  // a Block
    SpirvId pair_type(SpirvId member);  // {T, T}, as OpUMulExtended gives it
    SpirvId function_type() { return intern(Op::TypeFunction, {void_type()}); }

    // Constants. `bits` are those of the scalar type; a vector type gives a splat.
    SpirvId constant(const kir::Type& type, uint32_t bits);
    SpirvId u32(uint32_t v) { return constant(kir::u32_type, v); }
    SpirvId undef(SpirvId type) { return intern_typed(Op::Undef, type, {}); }
    SpirvId constant_composite(SpirvId type, std::span<const Word> parts) {
        return intern_typed(Op::ConstantComposite, type, parts);
    }

    // A module-scope variable; it joins the entry point's interface.
    SpirvId variable(StorageClass storage, SpirvId pointee);

    // Puts the sections together round one entry point whose function is `body`.
    std::vector<uint32_t> assemble(SpirvId entry, std::array<uint32_t, 3> workgroup_size, uint32_t memory_model,
                                   const Section& body) const;

private:
    SpirvId intern(Op op, std::initializer_list<Word> operands);
    SpirvId intern_typed(Op op, SpirvId type, std::span<const Word> operands);
    SpirvId scalar_type(kir::Scalar scalar);

    uint32_t next_id_ = 1;
    std::set<Capability> capabilities_;
    std::set<std::string> extensions_;
    Section names_, annotations_, globals_;
    std::vector<SpirvId> interface_;
    std::map<std::vector<uint32_t>, SpirvId> interned_;  // key: opcode and operands
    SpirvId glsl_;
};

}  // namespace darner::spirv
