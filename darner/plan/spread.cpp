// SPDX-License-Identifier: MIT
#include "darner/plan/spread.h"

#include "darner/program/buffer_barriers.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

namespace {

// The search ends when this many uses have been simulated.
constexpr uint64_t search_visits = 30'000'000;
constexpr int search_sweeps = 4;
// A dispatch that reads and writes one buffer needs a kernel of its own; a barrier is worse.
constexpr uint64_t barrier_cost = 4, mixed_cost = 1;

class Spreader {
public:
    Spreader(const EntryPlan& plan, const Dependence& dependence, const Schedule& schedule, uint32_t pools)
        : plan_(plan), dependence_(dependence), pools_(pools), pool_(plan.buffers.size(), 0) {
        std::vector<uint32_t> order(schedule.size());
        std::iota(order.begin(), order.end(), 0u);
        // As emit_items() has them: tasks before the copies of their group.
        std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return schedule[x] < schedule[y]; });
        for (uint32_t item : order) {
            Item& out = items_.emplace_back();
            out.level = schedule[item];
            if (item < plan.tasks.size()) {
                for (const plan::Use& use : plan.tasks[item].uses)
                    out.uses.push_back({use.first.value, use.access != kir::Access::read});
            } else {
                const CopyTask& copy = plan.copies[item - plan.tasks.size()];
                out.uses = {{copy.source.value, false}, {copy.target.value, true}};
            }
        }
    }

    std::vector<uint32_t> run() {
        start();
        uint64_t best = cost();
        for (int sweep = 0; sweep < search_sweeps; ++sweep) {
            const uint64_t before = best;
            for (uint32_t b = 0; b < pool_.size() && visits_ < search_visits; ++b) {
                if (!movable(b)) continue;
                const uint32_t kept = pool_[b];
                uint32_t choice = kept;
                for (pool_[b] = 0; pool_[b] < pools_; ++pool_[b]) {
                    if (pool_[b] == kept) continue;
                    const uint64_t changed = cost();
                    if (changed >= best) continue;
                    best = changed;
                    choice = pool_[b];
                }
                pool_[b] = choice;
            }
            if (best == before) break;
        }
        return std::move(pool_);
    }

private:
    struct Item {
        uint32_t level = 0;
        std::vector<BufferTracker::Use> uses;  // of buffers of the plan
    };

    bool movable(uint32_t b) const { return !dependence_.touched_by[b].empty() && !plan_.buffers[b].segment.valid(); }

    // Pools come first, then segments.
    uint32_t place(uint32_t b) const {
        const Buffer& buffer = plan_.buffers[b];
        return buffer.segment.valid() ? pools_ + buffer.segment.value : pool_[b];
    }

    // What an item writes first goes where it reads nothing and where the group has nothing yet.
    void start() {
        std::vector<bool> placed(pool_.size(), false);
        std::vector<uint64_t> in_group;
        uint32_t level = UINT32_MAX;
        for (const Item& item : items_) {
            if (item.level != level) in_group.assign(pools_, 0);
            level = item.level;
            std::vector<uint64_t> reads(pools_, 0);
            for (const auto& [b, writes] : item.uses)
                if (place(b) < pools_ && placed[b]) ++reads[pool_[b]];
            for (const auto& [b, writes] : item.uses) {
                if (!movable(b) || placed[b]) continue;
                const auto badness = [&](uint32_t pool) { return 2 * reads[pool] + in_group[pool]; };
                for (uint32_t pool = 1; pool < pools_; ++pool)
                    if (badness(pool) < badness(pool_[b])) pool_[b] = pool;
                placed[b] = true;
            }
            for (const auto& [b, writes] : item.uses)
                if (place(b) < pools_) ++in_group[pool_[b]];
        }
    }

    uint64_t cost() {
        BufferTracker tracker;
        uint64_t barriers = 0, mixed = 0;
        std::vector<BufferTracker::Use> uses;
        for (const Item& item : items_) {
            uses = item.uses;
            for (auto& [buffer, writes] : uses) buffer = place(buffer);
            barriers += tracker.waits(uses);
            mixed += is_mixed(uses);
            visits_ += uses.size();
        }
        return barrier_cost * barriers + mixed_cost * mixed;
    }

    static bool is_mixed(const std::vector<BufferTracker::Use>& uses) {
        for (const auto& x : uses)
            for (const auto& y : uses)
                if (x.buffer == y.buffer && !x.writes && y.writes) return true;
        return false;
    }

    const EntryPlan& plan_;
    const Dependence& dependence_;
    uint32_t pools_;
    std::vector<uint32_t> pool_;  // by buffer
    std::vector<Item> items_;
    uint64_t visits_ = 0;
};

// Every dispatch, those in repeats too.
template <class Visit>
void for_each_dispatch(std::vector<Item>& items, const Visit& visit) {
    for (Item& item : items) {
        if (auto* dispatch = std::get_if<Dispatch>(&item)) visit(*dispatch);
        if (auto* repeat = std::get_if<Repeat>(&item)) for_each_dispatch(repeat->body, visit);
    }
}

}  // namespace

std::vector<uint32_t> spread(const EntryPlan& plan, const Dependence& dependence, const Schedule& schedule, uint32_t pools) {
    return Spreader(plan, dependence, schedule, pools).run();
}

void declare_written_buffers(Program& program, KernelTable& kernels) {
    const auto each = [&](const auto& visit) {
        for (Entry& entry : program.entries) for_each_dispatch(entry.body, visit);
    };
    each([&](Dispatch& dispatch) {
        kir::Kernel kernel = program.kernel(dispatch.kernel).kir;
        bool changed = false;
        for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
            const BindingWindow& w = dispatch.bindings[i];
            const bool written = std::any_of(dispatch.bindings.begin(), dispatch.bindings.end(), [&](const BindingWindow& other) {
                return other.segment == w.segment && other.access != kir::Access::read;
            });
            if (w.access == kir::Access::read && written) changed = kernel.bindings[i].in_written_buffer = true;
        }
        if (changed) dispatch.kernel = kernels.add(std::move(kernel));
    });
    constexpr uint32_t unused = UINT32_MAX;
    std::vector<uint32_t> id(program.kernels.size(), unused);
    each([&](Dispatch& dispatch) { id[dispatch.kernel.value] = 0; });
    std::vector<KernelCode> kept;
    for (size_t k = 0; k < id.size(); ++k) {
        if (id[k] == unused) continue;
        id[k] = static_cast<uint32_t>(kept.size());
        kept.push_back(std::move(program.kernels[k]));
    }
    program.kernels = std::move(kept);
    each([&](Dispatch& dispatch) { dispatch.kernel = KernelId(id[dispatch.kernel.value]); });
}

}  // namespace darner::plan
