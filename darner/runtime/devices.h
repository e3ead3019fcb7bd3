// SPDX-License-Identifier: MIT
// All devices of this machine under one naming: what `--device` takes and `darner devices` lists.
#pragma once

#include "darner/device/device.h"

#include <memory>
#include <string_view>
#include <vector>

namespace darner {

// The Vulkan devices, the best first, then the interpreter. A machine without Vulkan has the interpreter only.
Result<std::vector<DeviceInfo>> list_devices();

// "": the best Vulkan device (discrete, virtual, integrated, cpu); never the interpreter, which is asked for by name.
// "vulkan", "vulkan:N", "interp", "interp:N", or a part of a Vulkan device's name, letter case free.
Result<std::unique_ptr<Device>> open_device(std::string_view id);

}  // namespace darner
