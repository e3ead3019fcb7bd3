// SPDX-License-Identifier: MIT
// Names in a WGSL module: legal identifiers, each given once, none that the language or the emitted code uses itself.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace darner::wgsl {

class Names {
public:
    // The wished name if it is legal and free, else one close to it. Two calls never give the same name.
    std::string unique(std::string_view wish);

private:
    std::set<std::string, std::less<>> taken_;
};

}  // namespace darner::wgsl
