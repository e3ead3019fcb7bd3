// SPDX-License-Identifier: MIT
#include "darner/plan/windows.h"

#include "darner/base/fault.h"
#include "darner/base/hash.h"
#include "darner/kir/zeros.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace darner::plan {

void GroupOrder::add_edge(uint32_t before, uint32_t after) {
    before_[after].push_back(before);
    edges_.push_back({before, after});
}

void GroupOrder::join(const std::vector<uint32_t>& groups) {
    joined_in_.resize(before_.size(), 0);
    joined_.push_back(groups);
    for (uint32_t group : groups) joined_in_[group] = static_cast<uint32_t>(joined_.size());
}

std::set<uint32_t> GroupOrder::ancestors(const std::vector<uint32_t>& groups) const {
    std::set<uint32_t> seen;
    std::vector<uint32_t> stack;
    const auto visit = [&](uint32_t group) {
        if (group != Grouping::none && seen.insert(group).second) stack.push_back(group);
    };
    for (uint32_t group : groups) visit(group);
    while (!stack.empty()) {
        const uint32_t group = stack.back();
        stack.pop_back();
        for (NodeId id : grouping_.groups[group].nodes)
            for (NodeId source : grouping_.sources[id.value]) visit(grouping_.group_of[source.value]);
        for (uint32_t reader : before_[group]) visit(reader);
        if (!joined_in_.empty() && joined_in_[group] != 0)
            for (uint32_t member : joined_[joined_in_[group] - 1]) visit(member);
    }
    return seen;
}

namespace {

// Candidates are emitted for this many elements to compare their structure: their kernels use the count for nothing but the
// range, since no value depends on a position.
constexpr uint64_t common_count = 1 << 20;

struct Candidate {
    uint32_t group = 0;
    std::vector<BufferId> bindings;
    BufferId target;   // the first state tensor that it updates
    uint64_t key = 0;  // equal for equal kernels with equal shared scalars
};

class WindowFinder {
public:
    WindowFinder(const WindowInput& input, GroupOrder& order) : in_(input), order_(order) {}

    Result<std::vector<Window>> run() {
        std::vector<Candidate> candidates;
        for (uint32_t g = 0; g < in_.grouping.groups.size(); ++g) {
            if (!may_be_candidate(in_.grouping.groups[g])) continue;
            TRY(std::optional<Candidate> candidate, candidate_of(g));
            if (candidate) candidates.push_back(std::move(*candidate));
        }
        std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& x, const Candidate& y) {
            const Buffer &a = buffer(x.target), &b = buffer(y.target);
            return std::tuple(x.key, a.segment.value, a.offset) < std::tuple(y.key, b.segment.value, b.offset);
        });
        for (size_t first = 0; first < candidates.size();) {
            std::vector<Candidate> members = {candidates[first]};
            size_t next = first + 1;
            while (next < candidates.size() && extends(members, candidates[next])) members.push_back(candidates[next++]);
            if (members.size() > 1) add_window(members);
            first = next;
        }
        return std::move(windows_);
    }

