// SPDX-License-Identifier: MIT
#include "darner/plan/lower.h"

#include "darner/plan/space.h"
#include "darner/plan/storage.h"

#include <algorithm>
#include <set>

namespace darner::plan {

KernelId KernelTable::add(kir::Kernel kernel) {
    const uint64_t hash = kir::structural_hash(kernel);
    const auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(hash, 0u));
    if (at != by_hash_.end() && at->first == hash) return KernelId(at->second);
    const uint32_t id = static_cast<uint32_t>(kernels_.size());
    kernels_.push_back({std::move(kernel), hash, {}, {}});
    by_hash_.insert(at, {hash, id});
    return KernelId(id);
}

namespace {

// A common size to compare the structure of updates by.
constexpr uint64_t common_count = 1 << 20;

class Lowerer {
public:
    Lowerer(const Graph& graph, const Grouping& grouping, const SharedMemory& memory, KernelTable& kernels, const Caps& caps,
            const PlanOptions& options)
        : graph_(graph), grouping_(grouping), memory_(memory), kernels_(kernels), caps_(caps), options_(options) {}

    Result<EntryPlan> run() {
        node_buffers_.of.resize(graph_.nodes.size());
        place_leaves();
        find_readers();
        place_outputs();
        place_updates();
        for (const Group& group : grouping_.groups)
            for (NodeId id : group.stored)
                if (!node_buffers_.of[id.value].valid()) node_buffers_.of[id.value] = scratch(id, group.kind);
        if (options_.merge_windows) find_windows();
        TRY(emit_windows());
        TRY(emit_groups());
        order_after_readers();
        return std::move(out_);
    }

private:
    BufferId add_buffer(Buffer buffer) {
        out_.buffers.push_back(std::move(buffer));
        return BufferId(out_.buffers.size() - 1);
    }
    Buffer buffer_for(NodeId id) const {
        Buffer buffer;
        buffer.storage = *storage_of(graph_.type(id).dtype);
        buffer.elements = static_cast<uint64_t>(graph_.type(id).count());
        buffer.label = graph_.describe(id);
        return buffer;
    }
    BufferId placed(NodeId id, SegmentKind kind, SharedMemory::Placed place) {
        Buffer buffer = buffer_for(id);
        buffer.kind = kind;
        buffer.placed = true;
        buffer.segment = place.segment;
        buffer.offset = place.offset;
        return add_buffer(std::move(buffer));
    }
    BufferId scratch(NodeId id, GroupKind kind) {
        Buffer buffer = buffer_for(id);
        if (kind != GroupKind::map) buffer.storage = widened(buffer.storage);
        return add_buffer(std::move(buffer));
    }

    void place_leaves() {
        for (const auto& param : graph_.params)
            node_buffers_.of[param.node.value] = placed(param.node, SegmentKind::state, memory_.state.find(param.name)->second);
        for (const auto& input : graph_.inputs)
            node_buffers_.of[input.node.value] =
                placed(input.node, SegmentKind::io, memory_.io(input.name, graph_.type(input.node), false));
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const Node& node = graph_.nodes[i];
            if (node.kind == NodeKind::constant && !graph_.is_splat(node))
                node_buffers_.of[i] = placed(NodeId(i), SegmentKind::constant, memory_.constant(graph_.constant(node)));
        }
    }

    void find_readers() {
        readers_.resize(graph_.nodes.size());
        for (uint32_t g = 0; g < grouping_.groups.size(); ++g) {
            std::set<NodeId> sources;
            for (NodeId id : grouping_.groups[g].nodes)
                for (NodeId source : grouping_.sources[id.value])
                    if (!grouping_.groups[g].find(source)) sources.insert(source);
            for (NodeId source : sources) readers_[source.value].push_back(g);
        }
        overwrites_.resize(grouping_.groups.size());
    }

    uint32_t group_of(NodeId id) const { return grouping_.group_of[id.value]; }

    void place_outputs() {
        for (const auto& output : graph_.outputs) {
            const NodeId source = grouping_.storage[output.node.value];
            const auto place = memory_.io(output.name, graph_.type(output.node), true);
            const BufferId buffer = placed(output.node, SegmentKind::io, place);
            BufferId& owner = node_buffers_.of[source.value];
            if (!owner.valid())
                owner = buffer;  // computed straight into the output
            else
                out_.copies.push_back({owner, buffer});
        }
    }

