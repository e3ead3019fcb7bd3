// SPDX-License-Identifier: MIT
// Vulkan extensions newer than the headers of current distributions (1.3.239), declared from the registry under our own
// names, so that newer headers do not clash: VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

namespace darner::vulkan {

inline constexpr const char* cooperative_matrix_extension = "VK_KHR_cooperative_matrix";
inline constexpr const char* bfloat16_extension = "VK_KHR_shader_bfloat16";

inline constexpr VkStructureType cooperative_matrix_features_type = VkStructureType(1000506000);
inline constexpr VkStructureType cooperative_matrix_shape_type = VkStructureType(1000506001);
inline constexpr VkStructureType cooperative_matrix_properties_type = VkStructureType(1000506002);
inline constexpr VkStructureType bfloat16_features_type = VkStructureType(1000141000);

enum ComponentType : int32_t {  // VkComponentTypeKHR
    component_f16 = 0,
    component_f32 = 1,
    component_bf16 = 1000141000,
};
inline constexpr int32_t subgroup_scope = 3;  // VK_SCOPE_SUBGROUP_KHR

struct CooperativeMatrixFeatures {  // VkPhysicalDeviceCooperativeMatrixFeaturesKHR
    VkStructureType sType = cooperative_matrix_features_type;
    void* pNext = nullptr;
    VkBool32 cooperative_matrix = VK_FALSE;
    VkBool32 robust_buffer_access = VK_FALSE;
};

struct CooperativeMatrixProperties {  // VkPhysicalDeviceCooperativeMatrixPropertiesKHR
    VkStructureType sType = cooperative_matrix_properties_type;
    void* pNext = nullptr;
    VkShaderStageFlags supported_stages = 0;
};

struct CooperativeMatrixShape {  // VkCooperativeMatrixPropertiesKHR
    VkStructureType sType = cooperative_matrix_shape_type;
    void* pNext = nullptr;
    uint32_t m = 0, n = 0, k = 0;
    int32_t a_type = 0, b_type = 0, c_type = 0, result_type = 0;
    VkBool32 saturating_accumulation = VK_FALSE;
    int32_t scope = 0;
};

struct Bfloat16Features {  // VkPhysicalDeviceShaderBfloat16FeaturesKHR
    VkStructureType sType = bfloat16_features_type;
    void* pNext = nullptr;
    VkBool32 type = VK_FALSE;
    VkBool32 dot_product = VK_FALSE;
    VkBool32 cooperative_matrix = VK_FALSE;
};

using GetCooperativeMatrixShapes = VkResult(VKAPI_PTR*)(VkPhysicalDevice device, uint32_t* count, CooperativeMatrixShape* shapes);

}  // namespace darner::vulkan
