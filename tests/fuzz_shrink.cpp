// SPDX-License-Identifier: MIT
// Makes a failing graph small: drops outputs and updates, cuts nodes off by giving their values as inputs, and puts operands
// in place of their users, each as long as the failure stays.
#include "tests/fuzz_check.h"

#include "darner/graph/builder.h"
#include "darner/transform/dead_code.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::test {
namespace {

struct Edit {
    std::vector<bool> output, update;         // kept
    NodeId cut = {}, replaced = {}, by = {};  // cut: becomes an input; replaced: its users read `by`
};

class Shrinker {
public:
    Shrinker(Shrunk start, const std::function<bool(const Graph&, const NamedTensors&)>& fails)
        : now_(std::move(start)), fails_(fails) {}

    Shrunk run() {
        for (bool smaller = true; smaller;) {
            smaller = drop_roots();
            smaller = cut_nodes() || smaller;
            smaller = skip_nodes() || smaller;
        }
        return now_;
    }

private:
    Edit keep_all() const {
        return {std::vector<bool>(now_.graph.outputs.size(), true), std::vector<bool>(now_.graph.updates.size(), true)};
    }

    bool drop_roots() {
        bool any = false;
        for (size_t i = now_.graph.outputs.size(); i-- > 0;) {
            Edit edit = keep_all();
            edit.output[i] = false;
            any = take(edit) || any;
        }
        for (size_t i = now_.graph.updates.size(); i-- > 0;) {
            Edit edit = keep_all();
            edit.update[i] = false;
            any = take(edit) || any;
        }
        return any;
    }

    bool cut_nodes() {
        bool any = false;
        for (size_t i = now_.graph.nodes.size(); i-- > 0;) {
            if (i >= now_.graph.nodes.size() || now_.graph.nodes[i].kind != NodeKind::op) continue;
            Edit edit = keep_all();
            edit.cut = NodeId(i);
            any = take(edit) || any;
        }
        return any;
    }

    bool skip_nodes() {
        bool any = false;
        for (size_t i = now_.graph.nodes.size(); i-- > 0;) {
            if (i >= now_.graph.nodes.size()) continue;
            const Node node = now_.graph.nodes[i];
            for (const NodeId operand : node.operands) {
                if (!operand.valid() || now_.graph.type(operand) != node.type) continue;
                Edit edit = keep_all();
                edit.replaced = NodeId(i);
                edit.by = operand;
                if (take(edit)) {
                    any = true;
                    break;
                }
            }
        }
        return any;
    }

    // Applies the edit where the smaller graph still fails.
    bool take(const Edit& edit) {
        std::optional<Shrunk> next = apply(edit);
        const size_t size = now_.graph.nodes.size() + now_.graph.outputs.size() + now_.graph.updates.size();
        if (!next || next->graph.nodes.size() + next->graph.outputs.size() + next->graph.updates.size() >= size) return false;
        if (!fails_(next->graph, next->leaves)) return false;
        now_ = std::move(*next);
        return true;
    }

    std::optional<Shrunk> apply(const Edit& edit) const {
        const Graph& graph = now_.graph;
        Shrunk next{{}, now_.leaves};
        Builder b(graph.name);
        GraphCopier copier(graph, b);
        for (size_t i = 0; i < graph.nodes.size(); ++i) {
            if (edit.cut == NodeId(i)) {
                const auto values = eval_nodes(graph, now_.leaves);
                if (!values) return {};
                Tensor value = (*values)[i];
                for (double& v : value.real) v = round_to(value.dtype, v);
                const std::string name = fmt::format("cut{}", graph.nodes.size());
                if (next.leaves.contains(name)) return {};
                copier[NodeId(i)] = b.input(name, graph.nodes[i].type);
                next.leaves[name] = std::move(value);
            } else if (edit.replaced == NodeId(i)) {
                copier[NodeId(i)] = copier[edit.by];
            } else {
                copier.copy(NodeId(i));
            }
        }
        for (size_t i = 0; i < graph.outputs.size(); ++i)
            if (edit.output[i]) b.output(graph.outputs[i].name, copier[graph.outputs[i].node]);
        for (size_t i = 0; i < graph.updates.size(); ++i)
            if (edit.update[i]) b.update(copier[graph.updates[i].param], copier[graph.updates[i].value]);
        const Result<Graph> whole = b.finish();
        if (!whole) return {};
        Result<Graph> live = remove_dead_code(*whole);
        if (!live) return {};
        next.graph = drop_unused_leaves(*live);
        return next;
    }

    // Inputs and params that nothing reads.
    static Graph drop_unused_leaves(const Graph& graph) {
        std::vector<bool> used(graph.nodes.size());
        for (const Node& node : graph.nodes)
            for (const NodeId operand : node.operands)
                if (operand.valid()) used[operand.value] = true;
        for (const GraphOutput& output : graph.outputs) used[output.node.value] = true;
        for (const GraphUpdate& update : graph.updates) used[update.param.value] = used[update.value.value] = true;
        Builder b(graph.name);
        GraphCopier copier(graph, b);
        for (size_t i = 0; i < graph.nodes.size(); ++i)
            if (used[i]) copier.copy(NodeId(i));
        copier.copy_outputs();
        copier.copy_updates();
        Result<Graph> small = b.finish();
        return small ? std::move(*small) : graph;
    }

    Shrunk now_;
    const std::function<bool(const Graph&, const NamedTensors&)>& fails_;
};

}  // namespace

Shrunk shrink(const Graph& graph, const NamedTensors& leaves,
              const std::function<bool(const Graph&, const NamedTensors&)>& fails) {
    return Shrinker({graph, leaves}, fails).run();
}

}  // namespace darner::test
