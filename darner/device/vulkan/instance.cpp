// SPDX-License-Identifier: MIT
// Creates the instance and collects validation messages.
#include "darner/device/vulkan/instance.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

namespace darner::vulkan {
namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

bool has_layer(const Library& vk, const char* name) {
    uint32_t count = 0;
    if (vk.EnumerateInstanceLayerProperties(&count, nullptr) != VK_SUCCESS) return false;
    std::vector<VkLayerProperties> layers(count);
    if (vk.EnumerateInstanceLayerProperties(&count, layers.data()) != VK_SUCCESS) return false;
    for (const VkLayerProperties& layer : layers)
        if (!std::strcmp(layer.layerName, name)) return true;
    return false;
}

bool has_extension(const Library& vk, const char* name) {
    uint32_t count = 0;
    if (vk.EnumerateInstanceExtensionProperties(nullptr, &count, nullptr) != VK_SUCCESS) return false;
    std::vector<VkExtensionProperties> extensions(count);
    if (vk.EnumerateInstanceExtensionProperties(nullptr, &count, extensions.data()) != VK_SUCCESS) return false;
    for (const VkExtensionProperties& extension : extensions)
        if (!std::strcmp(extension.extensionName, name)) return true;
    return false;
}

}  // namespace

Result<Validation> validation_from_environment() {
    const char* value = std::getenv("DARNER_VALIDATION");
    const std::string_view word = value ? value : "";
    if (word.empty()) return Validation::off;
    if (word == "core") return Validation::core;
    if (word == "sync") return Validation::sync;
    return invalid(fmt::format("[vulkan] DARNER_VALIDATION={}: expected core or sync", word));
}

Result<std::shared_ptr<Instance>> Instance::create(Validation validation) {
    TRY(const Library* vk, library());
    uint32_t version = VK_API_VERSION_1_0;
    TRY(check(vk->EnumerateInstanceVersion(&version), "asking for the Vulkan version"));
    if (version < VK_API_VERSION_1_2) return device_error("[vulkan] the Vulkan loader is older than 1.2");

    std::vector<const char*> layers, extensions;
    VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
    const VkValidationFeatureEnableEXT sync = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    const VkValidationFeatureDisableEXT core = VK_VALIDATION_FEATURE_DISABLE_CORE_CHECKS_EXT;
    if (validation != Validation::off) {
        if (!has_layer(*vk, validation_layer)) {
            Error error =
                device_error(fmt::format("[vulkan] DARNER_VALIDATION is set, but {} is not installed", validation_layer));
            error.hint = "Debian: vulkan-validationlayers";
            return error;
        }
        layers.push_back(validation_layer);
        extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    }
    if (validation == Validation::sync) {
        features.enabledValidationFeatureCount = 1;
        features.pEnabledValidationFeatures = &sync;
        features.disabledValidationFeatureCount = 1;
        features.pDisabledValidationFeatures = &core;
    }
    std::shared_ptr<Instance> instance(new Instance);
    instance->debug_utils_ = validation != Validation::off || has_extension(*vk, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (instance->debug_utils_) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);

    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.pApplicationName = application.pEngineName = "darner";
    application.apiVersion = VK_API_VERSION_1_3;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pNext = validation == Validation::off ? nullptr : &features;
    info.pApplicationInfo = &application;
    info.enabledLayerCount = static_cast<uint32_t>(layers.size());
    info.ppEnabledLayerNames = layers.data();
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    const VkResult created = vk->CreateInstance(&info, nullptr, &instance->handle_);
    if (created == VK_ERROR_INCOMPATIBLE_DRIVER) {
        Error error = device_error("[vulkan] no Vulkan driver on this machine");
        error.hint = "install one (Debian: mesa-vulkan-drivers, which has one for CPUs too)";
        return error;
    }
    if (created != VK_SUCCESS) return vulkan_error(created, "creating an instance");
    Result<InstanceFunctions> functions = load_functions(*vk, instance->handle_, instance->debug_utils_);
    if (!functions) {
        // Without the functions there is no way to destroy the instance in the destructor.
        instance->handle_ = VK_NULL_HANDLE;
        return functions.error();
    }
    instance->vk_ = *functions;
    if (validation != Validation::off) TRY(instance->listen());
    return instance;
}

Result<void> Instance::listen() {
    VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
    info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    info.pfnUserCallback = on_message;
    info.pUserData = this;
    return check(vk_.CreateDebugUtilsMessengerEXT(handle_, &info, nullptr, &messenger_), "listening to the validation layer");
}

VkBool32 Instance::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
    Instance& instance = *static_cast<Instance*>(self);
    std::lock_guard lock(instance.mutex_);
    // A fault repeats for every dispatch: the first few say it all.
    constexpr size_t kept = 16;
    if (instance.messages_.size() < kept) instance.messages_.emplace_back(data->pMessage ? data->pMessage : "(no text)");
    return VK_FALSE;
}

Result<void> Instance::take_validation_messages() {
    std::lock_guard lock(mutex_);
    if (messages_.empty()) return {};
    const std::vector<std::string> taken = std::move(messages_);
    messages_.clear();
    return device_error(fmt::format("[vulkan] the validation layer reports: {}", fmt::join(taken, "; ")));
}

Instance::~Instance() {
    if (handle_ == VK_NULL_HANDLE) return;
    if (messenger_ != VK_NULL_HANDLE) vk_.DestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
    vk_.DestroyInstance(handle_, nullptr);
}

}  // namespace darner::vulkan
