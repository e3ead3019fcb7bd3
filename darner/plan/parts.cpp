// SPDX-License-Identifier: MIT
#include "darner/plan/parts.h"

#include "darner/kernels/windows.h"
#include "darner/plan/storage.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::plan {

namespace {

std::optional<Stage> stage_of(EmittedKernel emitted, const Caps& caps) {
    const bool whole = !kernels::needs_windows(emitted.kernel, caps);
    auto cut = kernels::cut_to_windows(std::move(emitted.kernel), emitted.grid.groups, caps);
    if (!cut) return std::nullopt;
    const auto workgroups = [](const std::array<uint32_t, 3>& groups) { return double(groups[0]) * groups[1] * groups[2]; };
    Stage stage;
    stage.kernels = std::move(cut->kernels);
    for (kernels::KernelPart& part : cut->parts) {
        Stage::Part& made = stage.parts.emplace_back();
        made.kernel = part.kernel;
        made.groups = part.groups;
        made.params = std::move(part.params);
        made.flops = static_cast<uint64_t>(double(emitted.flops) * workgroups(part.groups) / workgroups(emitted.grid.groups));
        for (const kernels::Window& window : part.windows) {
            const auto& [buffer, access] = emitted.bindings[window.binding];
            made.uses.push_back({buffer, buffer, access, {buffer}, window.offset, whole ? 0 : window.bytes});
        }
    }
    return stage;
}

// Workgroups of at most this many invocations, which work alone: what a workgroup touches shrinks with it.
Caps with_workgroups_of(Caps caps, uint32_t invocations) {
    caps.max_invocations = std::min(caps.max_invocations, invocations);
    caps.subgroup_shuffle = false;
    return caps;
}

}  // namespace

Result<std::vector<Stage>> emit_stages(const Graph& graph, const Grouping& grouping, const Group& group,
                                       const NodeBuffers& node_buffers, std::vector<Buffer>& buffers, const Caps& caps) {
    const size_t before = buffers.size();
    for (const uint32_t invocations : {UINT32_MAX, 32u, 8u, 1u}) {
        buffers.resize(before);
        const bool full = invocations == UINT32_MAX;
        const Caps here = full ? caps : with_workgroups_of(caps, invocations);
        auto emitted = emit_group(graph, grouping, group, node_buffers, buffers, here);
        if (!emitted && full) return emitted.error();
        if (!emitted) continue;
        std::vector<BufferId> sums;
        for (NodeId id : group.stored)
            if (group.place(id) == Place::column) sums.push_back(node_buffers.at(grouping, id));
        const std::vector<BufferId> partials = emitted->partials;
        const uint32_t blocks = emitted->partial_blocks;
        std::vector<Stage> stages;
        auto main = stage_of(std::move(*emitted), caps);
        if (!main) continue;
        stages.push_back(std::move(*main));
        if (partials.empty()) return stages;
        TRY(EmittedKernel second,
            emit_partial_sums(partials, sums, blocks, static_cast<uint32_t>(group.space.cols), buffers, here));
        if (auto last = stage_of(std::move(second), caps)) {
            stages.push_back(std::move(*last));
            return stages;
        }
    }
    return limit_error(fmt::format("[plan] {} touches more of its tensors at once than {} bindings of {} bytes reach",
                                   describe(graph, group), caps.max_storage_bindings, caps.max_binding_bytes));
}

bool fits_windows(const Graph& graph, const Grouping& grouping, const Group& group, const Caps& caps) {
    std::vector<NodeId> bound = group.stored;
    for (NodeId id : group.nodes)
        for (NodeId source : grouping.sources[id.value])
            if (!group.find(source)) bound.push_back(source);
    const auto bytes = [&](NodeId id) { return static_cast<uint64_t>(graph.type(id).count()) * 4; };
    const bool small = std::none_of(bound.begin(), bound.end(), [&](NodeId id) { return bytes(id) > caps.max_binding_bytes; });
    if (small || group.space.count() == 0) return true;
    NodeBuffers node_buffers;
    node_buffers.of.resize(graph.nodes.size());
    std::vector<Buffer> buffers;
    for (NodeId id : bound) {
        BufferId& at = node_buffers.of[id.value];
        if (at.valid()) continue;
        Buffer buffer;
        buffer.storage = *storage_of(graph.type(id).dtype);
        // Who computes it may come to store it widened; the map archetype owns whole words and does not.
        const bool packed = group.kind == GroupKind::map && group.find(id).has_value();
        if (graph.node(id).kind == NodeKind::op && !packed) buffer.storage = widened(buffer.storage);
        buffer.elements = static_cast<uint64_t>(graph.type(id).count());
        at = BufferId(buffers.size());
        buffers.push_back(std::move(buffer));
    }
    return emit_stages(graph, grouping, group, node_buffers, buffers, caps).has_value();
}

}  // namespace darner::plan
