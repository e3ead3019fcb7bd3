// SPDX-License-Identifier: MIT
// Context: the logical device with its queues, shared by the Device and all its Executables, so that it outlives what they
// own. The queues may be used from several threads; everything else of an Executable belongs to one thread at a time.
#pragma once

#include "darner/device/vulkan/handle.h"
#include "darner/device/vulkan/physical.h"

#include <memory>
#include <mutex>
#include <string>

namespace darner::vulkan {

class PipelineCache;

class Context {
public:
    static Result<std::shared_ptr<Context>> create(std::shared_ptr<Instance> instance, PhysicalDevice physical);
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context();

    const DeviceFunctions& vk() const { return vk_; }
    VkDevice device() const { return device_; }
    Instance& instance() const { return *instance_; }
    const PhysicalDevice& physical() const { return physical_; }
    PipelineCache& pipeline_cache() const { return *pipeline_cache_; }

    VkResult submit(const VkSubmitInfo& info) const { return main_.submit(vk_, info); }
    // To the queue of physical().transfer_family, which must be there.
    VkResult submit_transfer(const VkSubmitInfo& info) const { return transfer_.submit(vk_, info); }
    // Gives an object a name in validation messages and captures.
    void name_object(VkObjectType type, uint64_t handle, const std::string& name) const;

private:
    Context();
    Result<void> create_device();

    std::shared_ptr<Instance> instance_;
    PhysicalDevice physical_;
    VkDevice device_ = VK_NULL_HANDLE;
    DeviceFunctions vk_;
    struct Queue {
        VkQueue handle = VK_NULL_HANDLE;
        mutable std::mutex mutex;
        VkResult submit(const DeviceFunctions& vk, const VkSubmitInfo& info) const;
    };
    Queue main_, transfer_;
    std::unique_ptr<PipelineCache> pipeline_cache_;
};

}  // namespace darner::vulkan
