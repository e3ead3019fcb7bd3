// SPDX-License-Identifier: MIT
// Opens libvulkan and fills the function tables. A missing function of the core is an error that names it.
#include "darner/device/vulkan/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace darner::vulkan {
namespace {

Result<Library> open_library() {
    constexpr const char* names[] = {"libvulkan.so.1", "libvulkan.so"};
    void* handle = nullptr;
    for (const char* name : names)
        if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        Error error = device_error("[vulkan] no Vulkan on this machine: libvulkan.so.1 cannot be opened");
        error.hint = "install the Vulkan loader (Debian: libvulkan1) and a driver (mesa-vulkan-drivers has one for CPUs too)";
        return error;
    }
    Library library;
    library.GetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
    if (!library.GetInstanceProcAddr) return device_error("[vulkan] libvulkan.so.1 has no vkGetInstanceProcAddr");
#define X(name) library.name = reinterpret_cast<PFN_vk##name>(library.GetInstanceProcAddr(nullptr, "vk" #name));
    DARNER_VK_GLOBAL_FUNCTIONS(X)
#undef X
    // EnumerateInstanceVersion came with Vulkan 1.1; we need 1.2.
    if (!library.CreateInstance || !library.EnumerateInstanceVersion)
        return device_error("[vulkan] the Vulkan loader is of version 1.0, darner needs 1.2");
    return library;
}

}  // namespace

Result<const Library*> library() {
    static const Result<Library> opened = open_library();
    if (!opened) return opened.error();
    return &*opened;
}

Result<InstanceFunctions> load_functions(const Library& library, VkInstance instance, bool debug_utils) {
    InstanceFunctions f;
    const char* missing = nullptr;
#define X(name)                                                                                 \
    f.name = reinterpret_cast<PFN_vk##name>(library.GetInstanceProcAddr(instance, "vk" #name)); \
    if (!f.name) missing = "vk" #name;
    DARNER_VK_INSTANCE_FUNCTIONS(X)
    if (debug_utils) {
        DARNER_VK_DEBUG_FUNCTIONS(X)
    }
#undef X
    if (missing) return device_error(fmt::format("[vulkan] the loader lacks {}", missing));
    f.GetPhysicalDeviceCooperativeMatrixPropertiesKHR = reinterpret_cast<GetCooperativeMatrixShapes>(
        library.GetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    return f;
}

Result<DeviceFunctions> load_functions(const InstanceFunctions& instance, VkDevice device, bool debug_utils) {
    DeviceFunctions f;
    const char* missing = nullptr;
#define X(name)                                                                              \
    f.name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(device, "vk" #name)); \
    if (!f.name) missing = "vk" #name;
    DARNER_VK_DEVICE_FUNCTIONS(X)
    if (debug_utils) {
        DARNER_VK_LABEL_FUNCTIONS(X)
    }
#undef X
    if (missing) return device_error(fmt::format("[vulkan] the driver lacks {}", missing));
    return f;
}

std::string to_string(VkResult result) {
    switch (result) {
#define X(name) \
    case VK_##name: return #name;
        X(SUCCESS)
        X(NOT_READY)
        X(TIMEOUT)
        X(INCOMPLETE)
        X(ERROR_OUT_OF_HOST_MEMORY)
        X(ERROR_OUT_OF_DEVICE_MEMORY)
        X(ERROR_INITIALIZATION_FAILED)
        X(ERROR_DEVICE_LOST)
        X(ERROR_MEMORY_MAP_FAILED)
        X(ERROR_LAYER_NOT_PRESENT)
        X(ERROR_EXTENSION_NOT_PRESENT)
        X(ERROR_FEATURE_NOT_PRESENT)
        X(ERROR_INCOMPATIBLE_DRIVER)
        X(ERROR_TOO_MANY_OBJECTS)
        X(ERROR_FRAGMENTED_POOL)
        X(ERROR_OUT_OF_POOL_MEMORY)
        X(ERROR_FRAGMENTATION)
        X(ERROR_UNKNOWN)
#undef X
        default: return fmt::format("VkResult {}", static_cast<int>(result));
    }
}

Error vulkan_error(VkResult result, const std::string& what) {
    const bool memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
    return {memory ? ErrorKind::limit : ErrorKind::device, fmt::format("[vulkan] {} failed: {}", what, to_string(result))};
}

Result<void> check(VkResult result, const char* what) {
    if (result == VK_SUCCESS) return {};
    return vulkan_error(result, what);
}

}  // namespace darner::vulkan
