// SPDX-License-Identifier: MIT
// A contraction's kernel from its entry's index maps: loads of both operands are pulled through views at the places that the
// maps name, results go where they say. Knows no op.
#pragma once

#include "darner/kernels/contract.h"
#include "darner/plan/pull.h"

namespace darner::plan {

struct ContractHooks {
    Pull& pull;
    std::function<bool(NodeId)> is_stored;               // whether a node's value lies in a buffer
    std::function<void(Point at, kir::Expr sum)> store;  // the contraction's element and all that is computed from it
};

struct EmittedContraction {
    kernels::Grid grid;
    uint64_t flops = 0;
};

Result<EmittedContraction> emit_contract(const Graph& graph, NodeId contraction, kir::Builder& b, const Caps& caps,
                                         const ContractHooks& hooks);

}  // namespace darner::plan
