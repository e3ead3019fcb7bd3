// SPDX-License-Identifier: MIT
#include "darner/emit/spirv_function.h"

#include "darner/base/check.h"
#include "darner/base/fault.h"
#include "darner/kir/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace darner::spirv {

using kir::Opcode;
using kir::Scalar;

FunctionEmitter::FunctionEmitter(const kir::Kernel& kernel, const Caps& caps, const SpirvOptions& options)
    : kernel_(kernel), caps_(caps), options_(options), features_(features_of(kernel)), values_(kernel.instructions.size()) {}

std::vector<uint32_t> FunctionEmitter::emit() {
    declare_capabilities();
    declare_bindings();
    declare_arrays();
    declare_params();
    const SpirvId function = module_.fresh(), entry = module_.fresh();
    module_.name(function, kernel_.name);
    const SpirvId void_type = module_.void_type(), function_type = module_.function_type();
    block_ = entry;
    load_builtins();
    emit_block(kernel_.blocks[0]);
    emit_void(Op::Return, {});
    emit_void(Op::FunctionEnd, {});

    // The variables stand before the first block's other instructions, but are known only now.
    Section words;
    append(words, Op::Function, {void_type, function, 0u, function_type});
    append(words, Op::Label, {entry});
    words.insert(words.end(), variables_.begin(), variables_.end());
    words.insert(words.end(), body_.begin(), body_.end());
    return module_.assemble(function, kernel_.workgroup_size,
                            caps_.vulkan_memory_model ? memory_model_vulkan : memory_model_glsl450, words);
}

// ---- declarations

void FunctionEmitter::declare_capabilities() {
    module_.capability(Capability::Shader);
    if (caps_.vulkan_memory_model) module_.capability(Capability::VulkanMemoryModel);
    // Without it compilers take x * 0 for 0 and x - x for 0, whatever x is.
    if (caps_.preserves_nan) module_.capability(Capability::SignedZeroInfNanPreserve);
    const bool storage16 = std::any_of(kernel_.bindings.begin(), kernel_.bindings.end(),
                                       [](const kir::Binding& b) { return kir::byte_size(b.scalar) == 2; });
    if (storage16) module_.capability(Capability::StorageBuffer16BitAccess);
    if (features_.f16_arithmetic) module_.capability(Capability::Float16);
    if (features_.subgroup) module_.capability(Capability::GroupNonUniform);
    if (features_.subgroup_reduce) module_.capability(Capability::GroupNonUniformArithmetic);
    if (features_.subgroup_broadcast) module_.capability(Capability::GroupNonUniformBallot);
    if (features_.subgroup_shuffle) module_.capability(Capability::GroupNonUniformShuffle);
    if (features_.coop) {
        module_.capability(Capability::CooperativeMatrixKHR);
        module_.extension("SPV_KHR_cooperative_matrix");
    }
    if (features_.bf16) {
        module_.capability(Capability::BFloat16TypeKHR);
        module_.extension("SPV_KHR_bfloat16");
        if (features_.coop_bf16) module_.capability(Capability::BFloat16CooperativeMatrixKHR);
    }
}

void FunctionEmitter::declare_bindings() {
    std::map<std::pair<Scalar, uint8_t>, SpirvId> blocks;  // bindings of one element type share a struct
    for (uint32_t i = 0; i < kernel_.bindings.size(); ++i) {
        const kir::Binding& b = kernel_.bindings[i];
        SpirvId& block = blocks[{b.scalar, b.lanes}];
        if (!block.valid()) {
            const SpirvId array = module_.runtime_array_type(type({b.scalar, b.lanes}), kir::byte_size(b.scalar) * b.lanes);
            const uint32_t offset = 0;
            block = module_.struct_type({&array, 1}, {&offset, 1});
        }
        const SpirvId variable = module_.variable(StorageClass::StorageBuffer, block);
        module_.name(variable, b.name);
        module_.decorate(variable, Decoration::DescriptorSet, {0u});
        module_.decorate(variable, Decoration::Binding, {i});
        module_.decorate(variable, Decoration::Restrict);
        if (b.access == kir::Access::read) module_.decorate(variable, Decoration::NonWritable);
        bindings_.push_back({StorageClass::StorageBuffer, variable});
    }
}

