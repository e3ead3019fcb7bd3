// SPDX-License-Identifier: MIT
// Creates pipelines in parallel: compilation in the driver dominates the start of a program.
#include "darner/device/vulkan/pipelines.h"

#include "darner/device/vulkan/pipeline_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace darner::vulkan {
namespace {

Result<Handle<VkPipeline>> compile(const Context& context, const KernelCode& code, const Layout& layout) {
    const DeviceFunctions& vk = context.vk();
    const std::string& name = code.kir.name;
    VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    module_info.codeSize = code.spirv.size() * 4;
    module_info.pCode = code.spirv.data();
    VkShaderModule raw = VK_NULL_HANDLE;
    if (const VkResult r = vk.CreateShaderModule(context.device(), &module_info, nullptr, &raw); r != VK_SUCCESS)
        return vulkan_error(r, fmt::format("reading the SPIR-V of kernel '{}'", name));
    const Handle<VkShaderModule> module(context.device(), raw, vk.DestroyShaderModule);

    VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module.get();
    info.stage.pName = "main";
    info.layout = layout.pipeline.get();
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
    const uint32_t wanted = code.kir.required_subgroup_size;
    if (wanted != 0 && context.physical().info.caps.subgroup_size_control) {
        size.requiredSubgroupSize = wanted;
        info.stage.pNext = &size;
        if (context.physical().full_subgroups && code.kir.workgroup_size[0] % wanted == 0)
            info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult r = vk.CreateComputePipelines(context.device(), context.pipeline_cache().get(), 1, &info, nullptr, &pipeline);
    if (r != VK_SUCCESS) return vulkan_error(r, fmt::format("compiling kernel '{}'", name));
    context.name_object(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline), name);
    return Handle<VkPipeline>(context.device(), pipeline, vk.DestroyPipeline);
}

}  // namespace

Result<const Layout*> Pipelines::make_layout(const Context& context, const kir::Kernel& kernel) {
    const std::pair key(kernel.bindings.size(), kernel.params.size());
    if (const auto found = layouts_.find(key); found != layouts_.end()) return &found->second;
    const DeviceFunctions& vk = context.vk();
    std::vector<VkDescriptorSetLayoutBinding> slots(kernel.bindings.size());
    for (uint32_t i = 0; i < slots.size(); ++i)
        slots[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    set_info.bindingCount = static_cast<uint32_t>(slots.size());
    set_info.pBindings = slots.data();
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    TRY(check(vk.CreateDescriptorSetLayout(context.device(), &set_info, nullptr, &set), "creating a descriptor set layout"));
    Layout layout;
    layout.set = Handle<VkDescriptorSetLayout>(context.device(), set, vk.DestroyDescriptorSetLayout);

    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(kernel.params.size() * 4)};
    VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    info.setLayoutCount = 1;
    info.pSetLayouts = &set;
    info.pushConstantRangeCount = kernel.params.empty() ? 0 : 1;
    info.pPushConstantRanges = &range;
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
    TRY(check(vk.CreatePipelineLayout(context.device(), &info, nullptr, &pipeline), "creating a pipeline layout"));
    layout.pipeline = Handle<VkPipelineLayout>(context.device(), pipeline, vk.DestroyPipelineLayout);
    return &layouts_.emplace(key, std::move(layout)).first->second;
}

Result<Pipelines> Pipelines::create(const Context& context, const Program& program, const std::vector<bool>& used) {
    Pipelines result;
    result.pipelines_.resize(program.kernels.size());
    result.layouts_of_.resize(program.kernels.size());
    std::vector<size_t> work;
    for (size_t i = 0; i < program.kernels.size(); ++i) {
        if (!used[i]) continue;
        if (program.kernels[i].spirv.empty())
            return invalid(fmt::format("[vulkan] kernel '{}' has no SPIR-V", program.kernels[i].kir.name));
        TRY(result.layouts_of_[i], result.make_layout(context, program.kernels[i].kir));
        work.push_back(i);
    }
    std::vector<std::optional<Error>> errors(work.size());
    std::atomic<size_t> next = 0;
    const auto run = [&] {
        for (size_t w = next++; w < work.size(); w = next++) {
            const size_t kernel = work[w];
            Result<Handle<VkPipeline>> pipeline = compile(context, program.kernels[kernel], *result.layouts_of_[kernel]);
            if (pipeline)
                result.pipelines_[kernel] = std::move(*pipeline);
            else
                errors[w] = pipeline.error();
        }
    };
    const size_t threads = std::min<size_t>(work.size(), std::max(1u, std::thread::hardware_concurrency()));
    {
        std::vector<std::jthread> pool;
        for (size_t i = 1; i < threads; ++i) pool.emplace_back(run);
        run();
    }
    for (const std::optional<Error>& error : errors)
        if (error) return *error;
    context.pipeline_cache().save();
    return result;
}

}  // namespace darner::vulkan
