// SPDX-License-Identifier: MIT
// Small kernels that together use every opcode of kernel IR on every type that it takes, with inputs to run them on. The tests of
// both emitters share them.
#pragma once

#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace darner {

struct ZooKernel {
    kir::Kernel kernel;
    std::array<uint32_t, 3> groups = {1, 1, 1};
    std::vector<uint32_t> params;
    std::vector<std::vector<uint32_t>> buffers;  // contents of each binding before the run, as words
    bool exact = true;                           // else floats, compared with a tolerance
    bool coop = false, bf16 = false, subgroup = false, f16 = false;
};

// Everything that emitters support.
Caps zoo_caps();
const std::vector<ZooKernel>& kernel_zoo();
const ZooKernel& zoo_kernel(std::string_view name);

// Fails unless the bindings hold after a run what the checking interpreter leaves in them: the same bits, or floats close to it
// where the kernel is not exact.
void expect_as_interpreted(const ZooKernel& zoo, const std::vector<std::vector<uint32_t>>& contents);

}  // namespace darner
