// SPDX-License-Identifier: MIT
// Planted faults: places that compute something wrong when DARNER_FAULT holds their number, so that it can be shown that the
// tests catch such a mistake. docs/testing.md lists them; tools/faults.py runs each against its test.
#pragma once

namespace darner {

int planted_fault();  // the number in DARNER_FAULT, read once; 0: none

inline bool fault(int number) {
    static const int planted = planted_fault();
    return planted == number;
}

}  // namespace darner
