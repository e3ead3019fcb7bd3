// SPDX-License-Identifier: MIT
// Queries physical devices. Whatever the driver offers and darner uses is listed here once and enabled in context.cpp.
#include "darner/device/vulkan/physical.h"

#include "darner/base/nearest.h"
#include "darner/device/vulkan/features.h"
#include "darner/device/vulkan/vulkan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <thread>

namespace darner::vulkan {
namespace {

struct Extensions {
    std::set<std::string, std::less<>> names;
    bool has(const char* name) const { return names.contains(name); }
};

Extensions extensions_of(const InstanceFunctions& vk, VkPhysicalDevice device) {
    Extensions extensions;
    uint32_t count = 0;
    if (vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS) return extensions;
    std::vector<VkExtensionProperties> list(count);
    if (vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, list.data()) < VK_SUCCESS) return extensions;
    for (uint32_t i = 0; i < count; ++i) extensions.names.insert(list[i].extensionName);
    return extensions;
}

DeviceKind kind_of(VkPhysicalDeviceType type) {
    switch (type) {
        case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return DeviceKind::discrete_gpu;
        case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return DeviceKind::integrated_gpu;
        case VK_PHYSICAL_DEVICE_TYPE_CPU: return DeviceKind::cpu;
        default: return DeviceKind::virtual_gpu;
    }
}

std::string version_text(uint32_t v) {
    return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v), VK_API_VERSION_PATCH(v));
}

uint64_t device_local_bytes(const VkPhysicalDeviceMemoryProperties& memory) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory.memoryHeapCount; ++i)
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            largest = std::max(largest, memory.memoryHeaps[i].size);
    return largest;
}

