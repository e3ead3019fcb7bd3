// SPDX-License-Identifier: MIT
// Rewrites a finished kernel so that its workgroup ids start at an origin and its bindings are windows of what it indexes.
#pragma once

#include "darner/kir/kernel.h"

namespace darner::kernels {

struct WindowAccess {
    struct Origin {
        bool is_param = false;  // else `value` is in the code
        uint32_t value = 0;
    };
    std::array<uint32_t, 3> groups = {1, 1, 1};  // of the whole dispatch
    std::vector<uint32_t> windows;               // by binding: how many, ascending in memory
    std::vector<bool> whole;                     // by binding: bound as before
    std::vector<Origin> origins;                 // of the three axes, then of each window (element index), in binding order
};

// The params are the origins that are one, in order. An access behind a window's origin and before the next one's is the
// window's.
kir::Kernel with_windows(const kir::Kernel& kernel, const WindowAccess& access);

}  // namespace darner::kernels
