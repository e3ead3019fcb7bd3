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
//
// Several submits may be in flight: nothing waits but read(), wait() and profile(), a write() into a full ring, and a submit()
// or write() into a full queue (the bounds on queued work are the device's; memory does not grow with what is queued).
//
// Per-step inputs and outputs of an entry are rings: run i of the entry, counted from load, has slot i % slots for its own. A
// slot's bytes serve one run: an input that was not written for a run makes its submit() an error.
class Executable {
public:
    virtual ~Executable() = default;
    // Copies host bytes into a tensor; takes effect before the next submit and behind the earlier ones. Bytes must be the
    // tensor's size. Of a per-step input: the bytes are for the run that is `ahead` behind the next one to be submitted, ahead
    // < slots; waits only while the run that used the slot before has not finished.
    virtual Result<void> write(TensorId tensor, std::span<const std::byte> bytes, uint32_t ahead = 0) = 0;
    // Waits for what was submitted, then copies out. Of a per-step tensor: what the run that is `ago` before the last submitted
    // one gave, ago < slots; waits for that run alone.
    virtual Result<void> read(TensorId tensor, std::span<std::byte> bytes, uint32_t ago = 0) = 0;
    // Queues `steps` runs of an entry, one after the other; returns without waiting. A device-side failure comes out of wait().
    virtual Result<void> submit(uint32_t entry, uint32_t steps) = 0;
    // How many runs of the entry, counted from load, are known to have finished. Does not wait.
    virtual Result<uint64_t> finished(uint32_t entry) = 0;
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
