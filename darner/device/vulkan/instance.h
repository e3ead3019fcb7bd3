// SPDX-License-Identifier: MIT
// The Vulkan instance, and the validation layer where DARNER_VALIDATION=core or =sync asks for it. Whatever the layer
// reports is kept and comes out as an Error of the next load(), submit() or wait(), so that a test cannot miss it.
#pragma once

#include "darner/device/vulkan/loader.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace darner::vulkan {

enum class Validation : uint8_t { off, core, sync };

// Reads DARNER_VALIDATION; another word than core or sync is an error.
Result<Validation> validation_from_environment();

class Instance {
public:
    static Result<std::shared_ptr<Instance>> create(Validation validation);
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    ~Instance();

    VkInstance handle() const { return handle_; }
    const InstanceFunctions& vk() const { return vk_; }
    bool debug_utils() const { return debug_utils_; }

    // What the validation layer reported since the last call.
    Result<void> take_validation_messages();

private:
    Instance() = default;
    Result<void> listen();
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                     VkDebugUtilsMessageTypeFlagsEXT types,
                                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* self);

    VkInstance handle_ = VK_NULL_HANDLE;
    InstanceFunctions vk_;
    bool debug_utils_ = false;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    std::mutex mutex_;
    std::vector<std::string> messages_;
};

}  // namespace darner::vulkan
