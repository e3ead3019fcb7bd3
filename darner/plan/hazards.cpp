// SPDX-License-Identifier: MIT
#include "darner/plan/hazards.h"

#include "darner/base/fault.h"

#include <algorithm>

namespace darner::plan {

bool Hazards::overlaps(const Ranges& ranges, const BindingWindow& window) {
    const auto behind = ranges.lower_bound(window.offset + window.bytes);
    return behind != ranges.begin() && std::prev(behind)->second > window.offset;
}

void Hazards::merge(Ranges& ranges, const BindingWindow& window) {
    uint64_t start = window.offset, end = window.offset + window.bytes;
    auto at = ranges.upper_bound(end);
    while (at != ranges.begin() && std::prev(at)->second >= start) {
        at = std::prev(at);
        start = std::min(start, at->first);
        end = std::max(end, at->second);
        at = ranges.erase(at);
    }
    ranges.emplace(start, end);
}

bool Hazards::conflicts(const BindingWindow& window) const {
    const auto touched = segments_.find(window.segment.value);
    if (touched == segments_.end() || window.bytes == 0) return false;
    return overlaps(touched->second.written, window) ||
           (window.access != kir::Access::read && !fault(11) && overlaps(touched->second.read, window));
}

void Hazards::add(const BindingWindow& window) {
    if (window.bytes == 0) return;
    Touched& touched = segments_[window.segment.value];
    merge(window.access == kir::Access::read ? touched.read : touched.written, window);
}

BindingWindow window_of(const EntryPlan& plan, const Use& use) {
    const Buffer& first = plan.buffers[use.first.value];
    const Buffer& last = plan.buffers[use.last.value];
    BindingWindow window;
    window.segment = first.segment;
    window.offset = first.offset + use.offset;
    const uint64_t bytes = use.bytes != 0 ? use.bytes : fault(13) ? first.bytes() : last.offset + last.bytes() - first.offset;
    window.bytes = (bytes + 3) / 4 * 4;
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
    const auto emit_task = [&](const Task& task) {
        Dispatch dispatch;
        dispatch.kernel = task.kernel;
        dispatch.groups = task.groups;
        dispatch.params = task.params;
        dispatch.label = task.label;
        dispatch.flops = task.flops;
        for (const Use& use : task.uses) {
            dispatch.bindings.push_back(window_of(plan, use));
            dispatch.bytes_moved += dispatch.bindings.back().bytes * (use.access == kir::Access::inout ? 2 : 1);
        }
        make_room(dispatch.bindings);
        items.emplace_back(std::in_place_type<Dispatch>, std::move(dispatch));
    };
    const auto emit_copy = [&](const CopyTask& copy) {
        const Use source{copy.source, copy.source, kir::Access::read, {}},
            target{copy.target, copy.target, kir::Access::write, {}};
        Copy item{window_of(plan, source), window_of(plan, target)};
        if (item.source.bytes == 0) return;
        make_room({item.source, item.target});
        items.emplace_back(std::in_place_type<Copy>, item);
    };
    size_t copies = 0;
    const auto emit_copies_below = [&](uint32_t level) {
        while (copies < plan.copies.size() && plan.copies[copies].level < level) emit_copy(plan.copies[copies++]);
    };
    for (const Task& task : plan.tasks) {
        emit_copies_below(task.level);
        emit_task(task);
    }
    emit_copies_below(UINT32_MAX);
    return items;
}

}  // namespace darner::plan
