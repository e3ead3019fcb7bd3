// SPDX-License-Identifier: MIT
// What all losses share: the attribute `reduction` and its meaning.
#pragma once

#include "darner/ops/compose.h"

namespace darner {

inline constexpr AttrDef reduction_attr = {"reduction", AttrKind::choice, "mean",
                                           "mean or sum over all losses, or none: one loss each", "mean|sum|none"};

// The result's type for losses of this type; the mean of no losses is an error.
Result<Type> reduced_losses(const Call& c, Type losses);
Value reduce_losses(const BuildCall& c, Value losses);

}  // namespace darner
