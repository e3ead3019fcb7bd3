// SPDX-License-Identifier: MIT
#include "darner/plan/grouping.h"

#include "darner/base/reasons.h"
#include "darner/plan/parts.h"
#include "darner/plan/space.h"
#include "darner/plan/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace darner::plan {

const char* to_string(GroupKind kind) {
    switch (kind) {
        case GroupKind::map: return "map";
        case GroupKind::row: return "row";
        case GroupKind::contract: return "contract";
        case GroupKind::kernel: return "kernel";
    }
    return "?";
}

std::optional<size_t> Group::find(NodeId node) const {
    const auto it = std::lower_bound(nodes.begin(), nodes.end(), node);
    if (it == nodes.end() || *it != node) return std::nullopt;
    return static_cast<size_t>(it - nodes.begin());
}

namespace {

// Deeper chains of views than this are stored on the way, groups larger than this are cut: emission recurses.
constexpr size_t max_view_chain = 64, max_group_nodes = 256;

bool is_materialize(const Node& node) {
    const auto* kernel = node.kind == NodeKind::op ? std::get_if<KernelLower>(&node.op->lower) : nullptr;
    return kernel != nullptr && kernel->name == "materialize";
}

bool is_alias_view(const Node& node) {
    const auto* view = node.kind == NodeKind::op ? std::get_if<ViewLower>(&node.op->lower) : nullptr;
    return view != nullptr && view->alias;
}

bool is_expensive(const Node& node) {
    if (const auto* map = std::get_if<MapLower>(&node.op->lower)) return map->expensive;
    if (const auto* index = std::get_if<IndexLower>(&node.op->lower)) return index->expensive;
    return true;
}

class Grouper {
public:
    Grouper(const Graph& graph, const Caps& caps, const PlanOptions& options) : graph_(graph), caps_(caps), options_(options) {}

    Result<Grouping> run() {
        TRY(place_alone());
        if (options_.fuse) merge_all();
        return std::move(out_);
    }

    std::vector<NodeId> beyond_windows() {
        std::vector<NodeId> nodes;
        if (!place_alone()) return nodes;  // refused for another reason, by run()
        for (const Group& group : out_.groups)
            if (!fits_windows(graph_, out_, group, caps_)) nodes.push_back(group.nodes[0]);
        return nodes;
    }

private:
    Result<void> place_alone() {
        find_roots();
        find_storage();
        choose_computing();
        collect_sources();
        Reasons without_kernel;
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            if (!out_.computes(NodeId(i))) continue;
            auto placed = place({NodeId(i)}, own_kind(NodeId(i)), own_space(NodeId(i)));
            if (!placed)
                without_kernel.add(graph_.describe(NodeId(i)));
            else if (placed->kind == GroupKind::kernel && !fits_bindings(*placed))
                without_kernel.add(fmt::format("{}, which reads or writes more tensors than the {} that the device binds",
                                               graph_.describe(NodeId(i)), caps_.max_storage_bindings));
            else
                out_.groups[out_.group_of[i]] = std::move(*placed);
        }
        if (without_kernel.empty()) return {};
        return unsupported("[plan] no kernel on this device can compute " + without_kernel.text());
    }

    // Nodes whose values leave the graph or that a user wants in memory.
    void find_roots() {
        live_.assign(graph_.nodes.size(), false);
        root_.assign(graph_.nodes.size(), false);
        const auto root = [&](NodeId id) { live_[id.value] = root_[id.value] = true; };
        for (const auto& output : graph_.outputs) root(output.node);
        for (const auto& update : graph_.updates) root(update.value);
        for (size_t i = graph_.nodes.size(); i-- > 0;) {
            if (!live_[i]) continue;
            for (NodeId operand : graph_.nodes[i].operands)
                if (operand.valid()) live_[operand.value] = true;
            // What aliases memory passes its claim on to the owner.
            const Node& node = graph_.nodes[i];
            if (is_materialize(node) || (root_[i] && is_alias_view(node))) root_[node.operands[0].value] = true;
        }
    }

