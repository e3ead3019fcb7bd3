// SPDX-License-Identifier: MIT
// Vulkan's functions, found at run time: the program starts on machines without Vulkan and says why it cannot use it.
// The library stays open until the process ends, since drivers and layers do not survive being unloaded.
#pragma once

#include "darner/base/result.h"
#include "darner/device/vulkan/extensions.h"

namespace darner::vulkan {

// clang-format off
#define DARNER_VK_GLOBAL_FUNCTIONS(X) \
    X(CreateInstance) X(EnumerateInstanceVersion) X(EnumerateInstanceExtensionProperties) \
    X(EnumerateInstanceLayerProperties)
// clang-format on

// clang-format off
#define DARNER_VK_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceQueueFamilyProperties) X(GetPhysicalDeviceMemoryProperties) \
    X(GetPhysicalDeviceMemoryProperties2) X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
// clang-format on

// There only when VK_EXT_debug_utils is enabled.
#define DARNER_VK_DEBUG_FUNCTIONS(X) X(CreateDebugUtilsMessengerEXT) X(DestroyDebugUtilsMessengerEXT)

// clang-format off
#define DARNER_VK_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(QueueSubmit) X(DeviceWaitIdle) X(CreateBuffer) X(DestroyBuffer) \
    X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) \
    X(InvalidateMappedMemoryRanges) X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) \
    X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData) X(CreatePipelineLayout) \
    X(DestroyPipelineLayout) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) \
    X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets) X(CreateCommandPool) \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) \
    X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect) X(CmdPipelineBarrier) X(CmdCopyBuffer) \
    X(CmdFillBuffer) X(CmdCopyQueryPoolResults) X(CmdResetQueryPool) X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool) \
    X(GetQueryPoolResults) X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) X(GetSemaphoreCounterValue)
// clang-format on

// There only when VK_EXT_debug_utils is enabled.
#define DARNER_VK_LABEL_FUNCTIONS(X) X(CmdBeginDebugUtilsLabelEXT) X(CmdEndDebugUtilsLabelEXT) X(SetDebugUtilsObjectNameEXT)

#define DARNER_VK_MEMBER(name) PFN_vk##name name = nullptr;

struct Library {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
    DARNER_VK_GLOBAL_FUNCTIONS(DARNER_VK_MEMBER)
};

struct InstanceFunctions {
    DARNER_VK_INSTANCE_FUNCTIONS(DARNER_VK_MEMBER)
    DARNER_VK_DEBUG_FUNCTIONS(DARNER_VK_MEMBER)
    GetCooperativeMatrixShapes GetPhysicalDeviceCooperativeMatrixPropertiesKHR = nullptr;
};

struct DeviceFunctions {
    DARNER_VK_DEVICE_FUNCTIONS(DARNER_VK_MEMBER)
    DARNER_VK_LABEL_FUNCTIONS(DARNER_VK_MEMBER)
};
#undef DARNER_VK_MEMBER

// Opens Vulkan's loader once in the process.
Result<const Library*> library();

Result<InstanceFunctions> load_functions(const Library& library, VkInstance instance, bool debug_utils);
Result<DeviceFunctions> load_functions(const InstanceFunctions& instance, VkDevice device, bool debug_utils);

// The name of a VkResult without its VK_ prefix: "ERROR_DEVICE_LOST".
std::string to_string(VkResult result);

// The Error of a failed call; `what` is what was being done: "allocating 64 bytes".
Error vulkan_error(VkResult result, const std::string& what);

// Nothing when `result` is VK_SUCCESS.
Result<void> check(VkResult result, const char* what);

}  // namespace darner::vulkan
