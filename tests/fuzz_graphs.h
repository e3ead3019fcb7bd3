// SPDX-License-Identifier: MIT
// Random typed graphs over the whole op table, for fuzzing from gradients to devices. Ops, operands and attributes are drawn
// from the entries alone, so a new op is fuzzed by existing; a draw that inference refuses, or whose values overflow, grow or
// lie close to a jump, is drawn again. Each graph has a scalar loss, its gradients by all float leaves, and updates of its
// params.
#pragma once

#include "darner/graph/eval.h"

#include <cstdint>
#include <set>
#include <string>

namespace darner::test {

struct FuzzOptions {
    uint64_t seed = 0;
    int max_nodes = 18;       // drawn ops, before gradients
    int64_t max_extent = 31;  // of one dim
    // For central differences: no half precision, whose constants are too coarse, and gradients by all leaves, not some params.
    bool for_differences = false;
};

struct FuzzCase {
    Graph graph;
    NamedTensors leaves;
    std::set<std::string> ops;  // the ops drawn, for knowing that all of them occur
};

Result<FuzzCase> random_case(const FuzzOptions& options);

}  // namespace darner::test
