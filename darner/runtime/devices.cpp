// SPDX-License-Identifier: MIT
// Finds devices by name.
#include "darner/runtime/devices.h"

#include "darner/base/nearest.h"
#include "darner/device/interp/interp.h"
#include "darner/device/vulkan/vulkan.h"

#include <fmt/format.h>

namespace darner {

Result<std::vector<DeviceInfo>> list_devices() {
    std::vector<DeviceInfo> devices;
    // Without Vulkan the list is short, not an error: opening a Vulkan device says what is missing.
    if (Result<std::vector<DeviceInfo>> found = vulkan_devices()) devices = std::move(*found);
    devices.push_back(interp_info());
    return devices;
}

Result<std::unique_ptr<Device>> open_device(std::string_view id) {
    const std::string_view family = id.substr(0, id.find(':'));
    if (family == "interp") return open_interp(id);
    if (!id.empty() && family != "vulkan") {
        TRY(const std::vector<DeviceInfo> devices, list_devices());
        std::vector<std::string> names;
        std::string list;
        bool fits = false;
        for (const DeviceInfo& device : devices) {
            fits |= device.caps.kind != DeviceKind::interpreter && names_device(device, id);
            names.push_back(device.id);
            names.push_back(device.name);
            list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", device.id, device.name);
        }
        if (!fits) {
            Error error = invalid(fmt::format("[device] no device \"{}\": there is {}", id, list));
            error.hint = did_you_mean(id, names);
            return error;
        }
    }
    Result<std::unique_ptr<Device>> opened = open_vulkan(id);
    if (opened || !id.empty()) return opened;
    Error error = std::move(opened).error();
    error.hint += fmt::format("{}--device interp runs without Vulkan, slowly", error.hint.empty() ? "" : "; ");
    return error;
}

}  // namespace darner
