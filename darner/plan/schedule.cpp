// SPDX-License-Identifier: MIT
#include "darner/plan/schedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace darner::plan {

namespace {

// Sweeps end early when nothing moves; this bounds them for large plans, in groups looked at.
constexpr uint64_t refinement_visits = 20'000'000;
constexpr int refinement_sweeps = 10;

Schedule earliest(const Dependence& d) {
    Schedule level(d.items(), 0);
    for (uint32_t item : d.order)
        for (uint32_t before : d.before[item]) level[item] = std::max(level[item], level[before] + 1);
    return level;
}

Schedule latest(const Dependence& d, uint32_t groups) {
    Schedule level(d.items(), groups - 1);
    for (size_t i = d.order.size(); i-- > 0;)
        for (uint32_t after : d.after[d.order[i]]) level[d.order[i]] = std::min(level[d.order[i]], level[after] - 1);
    return level;
}

// Moves one item at a time to the group where the sum over groups of (bytes alive)^8 is least: a smooth stand-in for the peak
// that also sees the groups next to it.
class Refiner {
public:
    Refiner(const Dependence& d, const std::vector<uint64_t>& bytes, Schedule schedule, uint32_t groups)
        : d_(d), bytes_(bytes), level_(std::move(schedule)), live_(groups, 0) {
        for (uint32_t b = 0; b < d_.touched_by.size(); ++b) add_life(b, none, 1);
        peak_ = std::max(1.0, *std::max_element(live_.begin(), live_.end()));
    }

    Schedule run() {
        for (int sweep = 0; sweep < refinement_sweeps && visits_ < refinement_visits; ++sweep) {
            bool moved = false;
            for (size_t i = 0; i < d_.items(); ++i) moved |= move(d_.order[sweep % 2 == 0 ? i : d_.items() - 1 - i]);
            if (!moved) break;
        }
        return std::move(level_);
    }

private:
    static constexpr uint32_t none = UINT32_MAX;

    struct Life {
        uint32_t first = none, last = 0;
        bool empty() const { return first == none; }
    };

    // Of a buffer, without one of the items that touch it.
    Life life(uint32_t buffer, uint32_t without) const {
        Life life;
        for (uint32_t item : d_.touched_by[buffer]) {
            if (item == without) continue;
            life.first = std::min(life.first, level_[item]);
            life.last = std::max(life.last, level_[item]);
        }
        return life;
    }

    void add_life(uint32_t buffer, uint32_t without, double sign) {
        const Life alive = life(buffer, without);
        if (alive.empty()) return;
        for (uint32_t l = alive.first; l <= alive.last; ++l) live_[l] += sign * double(bytes_[buffer]);
        visits_ += alive.last - alive.first;
    }

    double weight(double live) const {
        const double share = live / peak_, square = share * share, fourth = square * square;
        return fourth * fourth;
    }

    // Without the item, the buffers that it touches live elsewhere; at group l it stretches each from there to l. What it adds to
    // a group depends on the side of it that l lies on.
    bool move(uint32_t item) {
        uint32_t low = 0, high = static_cast<uint32_t>(live_.size()) - 1;
        for (uint32_t before : d_.before[item]) low = std::max(low, level_[before] + 1);
        for (uint32_t after : d_.after[item]) high = std::min(high, level_[after] - 1);
        if (low == high || d_.touches[item].empty()) return false;
        const size_t width = high - low + 1;
        visits_ += width * (d_.touches[item].size() + 1);
        std::vector<double> until(width, 0), from(width, 0);  // added where the item is later, where it is earlier
        double alone = 0;
        for (uint32_t buffer : d_.touches[item]) {
            add_life(buffer, none, -1);
            add_life(buffer, item, 1);
            const Life others = life(buffer, item);
            if (others.empty()) alone += double(bytes_[buffer]);
            for (uint32_t l = low; l <= high && !others.empty(); ++l) {
                if (others.last < l) until[l - low] += double(bytes_[buffer]);
                if (others.first > l) from[l - low] += double(bytes_[buffer]);
            }
        }
        std::vector<double> behind(width + 1, 0);  // cost of groups behind, the item being earlier
        for (size_t l = width; l-- > 0;) behind[l] = behind[l + 1] + weight(live_[low + l] + from[l]);
        double before = 0, least = 0;
        const uint32_t old = level_[item];
        size_t best = old - low;
        std::vector<double> cost(width);
        for (size_t l = 0; l < width; ++l) {
            cost[l] = before + weight(live_[low + l] + until[l] + from[l] + alone) + behind[l + 1];
            before += weight(live_[low + l] + until[l]);
        }
        least = cost[best] * (1 - 1e-9);  // not for rounding's sake
        for (size_t l = 0; l < width; ++l)
            if (cost[l] < least) {
                least = cost[l];
                best = l;
            }
        for (uint32_t buffer : d_.touches[item]) add_life(buffer, item, -1);
        level_[item] = low + static_cast<uint32_t>(best);
        for (uint32_t buffer : d_.touches[item]) add_life(buffer, none, 1);
        return level_[item] != old;
    }

