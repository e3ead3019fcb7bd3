// SPDX-License-Identifier: MIT
// The Vulkan device: opens a Context and loads Programs on it.
#include "darner/device/vulkan/vulkan.h"

#include "darner/device/vulkan/executable.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

namespace darner {
namespace {

class VulkanDevice final : public Device {
public:
    explicit VulkanDevice(std::shared_ptr<vulkan::Context> context) : context_(std::move(context)) {}
    const DeviceInfo& info() const override { return context_->physical().info; }
    Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program) override {
        return vulkan::VulkanExecutable::load(context_, std::move(program));
    }

private:
    std::shared_ptr<vulkan::Context> context_;
};

// One instance a validation mode for the life of the process: drivers that are loaded and unloaded with each instance run out
// of static thread storage after a few rounds, and loading them is slow.
Result<std::shared_ptr<vulkan::Instance>> shared_instance(vulkan::Validation validation) {
    static std::mutex mutex;
    static auto* instances = new std::map<vulkan::Validation, std::shared_ptr<vulkan::Instance>>;  // never destroyed: see above
    const std::lock_guard lock(mutex);
    auto& instance = (*instances)[validation];
    if (instance == nullptr) {
        TRY(instance, vulkan::Instance::create(validation));
    }
    return instance;
}

}  // namespace

bool names_device(const DeviceInfo& device, std::string_view part) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    return std::search(device.name.begin(), device.name.end(), part.begin(), part.end(), same) != device.name.end();
}

Result<std::vector<DeviceInfo>> vulkan_devices() {
    TRY(const std::shared_ptr<vulkan::Instance> instance, shared_instance(vulkan::Validation::off));
    TRY(const std::vector<vulkan::PhysicalDevice> devices, vulkan::physical_devices(*instance));
    std::vector<DeviceInfo> infos;
    for (const vulkan::PhysicalDevice& device : devices)
        if (device.unusable.empty()) infos.push_back(device.info);
    return infos;
}

Result<std::unique_ptr<Device>> open_vulkan(std::string_view id) {
    TRY(const vulkan::Validation validation, vulkan::validation_from_environment());
    TRY(std::shared_ptr<vulkan::Instance> instance, shared_instance(validation));
    TRY(std::vector<vulkan::PhysicalDevice> devices, vulkan::physical_devices(*instance));
    TRY(const size_t chosen, vulkan::choose_device(devices, id));
    TRY(std::shared_ptr<vulkan::Context> context, vulkan::Context::create(std::move(instance), std::move(devices[chosen])));
    return std::unique_ptr<Device>(std::make_unique<VulkanDevice>(std::move(context)));
}

}  // namespace darner
