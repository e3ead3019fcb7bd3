// SPDX-License-Identifier: MIT
// The table test of the ops: every op of the registry is checked on cases made from its entry. An op without cases is a
// failure, so a new op is tested by existing. On the reference: inference against evaluation, text round trip, expansion
// against composite, gradients against central differences with the op between nonlinear ones, vjp against jvp, finite values
// at all magnitudes. On a device: values and gradients against the f64 reference within the bounds of docs/ops.md.
#pragma once

#include "darner/device/device.h"

#include <string>
#include <string_view>
#include <vector>

namespace darner {

struct OpCheckReport {
    std::string op;
    bool ok = true;
    size_t cases = 0;
    double worst_ratio = 0;             // the largest error in units of its bound, over all comparisons that have one
    std::vector<std::string> failures;  // "f32[3,5] x1e2: d_x[4]: got 0.5, expected 0.25"
};

// `device` may be null: then the reference alone is checked. An error means that the check itself could not be made (no such op).
Result<OpCheckReport> check_op(std::string_view name, Device* device);

}  // namespace darner
