// SPDX-License-Identifier: MIT
// What a graph must look like before grouping: concrete, of primitives, of dtypes that kernels have; every output and update
// computed by a node of its own (never a leaf or a view of one), packed ones by an elementwise node; no reduction over nothing;
// no variadic node of more operands than a kernel binds; no node that alone touches more than the device's bindings reach.
#pragma once

#include "darner/graph/graph.h"
#include "darner/program/caps.h"

namespace darner::plan {

Result<Graph> prepare(const Graph& graph, const Caps& caps);

}  // namespace darner::plan