    const Dependence& d_;
    const std::vector<uint64_t>& bytes_;
    Schedule level_;
    std::vector<double> live_;  // by group; whole numbers below 2^53
    double peak_ = 1;
    uint64_t visits_ = 0;
};

// One item a group. `rank`: lower ranks come first where they are ready; equal ranks leave the choice to memory.
Schedule one_by_one(const Dependence& d, const std::vector<uint64_t>& bytes, const Schedule& rank, const Schedule& tie) {
    std::vector<size_t> waiting(d.items()), left(d.touched_by.size());
    std::vector<bool> started(d.touched_by.size(), false);
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < d.items(); ++i) {
        waiting[i] = d.before[i].size();
        if (waiting[i] == 0) ready.push_back(i);
    }
    for (uint32_t b = 0; b < left.size(); ++b) left[b] = d.touched_by[b].size();
    const auto growth = [&](uint32_t item) {
        int64_t grown = 0;
        for (uint32_t b : d.touches[item]) grown += (started[b] ? 0 : int64_t(bytes[b])) - (left[b] == 1 ? int64_t(bytes[b]) : 0);
        return grown;
    };
    Schedule level(d.items(), 0);
    for (uint32_t next = 0; !ready.empty(); ++next) {
        const auto chosen = std::min_element(ready.begin(), ready.end(), [&](uint32_t x, uint32_t y) {
            return std::tuple(rank[x], growth(x), tie[x], x) < std::tuple(rank[y], growth(y), tie[y], y);
        });
        const uint32_t item = *chosen;
        ready.erase(chosen);
        level[item] = next;
        for (uint32_t b : d.touches[item]) {
            started[b] = true;
            --left[b];
        }
        for (uint32_t after : d.after[item])
            if (--waiting[after] == 0) ready.push_back(after);
    }
    return level;
}

}  // namespace

std::vector<Schedule> shortest_schedules(const Dependence& dependence, const std::vector<uint64_t>& bytes) {
    const Schedule early = earliest(dependence);
    if (early.empty()) return {early};
    const uint32_t groups = *std::max_element(early.begin(), early.end()) + 1;
    const Schedule late = latest(dependence, groups);
    return {early, Refiner(dependence, bytes, early, groups).run(), Refiner(dependence, bytes, late, groups).run()};
}

std::vector<Schedule> serial_schedules(const Dependence& dependence, const std::vector<uint64_t>& bytes,
                                       const Schedule& shortest) {
    const Schedule free(dependence.items(), 0);
    return {one_by_one(dependence, bytes, shortest, free), one_by_one(dependence, bytes, free, shortest)};
}

void apply(const Schedule& schedule, EntryPlan& plan) {
    for (size_t i = 0; i < plan.tasks.size(); ++i) {
        plan.tasks[i].level = schedule[i];
        plan.tasks[i].after.clear();  // the order holds it from now on; ids are stale
    }
    for (size_t i = 0; i < plan.copies.size(); ++i) plan.copies[i].level = schedule[plan.tasks.size() + i];
    const auto by_level = [](const auto& x, const auto& y) { return x.level < y.level; };
    std::stable_sort(plan.tasks.begin(), plan.tasks.end(), by_level);
    std::stable_sort(plan.copies.begin(), plan.copies.end(), by_level);
}

}  // namespace darner::plan
