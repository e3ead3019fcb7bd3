// SPDX-License-Identifier: MIT
// The features that darner uses, as Vulkan's chain of structures: for the query of what a device has (physical.cpp) and for
// the device's creation (context.cpp).
#pragma once

#include "darner/device/vulkan/extensions.h"

namespace darner::vulkan {

// Appends structures to a pNext chain in the order of the calls.
class Chain {
public:
    explicit Chain(void** next) : next_(next) {}
    template <class T>
    void add(T& structure) {
        *next_ = &structure;
        next_ = &structure.pNext;
    }

private:
    void** next_;
};

// Optional structures that a device does not know must stay out of the chain.
struct FeatureChain {
    FeatureChain(bool with_sizes, bool with_matrices, bool with_bfloat16) {
        Chain chain(&features.pNext);
        chain.add(v11);
        chain.add(v12);
        if (with_sizes) chain.add(sizes);
        if (with_matrices) chain.add(matrices);
        if (with_bfloat16) chain.add(bfloat16);
    }
    FeatureChain(const FeatureChain&) = delete;  // the structures point to each other
    FeatureChain& operator=(const FeatureChain&) = delete;

    VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    CooperativeMatrixFeatures matrices;
    Bfloat16Features bfloat16;
};

}  // namespace darner::vulkan
