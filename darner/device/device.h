// SPDX-License-Identifier: MIT
// The two interfaces of devices. A device loads a Program and runs its entries; it knows nothing of kernels or ops.
#pragma once

#include "darner/base/result.h"
#include "darner/program/program.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace darner {

struct DeviceInfo {
    std::string id;      // what --device takes: "vulkan", "vulkan:1", "interp"
    std::string name;    // "llvmpipe (LLVM 15.0.6, 256 bits)"
    std::string driver;  // name and version of the driver
    std::string api_version;
    Caps caps;
};

struct DispatchTime {
    std::string label;
    double seconds = 0;  // on the device
};

// One loaded Program with its memory. Calls come from one thread at a time.
class Executable {
public:
    virtual ~Executable() = default;
    // Copies host bytes into a tensor; takes effect before the next submit. Bytes must be the tensor's size.
    virtual Result<void> write(TensorId tensor, std::span<const std::byte> bytes) = 0;
    // Waits for what was submitted, then copies out.
    virtual Result<void> read(TensorId tensor, std::span<std::byte> bytes) = 0;
    // Queues `steps` runs of an entry, one after the other; returns without waiting. A device-side failure comes out of wait().
    virtual Result<void> submit(uint32_t entry, uint32_t steps) = 0;
    virtual Result<void> wait() = 0;
    // Runs the entry once with a timestamp round each dispatch.
    virtual Result<std::vector<DispatchTime>> profile(uint32_t entry) = 0;
};

class Device {
public:
    virtual ~Device() = default;
    virtual const DeviceInfo& info() const = 0;
    const Caps& caps() const { return info().caps; }
    // The Program's kernels hold the code kind that caps().code names (KIR is always there).
    virtual Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program) = 0;
};

}  // namespace darner
