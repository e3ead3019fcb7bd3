// SPDX-License-Identifier: MIT
// Caps: what a device can do and how fast, as far as planning and code generation need to know. A plan is made for Caps,
// never for a named target. Rates are measured once per device; zero means not measured, and cost models then use defaults.
#pragma once

#include "darner/kir/kernel.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace darner {

enum class DeviceKind : uint8_t { discrete_gpu, integrated_gpu, virtual_gpu, cpu, interpreter };
enum class CodeKind : uint8_t { kir, spirv, wgsl };
enum class HazardKind : uint8_t { explicit_barriers, per_buffer };
const char* to_string(DeviceKind kind);
const char* to_string(CodeKind kind);

struct CoopShape {
    kir::Scalar input = kir::Scalar::f16, accumulator = kir::Scalar::f32;
    uint32_t m = 16, n = 16, k = 16;
    bool operator==(const CoopShape&) const = default;
};

struct Caps {
    DeviceKind kind = DeviceKind::discrete_gpu;
    CodeKind code = CodeKind::spirv;
    HazardKind hazard = HazardKind::explicit_barriers;

    uint32_t max_storage_bindings = 8;        // per kernel
    uint64_t max_binding_bytes = 128u << 20;  // range of one binding
    uint64_t max_segment_bytes = 256u << 20;  // size of one buffer
    uint32_t offset_alignment = 256;          // of a binding's offset, bytes
    uint32_t max_workgroup_bytes = 16384;
    uint32_t max_invocations = 256;  // per workgroup
    std::array<uint32_t, 3> max_workgroup_size = {256, 256, 64};
    std::array<uint32_t, 3> max_groups = {65535, 65535, 65535};
    uint32_t max_param_bytes = 64;
    uint32_t max_loop_rounds = 0;  // of all loops of an invocation together; 0: any. Mesa's CPU driver ends loops after 65,535

    uint32_t subgroup_min = 0, subgroup_max = 0;  // 0: no subgroup operations
    uint32_t subgroup_size = 0;                   // what a kernel gets when it asks for none
    bool subgroup_size_control = false;
    bool subgroup_shuffle = false;  // shuffles and arithmetic over a subgroup
    bool f16_storage = false, f16_arithmetic = false, bf16_coop = false;
    bool vulkan_memory_model = false;
    bool preserves_nan = false;  // f32 keeps NaN, infinities and signed zeros where SPIR-V asks for it
    std::vector<CoopShape> coop_shapes;
    uint32_t compute_units = 1;  // multiprocessors or cores: how many workgroups run side by side

    uint64_t memory_bytes = 0;  // what may be allocated; 0: not known
    double copy_bytes_per_second = 0, f32_flops = 0, dispatch_seconds = 0, barrier_seconds = 0;

    bool barriers_are_dear() const { return kind == DeviceKind::cpu; }
    // The subgroup size that a kernel can count on, 0 when there is none: fixed by the device or required by the kernel.
    uint32_t known_subgroup_size() const {
        return subgroup_shuffle && (subgroup_size_control || subgroup_min == subgroup_max) ? subgroup_size : 0;
    }
};

// The defaults that every WebGPU device grants; also what tests cut other devices down to.
Caps webgpu_default_caps();
// The least that every Vulkan 1.2 device grants, and loops short enough for Mesa's CPU driver.
Caps vulkan_minimum_caps();
// One NVIDIA H200 through Vulkan, with its measured rates: what plans and estimates take when there is no device.
Caps h200_caps();
// The checking interpreter: gpu-like limits with the given subgroup size.
Caps interpreter_caps(uint32_t subgroup_size = 32);

}  // namespace darner