void query_limits(const InstanceFunctions& vk, const Extensions& extensions, PhysicalDevice& d) {
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    VkPhysicalDeviceVulkan11Properties v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
    VkPhysicalDeviceVulkan12Properties v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties maintenance{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCorePropertiesAMD cores{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    Chain chain(&properties.pNext);
    chain.add(v11);
    chain.add(v12);
    const bool control = d.api >= VK_API_VERSION_1_3 || extensions.has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    if (control) chain.add(sizes);
    if (d.api >= VK_API_VERSION_1_3) chain.add(maintenance);
    if (extensions.has(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) chain.add(multiprocessors);
    if (extensions.has(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) chain.add(cores);
    vk.GetPhysicalDeviceProperties2(d.handle, &properties);

    d.info.caps.preserves_nan = v12.shaderSignedZeroInfNanPreserveFloat32;
    const VkPhysicalDeviceLimits& limits = d.properties.limits;
    Caps& caps = d.info.caps;
    caps.kind = kind_of(d.properties.deviceType);
    caps.code = CodeKind::spirv;
    caps.hazard = HazardKind::explicit_barriers;
    caps.max_storage_bindings = std::min(
        {limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers, limits.maxPerStageResources});
    caps.max_binding_bytes = limits.maxStorageBufferRange;
    caps.max_segment_bytes = v11.maxMemoryAllocationSize;
    if (d.api >= VK_API_VERSION_1_3) caps.max_segment_bytes = std::min(caps.max_segment_bytes, maintenance.maxBufferSize);
    caps.offset_alignment = std::max<uint32_t>(16, static_cast<uint32_t>(limits.minStorageBufferOffsetAlignment));
    caps.max_workgroup_bytes = limits.maxComputeSharedMemorySize;
    caps.max_invocations = limits.maxComputeWorkGroupInvocations;
    for (size_t axis = 0; axis < 3; ++axis) {
        caps.max_workgroup_size[axis] = limits.maxComputeWorkGroupSize[axis];
        // Kernel IR counts on workgroup ids below 65,535; larger grids fold.
        caps.max_groups[axis] = std::min<uint32_t>(65535, limits.maxComputeWorkGroupCount[axis]);
    }
    caps.max_param_bytes = std::min<uint32_t>(kir::max_param_words * 4, limits.maxPushConstantsSize);
    // Mesa's CPU driver ends the loops of an invocation after 65,535 rounds in all, without a word.
    if (caps.kind == DeviceKind::cpu) caps.max_loop_rounds = 65535;

    constexpr VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                              VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if ((v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) && (v11.subgroupSupportedOperations & needed) == needed) {
        caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = v11.subgroupSize;
        caps.subgroup_shuffle = true;
    }
    if (control && caps.subgroup_size && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)) {
        caps.subgroup_min = sizes.minSubgroupSize;
        caps.subgroup_max = sizes.maxSubgroupSize;
    }
    d.subgroup_control_extension = d.api < VK_API_VERSION_1_3 && control;

    if (multiprocessors.shaderSMCount) {
        caps.compute_units = multiprocessors.shaderSMCount;
    } else if (cores.computeUnitsPerShaderArray) {
        caps.compute_units = cores.shaderEngineCount * cores.shaderArraysPerEngineCount * cores.computeUnitsPerShaderArray;
    } else if (caps.kind == DeviceKind::cpu) {
        caps.compute_units = std::max(1u, std::thread::hardware_concurrency());
    } else {
        caps.compute_units = 16;  // Vulkan does not tell; the middle of what such GPUs have
    }
    d.info.driver = fmt::format("{} {}", v12.driverName, v12.driverInfo);
}

void query_features(const InstanceFunctions& vk, const Extensions& extensions, PhysicalDevice& d) {
    FeatureChain chain(d.api >= VK_API_VERSION_1_3 || d.subgroup_control_extension, extensions.has(cooperative_matrix_extension),
                       extensions.has(bfloat16_extension));
    vk.GetPhysicalDeviceFeatures2(d.handle, &chain.features);

    const VkPhysicalDeviceVulkan12Features& v12 = chain.v12;
    Caps& caps = d.info.caps;
    caps.f16_storage = chain.v11.storageBuffer16BitAccess;
    caps.f16_arithmetic = v12.shaderFloat16;
    caps.vulkan_memory_model = v12.vulkanMemoryModel && v12.vulkanMemoryModelDeviceScope;
    caps.subgroup_size_control = chain.sizes.subgroupSizeControl && caps.subgroup_size != 0;
    if (!caps.subgroup_size_control) caps.subgroup_min = caps.subgroup_max = caps.subgroup_size;
    d.full_subgroups = caps.subgroup_size_control && chain.sizes.computeFullSubgroups;
    d.subgroup_extended_types = v12.shaderSubgroupExtendedTypes;
    d.cooperative_matrix = chain.matrices.cooperative_matrix && caps.vulkan_memory_model;
    d.bfloat16_extension_present = extensions.has(bfloat16_extension);
    d.bfloat16 = chain.bfloat16.type && chain.bfloat16.cooperative_matrix && d.cooperative_matrix;
    d.memory_budget = extensions.has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (!v12.timelineSemaphore) d.unusable = "it has no timeline semaphores";
}

Result<void> query_matrices(const InstanceFunctions& vk, PhysicalDevice& d) {
    if (!d.cooperative_matrix || !vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR) return {};
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    CooperativeMatrixProperties stages;
    properties.pNext = &stages;
    vk.GetPhysicalDeviceProperties2(d.handle, &properties);
    if (!(stages.supported_stages & VK_SHADER_STAGE_COMPUTE_BIT)) return {};
    uint32_t count = 0;
    TRY(check(vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(d.handle, &count, nullptr), "listing matrix shapes"));
    std::vector<CooperativeMatrixShape> shapes(count);
    TRY(check(vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(d.handle, &count, shapes.data()), "listing matrix shapes"));
    for (const CooperativeMatrixShape& s : shapes) {
        const bool half = s.a_type == component_f16, brain = s.a_type == component_bf16 && d.bfloat16;
        const bool wide = s.c_type == component_f32, narrow = s.c_type == component_f16 && half;
        if (s.scope != subgroup_scope || s.saturating_accumulation || s.a_type != s.b_type || s.c_type != s.result_type) continue;
        if (!(half || brain) || !(wide || narrow)) continue;
        d.info.caps.coop_shapes.push_back({.input = half ? kir::Scalar::f16 : kir::Scalar::bf16,
                                           .accumulator = wide ? kir::Scalar::f32 : kir::Scalar::f16,
                                           .m = s.m,
                                           .n = s.n,
                                           .k = s.k});
        if (brain) d.info.caps.bf16_coop = true;
    }
    return {};
}

void query_queue(const InstanceFunctions& vk, PhysicalDevice& d) {
    uint32_t count = 0;
    vk.GetPhysicalDeviceQueueFamilyProperties(d.handle, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vk.GetPhysicalDeviceQueueFamilyProperties(d.handle, &count, families.data());
    for (uint32_t i = 0; i < count; ++i) {
        constexpr VkQueueFlags more = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
        if (!d.transfer_family && (families[i].queueFlags & (VK_QUEUE_TRANSFER_BIT | more)) == VK_QUEUE_TRANSFER_BIT)
            d.transfer_family = i;
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        d.queue_family = i;
        d.timestamp_bits = families[i].timestampValidBits;
        return;
    }
    d.unusable = "it has no compute queue";
}

Result<PhysicalDevice> query(const Instance& instance, VkPhysicalDevice handle) {
    const InstanceFunctions& vk = instance.vk();
    PhysicalDevice d;
    d.handle = handle;
    vk.GetPhysicalDeviceProperties(handle, &d.properties);
    vk.GetPhysicalDeviceMemoryProperties(handle, &d.memory);
    // Features of later versions are neither asked for nor enabled.
    d.api = std::min<uint32_t>(d.properties.apiVersion, VK_API_VERSION_1_3);
    d.info.name = d.properties.deviceName;
    d.info.api_version = version_text(d.properties.apiVersion);
    d.info.caps.kind = kind_of(d.properties.deviceType);
    if (d.properties.apiVersion < VK_API_VERSION_1_2) {
        d.unusable = "it offers Vulkan " + d.info.api_version + ", darner needs 1.2";
        return d;
    }
    const Extensions extensions = extensions_of(vk, handle);
    query_limits(vk, extensions, d);
    query_features(vk, extensions, d);
    TRY(query_matrices(vk, d));
    query_queue(vk, d);
    const uint64_t budget = free_memory(instance, d);
    d.info.caps.memory_bytes = budget ? budget : device_local_bytes(d.memory);
    return d;
}

int rank(const PhysicalDevice& d) {
    if (!d.unusable.empty()) return 9;
    switch (d.info.caps.kind) {
        case DeviceKind::discrete_gpu: return 0;
        case DeviceKind::virtual_gpu: return 1;
        case DeviceKind::integrated_gpu: return 2;
        default: return 3;
    }
}

std::string list_text(const std::vector<PhysicalDevice>& devices) {
    std::string text;
    for (const PhysicalDevice& d : devices)
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", d.unusable.empty() ? d.info.id : "unusable", d.info.name);
    return text;
}

}  // namespace

uint64_t free_memory(const Instance& instance, const PhysicalDevice& device) {
    if (!device.memory_budget) return 0;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, &budget, {}};
    instance.vk().GetPhysicalDeviceMemoryProperties2(device.handle, &memory);
    uint64_t most = 0;
    for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
        if (!(memory.memoryProperties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
        const uint64_t used = budget.heapUsage[i], allowed = budget.heapBudget[i];
        most = std::max(most, allowed > used ? allowed - used : 0);
    }
    return most;
}

Result<std::vector<PhysicalDevice>> physical_devices(const Instance& instance) {
    const InstanceFunctions& vk = instance.vk();
    uint32_t count = 0;
    TRY(check(vk.EnumeratePhysicalDevices(instance.handle(), &count, nullptr), "listing devices"));
    std::vector<VkPhysicalDevice> handles(count);
    TRY(check(vk.EnumeratePhysicalDevices(instance.handle(), &count, handles.data()), "listing devices"));
    std::vector<PhysicalDevice> devices;
    for (VkPhysicalDevice handle : handles) {
        TRY(PhysicalDevice device, query(instance, handle));
        devices.push_back(std::move(device));
    }
    std::stable_sort(devices.begin(), devices.end(), [](const PhysicalDevice& a, const PhysicalDevice& b) {
        if (rank(a) != rank(b)) return rank(a) < rank(b);
        return device_local_bytes(a.memory) > device_local_bytes(b.memory);
    });
    for (size_t i = 0; i < devices.size(); ++i) devices[i].info.id = i == 0 ? "vulkan" : fmt::format("vulkan:{}", i);
    return devices;
}

Result<size_t> choose_device(const std::vector<PhysicalDevice>& devices, std::string_view id) {
    if (devices.empty()) return device_error("[vulkan] no Vulkan device on this machine");
    size_t chosen = devices.size();
    constexpr std::string_view prefix = "vulkan:";
    if (id.empty() || id == "vulkan") {
        chosen = 0;
    } else if (id.starts_with(prefix)) {
        const std::string_view digits = id.substr(prefix.size());
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), chosen);
        if (error != std::errc() || end != digits.data() + digits.size() || chosen >= devices.size())
            return invalid(fmt::format("[device] no device \"{}\": there is {}", id, list_text(devices)));
    } else {
        for (size_t i = 0; i < devices.size(); ++i) {
            if (!names_device(devices[i].info, id)) continue;
            if (chosen == devices.size()) chosen = i;
            // Several boards of one model are equal; different models are not.
            if (devices[i].info.name != devices[chosen].info.name)
                return invalid(fmt::format("[device] \"{}\" fits several devices: {}", id, list_text(devices)));
        }
        if (chosen == devices.size()) {
            std::vector<std::string> names = {"vulkan"};
            for (const PhysicalDevice& d : devices) names.push_back(d.info.name);
            Error error = invalid(fmt::format("[device] no device \"{}\": there is {}", id, list_text(devices)));
            error.hint = did_you_mean(id, names);
            return error;
        }
    }
    if (!devices[chosen].unusable.empty())
        return unsupported(fmt::format("[device] {} cannot be used: {}", devices[chosen].info.name, devices[chosen].unusable));
    return chosen;
}

}  // namespace darner::vulkan
