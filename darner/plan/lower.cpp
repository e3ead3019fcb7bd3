// SPDX-License-Identifier: MIT
#include "darner/plan/lower.h"

#include "darner/plan/in_place.h"
#include "darner/plan/parts.h"
#include "darner/plan/space.h"
#include "darner/plan/storage.h"
#include "darner/plan/windows.h"

#include <algorithm>
#include <set>

namespace darner::plan {

KernelId KernelTable::add(kir::Kernel kernel) {
    const uint64_t hash = kir::structural_hash(kernel);
    auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(hash, 0u));
    for (; at != by_hash_.end() && at->first == hash; ++at)
        if (kir::same_structure(kernels_[at->second].kir, kernel)) return KernelId(at->second);
    const uint32_t id = static_cast<uint32_t>(kernels_.size());
    kernels_.push_back({std::move(kernel), hash, {}, {}});
    by_hash_.insert(at, {hash, id});
    return KernelId(id);
}

namespace {

class Lowerer {
public:
    Lowerer(const Graph& graph, const Grouping& grouping, const SharedMemory& memory, KernelTable& kernels, const Caps& caps,
            const PlanOptions& options)
        : graph_(graph),
          grouping_(grouping),
          memory_(memory),
          kernels_(kernels),
          caps_(caps),
          options_(options),
          order_(grouping) {}

    Result<EntryPlan> run() {
        node_buffers_.of.resize(graph_.nodes.size());
        place_leaves();
        find_readers();
        place_outputs();
        place_updates();
        place_scratch();
        if (options_.merge_windows) {
            TRY(windows_, find_windows({graph_, grouping_, node_buffers_, out_.buffers, readers_, caps_}, order_));
        }
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
                placed(input.node, SegmentKind::io, memory_.io(input.name, graph_.type(input.node), false, input.per_step));
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
    }

    uint32_t group_of(NodeId id) const { return grouping_.group_of[id.value]; }

    void place_outputs() {
        for (const auto& output : graph_.outputs) {
            const NodeId source = grouping_.storage[output.node.value];
            const auto place = memory_.io(output.name, graph_.type(output.node), true, output.per_step);
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
                    if (reader != g) order_.add_edge(reader, g);
                continue;
            }
            if (!owner.valid()) owner = scratch(value, grouping_.groups[group_of(value)].kind);
            if (owner != target) out_.copies.push_back({owner, target});
        }
    }

    void place_scratch() {
        InPlace in_place(graph_, grouping_, readers_, out_.copies, order_);
        for (uint32_t g : in_place.groups())
            for (NodeId id : grouping_.groups[g].stored) {
                BufferId& buffer = node_buffers_.of[id.value];
                if (buffer.valid()) continue;
                if (options_.alias_scratch) buffer = in_place.take(g, id, node_buffers_, out_.buffers);
                if (!buffer.valid()) buffer = scratch(id, grouping_.groups[g].kind);
            }
    }

    bool may_overwrite(NodeId param, NodeId value) const {
        const uint32_t g = group_of(value);
        const Group& group = grouping_.groups[g];
        // Who reads the new value needs it beside the old one.
        if (!readers_[value.value].empty()) return false;
        if (group.kind != GroupKind::map || !reads_only_own_element(graph_, grouping_, group, param)) return false;
        for (uint32_t reader : readers_[param.value])
            if (reader != g && order_.comes_after(reader, g)) return false;
        return true;
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

    Result<void> emit_windows() {
        tasks_of_group_.resize(grouping_.groups.size());
        for (Window& window : windows_) {
            for (Bundle& bundle : window.bundles) out_.bundles.push_back(std::move(bundle));
            const Group& head = grouping_.groups[window.groups[0]];
            TRY(EmittedKernel emitted, emit_group(graph_, grouping_, head, node_buffers_, out_.buffers, caps_, window.count));
            Task task = task_of(emitted, describe(graph_, head) + " over " + std::to_string(window.groups.size()) + " tensors");
            for (size_t s = 0; s < task.uses.size(); ++s) {
                task.uses[s].covered = window.slots[s];
                task.uses[s].last = window.slots[s].back();
            }
            in_window_.insert(window.groups.begin(), window.groups.end());
            for (uint32_t g : window.groups) tasks_of_group_[g] = {TaskId(out_.tasks.size())};
            out_.tasks.push_back(std::move(task));
        }
        return {};
    }

    Result<void> emit_groups() {
        for (uint32_t g = 0; g < grouping_.groups.size(); ++g) {
            const Group& group = grouping_.groups[g];
            if (!group.alive || group.space.count() == 0 || in_window_.contains(g)) continue;
            TRY(std::vector<Stage> stages, emit_stages(graph_, grouping_, group, node_buffers_, out_.buffers, caps_));
            const std::string label = describe(graph_, group);
            tasks_of_group_[g] = add_tasks(stages[0], label);
            if (stages.size() > 1) add_tasks(stages[1], "partial sums of " + label);
        }
        return {};
    }

    std::vector<TaskId> add_tasks(Stage& stage, const std::string& label) {
        std::vector<KernelId> kernels;
        for (kir::Kernel& kernel : stage.kernels) kernels.push_back(kernels_.add(std::move(kernel)));
        std::vector<TaskId> ids;
        for (size_t p = 0; p < stage.parts.size(); ++p) {
            Stage::Part& part = stage.parts[p];
            ids.push_back(TaskId(out_.tasks.size()));
            Task& task = out_.tasks.emplace_back();
            task.kernel = kernels[part.kernel];
            task.groups = part.groups;
            task.params = std::move(part.params);
            task.uses = std::move(part.uses);
            task.flops = part.flops;
            task.label = label;
            if (stage.parts.size() > 1)
                task.label += " part " + std::to_string(p + 1) + " of " + std::to_string(stage.parts.size());
        }
        return ids;
    }

    void order_after_readers() {
        for (const auto& [reader, writer] : order_.edges()) {
            for (TaskId before : tasks_of_group_[reader])
                for (TaskId after : tasks_of_group_[writer])
                    if (before != after) out_.tasks[after.value].after.push_back(before);
        }
    }

    const Graph& graph_;
    const Grouping& grouping_;
    const SharedMemory& memory_;
    KernelTable& kernels_;
    const Caps& caps_;
    const PlanOptions& options_;
    EntryPlan out_;
    NodeBuffers node_buffers_;
    std::vector<std::vector<uint32_t>> readers_;  // by stored node: other groups that read it
    GroupOrder order_;
    std::vector<Window> windows_;
    std::set<uint32_t> in_window_;
    std::vector<std::vector<TaskId>> tasks_of_group_;
};

}  // namespace

Result<EntryPlan> lower_entry(const Graph& graph, const Grouping& grouping, const SharedMemory& memory, KernelTable& kernels,
                              const Caps& caps, const PlanOptions& options) {
    return Lowerer(graph, grouping, memory, kernels, caps, options).run();
}

}  // namespace darner::plan
