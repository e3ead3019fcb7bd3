// SPDX-License-Identifier: MIT
#include "darner/emit/spirv_module.h"

#include "darner/base/check.h"
#include "darner/base/fault.h"

#include <algorithm>

namespace darner::spirv {

namespace {

// A literal string: UTF-8, closed by a zero byte, padded to whole words, low byte first.
void append_string(std::vector<Word>& operands, std::string_view text) {
    for (size_t i = 0; i <= text.size(); i += 4) {
        uint32_t word = 0;
        for (size_t j = 0; j < 4 && i + j < text.size(); ++j) word |= uint32_t(uint8_t(text[i + j])) << (8 * j);
        operands.push_back(word);
    }
}

}  // namespace

void append(Section& section, Op op, std::span<const Word> operands) {
    const size_t count = operands.size() + 1;
    CHECK(count <= 0xffff, "a SPIR-V instruction holds at most 65535 words");
    section.push_back(uint32_t(count) << 16 | uint32_t(op));
    for (const Word& w : operands) section.push_back(w.value);
}

void Module::name(SpirvId id, std::string_view name) {
    name = name.substr(0, std::min<size_t>(name.find('\0'), 255));  // a zero byte would end it early
    if (name.empty()) return;
    std::vector<Word> operands{id};
    append_string(operands, name);
    append(names_, Op::Name, operands);
}

void Module::decorate(SpirvId id, Decoration d, std::initializer_list<Word> arguments) {
    std::vector<Word> operands{id, d};
    operands.insert(operands.end(), arguments.begin(), arguments.end());
    append(annotations_, Op::Decorate, operands);
}

SpirvId Module::glsl() {
    if (!glsl_.valid()) glsl_ = fresh();
    return glsl_;
}

SpirvId Module::intern(Op op, std::initializer_list<Word> operands) {
    std::vector<uint32_t> key{uint32_t(op)};
    for (const Word& w : operands) key.push_back(w.value);
    auto [it, added] = interned_.try_emplace(std::move(key));
    if (added) {
        it->second = fresh();
        std::vector<Word> words{it->second};
        words.insert(words.end(), operands.begin(), operands.end());
        append(globals_, op, words);
    }
    return it->second;
}

SpirvId Module::intern_typed(Op op, SpirvId type, std::span<const Word> operands) {
    std::vector<uint32_t> key{uint32_t(op), type.value};
    for (const Word& w : operands) key.push_back(w.value);
    auto [it, added] = interned_.try_emplace(std::move(key));
    if (added) {
        it->second = fresh();
        std::vector<Word> words{type, it->second};
        words.insert(words.end(), operands.begin(), operands.end());
        append(globals_, op, words);
    }
    return it->second;
}

SpirvId Module::scalar_type(kir::Scalar scalar) {
    switch (scalar) {
        case kir::Scalar::boolean: return intern(Op::TypeBool, {});
        case kir::Scalar::i32: return intern(Op::TypeInt, {32u, 1u});
        case kir::Scalar::u32: return intern(Op::TypeInt, {32u, 0u});
        case kir::Scalar::f32: return intern(Op::TypeFloat, {32u});
        case kir::Scalar::f16: return intern(Op::TypeFloat, {16u});
        case kir::Scalar::bf16: return intern(Op::TypeFloat, {16u, fp_encoding_bfloat16});
    }
    bug(__FILE__, __LINE__, "unknown scalar");
}

SpirvId Module::type(const kir::Type& type) {
    const SpirvId scalar = scalar_type(type.scalar);
    if (type.is_coop())
        return intern(Op::TypeCooperativeMatrixKHR,
                      {scalar, u32(uint32_t(Scope::Subgroup)), u32(type.rows), u32(type.cols), u32(uint32_t(type.use))});
    if (type.lanes == 1) return scalar;
    return intern(Op::TypeVector, {scalar, uint32_t(type.lanes)});
}

SpirvId Module::array_type(SpirvId element, uint32_t count) { return intern(Op::TypeArray, {element, u32(count)}); }

SpirvId Module::runtime_array_type(SpirvId element, uint32_t stride) {
    const uint32_t before = next_id_;
    const SpirvId id = intern(Op::TypeRuntimeArray, {element});
    if (id.value == before)
        decorate(id, Decoration::ArrayStride, {fault(24) ? 4 : stride});  // new: the stride follows from the element
    return id;
}

SpirvId Module::struct_type(std::span<const SpirvId> members, std::span<const uint32_t> offsets) {
    const SpirvId id = fresh();
    std::vector<Word> words{id};
    words.insert(words.end(), members.begin(), members.end());
    append(globals_, Op::TypeStruct, words);
    decorate(id, Decoration::Block);
    for (uint32_t i = 0; i < offsets.size(); ++i)
        append(annotations_, Op::MemberDecorate, {id, i, Decoration::Offset, offsets[i]});
    return id;
}

SpirvId Module::pair_type(SpirvId member) { return intern(Op::TypeStruct, {member, member}); }

SpirvId Module::constant(const kir::Type& type, uint32_t bits) {
    if (!type.is_scalar()) {
        const SpirvId element = constant(type.element(), bits);
        const std::vector<Word> parts(type.is_coop() ? 1 : type.lanes, Word(element));
        return constant_composite(this->type(type), parts);
    }
    const SpirvId id = this->type(type);
    if (type.scalar == kir::Scalar::boolean) return intern_typed(bits ? Op::ConstantTrue : Op::ConstantFalse, id, {});
    const Word word(kir::byte_size(type.scalar) == 2 ? bits & 0xffff : bits);
    return intern_typed(Op::Constant, id, std::span<const Word>(&word, 1));
}

SpirvId Module::variable(StorageClass storage, SpirvId pointee) {
    const SpirvId pointer = pointer_type(storage, pointee);
    const SpirvId id = fresh();
    append(globals_, Op::Variable, {pointer, id, storage});
    interface_.push_back(id);
    return id;
}

std::vector<uint32_t> Module::assemble(SpirvId entry, std::array<uint32_t, 3> workgroup_size, uint32_t memory_model,
                                       const Section& body) const {
    Section out{magic, version_1_5, 0, next_id_, 0};
    for (Capability c : capabilities_) append(out, Op::Capability, {c});
    for (const std::string& name : extensions_) {
        std::vector<Word> operands;
        append_string(operands, name);
        append(out, Op::Extension, operands);
    }
    if (glsl_.valid()) {
        std::vector<Word> operands{glsl_};
        append_string(operands, "GLSL.std.450");
        append(out, Op::ExtInstImport, operands);
    }
    append(out, Op::MemoryModel, {addressing_logical, memory_model});
    std::vector<Word> operands{execution_model_gl_compute, entry};
    append_string(operands, "main");
    operands.insert(operands.end(), interface_.begin(), interface_.end());
    append(out, Op::EntryPoint, operands);
    append(out, Op::ExecutionMode, {entry, execution_mode_local_size, workgroup_size[0], workgroup_size[1], workgroup_size[2]});
    if (std::find(capabilities_.begin(), capabilities_.end(), Capability::SignedZeroInfNanPreserve) != capabilities_.end())
        append(out, Op::ExecutionMode, {entry, execution_mode_signed_zero_inf_nan_preserve, 32u});
    for (const Section* s : {&names_, &annotations_, &globals_, &body}) out.insert(out.end(), s->begin(), s->end());
    return out;
}

}  // namespace darner::spirv
