// SPDX-License-Identifier: MIT
// Vulkan devices: what there is, and opening one. Vulkan itself is found at run time; without it both calls return an Error
// that says so in one line.
//
// Environment: DARNER_VALIDATION=core|sync turns on the validation layer, whose messages become Errors; DARNER_POISON=1
// fills scratch memory with NaN before each step; DARNER_STAGING=1 treats unified memory like a discrete device's;
// DARNER_BREADCRUMBS=1 makes the report of a lost device name the dispatches that ran, at the price of a write per barrier.
#pragma once

#include "darner/device/device.h"

#include <memory>
#include <string_view>
#include <vector>

namespace darner {

// The usable devices, the best first.
Result<std::vector<DeviceInfo>> vulkan_devices();

// Whether `part` occurs in the device's name, letter case free.
bool names_device(const DeviceInfo& device, std::string_view part);

// "" or "vulkan": the best; "vulkan:N": number N of the list; else a part of a device's name.
Result<std::unique_ptr<Device>> open_vulkan(std::string_view id);

}  // namespace darner
