// SPDX-License-Identifier: MIT
#include "darner/program/buffer_barriers.h"

#include "darner/program/groups.h"

#include <algorithm>

namespace darner {

namespace {

std::vector<BufferTracker::Use> uses_of(const Member& member) {
    std::vector<BufferTracker::Use> uses;
    const auto add = [&](const BindingWindow& window, bool writes) { uses.push_back({window.segment.value, writes}); };
    if (member.dispatch != nullptr) {
        for (const BindingWindow& w : member.dispatch->bindings) add(w, w.access != kir::Access::read);
        if (member.dispatch->groups_from) add(*member.dispatch->groups_from, false);
    }
    if (member.copy != nullptr) {
        add(member.copy->source, false);
        add(member.copy->target, true);
    }
    if (member.counter != nullptr) add(*member.counter, true);
    return uses;
}

}  // namespace

bool BufferTracker::waits(std::span<const Use> uses) {
    for (const auto& [buffer, writes] : uses)
        if (buffer >= touched_.size()) touched_.resize(buffer + 1);
    const bool waits = std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
        const Touched& touched = touched_[use.buffer];
        return touched.round == round_ && (touched.written || use.writes);
    });
    round_ += waits;
    for (const auto& [buffer, writes] : uses) {
        Touched& touched = touched_[buffer];
        touched = {round_, writes || (touched.round == round_ && touched.written)};
    }
    return waits;
}

Result<uint32_t> buffer_barriers(const Entry& entry) {
    TRY(const std::vector<BarrierGroup> groups, barrier_groups(entry));
    BufferTracker tracker;
    uint32_t count = 0;
    for (const BarrierGroup& group : groups)
        for (const Member& member : group) count += tracker.waits(uses_of(member));
    return count;
}

}  // namespace darner