    // In place where the writing kernel reads only the element that it writes and every other reader comes before it; else
    // through scratch and a copy at the end of the step.
    void place_updates() {
        for (const auto& update : graph_.updates) {
            const NodeId value = grouping_.storage[update.value.value];
            const BufferId target = node_buffers_.of[update.param.value];
            BufferId& owner = node_buffers_.of[value.value];
            if (!owner.valid() && may_overwrite(update.param, value)) {
                owner = target;
                const uint32_t g = group_of(value);
                for (uint32_t reader : readers_[update.param.value])
                    if (reader != g) overwrites_[g].push_back(reader);
                continue;
            }
            if (!owner.valid()) owner = scratch(value, grouping_.groups[group_of(value)].kind);
            if (owner != target) out_.copies.push_back({owner, target});
        }
    }

    bool may_overwrite(NodeId param, NodeId value) const {
        const uint32_t g = group_of(value);
        const Group& group = grouping_.groups[g];
        // Who reads the new value needs it beside the old one.
        if (!readers_[value.value].empty()) return false;
        if (group.kind != GroupKind::map || !reads_only_own_element(graph_, grouping_, group, param)) return false;
        for (uint32_t reader : readers_[param.value])
            if (reader != g && comes_after(reader, g)) return false;
        return true;
    }

    // Whether `late` depends on `early`, through data or through overwriting.
    bool comes_after(uint32_t late, uint32_t early) const {
        std::vector<bool> seen(grouping_.groups.size(), false);
        std::vector<uint32_t> stack = {late};
        seen[late] = true;
        while (!stack.empty()) {
            const uint32_t g = stack.back();
            stack.pop_back();
            if (g == early) return true;
            const auto visit = [&](uint32_t next) {
                if (next != Grouping::none && !seen[next]) {
                    seen[next] = true;
                    stack.push_back(next);
                }
            };
            for (NodeId id : grouping_.groups[g].nodes)
                for (NodeId source : grouping_.sources[id.value]) visit(group_of(source));
            for (uint32_t reader : overwrites_[g]) visit(reader);
        }
        return false;
    }

    // --- windows: one dispatch for equal updates of neighbouring params ------------------------------------------------

    struct Window {
        std::vector<uint32_t> groups;              // ascending in memory
        std::vector<std::vector<BufferId>> slots;  // by binding: one buffer a group, or one shared scalar
        uint64_t count = 0;                        // elements from the first's start to the last's end
    };

    struct Candidate {
        uint32_t group = 0;
        std::vector<BufferId> bindings;
        uint64_t key = 0;
    };

    // Every read is of the own element or of a scalar, every dtype is 32 bits wide, something is updated in place, and nobody
    // in this step reads the results (so no order arises between candidates).
    bool is_window_candidate(const Group& group) const {
        if (!group.alive || group.kind != GroupKind::map) return false;
        bool in_place = false;
        for (NodeId id : group.stored) {
            const Buffer& buffer = out_.buffers[node_buffers_.of[id.value].value];
            if (kernels::byte_size(buffer.storage) != 4 || buffer.kind == SegmentKind::io || !readers_[id.value].empty())
                return false;
            in_place |= buffer.kind == SegmentKind::state;
        }
        if (!in_place || group.space.count() <= 1) return false;
        for (NodeId id : group.nodes)
            for (NodeId source : grouping_.sources[id.value]) {
                if (group.find(source) || graph_.type(source).count() == 1) continue;
                const Buffer& buffer = out_.buffers[node_buffers_.of[source.value].value];
                if (kernels::byte_size(buffer.storage) != 4 || buffer.elements != group.space.count()) return false;
                if (!reads_only_own_element(graph_, grouping_, group, source)) return false;
            }
        return true;
    }

