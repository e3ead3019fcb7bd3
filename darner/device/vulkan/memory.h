// SPDX-License-Identifier: MIT
// Which memory a buffer lives in, and Buffer: a VkBuffer with memory of its own. There are few, large buffers (a segment
// each, and staging), so there is no sub-allocator.
#pragma once

#include "darner/base/result.h"
#include "darner/device/vulkan/handle.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace darner::vulkan {

class Context;

enum class MemoryUse : uint8_t {
    device,         // touched by kernels only: fastest for them
    device_mapped,  // touched by kernels and, on unified memory, by the host directly
    upload,         // written by the host, read once by a copy
    read_back,      // written by a copy, read by the host
};

// The type among `allowed` (a bit a type) that serves `use` best. An error when none serves it at all: not every device
// has memory that is device_mapped, all have the rest.
Result<uint32_t> choose_memory_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed, MemoryUse use);

class Buffer {
public:
    Buffer() = default;
    // `name` stands in errors and traces. A shared buffer may be used by both queues at a time.
    static Result<Buffer> create(const Context& context, uint64_t bytes, MemoryUse use, const std::string& name,
                                 bool shared = false);

    VkBuffer get() const { return buffer_.get(); }
    uint64_t bytes() const { return bytes_; }
    // Null when the host cannot reach it.
    std::byte* mapped() const { return mapped_; }
    // Makes what the device wrote visible to the host; needed where memory is not coherent.
    Result<void> invalidate(const Context& context) const;

private:
    Handle<VkDeviceMemory> memory_;  // freeing unmaps
    Handle<VkBuffer> buffer_;
    uint64_t bytes_ = 0;
    std::byte* mapped_ = nullptr;
    bool coherent_ = true;
};

}  // namespace darner::vulkan