    void find_storage() {
        out_.storage.resize(graph_.nodes.size());
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = graph_.nodes[i];
            const bool alias = is_materialize(node) || (root_[i] && is_alias_view(node));
            out_.storage[i] = alias ? out_.storage[node.operands[0].value] : NodeId(i);
        }
    }

    void choose_computing() {
        out_.group_of.assign(graph_.nodes.size(), Grouping::none);
        find_readers();
        std::vector<uint16_t> chain(graph_.nodes.size(), 0);
        std::vector<std::set<NodeId>> reach(graph_.nodes.size());  // of pulled-through nodes: the stored values behind them
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = graph_.nodes[i];
            if (!live_[i] || node.kind != NodeKind::op || out_.storage[i] != NodeId(i)) continue;
            bound_reach(node, reach);
            const bool view = std::holds_alternative<ViewLower>(node.op->lower);
            const bool index = std::holds_alternative<IndexLower>(node.op->lower);
            if ((view || index) && !root_[i]) {
                for (NodeId operand : node.operands)
                    if (operand.valid()) chain[i] = std::max<uint16_t>(chain[i], static_cast<uint16_t>(chain[operand.value] + 1));
                const bool pulled = view || (!is_expensive(node) && !read_again_[i]) || !read_stored_[i];
                if (pulled && chain[i] <= max_view_chain) {
                    reach[i] = reach_of(node, reach);
                    continue;
                }
                chain[i] = 0;
            }
            add_computing(NodeId(i));
        }
    }

    // How the values of index nodes and views are read. A contraction reads each element many times: what is no plain view is
    // computed once before. Operands that are to be computed where they are read never are.
    void find_readers() {
        read_again_.assign(graph_.nodes.size(), false);
        read_stored_.assign(graph_.nodes.size(), false);
        for (size_t i = graph_.nodes.size(); i-- > 0;) {
            const Node& node = graph_.nodes[i];
            if (!live_[i] || node.kind != NodeKind::op) continue;
            const bool view = std::holds_alternative<ViewLower>(node.op->lower);
            const auto* kernel = std::get_if<KernelLower>(&node.op->lower);
            const bool again =
                std::holds_alternative<ContractLower>(node.op->lower) || (kernel != nullptr && kernel->reads_again);
            for (size_t o = 0; o < node.operands.size(); ++o) {
                const NodeId operand = node.operands[o];
                if (!operand.valid()) continue;
                const bool computed = node.op->operands[std::min(o, node.op->operands.size() - 1)].computed;
                if ((again && !computed) || (view && read_again_[i])) read_again_[operand.value] = true;
                if (!(computed || (view && !root_[i] && !read_stored_[i]))) read_stored_[operand.value] = true;
            }
        }
    }

    void add_computing(NodeId id) {
        out_.group_of[id.value] = static_cast<uint32_t>(out_.groups.size());
        out_.groups.emplace_back();
    }

    bool is_pulled(NodeId id) const {
        const NodeId storage = out_.storage[id.value];
        return storage == id && graph_.node(id).kind == NodeKind::op && !out_.computes(id);
    }

    // The stored values that a node reads, through what is pulled.
    std::set<NodeId> reach_of(const Node& node, const std::vector<std::set<NodeId>>& reach) const {
        std::set<NodeId> all;
        for (NodeId operand : node.operands) {
            if (!operand.valid()) continue;
            if (is_pulled(operand))
                all.insert(reach[operand.value].begin(), reach[operand.value].end());
            else if (!(graph_.node(operand).kind == NodeKind::constant && graph_.is_splat(graph_.node(operand))))
                all.insert(out_.storage[operand.value]);
        }
        return all;
    }

    // Where a node alone would read more values than a kernel binds, what it pulls through (the widest first) is computed
    // before. Wide variadic nodes have been split (prepare.h).
    void bound_reach(const Node& node, std::vector<std::set<NodeId>>& reach) {
        while (reach_of(node, reach).size() + 1 > caps_.max_storage_bindings) {
            NodeId widest;
            for (NodeId operand : node.operands)
                if (operand.valid() && is_pulled(operand) && reach[operand.value].size() > 1 &&
                    (!widest.valid() || reach[operand.value].size() > reach[widest.value].size()))
                    widest = operand;
            if (!widest.valid()) return;
            add_computing(widest);
        }
    }

    void collect_sources() {
        out_.sources.resize(graph_.nodes.size());
        consumers_.resize(graph_.nodes.size());
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            if (!out_.computes(NodeId(i))) continue;
            Tokens tokens(own_space(NodeId(i)));
            auto& sources = out_.sources[i];
            for (const Reach& reach : reads_of(graph_, out_, tokens, NodeId(i), tokens.full))
                sources.push_back(out_.storage[reach.node.value]);
            std::sort(sources.begin(), sources.end());
            sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
            for (NodeId source : sources) consumers_[source.value].push_back(NodeId(i));
        }
    }

    bool is_reduce(NodeId id) const { return std::holds_alternative<ReduceLower>(graph_.node(id).op->lower); }
    GroupKind own_kind(NodeId id) const {
        const Lower& lower = graph_.node(id).op->lower;
        if (std::holds_alternative<ReduceLower>(lower)) return GroupKind::row;
        if (std::holds_alternative<ContractLower>(lower)) return GroupKind::contract;
        if (std::holds_alternative<KernelLower>(lower)) return GroupKind::kernel;
        return GroupKind::map;
    }
    Space own_space(NodeId id) const {
        if (is_reduce(id)) return Space::row(graph_.type(graph_.node(id).operands[0]), reduced_axes(graph_, id));
        return Space::map(graph_.type(id));
    }

    // --- placing: can one kernel of this kind and space compute these nodes? -----------------------------------------

    struct Uses {
        bool full = false, row = false;
        int elsewhere = 0;
        bool any() const { return full || row || elsewhere > 0; }
    };

    std::optional<Place> place_reduce(NodeId id, const Space& space, const Uses& uses) const {
        const Space own = own_space(id);
        if (own == space && !uses.full && uses.elsewhere == 0) return Place::row;
        const bool sums_f32 =
            std::get<ReduceLower>(graph_.node(id).op->lower).kind == Reduction::sum && is_float(graph_.type(id).dtype);
        if (own == space.swapped() && sums_f32 && !uses.any()) return Place::column;
        return std::nullopt;
    }

    std::optional<Place> place_node(NodeId id, GroupKind kind, const Space& space, const Uses& uses, bool stored) const {
        const GroupKind own = own_kind(id);
        // Only the map archetype owns whole words: what leaves the graph packed is computed there.
        if (root_[id.value] && kind != GroupKind::map && byte_size(graph_.type(id).dtype) < 4) return std::nullopt;
        if (own == GroupKind::row) return kind == GroupKind::row ? place_reduce(id, space, uses) : std::nullopt;
        const uint64_t count = static_cast<uint64_t>(graph_.type(id).count());
        if (own == GroupKind::contract || own == GroupKind::kernel) {
            if (kind == own && !uses.row && uses.elsewhere == 0) return Place::full;
            return std::nullopt;
        }
        if (uses.elsewhere > 0) {
            const bool again = uses.elsewhere > 1 || uses.full || uses.row || count < space.count();
            if (stored || kind == GroupKind::contract || (again && is_expensive(graph_.node(id)))) return std::nullopt;
            return Place::inlined;
        }
        if (uses.full && uses.row) return std::nullopt;
        if (uses.full) return Place::full;
        if (uses.row) return Place::row;
        if (count == space.count()) return Place::full;
        if (kind == GroupKind::row && count == space.rows) return Place::row;
        return std::nullopt;
    }

    std::optional<Group> place(std::vector<NodeId> nodes, GroupKind kind, const Space& space) const {
        Group group;
        group.kind = kind;
        group.space = space;
        group.nodes = std::move(nodes);
        group.places.resize(group.nodes.size());
        group.stages.assign(group.nodes.size(), 0);
        Tokens tokens(space);
        std::vector<Uses> uses(group.nodes.size());
        std::vector<std::vector<size_t>> inside(group.nodes.size());
        size_t sums = 0;
        for (size_t n = group.nodes.size(); n-- > 0;) {
            const NodeId id = group.nodes[n];
            const bool stored = leaves_group(id, group);
            const auto placed = place_node(id, kind, space, uses[n], stored);
            if (!placed) return std::nullopt;
            group.places[n] = *placed;
            if (*placed == Place::column) ++sums;
            if (stored || *placed == Place::column) group.stored.push_back(id);
            const kir::Expr position = *placed == Place::full  ? tokens.full
                                       : *placed == Place::row ? tokens.row
                                                               : tokens.elsewhere;
            const bool anywhere = own_kind(id) == GroupKind::contract || own_kind(id) == GroupKind::kernel;
            for (const Reach& reach : reads_of(graph_, out_, tokens, id, position)) {
                const auto in = group.find(out_.storage[reach.node.value]);
                if (!in) continue;
                // Memory that this very kernel writes cannot be read back.
                if (out_.storage[reach.node.value] != reach.node || anywhere) return std::nullopt;
                inside[n].push_back(*in);
                // Equal positions are not enough: a slice from the start reads a part at the positions of the whole.
                const uint64_t count = static_cast<uint64_t>(graph_.type(reach.node).count());
                if (reach.position.id == tokens.full.id && count == space.count() && !is_reduce(reach.node))
                    uses[*in].full = true;
                else if (kind == GroupKind::row && reach.position.id == tokens.row.id && count == space.rows)
                    uses[*in].row = true;
                else
                    ++uses[*in].elsewhere;
            }
        }
        std::reverse(group.stored.begin(), group.stored.end());
        if (!stage_reductions(group, inside, sums)) return std::nullopt;
        return group;
    }

    // Reductions that need others' results come a stage later; the whole must fit the row archetype on this device.
    bool stage_reductions(Group& group, const std::vector<std::vector<size_t>>& inside, size_t sums) const {
        if (group.kind != GroupKind::row || group.space.count() == 0) return true;  // nothing is run for an empty space
        std::vector<uint32_t> ready(group.nodes.size(), 0);
        std::vector<kernels::RowReduce> reduces;
        for (size_t n = 0; n < group.nodes.size(); ++n) {
            for (size_t in : inside[n]) ready[n] = std::max(ready[n], ready[in]);
            if (!is_reduce(group.nodes[n]) || group.places[n] != Place::row) continue;
            group.stages[n] = ready[n]++;
            reduces.push_back({row_op(graph_, group.nodes[n]), group.stages[n]});
        }
        std::stable_sort(reduces.begin(), reduces.end(), [](const auto& x, const auto& y) { return x.stage < y.stage; });
        const auto shape = kernels::row_shape(static_cast<uint32_t>(group.space.rows), static_cast<uint32_t>(group.space.cols),
                                              reduces, sums, caps_);
        return shape.has_value();
    }

    bool leaves_group(NodeId id, const Group& group) const {
        if (root_[id.value]) return true;
        for (NodeId consumer : consumers_[id.value])
            if (!group.find(consumer)) return true;
        return false;
    }

    // --- merging -------------------------------------------------------------------------------------------------------

    void merge_all() {
        // From the last group to the first, so that a consumer has grown before its producers look at it; again until nothing
        // moves.
        bool changed = true;
        while (changed) {
            changed = false;
            for (size_t c = graph_.nodes.size(); c-- > 0;) {
                if (out_.group_of[c] == Grouping::none) continue;
                while (merge_into_producer(NodeId(c))) changed = true;
            }
            changed |= merge_siblings();
        }
    }

    // Row groups that read one tensor in the same space share its reading: dx with dgamma and dbeta, mean with maximum. Results
    // of one kernel are computed together.
    bool merge_siblings() {
        bool changed = false;
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i)
            for (size_t x = 0; x < consumers_[i].size(); ++x)
                for (size_t y = x + 1; y < consumers_[i].size(); ++y) {
                    const uint32_t p = out_.group_of[consumers_[i][x].value], c = out_.group_of[consumers_[i][y].value];
                    if (p == c || out_.groups[p].kind != out_.groups[c].kind) continue;
                    if (share_kernel(out_.groups[p], out_.groups[c])) {
                        changed |= merge(p, c);
                        continue;
                    }
                    if (out_.groups[p].kind != GroupKind::row) continue;
                    const Space &left = out_.groups[p].space, &right = out_.groups[c].space;
                    if ((left == right || left == right.swapped()) && !makes_cycle(c, p)) changed |= merge(p, c);
                }
        return changed;
    }

    bool share_kernel(const Group& x, const Group& y) const {
        if (x.kind != GroupKind::kernel || y.kind != GroupKind::kernel) return false;
        const Node &a = graph_.node(x.nodes[0]), &b = graph_.node(y.nodes[0]);
        return std::get<KernelLower>(a.op->lower).name == std::get<KernelLower>(b.op->lower).name && a.op != b.op &&
               a.operands == b.operands && a.attrs == b.attrs;
    }

    bool merge_into_producer(NodeId consumer) {
        const uint32_t c = out_.group_of[consumer.value];
        const auto& sources = out_.sources[consumer.value];
        for (size_t i = sources.size(); i-- > 0;) {
            const uint32_t p = out_.group_of[sources[i].value];
            if (p != Grouping::none && p != c && merge(p, c)) return true;
        }
        return false;
    }

    static bool may_merge(const Group& producer, const Group& consumer) {
        const GroupKind p = producer.kind, c = consumer.kind;
        const auto simple = [](GroupKind kind) { return kind == GroupKind::map || kind == GroupKind::row; };
        if (p == GroupKind::kernel && c == GroupKind::kernel) return true;
        if (p == GroupKind::contract) return c == GroupKind::map;
        return simple(p) && simple(c) && producer.nodes.size() + consumer.nodes.size() <= max_group_nodes;
    }

    std::vector<std::pair<GroupKind, Space>> candidates(const Group& p, const Group& c) const {
        if (p.kind == GroupKind::contract || p.kind == GroupKind::kernel) return {{p.kind, p.space}};
        std::vector<std::pair<GroupKind, Space>> spaces;
        for (const Group* g : {&c, &p})
            if (g->kind == GroupKind::row) spaces.push_back({GroupKind::row, g->space});
        if (!spaces.empty()) return spaces;
        return {{GroupKind::map, c.space}};
    }

    bool merge(uint32_t p, uint32_t c) {
        const Group& producer = out_.groups[p];
        const Group& consumer = out_.groups[c];
        if (!may_merge(producer, consumer) || refused_.contains({p, c, producer.nodes.size(), consumer.nodes.size()}))
            return false;
        std::vector<NodeId> nodes;
        std::merge(producer.nodes.begin(), producer.nodes.end(), consumer.nodes.begin(), consumer.nodes.end(),
                   std::back_inserter(nodes));
        std::optional<Group> merged;
        for (const auto& [kind, space] : candidates(producer, consumer)) {
            merged = place(nodes, kind, space);
            if (merged && !(fits_bindings(*merged) && fits_windows(graph_, out_, *merged, caps_))) merged.reset();
            if (merged) break;
        }
        if (!merged || makes_cycle(p, c)) {
            refused_.insert({p, c, producer.nodes.size(), consumer.nodes.size()});
            return false;
        }
        for (NodeId id : merged->nodes) out_.group_of[id.value] = p;
        out_.groups[c] = {};
        out_.groups[c].alive = false;
        out_.groups[p] = std::move(*merged);
        return true;
    }

    bool fits_bindings(const Group& group) const {
        std::set<NodeId> bound(group.stored.begin(), group.stored.end());
        for (NodeId id : group.nodes)
            for (NodeId source : out_.sources[id.value])
                if (!group.find(source)) bound.insert(source);
        return bound.size() <= caps_.max_storage_bindings;
    }

    // Would a path producer -> other -> consumer close a cycle? Walks back from the consumer's other sources.
    bool makes_cycle(uint32_t p, uint32_t c) {
        seen_.resize(out_.groups.size());
        ++walk_;
        std::vector<uint32_t> stack;
        const auto visit = [&](uint32_t group, bool from_consumer) {
            for (NodeId id : out_.groups[group].nodes)
                for (NodeId source : out_.sources[id.value]) {
                    const uint32_t g = out_.group_of[source.value];
                    if (g == Grouping::none || g == group || (g == p && from_consumer)) continue;
                    if (std::exchange(seen_[g], walk_) != walk_) stack.push_back(g);
                }
        };
        visit(c, true);
        while (!stack.empty()) {
            const uint32_t g = stack.back();
            stack.pop_back();
            if (g == p || g == c) return true;
            visit(g, false);
        }
        return false;
    }

    const Graph& graph_;
    const Caps& caps_;
    const PlanOptions& options_;
    Grouping out_;
    std::vector<bool> live_, root_;
    std::vector<bool> read_again_, read_stored_;  // by node: many times an element; by someone who may have it stored
    std::vector<std::vector<NodeId>> consumers_;  // of stored values: computing nodes that read them
    std::set<std::tuple<uint32_t, uint32_t, size_t, size_t>> refused_;
    std::vector<uint32_t> seen_;  // a group: the walk of makes_cycle() that came by last
    uint32_t walk_ = 0;
};

}  // namespace

Result<Grouping> group_nodes(const Graph& graph, const Caps& caps, const PlanOptions& options) {
    return Grouper(graph, caps, options).run();
}

std::vector<NodeId> nodes_beyond_windows(const Graph& graph, const Caps& caps) {
    return Grouper(graph, caps, {}).beyond_windows();
}

bool reads_only_own_element(const Graph& graph, const Grouping& grouping, const Group& group, NodeId stored) {
    Tokens tokens(group.space);
    for (size_t n = 0; n < group.nodes.size(); ++n) {
        const kir::Expr position = group.places[n] == Place::full ? tokens.full : tokens.elsewhere;
        for (const Reach& reach : reads_of(graph, grouping, tokens, group.nodes[n], position))
            if (grouping.storage[reach.node.value] == stored && reach.position.id != tokens.full.id) return false;
    }
    return true;
}

}  // namespace darner::plan