private:
    const Buffer& buffer(BufferId id) const { return in_.buffers[id.value]; }
    BufferId buffer_of(NodeId stored) const { return in_.node_buffers.of[stored.value]; }

    bool may_be_candidate(const Group& group) const {
        if (!group.alive || group.kind != GroupKind::map || group.space.count() <= 1 || uses_position(group)) return false;
        bool in_place = false;
        for (NodeId id : group.stored) {
            const Buffer& b = buffer(buffer_of(id));
            if (kernels::byte_size(b.storage) != 4 || b.kind == SegmentKind::io || !in_.readers[id.value].empty()) return false;
            in_place |= b.kind == SegmentKind::state;
        }
        if (!in_place) return false;
        for (NodeId id : group.nodes)
            for (NodeId source : in_.grouping.sources[id.value]) {
                if (group.find(source)) continue;
                const Buffer& b = buffer(buffer_of(source));
                if (kernels::byte_size(b.storage) != 4) return false;
                if (b.elements == 1) continue;
                if (b.elements != group.space.count() || !reads_only_own_element(in_.graph, in_.grouping, group, source))
                    return false;
            }
        return true;
    }

    // Whether a value depends on where its element lies: through an index node, in the group or pulled through.
    bool uses_position(const Group& group) const {
        std::vector<NodeId> stack(group.nodes.begin(), group.nodes.end());
        std::set<NodeId> seen(group.nodes.begin(), group.nodes.end());
        while (!stack.empty()) {
            const Node& node = in_.graph.node(stack.back());
            stack.pop_back();
            if (std::holds_alternative<IndexLower>(node.op->lower)) return true;
            for (NodeId operand : node.operands) {
                if (!operand.valid() || in_.graph.node(operand).kind != NodeKind::op) continue;
                const NodeId storage = in_.grouping.storage[operand.value];
                const bool stored = in_.graph.node(storage).kind != NodeKind::op || in_.grouping.computes(storage);
                if (!stored && seen.insert(operand).second) stack.push_back(operand);
            }
        }
        return false;
    }

    Result<std::optional<Candidate>> candidate_of(uint32_t g) const {
        const Group& group = in_.grouping.groups[g];
        std::vector<Buffer> unused = in_.buffers;
        TRY(EmittedKernel one, emit_group(in_.graph, in_.grouping, group, in_.node_buffers, unused, in_.caps, 1));
        if (!keeps_zeros(one)) return std::optional<Candidate>();
        TRY(EmittedKernel emitted, emit_group(in_.graph, in_.grouping, group, in_.node_buffers, unused, in_.caps, common_count));
        Candidate candidate;
        candidate.group = g;
        Hasher key;
        key.add(kir::structural_hash(emitted.kernel));
        for (const auto& [id, access] : emitted.bindings) {
            candidate.bindings.push_back(id);
            if (buffer(id).elements == 1 && !fault(14)) key.add(id.value);
        }
        for (NodeId id : group.stored)
            if (!candidate.target.valid() && buffer(buffer_of(id)).kind == SegmentKind::state) candidate.target = buffer_of(id);
        candidate.key = key.value();
        return std::optional(std::move(candidate));
    }

    // Scalars are shared by all elements of a window, its gaps included.
    bool keeps_zeros(const EmittedKernel& one) const {
        std::vector<bool> zero;
        for (const auto& [id, access] : one.bindings) zero.push_back(buffer(id).elements != 1);
        return kir::keeps_zeros(one.kernel, zero);
    }

    bool extends(const std::vector<Candidate>& members, const Candidate& next) const {
        const Candidate &head = members.front(), &before = members.back();
        if (next.key != head.key || next.bindings.size() != head.bindings.size()) return false;
        const Buffer &start = buffer(head.target), &target = buffer(next.target);
        if (start.segment != target.segment || target.offset + target.bytes() - start.offset > in_.caps.max_binding_bytes)
            return false;
        for (size_t s = 0; s < next.bindings.size(); ++s)
            if (!slot_extends(head.bindings[s], before.bindings[s], next.bindings[s], target.offset - start.offset)) return false;
        for (const Candidate& member : members)
            if (shares_a_tensor(member, next)) return false;
        return independent(members, next);
    }

    // One slot: the same scalar, scratch that can be laid out, or state at the same distance with a gap of nothing but padding.
    bool slot_extends(BufferId head, BufferId before, BufferId next, uint64_t distance) const {
        const Buffer &a = buffer(head), &p = buffer(before), &n = buffer(next);
        if (n.elements == 1) return head == next || fault(14);
        if (a.kind != n.kind || bundled_.contains(head) || bundled_.contains(next)) return false;
        if (n.kind == SegmentKind::scratch) return true;
        if (n.kind != SegmentKind::state || n.segment != a.segment || n.offset < p.offset + p.bytes()) return false;
        const uint64_t padding = std::max<uint64_t>(16, in_.caps.offset_alignment);
        return n.offset - a.offset == distance && n.offset - (p.offset + p.bytes()) < padding;
    }

    // Windows of one dispatch must not overlap, and a scratch tensor has one place.
    bool shares_a_tensor(const Candidate& x, const Candidate& y) const {
        for (BufferId a : x.bindings)
            for (BufferId b : y.bindings)
                if (a == b && buffer(a).elements > 1) return true;
        return false;
    }

    bool independent(const std::vector<Candidate>& members, const Candidate& next) const {
        std::vector<uint32_t> groups;
        for (const Candidate& member : members) groups.push_back(member.group);
        const std::set<uint32_t> before_next = order_.ancestors({next.group}), before_members = order_.ancestors(groups);
        return !before_members.contains(next.group) &&
               std::none_of(groups.begin(), groups.end(), [&](uint32_t g) { return before_next.contains(g); });
    }

    void add_window(const std::vector<Candidate>& members) {
        const Buffer &start = buffer(members.front().target), &end = buffer(members.back().target);
        Window window;
        window.count = (end.offset + end.bytes() - start.offset) / 4;
        for (size_t s = 0; s < members.front().bindings.size(); ++s) {
            const BufferId head = members.front().bindings[s];
            if (buffer(head).elements == 1) {
                window.slots.push_back({head});
                continue;
            }
            std::vector<BufferId> slot;
            Bundle bundle;
            bundle.bytes = window.count * 4;
            for (const Candidate& member : members) {
                slot.push_back(member.bindings[s]);
                bundle.members.push_back(member.bindings[s]);
                bundle.offsets.push_back(buffer(member.target).offset - start.offset);
            }
            if (buffer(head).kind == SegmentKind::scratch) {
                for (BufferId id : bundle.members) CHECK(bundled_.insert(id).second, "a buffer in two bundles");
                window.bundles.push_back(std::move(bundle));
            }
            window.slots.push_back(std::move(slot));
        }
        for (const Candidate& member : members) window.groups.push_back(member.group);
        order_.join(window.groups);
        windows_.push_back(std::move(window));
    }

    const WindowInput& in_;
    GroupOrder& order_;
    std::vector<Window> windows_;
    std::set<BufferId> bundled_;
};

}  // namespace

Result<std::vector<Window>> find_windows(const WindowInput& input, GroupOrder& order) { return WindowFinder(input, order).run(); }

}  // namespace darner::plan
