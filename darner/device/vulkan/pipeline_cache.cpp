// SPDX-License-Identifier: MIT
// Reads and writes the pipeline cache file.
#include "darner/device/vulkan/pipeline_cache.h"

#include "darner/base/files.h"
#include "darner/base/hash.h"
#include "darner/device/vulkan/context.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string_view>

namespace darner::vulkan {
namespace {

constexpr uint32_t format_version = 1;
// A cache this large holds mostly kernels of programs long gone: start afresh.
constexpr uint64_t max_cache_bytes = 256u << 20;

struct Header {
    char magic[8] = {'D', 'A', 'R', 'N', 'E', 'R', 'P', 'C'};
    uint32_t version = format_version;
    uint32_t vendor = 0, device = 0, driver = 0;
    uint8_t uuid[VK_UUID_SIZE] = {};
    uint64_t bytes = 0;
    uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 56, "the file's layout has no padding");

Header header_for(const VkPhysicalDeviceProperties& device, std::span<const std::byte> data) {
    Header h;
    h.vendor = device.vendorID;
    h.device = device.deviceID;
    h.driver = device.driverVersion;
    std::memcpy(h.uuid, device.pipelineCacheUUID, VK_UUID_SIZE);
    h.bytes = data.size();
    Hasher hasher;
    hasher.add(std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
    h.checksum = hasher.value();
    return h;
}

}  // namespace

std::vector<std::byte> encode_cache_file(const VkPhysicalDeviceProperties& device, std::span<const std::byte> data) {
    const Header h = header_for(device, data);
    std::vector<std::byte> file(sizeof h + data.size());
    std::memcpy(file.data(), &h, sizeof h);
    if (!data.empty()) std::memcpy(file.data() + sizeof h, data.data(), data.size());
    return file;
}

std::span<const std::byte> decode_cache_file(const VkPhysicalDeviceProperties& device, std::span<const std::byte> file) {
    if (file.size() < sizeof(Header)) return {};
    const std::span<const std::byte> data = file.subspan(sizeof(Header));
    const Header expected = header_for(device, data);
    if (std::memcmp(&expected, file.data(), sizeof expected) != 0) return {};
    return data;
}

std::string PipelineCache::default_path(const VkPhysicalDeviceProperties& device) {
    const std::string folder = cache_folder();
    if (folder.empty()) return {};
    return fmt::format("{}/pipelines-{:08x}-{:08x}-{:02x}.bin", folder, device.vendorID, device.deviceID,
                       fmt::join(device.pipelineCacheUUID, ""));
}

Result<std::unique_ptr<PipelineCache>> PipelineCache::open(const Context& context, std::string path) {
    std::unique_ptr<PipelineCache> cache(new PipelineCache(context));
    cache->path_ = std::move(path);
    std::vector<std::byte> file;
    if (!cache->path_.empty()) {
        // A missing or unreadable file is the same as an empty one.
        if (Result<std::vector<std::byte>> read = read_file(cache->path_, max_cache_bytes)) file = std::move(*read);
    }
    const std::span<const std::byte> data = decode_cache_file(context.physical().properties, file);
    VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    info.initialDataSize = data.size();
    info.pInitialData = data.data();
    VkPipelineCache object = VK_NULL_HANDLE;
    VkResult created = context.vk().CreatePipelineCache(context.device(), &info, nullptr, &object);
    if (created != VK_SUCCESS && info.initialDataSize != 0) {
        info.initialDataSize = 0;
        created = context.vk().CreatePipelineCache(context.device(), &info, nullptr, &object);
    }
    TRY(check(created, "creating a pipeline cache"));
    cache->cache_ = Handle<VkPipelineCache>(context.device(), object, context.vk().DestroyPipelineCache);
    cache->saved_bytes_ = data.size();
    return cache;
}

void PipelineCache::save() {
    if (path_.empty()) return;
    std::lock_guard lock(mutex_);
    const DeviceFunctions& vk = context_.vk();
    size_t bytes = 0;
    if (vk.GetPipelineCacheData(context_.device(), cache_.get(), &bytes, nullptr) != VK_SUCCESS) return;
    if (bytes == saved_bytes_ || bytes > max_cache_bytes) return;
    std::vector<std::byte> data(bytes);
    if (vk.GetPipelineCacheData(context_.device(), cache_.get(), &bytes, data.data()) != VK_SUCCESS) return;
    data.resize(bytes);
    if (!make_folder(std::filesystem::path(path_).parent_path().string())) return;
    // An unwritable cache only costs the next start some time.
    if (write_file(path_, encode_cache_file(context_.physical().properties, data))) saved_bytes_ = bytes;
}

}  // namespace darner::vulkan
