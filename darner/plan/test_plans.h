// SPDX-License-Identifier: MIT
// Random task graphs for tests of schedules, memory and hazards: tasks that read what earlier tasks wrote, params that are
// updated in place behind their readers, bundles that one task spans, copies at the end.
#pragma once

#include "darner/plan/tasks.h"

#include <algorithm>
#include <random>

namespace darner::plan {

struct RandomPlan {
    EntryPlan plan;
    std::vector<Segment> segments;  // of the buffers that are placed
};

// The members of the first bundle need not lie at fixed distances any more.
inline void dissolve_first_bundle(EntryPlan& plan) {
    const std::vector<BufferId> members = plan.bundles.front().members;
    plan.bundles.erase(plan.bundles.begin());
    for (Task& task : plan.tasks) {
        std::vector<Use> uses;
        for (const Use& use : task.uses) {
            if (use.covered != members) uses.push_back(use);
            for (size_t i = 0; use.covered == members && i < members.size(); ++i)
                uses.push_back({members[i], members[i], use.access, {members[i]}});
        }
        task.uses = std::move(uses);
    }
}

class RandomPlanMaker {
public:
    explicit RandomPlanMaker(uint64_t seed) : random_(seed) {}

    RandomPlan make(size_t tasks) {
        for (int i = 0; i < 3; ++i) placed(SegmentKind::state, 1 + below(600));
        inputs_ = {placed(SegmentKind::io, 1 + below(2000)), placed(SegmentKind::io, 1 + below(2000))};
        for (size_t t = 0; t < tasks; ++t) add_task();
        for (size_t i = below(3); i > 0; --i) add_bundle();
        add_updates();
        for (Task& task : out_.plan.tasks)
            if (task.label == "update") task.after = readers_of_first_param();
        for (size_t c = below(4); c > 0; --c) out_.plan.copies.push_back({any(), placed(SegmentKind::io, 1)});
        for (CopyTask& copy : out_.plan.copies) {
            Buffer& target = out_.plan.buffers[copy.target.value];
            if (target.kind == SegmentKind::io) target = move_to_end(target, out_.plan.buffers[copy.source.value].elements);
        }
        return std::move(out_);
    }

private:
    size_t below(size_t n) { return static_cast<size_t>(random_() % n); }

    Buffer move_to_end(Buffer buffer, uint64_t elements) {
        Segment& segment = out_.segments[buffer.segment.value];
        buffer.elements = elements;
        buffer.offset = segment.bytes;
        segment.bytes += (buffer.bytes() + 255) / 256 * 256;
        return buffer;
    }

    BufferId add(Buffer buffer) {
        buffer.label = "buffer " + std::to_string(out_.plan.buffers.size());
        out_.plan.buffers.push_back(std::move(buffer));
        return BufferId(out_.plan.buffers.size() - 1);
    }
    BufferId scratch() {
        Buffer buffer;
        buffer.elements = 1 + below(below(5) == 0 ? 20000 : 2000);
        return add(std::move(buffer));
    }
    BufferId placed(SegmentKind kind, uint64_t elements) {
        Buffer buffer;
        buffer.kind = kind;
        buffer.placed = true;
        size_t s = 0;
        while (s < out_.segments.size() && out_.segments[s].kind != kind) ++s;
        if (s == out_.segments.size()) out_.segments.push_back({kind, 0, kind == SegmentKind::state, 1, {}});
        buffer.segment = SegmentId(s);
        return add(move_to_end(buffer, elements));
    }

    // Mostly something recent: lives of both kinds, short and long.
    BufferId any() {
        if (written_.empty()) return inputs_[below(inputs_.size())];
        const size_t reach = below(3) == 0 ? written_.size() : std::min<size_t>(written_.size(), 4);
        return written_[written_.size() - 1 - below(reach)];
    }

    static Use use(BufferId buffer, kir::Access access) { return {buffer, buffer, access, {buffer}}; }

    void add_task() {
        Task task;
        std::vector<BufferId> used;
        const auto bind = [&](BufferId buffer, kir::Access access) {
            if (std::find(used.begin(), used.end(), buffer) != used.end()) return;
            used.push_back(buffer);
            task.uses.push_back(use(buffer, access));
        };
        for (size_t i = 1 + below(3); i > 0; --i) bind(below(6) == 0 ? BufferId(below(3)) : any(), kir::Access::read);
        for (size_t i = 1 + below(2); i > 0; --i) bind(scratch(), kir::Access::write);
        for (const Use& u : task.uses)
            if (u.access == kir::Access::write) written_.push_back(u.first);
        task.label = "task " + std::to_string(out_.plan.tasks.size());
        out_.plan.tasks.push_back(std::move(task));
    }

    // Tasks that each write a member, and one that spans them all.
    void add_bundle() {
        Bundle bundle;
        Task reader;
        uint64_t offset = 0;
        for (size_t i = 2 + below(3); i > 0; --i) {
            add_task();
            const BufferId member = scratch();
            out_.plan.tasks.back().uses.push_back(use(member, kir::Access::write));
            bundle.members.push_back(member);
            bundle.offsets.push_back(offset);
            bundle.bytes = offset + out_.plan.buffers[member.value].bytes();
            offset = (bundle.bytes + 255) / 256 * 256;
        }
        reader.uses.push_back({bundle.members.front(), bundle.members.back(), kir::Access::read, bundle.members});
        const BufferId out = scratch();
        reader.uses.push_back(use(out, kir::Access::write));
        written_.push_back(out);
        reader.label = "over the bundle";
        out_.plan.bundles.push_back(std::move(bundle));
        out_.plan.tasks.push_back(std::move(reader));
    }

    std::vector<TaskId> readers_of_first_param() const {
        std::vector<TaskId> readers;
        for (uint32_t t = 0; t < out_.plan.tasks.size(); ++t)
            for (const Use& u : out_.plan.tasks[t].uses)
                if (u.first == BufferId(0u) && u.access == kir::Access::read) readers.push_back(TaskId(t));
        return readers;
    }

    // The first param in place, behind its readers; the second by a copy.
    void add_updates() {
        Task update;
        update.uses = {use(BufferId(0u), kir::Access::inout), use(any(), kir::Access::read)};
        update.label = "update";
        out_.plan.tasks.push_back(std::move(update));
        Buffer fresh;
        fresh.elements = out_.plan.buffers[1].elements;
        add_task();
        const BufferId source = add(std::move(fresh));
        out_.plan.tasks.back().uses.push_back(use(source, kir::Access::write));
        out_.plan.copies.push_back({source, BufferId(1u)});
    }

    std::mt19937_64 random_;
    RandomPlan out_;
    std::vector<BufferId> inputs_, written_;
};

}  // namespace darner::plan
