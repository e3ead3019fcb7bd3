// SPDX-License-Identifier: MIT
#include "darner/plan/spread.h"

#include "darner/plan/packing.h"
#include "darner/program/buffer_barriers.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

namespace {

// The search ends when this many items and groups have been looked at.
constexpr uint64_t search_visits = 30'000'000;
constexpr int search_sweeps = 4;
// A dispatch that reads and writes one buffer needs a kernel of its own; a barrier is worse.
constexpr double barrier_cost = 4, mixed_cost = 1;
// Pools are full at different times, so they take more than one would: up to this share of it nobody minds.
constexpr double free_growth = 1.25;

class Spreader {
public:
    Spreader(const EntryPlan& plan, const Dependence& dependence, const Schedule& schedule, const std::vector<SegmentId>& pools,
             const std::vector<uint64_t>& bytes)
        : plan_(plan), pools_(static_cast<uint32_t>(pools.size())), segments_(pools), pool_(plan.buffers.size(), 0) {
        std::vector<uint32_t> order(schedule.size());
        std::iota(order.begin(), order.end(), 0u);
        // As emit_items() has them: tasks before the copies of their group.
        std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return schedule[x] < schedule[y]; });
        touched_at_.resize(plan.buffers.size());
        for (uint32_t item : order) {
            for (uint32_t b : dependence.touches[item]) touched_at_[b].push_back(items_.size());
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
        start();
        find_lives(bytes);
        waits_.resize(items_.size(), false);
        barriers_ = simulate(0, items_.size(), true);
        for (size_t i = 0; i < items_.size(); ++i) mixed_ += is_mixed(i);
    }

    std::vector<uint32_t> run() {
        for (int sweep = 0; sweep < search_sweeps; ++sweep) {
            bool moved = false;
            for (uint32_t b = 0; b < pool_.size() && visits_ < search_visits; ++b)
                if (movable(b)) moved |= move(b);
            if (!moved) break;
        }
        return std::move(pool_);
    }

private:
    struct Item {
        uint32_t level = 0;
        std::vector<BufferTracker::Use> uses;  // of buffers of the plan
    };

    bool movable(uint32_t b) const { return !touched_at_[b].empty() && !plan_.buffers[b].segment.valid(); }

    // Pools come first, then segments.
    uint32_t place(uint32_t b) const {
        const Buffer& buffer = plan_.buffers[b];
        if (!buffer.segment.valid()) return pool_[b];
        const auto at = std::find(segments_.begin(), segments_.end(), buffer.segment);
        return at != segments_.end() ? static_cast<uint32_t>(at - segments_.begin()) : pools_ + buffer.segment.value;
    }

    void find_lives(const std::vector<uint64_t>& bytes) {
        const size_t groups = items_.empty() ? 1 : size_t{items_.back().level} + 1;
        live_.assign(pools_, std::vector<uint64_t>(groups, 0));
        lives_.resize(bytes.size());
        std::vector<Block> blocks;
        for (uint32_t b = 0; b < bytes.size(); ++b) {
            if (touched_at_[b].empty()) continue;
            lives_[b] = {bytes[b], items_[touched_at_[b].front()].level, items_[touched_at_[b].back()].level};
            blocks.push_back(lives_[b]);
            if (place(b) < pools_) add_life(b, 1);
        }
        bound_ = double(std::max<uint64_t>(1, most_live(blocks)));
    }

    void add_life(uint32_t b, int sign) {
        for (uint32_t l = lives_[b].first; l <= lives_[b].last; ++l) live_[place(b)][l] += uint64_t(sign) * lives_[b].bytes;
        visits_ += lives_[b].last - lives_[b].first + 1;
    }

