// SPDX-License-Identifier: MIT
// The pipeline cache on disk: one file per device and driver, with a header and a checksum of ours, since drivers crash on
// damaged data. A file that is corrupt, foreign or cannot be written costs time and nothing else.
#pragma once

#include "darner/base/result.h"
#include "darner/device/vulkan/handle.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace darner::vulkan {

class Context;

// A cache file of `data` for a device, and back. Nothing when the file is not for this device, driver and format version.
std::vector<std::byte> encode_cache_file(const VkPhysicalDeviceProperties& device, std::span<const std::byte> data);
std::span<const std::byte> decode_cache_file(const VkPhysicalDeviceProperties& device, std::span<const std::byte> file);

class PipelineCache {
public:
    // Empty when there is no folder for caches.
    static std::string default_path(const VkPhysicalDeviceProperties& device);
    static Result<std::unique_ptr<PipelineCache>> open(const Context& context, std::string path);

    VkPipelineCache get() const { return cache_.get(); }
    // Writes the file if pipelines were added since the last time.
    void save();

private:
    explicit PipelineCache(const Context& context) : context_(context) {}

    const Context& context_;
    std::string path_;
    Handle<VkPipelineCache> cache_;
    std::mutex mutex_;
    size_t saved_bytes_ = 0;
};

}  // namespace darner::vulkan