void FunctionEmitter::declare_arrays() {
    for (uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
        const kir::Array& a = kernel_.arrays[i];
        if (kept_as_values(i)) {
            arrays_.push_back({StorageClass::Function, {}});
            continue;
        }
        const SpirvId array = module_.array_type(type(a.type), a.count);
        SpirvId variable;
        if (a.space == kir::ArraySpace::workgroup) {
            variable = module_.variable(StorageClass::Workgroup, array);
        } else {
            variable = module_.fresh();
            append(variables_, Op::Variable,
                   {module_.pointer_type(StorageClass::Function, array), variable, StorageClass::Function});
        }
        module_.name(variable, a.name);
        arrays_.push_back({a.space == kir::ArraySpace::workgroup ? StorageClass::Workgroup : StorageClass::Function, variable});
    }
}

void FunctionEmitter::declare_params() {
    if (kernel_.params.empty()) return;
    const std::vector<SpirvId> members(kernel_.params.size(), type(kir::u32_type));
    std::vector<uint32_t> offsets;
    for (uint32_t i = 0; i < members.size(); ++i) offsets.push_back(4 * i);
    params_ = module_.variable(StorageClass::PushConstant, module_.struct_type(members, offsets));
    module_.name(params_, "params");
}

namespace {

BuiltIn builtin_of(Opcode id) {
    switch (id) {
        case Opcode::workgroup_id: return BuiltIn::WorkgroupId;
        case Opcode::num_workgroups: return BuiltIn::NumWorkgroups;
        case Opcode::local_id: return BuiltIn::LocalInvocationId;
        case Opcode::local_index: return BuiltIn::LocalInvocationIndex;
        case Opcode::subgroup_id: return BuiltIn::SubgroupId;
        case Opcode::lane_id: return BuiltIn::SubgroupLocalInvocationId;
        case Opcode::subgroup_size: return BuiltIn::SubgroupSize;
        default: bug(__FILE__, __LINE__, std::string("no SPIR-V built-in for kernel IR's ") + kir::to_string(id));
    }
}

}  // namespace

void FunctionEmitter::load_builtin(Opcode id) {
    if (builtins_.count(id)) return;
    // Vulkan's built-ins are vectors of 3, which kernel IR does not have.
    const SpirvId scalar = type(kir::u32_type), wanted = kir::is_id_with_axis(id) ? type({Scalar::u32, 3}) : scalar;
    const SpirvId variable = module_.variable(StorageClass::Input, wanted);
    module_.decorate(variable, Decoration::BuiltIn, {builtin_of(id)});
    builtins_[id] = emit(Op::Load, wanted, {variable});
}

// At the top of the function, so that the values are seen everywhere.
void FunctionEmitter::load_builtins() {
    for (const kir::Block& block : kernel_.blocks)
        for (kir::ValueId v : block.instructions)
            if (const Opcode op = kernel_.at(v).op; kir::is_id(op)) load_builtin(op);
}

// ---- words of the function

SpirvId FunctionEmitter::emit(Op op, SpirvId type, std::span<const Word> operands) {
    const SpirvId id = module_.fresh();
    std::vector<Word> words{type, id};
    words.insert(words.end(), operands.begin(), operands.end());
    append(body_, op, words);
    return id;
}

SpirvId FunctionEmitter::emit_glsl(Glsl instruction, SpirvId type, std::initializer_list<Word> operands) {
    std::vector<Word> words{module_.glsl(), instruction};
    words.insert(words.end(), operands.begin(), operands.end());
    return emit(Op::ExtInst, type, words);
}

void FunctionEmitter::begin_block(SpirvId label) {
    emit_void(Op::Label, {label});
    block_ = label;
}

SpirvId FunctionEmitter::value(kir::ValueId v) const {
    const SpirvId id = values_[v.value];
    CHECK(id.valid(), "a kernel uses a value before it is made");
    return id;
}

// ---- control flow

void FunctionEmitter::emit_block(const kir::Block& block) {
    for (kir::ValueId v : block.instructions) emit_instruction(v);
}

