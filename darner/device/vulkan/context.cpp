// SPDX-License-Identifier: MIT
// Creates the logical device with every feature that PhysicalDevice found and Caps promise.
#include "darner/device/vulkan/context.h"

#include "darner/device/vulkan/features.h"
#include "darner/device/vulkan/pipeline_cache.h"

#include <fmt/format.h>

namespace darner::vulkan {

Context::Context() = default;

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<Instance> instance, PhysicalDevice physical) {
    std::shared_ptr<Context> context(new Context);
    context->instance_ = std::move(instance);
    context->physical_ = std::move(physical);
    TRY(context->create_device());
    TRY(context->pipeline_cache_, PipelineCache::open(*context, PipelineCache::default_path(context->physical_.properties)));
    // A self-test of the device belongs here: it may clear features in physical_.info.caps before anyone reads them.
    return context;
}

Result<void> Context::create_device() {
    const Caps& caps = physical_.info.caps;
    std::vector<const char*> extensions;
    FeatureChain chain(caps.subgroup_size_control, physical_.cooperative_matrix, physical_.bfloat16);
    chain.v11.storageBuffer16BitAccess = caps.f16_storage;
    chain.v12.shaderFloat16 = caps.f16_arithmetic;
    chain.v12.vulkanMemoryModel = chain.v12.vulkanMemoryModelDeviceScope = caps.vulkan_memory_model;
    chain.v12.shaderSubgroupExtendedTypes = physical_.subgroup_extended_types;
    chain.v12.timelineSemaphore = VK_TRUE;
    chain.sizes.subgroupSizeControl = caps.subgroup_size_control;
    chain.sizes.computeFullSubgroups = physical_.full_subgroups;
    chain.matrices.cooperative_matrix = physical_.cooperative_matrix;
    chain.bfloat16.type = chain.bfloat16.cooperative_matrix = physical_.bfloat16;
    if (caps.subgroup_size_control && physical_.subgroup_control_extension)
        extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    if (physical_.cooperative_matrix) extensions.push_back(cooperative_matrix_extension);
    if (physical_.bfloat16) extensions.push_back(bfloat16_extension);

    const float priority = 1;
    std::vector<VkDeviceQueueCreateInfo> queues;
    const auto add_queue = [&](uint32_t family) {
        VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
        queue.queueFamilyIndex = family;
        queue.queueCount = 1;
        queue.pQueuePriorities = &priority;
        queues.push_back(queue);
    };
    add_queue(physical_.queue_family);
    if (physical_.transfer_family) add_queue(*physical_.transfer_family);
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = &chain.features;
    info.queueCreateInfoCount = static_cast<uint32_t>(queues.size());
    info.pQueueCreateInfos = queues.data();
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    if (const VkResult r = instance_->vk().CreateDevice(physical_.handle, &info, nullptr, &device_); r != VK_SUCCESS)
        return vulkan_error(r, "opening " + physical_.info.name);
    Result<DeviceFunctions> functions = load_functions(instance_->vk(), device_, instance_->debug_utils());
    if (!functions) return functions.error();
    vk_ = *functions;
    vk_.GetDeviceQueue(device_, physical_.queue_family, 0, &main_.handle);
    if (physical_.transfer_family) vk_.GetDeviceQueue(device_, *physical_.transfer_family, 0, &transfer_.handle);
    return {};
}

VkResult Context::Queue::submit(const DeviceFunctions& vk, const VkSubmitInfo& info) const {
    const std::lock_guard lock(mutex);
    return vk.QueueSubmit(handle, 1, &info, VK_NULL_HANDLE);
}

void Context::name_object(VkObjectType type, uint64_t handle, const std::string& name) const {
    if (!vk_.SetDebugUtilsObjectNameEXT) return;
    VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
    info.objectType = type;
    info.objectHandle = handle;
    info.pObjectName = name.c_str();
    vk_.SetDebugUtilsObjectNameEXT(device_, &info);  // a name that does not stick is no failure
}

Context::~Context() {
    pipeline_cache_.reset();
    if (device_ != VK_NULL_HANDLE && vk_.DestroyDevice) vk_.DestroyDevice(device_, nullptr);
}

}  // namespace darner::vulkan
