// SPDX-License-Identifier: MIT
// Nodes that would touch more at once than the device's bindings reach, in smaller ones that do not: contractions and
// reductions over a part of what they sum, scatters of a part of the updates, gathers from a part of the table, attention of a
// part of the heads or keys; then joined in a fixed order. What such a node would pull through views and index nodes is stored
// before. Graphs without such nodes stay as they are.
#pragma once

#include "darner/graph/graph.h"
#include "darner/program/caps.h"

namespace darner::plan {

Result<Graph> split_beyond_windows(Graph graph, const Caps& caps);

}  // namespace darner::plan
