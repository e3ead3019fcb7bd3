// SPDX-License-Identifier: MIT
// The map archetype: one value of each output per element of a common space, computed independently. The body may read
// anywhere; an in-place output (an `inout` binding) is read at its own element only, and all values are computed before the
// first store.
#pragma once

#include "darner/base/result.h"
#include "darner/kernels/grid.h"
#include "darner/kernels/storage.h"

namespace darner::kernels {

struct MapSpec {
    uint32_t count = 0;  // elements of the space
    struct Output {
        kir::BindingRef binding;
        Storage storage = Storage::f32;
    };
    std::vector<Output> outputs;
    // The outputs' values at a linear element.
    std::function<std::vector<kir::Expr>(kir::Builder&, kir::Expr linear)> body;
};

// Emits into a builder whose bindings are declared; sets the workgroup size. Fails when no grid covers the space.
Result<Grid> build_map(kir::Builder& b, const MapSpec& spec, const Caps& caps);

}  // namespace darner::kernels
