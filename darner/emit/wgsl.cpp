// SPDX-License-Identifier: MIT
#include "darner/emit/wgsl.h"

#include "darner/emit/limits.h"
#include "darner/emit/wgsl_function.h"

#include <fmt/format.h>

namespace darner {

namespace {

// What no WGSL device has, whatever its Caps say.
std::vector<std::string> lacking(const kir::Kernel& kernel) {
    const KernelFeatures features = features_of(kernel);
    std::vector<std::string> reasons;
    if (features.coop) reasons.push_back("cooperative matrices");
    if (features.bf16) reasons.push_back("bf16 values");
    if (kernel.required_subgroup_size != 0)
        reasons.push_back(fmt::format("way to require subgroups of {}", kernel.required_subgroup_size));
    return reasons;
}

}  // namespace

Result<std::string> emit_wgsl(const kir::Kernel& kernel, const Caps& caps) {
    const Result<void> fits = check_limits(kernel, caps);
    const std::vector<std::string> reasons = lacking(kernel);
    if (!reasons.empty()) {
        std::string text = fmt::format("[kernel {}] WGSL has no {}", kernel.name, fmt::join(reasons, ", no "));
        if (!fits) text += "; " + fits.error().message;
        Error error = unsupported(std::move(text));
        error.hint = "compile for the target webgpu: its kernels need none of this";
        return error;
    }
    TRY(fits);
    return wgsl::ModuleWriter(kernel).write();
}

}  // namespace darner
