// SPDX-License-Identifier: MIT
// Names of the Caps enums and the fixed sets of Caps: WebGPU's and Vulkan's guaranteed minimum, an H200, the checking
// interpreter.
#include "darner/program/caps.h"

#include "darner/base/check.h"

#include <utility>

namespace darner {

const char* to_string(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::discrete_gpu: return "discrete_gpu";
        case DeviceKind::integrated_gpu: return "integrated_gpu";
        case DeviceKind::virtual_gpu: return "virtual_gpu";
        case DeviceKind::cpu: return "cpu";
        case DeviceKind::interpreter: return "interpreter";
    }
    bug(__FILE__, __LINE__, "DeviceKind out of range");
}

const char* to_string(CodeKind kind) {
    switch (kind) {
        case CodeKind::kir: return "kir";
        case CodeKind::spirv: return "spirv";
        case CodeKind::wgsl: return "wgsl";
    }
    bug(__FILE__, __LINE__, "CodeKind out of range");
}

Caps webgpu_default_caps() {
    // The members' own defaults are WebGPU's limits (specification, "Limits").
    Caps caps;
    caps.kind = DeviceKind::integrated_gpu;
    caps.code = CodeKind::wgsl;
    caps.hazard = HazardKind::per_buffer;
    return caps;
}

Caps vulkan_minimum_caps() {
    // The members' own defaults, where Vulkan guarantees no less (specification, "Required Limits").
    Caps caps;
    caps.kind = DeviceKind::integrated_gpu;
    caps.max_storage_bindings = 4;
    caps.max_invocations = 128;
    caps.max_workgroup_size = {128, 128, 64};
    caps.max_loop_rounds = 65535;
    return caps;
}

Caps h200_caps() {
    Caps caps;
    caps.max_storage_bindings = 1u << 20;
    caps.max_binding_bytes = 0xffffffffu;
    caps.max_segment_bytes = 0xffe00000u;
    caps.offset_alignment = 16;
    caps.max_workgroup_bytes = 48 * 1024;
    caps.max_invocations = 1024;
    caps.max_workgroup_size = {1024, 1024, 64};
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = 32;
    caps.subgroup_size_control = caps.subgroup_shuffle = true;
    caps.f16_storage = caps.f16_arithmetic = caps.bf16_coop = caps.vulkan_memory_model = caps.preserves_nan = true;
    for (const auto& [n, k] : {std::pair{16u, 16u}, {8u, 16u}, {8u, 8u}})
        for (const kir::Scalar sum : {kir::Scalar::f16, kir::Scalar::f32})
            caps.coop_shapes.push_back({kir::Scalar::f16, sum, 16, n, k});
    caps.coop_shapes.push_back({kir::Scalar::bf16, kir::Scalar::f32, 16, 16, 16});
    caps.compute_units = 132;
    caps.memory_bytes = uint64_t{139} << 30;
    caps.copy_bytes_per_second = 4.1e12;
    caps.f32_flops = 50e12;
    caps.dispatch_seconds = 0.2e-6;
    caps.barrier_seconds = 2.5e-6;
    return caps;
}

Caps interpreter_caps(uint32_t subgroup_size) {
    Caps caps;
    caps.kind = DeviceKind::interpreter;
    caps.code = CodeKind::kir;
    caps.max_storage_bindings = 16;
    caps.max_binding_bytes = 0xffffffffu;
    caps.max_segment_bytes = 1ull << 40;
    caps.max_workgroup_bytes = 48 * 1024;
    caps.max_invocations = 1024;
    caps.max_workgroup_size = {1024, 1024, 64};
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = subgroup_size;
    caps.subgroup_size_control = false;
    caps.subgroup_shuffle = true;
    caps.f16_storage = caps.f16_arithmetic = caps.bf16_coop = true;
    caps.vulkan_memory_model = true;
    caps.coop_shapes = {{kir::Scalar::f16, kir::Scalar::f32, 16, 16, 16},
                        {kir::Scalar::f16, kir::Scalar::f16, 16, 16, 16},
                        {kir::Scalar::bf16, kir::Scalar::f32, 16, 16, 16}};
    caps.compute_units = 8;
    return caps;
}

}  // namespace darner
