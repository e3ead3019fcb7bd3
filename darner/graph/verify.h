// SPDX-License-Identifier: MIT
// Checks what every pass may rely on: order of nodes, operand counts, attribute kinds, inferred types equal to stored ones,
// names unique, updates typed like their params and one a param, outputs present. Run between passes in tests and debug builds.
#pragma once

#include "darner/graph/graph.h"

namespace darner {

Result<void> verify(const Graph& graph);
// Also: params of one name agree between graphs.
Result<void> verify(const Module& module);

}  // namespace darner
