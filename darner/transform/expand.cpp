// SPDX-License-Identifier: MIT
// Composites become primitives. An expansion may use composites itself, so rounds repeat until none is left; how deep they
// nest is a property of the op table, not of the graph.
#include "darner/graph/build_call.h"
#include "darner/transform/transform.h"

#include <algorithm>

namespace darner {
namespace {

// Deeper nesting than any sensible op table has: an op that expands into itself.
constexpr int max_expansion_rounds = 32;

using Test = bool (*)(const Node&);

bool has_expansion(const Node& node) {
    return is_composite(node) || (node.kind == NodeKind::op && node.op->expansion() != nullptr);
}

Result<Graph> expand_once(const Graph& graph, Test expands) {
    Builder builder(graph.name);
    GraphCopier copier(graph, builder);
    for (size_t i = 0; i < graph.nodes.size() && !builder.failed(); ++i) {
        const NodeId id(i);
        const Node& node = graph.node(id);
        if (!expands(node)) {
            copier.copy(id);
            continue;
        }
        builder.set_provenance(builder.add_provenance(graph.provenance(id)));
        const Value expansion = expand_call(HeldCall(builder, node, copier.operands(node)));
        if (expansion.valid() && builder.graph().names[expansion.id.value].empty()) builder.set_name(expansion, graph.names[i]);
        copier[id] = expansion;
    }
    builder.set_provenance(Id<void>::none);
    copier.copy_outputs();
    copier.copy_updates();
    return builder.finish();
}

Result<Graph> expand_all(const Graph& graph, Test expands) {
    Graph current = graph;
    for (int round = 0; std::any_of(current.nodes.begin(), current.nodes.end(), expands); ++round) {
        CHECK(round < max_expansion_rounds, "composite ops expand without end in graph " + graph.name);
        TRY(current, expand_once(current, expands));
    }
    return current;
}

}  // namespace

Result<Graph> expand(const Graph& graph) { return expand_all(graph, is_composite); }
Result<Graph> expand_kernels(const Graph& graph) { return expand_all(graph, has_expansion); }

}  // namespace darner
