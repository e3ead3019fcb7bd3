// SPDX-License-Identifier: MIT
// The `init` graph: one update for each param that has an init expression. A param that reads another one there sees that
// one's initial value, so the order in which they are written does not count.
#include "darner/graph/build_call.h"
#include "darner/transform/dead_code.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

namespace darner {
namespace {

constexpr std::string_view init_graph = "init";

// The index of the attribute that keeps random streams apart; nothing for other ops.
std::optional<size_t> stream_attr(const Node& node) {
    if (node.kind != NodeKind::op || !node.op->has_side_stream) return std::nullopt;
    for (size_t i = 0; i < node.op->attrs.size(); ++i)
        if (node.op->attrs[i].name == "stream" && std::holds_alternative<int64_t>(node.attrs[i])) return i;
    return std::nullopt;
}

class InitBuilder {
public:
    InitBuilder() : builder_(std::string(init_graph)) {}

    // Params that an earlier graph has initialised are passed over.
    Result<void> add(const Graph& graph) {
        const std::vector<bool> needed = needed_by_new_params(graph);
        const int64_t first_stream = next_stream_;
        GraphCopier copier(graph, builder_);
        for (size_t i = 0; i < graph.nodes.size() && !builder_.failed(); ++i) {
            const NodeId id(i);
            const Node& node = graph.nodes[i];
            if (node.kind == NodeKind::param) {
                const GraphParam& param = graph.params[node.leaf];
                if (param.init.valid() || needed[i]) copier[id] = param_value(graph, param, copier);
                continue;
            }
            if (!needed[i]) continue;
            if (node.kind == NodeKind::input)
                return invalid(fmt::format("[init] an init expression of graph {} reads input {}: it can read params only",
                                           graph.name, graph.inputs[node.leaf].name),
                               graph.provenance(id).text());
            const std::optional<size_t> stream = stream_attr(node);
            if (!stream) {
                copier.copy(id);
                continue;
            }
            // Graphs count their streams from zero each; here they must differ.
            std::vector<AttrValue> attrs = node.attrs;
            const int64_t renumbered = std::get<int64_t>(attrs[*stream]) + first_stream;
            attrs[*stream] = renumbered;
            next_stream_ = std::max(next_stream_, renumbered + 1);
            builder_.set_provenance(builder_.add_provenance(graph.provenance(id)));
            copier[id] = builder_.call_exact(*node.op, copier.operands(node), std::move(attrs));
            builder_.set_provenance(Id<void>::none);
        }
        return {};
    }

    bool empty() const { return initial_.empty(); }

    Result<Graph> finish() {
        for (const auto& [name, value] : updates_) builder_.update(leaves_.at(name), value);
        return builder_.finish();
    }

private:
    std::vector<bool> needed_by_new_params(const Graph& graph) const {
        std::vector<bool> roots(graph.nodes.size(), false);
        for (const GraphParam& param : graph.params)
            if (param.init.valid() && !initial_.contains(param.name)) roots[param.init.value] = true;
        return needed_nodes(graph, std::move(roots));
    }

    // What an init expression reads for a param.
    Value param_value(const Graph& graph, const GraphParam& param, GraphCopier& copier) {
        if (const auto found = initial_.find(param.name); found != initial_.end()) return found->second;
        if (!leaves_.contains(param.name)) {
            const ParamOptions options{.trainable = param.trainable, .role = param.role};
            builder_.set_provenance(builder_.add_provenance(graph.provenance(param.node)));
            leaves_[param.name] = builder_.param(param.name, graph.type(param.node), options);
            builder_.set_provenance(Id<void>::none);
        }
        if (!param.init.valid()) return leaves_[param.name];
        const Value value = copier[param.init];
        initial_[param.name] = value;
        updates_.emplace_back(param.name, value);
        return value;
    }

    Builder builder_;
    std::map<std::string, Value, std::less<>> leaves_, initial_;
    std::vector<std::pair<std::string, Value>> updates_;
    int64_t next_stream_ = 0;
};

}  // namespace

Result<Module> extract_init(Module module) {
    InitBuilder init;
    for (const Graph& graph : module.graphs) TRY(init.add(graph));
    if (init.empty()) return module;
    if (module.find(init_graph) != nullptr)
        return invalid("[init] the module has a graph init and params with init expressions: it can have one of the two");
    Module result;
    for (Graph& graph : module.graphs) {
        for (GraphParam& param : graph.params) param.init = {};
        TRY(Graph rest, remove_dead_code(graph));
        result.graphs.push_back(std::move(rest));
    }
    TRY(Graph init_built, init.finish());
    result.graphs.push_back(std::move(init_built));
    return result;
}

}  // namespace darner