    // The bytes that the pools take together at least, as a share of what one takes.
    double growth() {
        uint64_t total = 0;
        for (const std::vector<uint64_t>& live : live_) total += *std::max_element(live.begin(), live.end());
        visits_ += live_.size() * live_[0].size() / 8;
        return double(total) / bound_;
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
                if (place(b) < pools_ && (placed[b] || !movable(b))) ++reads[place(b)];
            for (const auto& [b, writes] : item.uses) {
                if (!movable(b) || placed[b]) continue;
                const auto badness = [&](uint32_t pool) { return 2 * reads[pool] + in_group[pool]; };
                for (uint32_t pool = 1; pool < pools_; ++pool)
                    if (badness(pool) < badness(pool_[b])) pool_[b] = pool;
                placed[b] = true;
            }
            for (const auto& [b, writes] : item.uses)
                if (place(b) < pools_) ++in_group[place(b)];
        }
    }

    // How many more barriers there are than `waits_` knows of, when the items first..last have changed. A barrier leaves nothing
    // behind that a later one depends on, so it starts at the one before and ends at the next that both have.
    int64_t simulate(size_t first, size_t last, bool keep) {
        size_t item = first > 0 ? first - 1 : 0;
        while (item > 0 && !waits_[item]) --item;
        BufferTracker tracker;
        int64_t more = 0;
        for (const size_t begin = item; item < items_.size(); ++item) {
            uses_ = items_[item].uses;
            for (auto& [buffer, writes] : uses_) buffer = place(buffer);
            const bool waits = tracker.waits(uses_);
            ++visits_;
            if (item == begin) continue;  // a barrier, or the start of the entry, whatever has changed behind it
            if (item > last && waits && waits_[item]) break;
            more += int64_t{waits} - int64_t{waits_[item]};
            if (keep) waits_[item] = waits;
        }
        return more;
    }

    bool is_mixed(size_t item) const {
        const std::vector<BufferTracker::Use>& uses = items_[item].uses;
        for (const auto& x : uses)
            for (const auto& y : uses)
                if (!x.writes && y.writes && place(x.buffer) == place(y.buffer)) return true;
        return false;
    }

    int64_t mixed_with(uint32_t b) const {
        return std::count_if(touched_at_[b].begin(), touched_at_[b].end(), [&](size_t item) { return is_mixed(item); });
    }

    void put(uint32_t b, uint32_t pool) {
        add_life(b, -1);
        pool_[b] = pool;
        add_life(b, 1);
    }

    // To the pool where the plan costs least; false when that is where it is.
    bool move(uint32_t b) {
        const uint32_t old = pool_[b];
        const int64_t mixed = mixed_ - mixed_with(b);
        const auto cost = [&](int64_t barriers) {
            const double too_much = std::max(0.0, growth() - free_growth) * 4 * double(items_.size());
            return barrier_cost * (double(barriers) + too_much) + mixed_cost * double(mixed + mixed_with(b));
        };
        double least = cost(barriers_);
        uint32_t best = old;
        for (uint32_t pool = 0; pool < pools_; ++pool) {
            if (pool == old) continue;
            put(b, pool);
            const double changed = cost(barriers_ + simulate(touched_at_[b].front(), touched_at_[b].back(), false));
            if (changed >= least) continue;
            least = changed;
            best = pool;
        }
        put(b, best);
        barriers_ += simulate(touched_at_[b].front(), touched_at_[b].back(), true);
        mixed_ = mixed + mixed_with(b);
        return best != old;
    }

    const EntryPlan& plan_;
    uint32_t pools_;
    const std::vector<SegmentId>& segments_;       // of the pools
    std::vector<Item> items_;                      // in order
    std::vector<std::vector<size_t>> touched_at_;  // by buffer: items, ascending
    std::vector<uint32_t> pool_;                   // by buffer
    std::vector<Block> lives_;                     // by buffer
    std::vector<std::vector<uint64_t>> live_;      // by pool and group: bytes
    std::vector<bool> waits_;                      // by item: a barrier stands before it
    std::vector<BufferTracker::Use> uses_;
    int64_t barriers_ = 0, mixed_ = 0;
    double bound_ = 1;
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

std::vector<uint32_t> spread(const EntryPlan& plan, const Dependence& dependence, const Schedule& schedule,
                             const std::vector<SegmentId>& pools, const std::vector<uint64_t>& bytes) {
    return Spreader(plan, dependence, schedule, pools, bytes).run();
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
