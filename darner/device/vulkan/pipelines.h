// SPDX-License-Identifier: MIT
// One compute pipeline per kernel of a Program. Bindings are storage buffers of descriptor set 0 at their slots, params are
// push constants; kernels with the same counts share a layout, so that descriptor sets stay bound across them.
#pragma once

#include "darner/device/vulkan/context.h"
#include "darner/program/program.h"

#include <map>
#include <utility>
#include <vector>

namespace darner::vulkan {

struct Layout {
    Handle<VkDescriptorSetLayout> set;
    Handle<VkPipelineLayout> pipeline;
};

class Pipelines {
public:
    // Compiles the kernels marked in `used`, on as many threads as the machine has.
    static Result<Pipelines> create(const Context& context, const Program& program, const std::vector<bool>& used);

    VkPipeline pipeline(KernelId kernel) const { return pipelines_[kernel.value].get(); }
    const Layout& layout(KernelId kernel) const { return *layouts_of_[kernel.value]; }

private:
    Result<const Layout*> make_layout(const Context& context, const kir::Kernel& kernel);

    std::map<std::pair<size_t, size_t>, Layout> layouts_;  // by counts of bindings and of params; nodes do not move
    std::vector<const Layout*> layouts_of_;
    std::vector<Handle<VkPipeline>> pipelines_;
};

}  // namespace darner::vulkan
