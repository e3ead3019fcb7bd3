// SPDX-License-Identifier: MIT
#include "cli/targets.h"

#include "darner/base/check.h"

#include <iterator>

namespace darner::cli {
namespace {

struct Target {
    const char* name;
    Caps (*caps)();
};
constexpr Target targets[] = {{"vulkan", vulkan_minimum_caps}, {"webgpu", webgpu_default_caps}, {"h200", h200_caps}};

}  // namespace

std::vector<std::string> target_names() {
    std::vector<std::string> names;
    for (const Target& target : targets) names.emplace_back(target.name);
    return names;
}

Caps target_caps(std::string_view name) {
    for (const Target& target : targets)
        if (target.name == name) return target.caps();
    bug(__FILE__, __LINE__, "no such target");
}

}  // namespace darner::cli
