// SPDX-License-Identifier: MIT
// Buffers larger than a binding may be: a kernel that was written as if they were bound whole is cut into parts. A part runs a
// box of the workgroups with bindings that are windows of the buffers: the bytes which those workgroups touch (kir/ranges.h),
// below the device's limit and at its alignment. Where one window does not reach, a buffer is bound several times, and each
// access picks its window. Parts with equally many windows share a kernel; what differs between them is in its params.
#pragma once

#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

#include <optional>

namespace darner::kernels {

struct Window {
    uint32_t binding = 0;  // of the kernel that was cut
    uint64_t offset = 0, bytes = 0;
};

struct KernelPart {
    size_t kernel = 0;  // index into CutKernel::kernels
    std::array<uint32_t, 3> groups = {1, 1, 1};
    std::vector<uint32_t> params;
    std::vector<Window> windows;  // in binding order
};

struct CutKernel {
    std::vector<kir::Kernel> kernels;
    std::vector<KernelPart> parts;  // independent of each other; written windows overlap only where alignment forces it
};

bool needs_windows(const kir::Kernel& kernel, const Caps& caps);

// Nothing when a workgroup alone touches more than the device's bindings reach. A kernel that needs no windows stays whole.
std::optional<CutKernel> cut_to_windows(kir::Kernel kernel, std::array<uint32_t, 3> groups, const Caps& caps);

}  // namespace darner::kernels
