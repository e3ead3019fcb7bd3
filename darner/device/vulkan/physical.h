// SPDX-License-Identifier: MIT
// What devices there are, what each can do (as Caps), and which one an id means.
#pragma once

#include "darner/device/device.h"
#include "darner/device/vulkan/instance.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace darner::vulkan {

struct PhysicalDevice {
    VkPhysicalDevice handle = VK_NULL_HANDLE;
    DeviceInfo info;
    std::string unusable;  // why darner cannot use it; empty when it can
    uint32_t api = 0;
    VkPhysicalDeviceProperties properties = {};
    VkPhysicalDeviceMemoryProperties memory = {};
    bool memory_budget = false;  // VK_EXT_memory_budget: asked again before each load
    uint32_t queue_family = 0;
    uint32_t timestamp_bits = 0;  // 0: no timestamps
    // Of a queue that only copies, beside the kernels of the other.
    std::optional<uint32_t> transfer_family = {};
    // Features that Caps do not name.
    bool subgroup_control_extension = false;  // enabled by name below 1.3
    bool full_subgroups = false, subgroup_extended_types = false;
    bool cooperative_matrix = false, bfloat16 = false, bfloat16_extension_present = false;

    bool unified_memory() const { return info.caps.kind == DeviceKind::cpu || info.caps.kind == DeviceKind::integrated_gpu; }
};

// All devices, the best first (discrete, virtual, integrated, cpu; then by memory), unusable ones last. Ids are given to the
// usable ones.
Result<std::vector<PhysicalDevice>> physical_devices(const Instance& instance);

// "" and "vulkan": the first; "vulkan:N": number N; else a part of a device's name, letter case free.
Result<size_t> choose_device(const std::vector<PhysicalDevice>& devices, std::string_view id);

// Bytes that may still be allocated in device memory; 0 when the driver does not tell.
uint64_t free_memory(const Instance& instance, const PhysicalDevice& device);

}  // namespace darner::vulkan
