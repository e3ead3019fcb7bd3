// SPDX-License-Identifier: MIT
#include "darner/base/fault.h"

#include <cstdlib>

namespace darner {

int planted_fault() {
    const char* number = std::getenv("DARNER_FAULT");
    return number == nullptr ? 0 : std::atoi(number);
}

}  // namespace darner
