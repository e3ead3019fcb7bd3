// SPDX-License-Identifier: MIT
// Handle<T>: sole owner of an object that a VkDevice made. The device must outlive it; Context sees to that.
#pragma once

#include "darner/device/vulkan/extensions.h"

#include <utility>

namespace darner::vulkan {

template <class T>
class Handle {
public:
    using Destroy = void(VKAPI_PTR*)(VkDevice, T, const VkAllocationCallbacks*);

    Handle() = default;
    Handle(VkDevice device, T object, Destroy destroy) : device_(device), object_(object), destroy_(destroy) {}
    Handle(Handle&& other) noexcept { swap(other); }
    Handle& operator=(Handle&& other) noexcept {
        Handle taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~Handle() {
        if (object_ != VK_NULL_HANDLE) destroy_(device_, object_, nullptr);
    }
    T get() const { return object_; }

private:
    void swap(Handle& other) {
        std::swap(device_, other.device_);
        std::swap(object_, other.object_);
        std::swap(destroy_, other.destroy_);
    }
    VkDevice device_ = VK_NULL_HANDLE;
    T object_ = VK_NULL_HANDLE;
    Destroy destroy_ = nullptr;
};

}  // namespace darner::vulkan
