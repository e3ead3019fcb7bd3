// SPDX-License-Identifier: MIT
// DARNER_CAPS: takes abilities away from whatever device a program opens, so that every test, and the command, can run as on a
// lesser one. A comma-separated list of
//   webgpu        no more than the limits that every WebGPU device grants, hazards tracked per buffer, no optional feature
//   no-subgroups  no subgroup operations, and so no cooperative matrices
//   no-f16        no f16 in bindings or arithmetic, nor in cooperative matrices
//   binding=N     a binding spans at most N bytes
#pragma once

#include "darner/base/result.h"
#include "darner/program/caps.h"

#include <string_view>

namespace darner {

// Unknown words and sizes that no device has are errors that list what is known.
Result<Caps> lower_caps(Caps caps, std::string_view words);

// lower_caps() by the environment's DARNER_CAPS; the same caps where that is not set.
Result<Caps> lower_caps_by_environment(Caps caps);

}  // namespace darner
