// SPDX-License-Identifier: MIT
// Graph to graph passes of the pipeline. Each gives a new graph; none changes what is computed.
#pragma once

#include "darner/graph/builder.h"

namespace darner {

// Composites (ExpandLower) become primitives, again and again until none is left.
Result<Graph> expand(const Graph& graph);
// The same, and kernels that have an expansion as well: what their arithmetic is made of.
Result<Graph> expand_kernels(const Graph& graph);

// Removes what no output or update needs, merges equal nodes (random streams differ by their `stream`), folds constants of one
// value through elementwise ops and views, drops no-op reshapes, transposes, broadcasts, casts and slices.
Result<Graph> cleanup(const Graph& graph);

// Splits the init expressions off the params of all graphs into a graph `init` with one update a param, and removes them
// from the others. Params without an init expression are left to the host.
Result<Module> extract_init(Module module);

// Concrete dims in place of symbols.
Result<Graph> bind_symbols(const Graph& graph, const SymbolBindings& bindings);

}  // namespace darner
