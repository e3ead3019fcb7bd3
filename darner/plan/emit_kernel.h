// SPDX-License-Identifier: MIT
// Ops with a kernel of their own (KernelLower): the table from the name that an op gives to the code that fills the archetype's
// spec. Emitters read operands through `value` and write results through `store`; where those lie is not their business.
#pragma once

#include "darner/kernels/grid.h"
#include "darner/plan/grouping.h"
#include "darner/plan/pull.h"

namespace darner::plan {

struct KernelGroup {
    const Graph& graph;
    const Group& group;  // nodes of one kernel name, with equal operands and attributes
    kir::Builder& builder;
    const Caps& caps;
    std::function<kir::Expr(NodeId, Point)> value;
    std::function<void(NodeId, kir::Expr position, kir::Expr value)> store;  // position: row-major
    uint64_t flops = 0;                                                      // stated by the emitter
};

using EmitKernel = Result<kernels::Grid> (*)(KernelGroup&);

// Of the group's kernel name; a name that is not in the table is a bug.
EmitKernel kernel_emitter(std::string_view name);

Result<kernels::Grid> emit_scatter(KernelGroup& g);
Result<kernels::Grid> emit_attention(KernelGroup& g);

}  // namespace darner::plan
