// SPDX-License-Identifier: MIT
// Dead code: one walk backwards over the nodes, which are in topological order.
#include "darner/transform/dead_code.h"

#include "darner/graph/builder.h"

namespace darner {

std::vector<bool> needed_nodes(const Graph& graph, std::vector<bool> roots) {
    std::vector<bool> needed = std::move(roots);
    for (size_t i = graph.nodes.size(); i-- > 0;) {
        if (!needed[i]) continue;
        const Node& node = graph.nodes[i];
        for (NodeId operand : node.operands)
            if (operand.valid()) needed[operand.value] = true;
        if (node.kind == NodeKind::param && graph.params[node.leaf].init.valid())
            needed[graph.params[node.leaf].init.value] = true;
    }
    return needed;
}

Result<Graph> remove_dead_code(const Graph& graph) {
    std::vector<bool> roots(graph.nodes.size(), false);
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        roots[i] = graph.nodes[i].kind == NodeKind::input || graph.nodes[i].kind == NodeKind::param;
    for (const GraphOutput& output : graph.outputs) roots[output.node.value] = true;
    for (const GraphUpdate& update : graph.updates) roots[update.value.value] = true;
    const std::vector<bool> needed = needed_nodes(graph, std::move(roots));

    Builder builder(graph.name);
    GraphCopier copier(graph, builder);
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        if (needed[i]) copier.copy(NodeId(i));
    copier.copy_outputs();
    copier.copy_updates();
    return builder.finish();
}

}  // namespace darner
