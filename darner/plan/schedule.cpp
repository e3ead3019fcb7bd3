// SPDX-License-Identifier: MIT
#include "darner/plan/schedule.h"

#include "darner/base/check.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

namespace {

bool writes(kir::Access access) { return access != kir::Access::read; }

// Ranges touched since the last barrier.
class Hazards {
public:
    bool conflicts(const BindingWindow& window) const {
        for (const BindingWindow& other : since_)
            if (other.segment == window.segment && (writes(other.access) || writes(window.access)) &&
                other.offset < window.offset + window.bytes && window.offset < other.offset + other.bytes)
                return true;
        return false;
    }
    void add(const BindingWindow& window) { since_.push_back(window); }
    void clear() { since_.clear(); }

private:
    std::vector<BindingWindow> since_;
};

}  // namespace

void order_tasks(EntryPlan& plan) {
    const size_t count = plan.tasks.size();
    std::vector<std::vector<uint32_t>> writers(plan.buffers.size());
    for (uint32_t t = 0; t < count; ++t)
        for (const Use& use : plan.tasks[t].uses)
            if (writes(use.access))
                for (BufferId buffer : use.covered) writers[buffer.value].push_back(t);

    std::vector<std::vector<uint32_t>> next(count);
    std::vector<uint32_t> waiting(count, 0);
    const auto edge = [&](uint32_t from, uint32_t to) {
        next[from].push_back(to);
        ++waiting[to];
    };
    for (uint32_t t = 0; t < count; ++t) {
        for (TaskId before : plan.tasks[t].after) edge(before.value, t);
        for (const Use& use : plan.tasks[t].uses) {
            if (use.access != kir::Access::read) continue;
            for (BufferId buffer : use.covered) {
                // State that is overwritten this step is read before (the writer waits for its readers); scratch after.
                if (plan.buffers[buffer.value].kind == SegmentKind::state) continue;
                for (uint32_t writer : writers[buffer.value])
                    if (writer != t) edge(writer, t);
            }
        }
    }
    std::vector<uint32_t> ready;
    for (uint32_t t = 0; t < count; ++t)
        if (waiting[t] == 0) ready.push_back(t);
    size_t done = 0;
    while (done < ready.size()) {
        const uint32_t t = ready[done++];
        for (uint32_t n : next[t]) {
            plan.tasks[n].level = std::max(plan.tasks[n].level, plan.tasks[t].level + 1);
            if (--waiting[n] == 0) ready.push_back(n);
        }
    }
    CHECK(done == count, "the plan's tasks depend on each other in a circle");

    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return plan.tasks[x].level < plan.tasks[y].level; });
    std::vector<Task> sorted;
    for (uint32_t t : order) sorted.push_back(std::move(plan.tasks[t]));
    plan.tasks = std::move(sorted);
    for (Task& task : plan.tasks) task.after.clear();  // the order holds them now; ids are stale
}

BindingWindow window_of(const EntryPlan& plan, const Use& use) {
    const Buffer& first = plan.buffers[use.first.value];
    const Buffer& last = plan.buffers[use.last.value];
    BindingWindow window;
    window.segment = first.segment;
    window.offset = first.offset;
    window.bytes = (last.offset + last.bytes() - first.offset + 3) / 4 * 4;
    window.access = use.access;
    return window;
}

std::vector<Item> emit_items(const EntryPlan& plan) {
    std::vector<Item> items;
    Hazards hazards;
    const auto make_room = [&](const std::vector<BindingWindow>& windows) {
        if (std::any_of(windows.begin(), windows.end(), [&](const BindingWindow& w) { return hazards.conflicts(w); })) {
            items.emplace_back(std::in_place_type<Barrier>);
            hazards.clear();
        }
        for (const BindingWindow& window : windows) hazards.add(window);
    };
    for (const Task& task : plan.tasks) {
        Dispatch dispatch;
        dispatch.kernel = task.kernel;
        dispatch.groups = task.groups;
        dispatch.label = task.label;
        dispatch.flops = task.flops;
        for (const Use& use : task.uses) {
            dispatch.bindings.push_back(window_of(plan, use));
            dispatch.bytes_moved += dispatch.bindings.back().bytes * (use.access == kir::Access::inout ? 2 : 1);
        }
        make_room(dispatch.bindings);
        items.emplace_back(std::in_place_type<Dispatch>, std::move(dispatch));
    }
    for (const CopyTask& copy : plan.copies) {
        const Use source{copy.source, copy.source, kir::Access::read, {}},
            target{copy.target, copy.target, kir::Access::write, {}};
        Copy item{window_of(plan, source), window_of(plan, target)};
        if (item.source.bytes == 0) continue;
        make_room({item.source, item.target});
        items.emplace_back(std::in_place_type<Copy>, item);
    }
    return items;
}

}  // namespace darner::plan