void FunctionEmitter::emit_instruction(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    if (kir::is_id(inst.op)) {
        values_[v.value] = emit_id(inst);
        return;
    }
    switch (inst.op) {
        case Opcode::constant: return emit_constant(v);
        case Opcode::argument: return;  // set by the loop that owns it
        case Opcode::result: values_[v.value] = results_.at(kernel_.operand(v, 0))[inst.aux]; return;
        case Opcode::loop: return emit_loop(v);
        case Opcode::branch: return emit_branch(v);
        case Opcode::barrier: return emit_barrier();
        case Opcode::load: return emit_binding_load(v);
        case Opcode::store: return emit_store(binding_element(inst.aux, operand(v, 0)), operand(v, 1), shared_binding(inst.aux));
        case Opcode::array_load: return emit_array_load(v);
        case Opcode::array_store: return emit_array_store(v);
        case Opcode::atomic: return emit_atomic(v);
        case Opcode::coop_store: return emit_coop_store(v);
        case Opcode::param: values_[v.value] = emit_param(inst); return;
        case Opcode::subgroup_reduce:
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: values_[v.value] = emit_subgroup(v); return;
        case Opcode::coop_fill:
        case Opcode::coop_load:
        case Opcode::coop_mul_add:
        case Opcode::coop_convert:
        case Opcode::coop_map: values_[v.value] = emit_coop(v); return;
        default: values_[v.value] = emit_arithmetic(v); return;
    }
}

void FunctionEmitter::emit_constant(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const Scalar s = inst.type.scalar;
    const float number = s == Scalar::f32    ? std::bit_cast<float>(inst.aux)
                         : s == Scalar::f16  ? kir::f16_to_f32(inst.aux)
                         : s == Scalar::bf16 ? kir::bf16_to_f32(inst.aux)
                                             : 0.0f;
    if (std::isfinite(number)) {
        values_[v.value] = module_.constant(inst.type, inst.aux);
        return;
    }
    // Compilers may assume that no infinity or NaN exists and mangle such literals; bits carry them through.
    const kir::Type f32{Scalar::f32, inst.type.lanes};
    const SpirvId bits = module_.constant({Scalar::u32, inst.type.lanes}, std::bit_cast<uint32_t>(number));
    values_[v.value] = emit_convert(f32, inst.type, emit(Op::Bitcast, type(f32), {bits}));
}

SpirvId FunctionEmitter::emit_id(const kir::Instruction& inst) {
    const SpirvId builtin = builtins_.at(inst.op);
    return kir::is_id_with_axis(inst.op) ? emit(Op::CompositeExtract, type(kir::u32_type), {builtin, inst.aux}) : builtin;
}

SpirvId FunctionEmitter::emit_param(const kir::Instruction& inst) {
    const SpirvId u32 = type(kir::u32_type);
    const SpirvId pointer = access({StorageClass::PushConstant, params_}, u32, {module_.u32(inst.aux)});
    return emit(Op::Load, u32, {pointer});
}

// Elements of kept-as-values arrays that the block or a block in it stores to.
void FunctionEmitter::collect_stores(const kir::Block& block, Elements& stored) const {
    for (kir::ValueId v : block.instructions) {
        const kir::Instruction& inst = kernel_.at(v);
        if (inst.op == Opcode::array_store && kept_as_values(inst.aux)) stored.emplace(element_key(v), SpirvId{});
        for (uint32_t b = 0; b < inst.block_count; ++b) collect_stores(kernel_.blocks[inst.first_block.value + b], stored);
    }
}

// before -> header (phis, exit test) -> body ... -> continue (index + step) -> header; header -> merge.
void FunctionEmitter::emit_loop(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const kir::Block& body = kernel_.block(inst.first_block);
    const SpirvId high = operand(v, 1), step = operand(v, 2), before = block_;
    const SpirvId header = module_.fresh(), body_label = module_.fresh(), continue_label = module_.fresh(),
                  merge = module_.fresh();

    Elements carried_elements;
    collect_stores(body, carried_elements);

    branch_to(header);
    begin_block(header);
    // The value that comes round the loop is known only behind the body: its word is filled in then.
    std::vector<size_t> patches;
    auto phi = [&](SpirvId phi_type, SpirvId first) {
        const SpirvId id = emit(Op::Phi, phi_type, {first, before, 0u, continue_label});
        patches.push_back(body_.size() - 2);
        return id;
    };
    const SpirvId index = phi(type(kir::u32_type), operand(v, 0));
    std::vector<SpirvId> carried;
    for (size_t i = 0; i + 1 < body.arguments.size(); ++i)
        carried.push_back(phi(type(type_of(body.arguments[i + 1])), operand(v, 3 + i)));
    for (auto& [key, id] : carried_elements) {
        const SpirvId element_type = type(kernel_.arrays[key.first].type);
        const auto known = elements_.find(key);
        id = phi(element_type, known != elements_.end() ? known->second : module_.undef(element_type));
    }
    for (const auto& [key, id] : carried_elements) elements_[key] = id;
    values_[body.arguments[0].value] = index;
    for (size_t i = 0; i < carried.size(); ++i) values_[body.arguments[i + 1].value] = carried[i];

    const SpirvId inside = emit(Op::ULessThan, type(kir::boolean_type), {index, high});
    emit_void(Op::LoopMerge, {merge, continue_label, 0u});
    emit_void(Op::BranchConditional, {inside, body_label, merge});

    begin_block(body_label);
    emit_block(body);
    branch_to(continue_label);
    begin_block(continue_label);
    size_t next_patch = 0;
    body_[patches[next_patch++]] = emit(Op::IAdd, type(kir::u32_type), {index, step}).value;
    for (kir::ValueId yield : body.yields) body_[patches[next_patch++]] = value(yield).value;
    for (const auto& entry : carried_elements) body_[patches[next_patch++]] = elements_.at(entry.first).value;
    branch_to(header);

    begin_block(merge);
    for (const auto& [key, id] : carried_elements) elements_[key] = id;
    results_[v] = std::move(carried);
}

