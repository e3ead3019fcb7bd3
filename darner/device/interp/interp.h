// SPDX-License-Identifier: MIT
// The interpreter device: runs Programs on the checking interpreter of kernel IR, adversarially. It proves what a CPU
// driver that runs dispatches in order cannot: that barriers, memory reuse and windows are right.
//   Members of a barrier group run in shuffled order; a word that one writes and another touches is an error.
//   Scratch is filled with NaN and counts as unwritten before each step; reading what was not written is an error.
//   State that is not zeroed, inputs and outputs count as unwritten until the host or a kernel writes them.
// The first failure of a submit comes out of every later read() and wait(): the memory is no longer to be trusted.
#pragma once

#include "darner/device/device.h"

#include <memory>
#include <string_view>

namespace darner {

DeviceInfo interp_info(uint32_t subgroup_size = 32);

// "interp", or "interp:N" for subgroups of N invocations (a power of two from 4 to 128).
Result<std::unique_ptr<Device>> open_interp(std::string_view id);

}  // namespace darner
