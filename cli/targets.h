// SPDX-License-Identifier: MIT
// The devices that --target names: Caps to plan for when none is at hand.
#pragma once

#include "darner/program/caps.h"

#include <string>
#include <string_view>
#include <vector>

namespace darner::cli {

std::vector<std::string> target_names();
// Of one of these names.
Caps target_caps(std::string_view name);

}  // namespace darner::cli