void FunctionEmitter::emit_branch(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const kir::Block& then_block = kernel_.block(inst.first_block);
    const kir::Block& else_block = kernel_.blocks[inst.first_block.value + 1];
    const bool has_else = !else_block.instructions.empty();
    const SpirvId condition = operand(v, 0), before = block_;
    const SpirvId then_label = module_.fresh(), merge = module_.fresh();
    const SpirvId else_label = has_else ? module_.fresh() : merge;
    const Elements elements_before = elements_;

    emit_void(Op::SelectionMerge, {merge, 0u});
    emit_void(Op::BranchConditional, {condition, then_label, else_label});
    begin_block(then_label);
    emit_block(then_block);
    const SpirvId then_end = block_;
    branch_to(merge);
    const Elements elements_then = std::exchange(elements_, elements_before);
    SpirvId else_end = before;
    if (has_else) {
        begin_block(else_label);
        emit_block(else_block);
        else_end = block_;
        branch_to(merge);
    }

    begin_block(merge);
    std::vector<SpirvId>& results = results_[v];
    for (size_t i = 0; i < then_block.yields.size(); ++i) {
        const kir::ValueId a = then_block.yields[i], b = else_block.yields[i];
        results.push_back(emit(Op::Phi, type(type_of(a)), {value(a), then_end, value(b), else_end}));
    }
    // An element set on one side only is undefined on the other: the kernel may not read it there.
    Elements all = elements_then;
    all.insert(elements_.begin(), elements_.end());
    for (const auto& entry : all) {
        const ElementKey& key = entry.first;
        const SpirvId element_type = type(kernel_.arrays[key.first].type);
        const auto a = elements_then.find(key);
        const auto b = elements_.find(key);
        const SpirvId from_then = a != elements_then.end() ? a->second : module_.undef(element_type);
        const SpirvId from_else = b != elements_.end() ? b->second : module_.undef(element_type);
        elements_[key] =
            from_then == from_else ? from_then : emit(Op::Phi, element_type, {from_then, then_end, from_else, else_end});
    }
}

void FunctionEmitter::emit_barrier() {
    if (fault(22)) return;
    uint32_t semantics = AcquireRelease | WorkgroupMemory;
    if (caps_.vulkan_memory_model) semantics |= MakeAvailable | MakeVisible;
    // Storage is exchanged only through bindings that are both read and written.
    const bool exchanged = std::any_of(kernel_.bindings.begin(), kernel_.bindings.end(),
                                       [](const kir::Binding& b) { return b.access == kir::Access::inout; });
    if (exchanged) semantics |= UniformMemory;
    const SpirvId scope = module_.u32(uint32_t(Scope::Workgroup));
    emit_void(Op::ControlBarrier, {scope, scope, module_.u32(semantics)});
}

// ---- memory

SpirvId FunctionEmitter::access(const Memory& memory, SpirvId pointee, std::initializer_list<Word> indices) {
    std::vector<Word> words{memory.variable};
    words.insert(words.end(), indices.begin(), indices.end());
    return emit(Op::AccessChain, module_.pointer_type(memory.storage, pointee), words);
}

SpirvId FunctionEmitter::binding_element(uint32_t binding, SpirvId index) {
    const kir::Binding& b = kernel_.bindings[binding];
    return access(bindings_[binding], type({b.scalar, b.lanes}), {module_.u32(0), index});
}

