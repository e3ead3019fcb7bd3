// SPDX-License-Identifier: MIT
#include "darner/emit/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace darner {

using kir::Opcode;
using kir::Scalar;
using kir::Type;

namespace {

struct Reasons {
    std::vector<std::string> texts;
    ErrorKind kind = ErrorKind::limit;

    void limit(std::string text) { texts.push_back(std::move(text)); }
    void lacking(std::string text) {
        kind = ErrorKind::unsupported;
        texts.push_back(std::move(text));
    }
};

// There is no bf16 arithmetic: values are moved, converted, and multiplied by matrix units only.
bool allowed_on_bf16(Opcode op) {
    switch (op) {
        case Opcode::constant:
        case Opcode::argument:
        case Opcode::result:
        case Opcode::loop:
        case Opcode::branch:
        case Opcode::load:
        case Opcode::store:
        case Opcode::array_load:
        case Opcode::array_store:
        case Opcode::convert:
        case Opcode::select:
        case Opcode::make_vector:
        case Opcode::extract:
        case Opcode::coop_fill:
        case Opcode::coop_load:
        case Opcode::coop_store:
        case Opcode::coop_mul_add:
        case Opcode::coop_convert: return true;
        default: return false;
    }
}

void check_sizes(const kir::Kernel& kernel, const Caps& caps, Reasons& reasons) {
    if (kernel.bindings.size() > caps.max_storage_bindings)
        reasons.limit(fmt::format("{} bindings, the device has {}", kernel.bindings.size(), caps.max_storage_bindings));
    for (const kir::Binding& b : kernel.bindings) {
        if (b.scalar == Scalar::boolean)
            reasons.lacking(fmt::format("binding {} holds booleans, which have no layout in memory", b.name));
        const uint64_t element = uint64_t(kir::byte_size(b.scalar)) * b.lanes;
        if (b.elements > caps.max_binding_bytes / element)
            reasons.limit(fmt::format("binding {} spans {} elements of {} bytes, a binding is at most {} bytes", b.name,
                                      b.elements, element, caps.max_binding_bytes));
    }
    if (kernel.workgroup_bytes() > caps.max_workgroup_bytes)
        reasons.limit(
            fmt::format("{} bytes of workgroup memory, the device has {}", kernel.workgroup_bytes(), caps.max_workgroup_bytes));
    const uint64_t invocations = uint64_t(kernel.workgroup_size[0]) * kernel.workgroup_size[1] * kernel.workgroup_size[2];
    if (invocations == 0) reasons.limit("an empty workgroup");
    if (invocations > caps.max_invocations)
        reasons.limit(fmt::format("{} invocations in a workgroup, the device allows {}", invocations, caps.max_invocations));
    for (size_t axis = 0; axis < 3; ++axis)
        if (kernel.workgroup_size[axis] > caps.max_workgroup_size[axis])
            reasons.limit(fmt::format("workgroup size {} along axis {}, the device allows {}", kernel.workgroup_size[axis], axis,
                                      caps.max_workgroup_size[axis]));
    const size_t param_bytes = 4 * kernel.params.size();
    if (param_bytes > caps.max_param_bytes)
        reasons.limit(fmt::format("{} bytes of params, the device takes {}", param_bytes, caps.max_param_bytes));
}

void check_subgroups(const kir::Kernel& kernel, const Caps& caps, const KernelFeatures& features, Reasons& reasons) {
    if (features.subgroup && caps.subgroup_min == 0) reasons.lacking("subgroup operations, which the device does not have");
    const uint32_t size = kernel.required_subgroup_size;
    if (size == 0) return;
    if (size < caps.subgroup_min || size > caps.subgroup_max)
        reasons.lacking(fmt::format("subgroups of {}, the device has {} to {}", size, caps.subgroup_min, caps.subgroup_max));
    else if (!caps.subgroup_size_control && size != caps.subgroup_size)
        reasons.lacking(fmt::format("subgroups of {}, the device gives {} and cannot be asked", size, caps.subgroup_size));
}

void check_coop(const kir::Kernel& kernel, const Caps& caps, Reasons& reasons) {
    if (caps.coop_shapes.empty()) {
        reasons.lacking("cooperative matrices, which the device does not have");
        return;
    }
    if (caps.code == CodeKind::spirv && !caps.vulkan_memory_model)
        reasons.lacking("cooperative matrices, which need the Vulkan memory model");
    const uint32_t subgroup = kernel.required_subgroup_size ? kernel.required_subgroup_size : caps.subgroup_size;
    if (subgroup != 0 && kernel.workgroup_size[0] % subgroup != 0)
        reasons.lacking(
            fmt::format("workgroup size {} along axis 0, cooperative matrices need a multiple of the subgroup size {}",
                        kernel.workgroup_size[0], subgroup));
    std::set<std::string> refused;  // each shape once
    for (const kir::Instruction& inst : kernel.instructions) {
        if (inst.op != Opcode::coop_mul_add) continue;
        const Type& a = kernel.at(kernel.operands[inst.first_operand]).type;
        const Type& b = kernel.at(kernel.operands[inst.first_operand + 1]).type;
        const CoopShape shape{a.scalar, inst.type.scalar, inst.type.rows, inst.type.cols, a.cols};
        const bool known = std::find(caps.coop_shapes.begin(), caps.coop_shapes.end(), shape) != caps.coop_shapes.end();
        if (!known || b.scalar != a.scalar)
            refused.insert(fmt::format("{}x{}x{} matrix products of {} and {} into {}, which the device does not have", shape.m,
                                       shape.n, shape.k, kir::to_string(a.scalar), kir::to_string(b.scalar),
                                       kir::to_string(shape.accumulator)));
    }
    for (const std::string& text : refused) reasons.lacking(text);
}

void check_bf16(const kir::Kernel& kernel, const Caps& caps, Reasons& reasons) {
    if (!caps.bf16_coop) reasons.lacking("bf16 values, which the device does not have");
    std::set<std::string> refused;
    for (const kir::Instruction& inst : kernel.instructions)
        if (touches(kernel, inst, Scalar::bf16) && !allowed_on_bf16(inst.op)) refused.insert(kir::to_string(inst.op));
    for (const std::string& op : refused) reasons.lacking(fmt::format("{} on bf16, which has no arithmetic: convert to f32", op));
}

}  // namespace

Result<void> check_limits(const kir::Kernel& kernel, const Caps& caps) {
    Reasons reasons;
    const KernelFeatures features = features_of(kernel);
    check_sizes(kernel, caps, reasons);
    check_subgroups(kernel, caps, features, reasons);
    if (features.f16_storage && !caps.f16_storage) reasons.lacking("f16 bindings, which the device does not have");
    if (features.f16_arithmetic && !caps.f16_arithmetic) reasons.lacking("f16 arithmetic, which the device does not have");
    if (features.bf16) check_bf16(kernel, caps, reasons);
    if (features.coop) check_coop(kernel, caps, reasons);
    if (reasons.texts.empty()) return {};
    return Error{reasons.kind, fmt::format("[kernel {}] it uses {}", kernel.name, fmt::join(reasons.texts, "; "))};
}

}  // namespace darner