    void find_windows() {
        std::vector<Candidate> candidates;
        for (uint32_t g = 0; g < grouping_.groups.size(); ++g) {
            const Group& group = grouping_.groups[g];
            if (!is_window_candidate(group)) continue;
            std::vector<Buffer> unused = out_.buffers;
            auto emitted = emit_group(graph_, grouping_, group, node_buffers_, unused, caps_, common_count);
            if (!emitted) continue;
            Candidate candidate{g, {}, kir::structural_hash(emitted->kernel)};
            Hasher key;
            key.add(candidate.key);
            for (const auto& [buffer, access] : emitted->bindings) {
                candidate.bindings.push_back(buffer);
                if (out_.buffers[buffer.value].elements == 1) key.add(buffer.value);  // one scalar for all
            }
            candidate.key = key.value();
            candidates.push_back(std::move(candidate));
        }
        // Neighbours in memory by the first buffer updated.
        const auto target = [&](const Candidate& c) -> const Buffer& {
            for (NodeId id : grouping_.groups[c.group].stored) {
                const Buffer& buffer = out_.buffers[node_buffers_.of[id.value].value];
                if (buffer.kind == SegmentKind::state) return buffer;
            }
            bug(__FILE__, __LINE__, "a window candidate without an update");
        };
        std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& x, const Candidate& y) {
            return std::tuple(x.key, target(x).segment.value, target(x).offset) <
                   std::tuple(y.key, target(y).segment.value, target(y).offset);
        });
        for (size_t first = 0; first < candidates.size();) {
            size_t last = first + 1;
            while (last < candidates.size() && candidates[last].key == candidates[first].key &&
                   extends(candidates, first, last, target(candidates[first]), target(candidates[last])))
                ++last;
            if (last - first > 1)
                add_window({candidates.begin() + first, candidates.begin() + last}, target(candidates[first]),
                           target(candidates[last - 1]));
            first = last;
        }
    }

    // Whether the candidate at `last` lies behind the run from `first` at one distance in every slot, and nothing else lies in
    // the gap before it.
    bool extends(const std::vector<Candidate>& all, size_t first, size_t last, const Buffer& start, const Buffer& next) const {
        if (next.offset + next.bytes() - start.offset > caps_.max_binding_bytes || start.segment != next.segment) return false;
        const Candidate &head = all[first], &before = all[last - 1], &here = all[last];
        for (size_t s = 0; s < here.bindings.size(); ++s) {
            const Buffer& a = out_.buffers[head.bindings[s].value];
            const Buffer& p = out_.buffers[before.bindings[s].value];
            const Buffer& n = out_.buffers[here.bindings[s].value];
            if (n.elements == 1 && here.bindings[s] == head.bindings[s]) continue;
            if (a.kind != n.kind || bundled_.contains(here.bindings[s].value)) return false;
            if (n.kind == SegmentKind::scratch) continue;  // will be laid out to match
            if (n.kind != SegmentKind::state || n.segment != a.segment || n.offset - a.offset != next.offset - start.offset)
                return false;
            const uint64_t gap = n.offset - (p.offset + p.bytes());
            if (n.offset < p.offset + p.bytes() || gap >= std::max<uint64_t>(16, caps_.offset_alignment)) return false;
        }
        for (size_t m = first; m < last; ++m)
            if (shares_across_slots(all[m], here)) return false;
        return true;
    }

    // A tensor in one slot of one candidate and another slot of the other: their windows would overlap, one of them written.
    bool shares_across_slots(const Candidate& x, const Candidate& y) const {
        for (size_t s = 0; s < x.bindings.size(); ++s)
            for (size_t t = 0; t < y.bindings.size(); ++t)
                if (s != t && x.bindings[s] == y.bindings[t] && out_.buffers[x.bindings[s].value].elements > 1) return true;
        return false;
    }

    void add_window(std::vector<Candidate> members, const Buffer& start, const Buffer& end) {
        Window window;
        window.count = (end.offset + end.bytes() - start.offset) / 4;
        const Candidate& head = members.front();
        for (size_t s = 0; s < head.bindings.size(); ++s) {
            std::vector<BufferId> slot;
            Bundle bundle;
            for (const Candidate& member : members) {
                const BufferId buffer = member.bindings[s];
                if (!slot.empty() && buffer == slot.back()) continue;  // a shared scalar
                slot.push_back(buffer);
                if (out_.buffers[buffer.value].kind != SegmentKind::scratch || out_.buffers[buffer.value].elements == 1) continue;
                bundle.members.push_back(buffer);
                bundle.offsets.push_back(target_offset(member) - start.offset);
                bundled_.insert(buffer.value);
            }
            window.slots.push_back(std::move(slot));
            if (bundle.members.empty()) continue;
            bundle.bytes = window.count * 4;
            out_.bundles.push_back(std::move(bundle));
        }
        for (const Candidate& member : members) {
            window.groups.push_back(member.group);
            in_window_.insert(member.group);
        }
        windows_.push_back(std::move(window));
    }

    uint64_t target_offset(const Candidate& candidate) const {
        for (NodeId id : grouping_.groups[candidate.group].stored) {
            const Buffer& buffer = out_.buffers[node_buffers_.of[id.value].value];
            if (buffer.kind == SegmentKind::state) return buffer.offset;
        }
        return 0;
    }

    // --- emission ------------------------------------------------------------------------------------------------------

    Task task_of(EmittedKernel& emitted, std::string label) {
        Task task;
        task.groups = emitted.grid.groups;
        task.label = std::move(label);
        task.flops = emitted.flops;
        task.kernel = kernels_.add(std::move(emitted.kernel));
        for (const auto& [buffer, access] : emitted.bindings) task.uses.push_back({buffer, buffer, access, {buffer}});
        return task;
    }

    void finish(Task task, std::span<const uint32_t> groups) {
        for (uint32_t g : groups) task_of_group_[g] = TaskId(out_.tasks.size());
        out_.tasks.push_back(std::move(task));
    }

    Result<void> emit_windows() {
        task_of_group_.resize(grouping_.groups.size());
        for (const Window& window : windows_) {
            const Group& head = grouping_.groups[window.groups[0]];
            TRY(EmittedKernel emitted, emit_group(graph_, grouping_, head, node_buffers_, out_.buffers, caps_, window.count));
            Task task = task_of(emitted, describe(graph_, head) + " over " + std::to_string(window.groups.size()) + " tensors");
            for (size_t s = 0; s < task.uses.size(); ++s) {
                task.uses[s].covered = window.slots[s];
                task.uses[s].last = window.slots[s].back();
            }
            finish(std::move(task), window.groups);
        }
        return {};
    }

    Result<void> emit_groups() {
        for (uint32_t g = 0; g < grouping_.groups.size(); ++g) {
            const Group& group = grouping_.groups[g];
            if (!group.alive || group.space.count() == 0 || in_window_.contains(g)) continue;
            TRY(EmittedKernel emitted, emit_group(graph_, grouping_, group, node_buffers_, out_.buffers, caps_));
            const std::vector<BufferId> partials = emitted.partials;
            finish(task_of(emitted, describe(graph_, group)), std::span(&g, 1));
            if (partials.empty()) continue;
            std::vector<BufferId> sums;
            for (NodeId id : group.stored)
                if (group.place(id) == Place::column) sums.push_back(node_buffers_.of[id.value]);
            TRY(EmittedKernel second, emit_partial_sums(partials, sums, emitted.partial_blocks,
                                                        static_cast<uint32_t>(group.space.cols), out_.buffers, caps_));
            out_.tasks.push_back(task_of(second, "partial sums of " + describe(graph_, group)));
        }
        return {};
    }

    void order_after_readers() {
        for (uint32_t g = 0; g < overwrites_.size(); ++g)
            for (uint32_t reader : overwrites_[g])
                if (task_of_group_[reader].valid() && task_of_group_[g].valid() && task_of_group_[reader] != task_of_group_[g])
                    out_.tasks[task_of_group_[g].value].after.push_back(task_of_group_[reader]);
    }

    const Graph& graph_;
    const Grouping& grouping_;
    const SharedMemory& memory_;
    KernelTable& kernels_;
    const Caps& caps_;
    const PlanOptions& options_;
    EntryPlan out_;
    NodeBuffers node_buffers_;
    std::vector<std::vector<uint32_t>> readers_;     // by stored node: other groups that read it
    std::vector<std::vector<uint32_t>> overwrites_;  // by group: readers of memory that it overwrites
    std::vector<Window> windows_;
    std::set<uint32_t> in_window_, bundled_;
    std::vector<TaskId> task_of_group_;
};

}  // namespace

Result<EntryPlan> lower_entry(const Graph& graph, const Grouping& grouping, const SharedMemory& memory, KernelTable& kernels,
                              const Caps& caps, const PlanOptions& options) {
    return Lowerer(graph, grouping, memory, kernels, caps, options).run();
}

}  // namespace darner::plan
