// SPDX-License-Identifier: MIT
// plan_module(): graphs of primitives to a Program for given Caps. The steps are a list in plan.cpp: grouping, lowering to
// kernels, memory, hazards. The plan depends on the graphs and the caps alone.
#pragma once

#include "darner/graph/graph.h"
#include "darner/program/program.h"

namespace darner {

struct PlanOptions {
    bool merge_windows = true;   // one dispatch for equal updates of role-contiguous tensors
    bool fuse = true;            // off: every node is a kernel of its own (tests compare the two)
    bool alias_scratch = true;   // off: no two scratch tensors share memory
    bool spread_scratch = true;  // off: one buffer for scratch even where hazards are tracked by buffer
    bool shorten_lives = true;   // off: every kernel runs as early as it can, whatever is alive then
    uint32_t ring_slots = 4;     // runs in flight that each have their own per-step inputs and outputs
};

// Graphs must be expanded (no composites) and concrete. Kernels come as KIR; code is emitted by runtime.
// Errors list every reason: dtypes the device lacks, limits, tensors too large.
Result<Program> plan_module(const Module& module, const Caps& caps, const PlanOptions& options = {});

}  // namespace darner