SpirvId FunctionEmitter::array_element(uint32_t array, SpirvId index) {
    return access(arrays_[array], type(kernel_.arrays[array].type), {index});
}

SpirvId FunctionEmitter::emit_load(SpirvId type, SpirvId pointer, bool shared) {
    if (shared && caps_.vulkan_memory_model && options_.non_private_pointer)
        return emit(Op::Load, type, {pointer, non_private_pointer});
    return emit(Op::Load, type, {pointer});
}

void FunctionEmitter::emit_store(SpirvId pointer, SpirvId value, bool shared) {
    if (shared && caps_.vulkan_memory_model && options_.non_private_pointer)
        emit_void(Op::Store, {pointer, value, non_private_pointer});
    else
        emit_void(Op::Store, {pointer, value});
}

void FunctionEmitter::emit_binding_load(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const kir::Binding& b = kernel_.bindings[inst.aux];
    const SpirvId index = operand(v, 0);
    SpirvId pointer;
    if (inst.type.lanes == b.lanes) {
        pointer = binding_element(inst.aux, index);
    } else {
        // One component of a vector binding: the index counts scalars; lanes are a power of two.
        const SpirvId u32 = type(kir::u32_type);
        const SpirvId element = emit(Op::ShiftRightLogical, u32, {index, module_.u32(uint32_t(std::countr_zero(b.lanes)))});
        const SpirvId lane = emit(Op::BitwiseAnd, u32, {index, module_.u32(b.lanes - (fault(25) ? 2u : 1u))});
        pointer = access(bindings_[inst.aux], type({b.scalar}), {module_.u32(0), element, lane});
    }
    values_[v.value] = emit_load(type(inst.type), pointer, shared_binding(inst.aux));
}

bool FunctionEmitter::kept_as_values(uint32_t array) const {
    const kir::Array& a = kernel_.arrays[array];
    return options_.coop_accumulators_as_phis && a.space == kir::ArraySpace::private_ && a.type.is_coop();
}

FunctionEmitter::ElementKey FunctionEmitter::element_key(kir::ValueId v) const {
    const kir::Instruction& index = kernel_.at(kernel_.operand(v, 0));
    CHECK(index.op == Opcode::constant, "private arrays are indexed by constants");
    return {kernel_.at(v).aux, index.aux};
}

void FunctionEmitter::emit_array_load(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    if (kept_as_values(inst.aux)) {
        const auto it = elements_.find(element_key(v));
        values_[v.value] = it != elements_.end() ? it->second : module_.undef(type(inst.type));
    } else {
        values_[v.value] = emit_load(type(inst.type), array_element(inst.aux, operand(v, 0)), shared_array(inst.aux));
    }
}

void FunctionEmitter::emit_array_store(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    if (kept_as_values(inst.aux))
        elements_[element_key(v)] = operand(v, 1);
    else
        emit_store(array_element(inst.aux, operand(v, 0)), operand(v, 1), shared_array(inst.aux));
}

void FunctionEmitter::emit_atomic(kir::ValueId v) {
    const kir::Instruction& inst = kernel_.at(v);
    const bool is_signed = kernel_.bindings[inst.aux].scalar == Scalar::i32;
    Op op = Op::AtomicIAdd;
    switch (kir::AtomicKind(inst.aux2)) {
        case kir::AtomicKind::add: op = Op::AtomicIAdd; break;
        case kir::AtomicKind::min: op = is_signed ? Op::AtomicSMin : Op::AtomicUMin; break;
        case kir::AtomicKind::max: op = is_signed ? Op::AtomicSMax : Op::AtomicUMax; break;
        case kir::AtomicKind::exchange: op = Op::AtomicExchange; break;
        case kir::AtomicKind::bit_or: op = Op::AtomicOr; break;
    }
    // Device scope under the Vulkan memory model would ask for one more feature; a dispatch stays within one queue family.
    const SpirvId scope = module_.u32(uint32_t(caps_.vulkan_memory_model ? Scope::QueueFamily : Scope::Device)),
                  relaxed = module_.u32(0);
    const SpirvId pointer = binding_element(inst.aux, operand(v, 0));
    values_[v.value] = emit(op, type({kernel_.bindings[inst.aux].scalar}), {pointer, scope, relaxed, operand(v, 1)});
}

}  // namespace darner::spirv
