// SPDX-License-Identifier: MIT
// Random task graphs through schedules, memory and hazards. What comes out is judged by plain means: the bytes of memory
// remember who wrote them, every pair of items in a barrier group is compared, and every barrier must have its reason.
#include "darner/plan/memory.h"

#include "darner/plan/hazards.h"
#include "darner/plan/spread.h"
#include "darner/plan/test_plans.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace darner::plan {
namespace {

constexpr uint64_t seeds = 300;

Caps caps_for(uint64_t seed) {
    Caps caps = interpreter_caps();
    if (seed % 3 == 0) caps.max_segment_bytes = 512 << 10;
    caps.offset_alignment = seed % 2 == 0 ? 256 : 16;
    return caps;
}

bool conflict(const BindingWindow& x, const BindingWindow& y) {
    return (x.access != kir::Access::read || y.access != kir::Access::read) && x.segment == y.segment &&
           x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

std::vector<BindingWindow> windows_of(const Item& item) {
    if (const auto* dispatch = std::get_if<Dispatch>(&item)) return dispatch->bindings;
    if (const auto* copy = std::get_if<Copy>(&item)) return {copy->source, copy->target};
    return {};
}

bool conflict(const Item& x, const Item& y) {
    for (const BindingWindow& a : windows_of(x))
        for (const BindingWindow& b : windows_of(y))
            if (conflict(a, b)) return true;
    return false;
}

// "" when no two items of a group conflict and each barrier stands before an item that conflicts with the group before.
std::string fault_of_barriers(const std::vector<Item>& items) {
    std::vector<const Item*> group;
    for (size_t i = 0; i < items.size(); ++i) {
        if (std::holds_alternative<Barrier>(items[i])) {
            if (i + 1 == items.size()) return "a barrier at the end";
            const bool needed =
                std::any_of(group.begin(), group.end(), [&](const Item* x) { return conflict(*x, items[i + 1]); });
            if (!needed) return "item " + std::to_string(i) + " is a barrier that nothing needs";
            group.clear();
            continue;
        }
        for (const Item* x : group)
            if (conflict(*x, items[i])) return "a barrier is missing before item " + std::to_string(i);
        group.push_back(&items[i]);
    }
    return "";
}

// Memory in which every four bytes know the buffer that was written there last.
class TaggedMemory {
public:
    static constexpr uint32_t zeros = 0;
    explicit TaggedMemory(const std::vector<Segment>& segments) {
        for (const Segment& segment : segments) words_.emplace_back(segment.bytes / 4, zeros);
    }
    void write(SegmentId segment, uint64_t offset, uint64_t bytes, uint32_t tag) {
        for (uint64_t w = offset / 4; w < (offset + bytes + 3) / 4; ++w) words_[segment.value][w] = tag;
    }
    bool holds(SegmentId segment, uint64_t offset, uint64_t bytes, uint32_t tag) const {
        for (uint64_t w = offset / 4; w < (offset + bytes + 3) / 4; ++w)
            if (words_[segment.value][w] != tag) return false;
        return true;
    }

private:
    std::vector<std::vector<uint32_t>> words_;
};

// Runs a placed plan in its order. Every read of scratch must find what the buffer's writer left, gaps of bundles zeros, and
// state its value from before the step. `step`: tags of different runs differ.
std::string fault_of_run(const EntryPlan& plan, TaggedMemory& memory, const std::vector<Segment>& segments, uint32_t step) {
    const auto tag = [&](BufferId b) { return 1 + b.value + step * 100000; };
    const auto write = [&](BufferId b) {
        const Buffer& buffer = plan.buffers[b.value];
        memory.write(buffer.segment, buffer.offset, buffer.bytes(), tag(b));
    };
    const auto fault_of_read = [&](BufferId b, const std::string& who) -> std::string {
        const Buffer& buffer = plan.buffers[b.value];
        const bool is_old = buffer.kind == SegmentKind::state;  // tagged below, before the step
        if (memory.holds(buffer.segment, buffer.offset, buffer.bytes(), is_old ? tag(b) + 50000 : tag(b))) return "";
        return who + " reads " + buffer.label + ", which holds something else";
    };
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& buffer = plan.buffers[b];
        if (buffer.kind == SegmentKind::state)
            memory.write(buffer.segment, buffer.offset, buffer.bytes(), tag(BufferId(b)) + 50000);
        else if (buffer.kind == SegmentKind::io)
            write(BufferId(b));
    }
    size_t copies = 0;
    std::string fault;
    const auto copy_below = [&](uint32_t level) {
        for (; fault.empty() && copies < plan.copies.size() && plan.copies[copies].level < level; ++copies) {
            fault = fault_of_read(plan.copies[copies].source, "a copy");
            write(plan.copies[copies].target);
        }
    };
    for (const Task& task : plan.tasks) {
        copy_below(task.level);
        for (const Use& use : task.uses)
            for (BufferId b : use.covered)
                if (fault.empty() && use.access != kir::Access::write) fault = fault_of_read(b, task.label);
        for (const Use& use : task.uses)
            for (BufferId b : use.covered)
                if (use.access != kir::Access::read) write(b);
        if (!fault.empty()) return fault;
    }
    copy_below(UINT32_MAX);
    for (size_t s = 0; s < segments.size(); ++s)
        for (const ByteRange& gap : segments[s].kept_zero)
            if (!memory.holds(SegmentId(s), gap.offset, gap.bytes, TaggedMemory::zeros)) return "a gap that is not zero any more";
    return fault;
}

// Levels of everything that touches a scratch buffer, straight from the placed plan.
std::map<uint32_t, std::pair<uint32_t, uint32_t>> lives_of(const EntryPlan& plan) {
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> lives;
    const auto touch = [&](BufferId b, uint32_t level) {
        if (plan.buffers[b.value].kind != SegmentKind::scratch) return;
        auto& [first, last] = lives.try_emplace(b.value, level, level).first->second;
        first = std::min(first, level);
        last = std::max(last, level);
    };
    for (const Task& task : plan.tasks)
        for (const Use& use : task.uses)
            for (BufferId b : use.covered) touch(b, task.level);
    for (const CopyTask& copy : plan.copies) touch(copy.source, copy.level);
    return lives;
}

std::string fault_of_places(const EntryPlan& plan) {
    const auto lives = lives_of(plan);
    for (const auto& [b, life] : lives)
        for (const auto& [c, other] : lives) {
            const Buffer &x = plan.buffers[b], &y = plan.buffers[c];
            const bool together = life.first <= other.second && other.first <= life.second;
            if (b < c && together && x.segment == y.segment && x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes())
                return x.label + " and " + y.label + " share bytes in a group";
        }
    return "";
}

// Two entries that share their scratch; the second is laid out around the bundles of the first.
class TwoEntries {
public:
    TwoEntries(uint64_t seed, const Caps& caps, bool spread = false)
        : caps_(caps), scratch_(segments_, caps_, true), spread_(spread) {
        for (const size_t tasks : {5 + seed % 40, 3 + seed % 7}) {
            RandomPlan made = RandomPlanMaker(seed * 7 + tasks).make(tasks);
            // At times the second entry is the first but for a bundle, and shares the place of the other one.
            if (!plans.empty() && seed % 3 == 0) made = RandomPlanMaker(seed * 7 + 5 + seed % 40).make(5 + seed % 40);
            if (!plans.empty() && seed % 3 == 0 && !made.plan.bundles.empty()) dissolve_first_bundle(made.plan);
            for (Buffer& buffer : made.plan.buffers)
                if (buffer.placed) buffer.segment = SegmentId(buffer.segment.value + segments_.size());
            segments_.insert(segments_.end(), made.segments.begin(), made.segments.end());
            plans.push_back(std::move(made.plan));
        }
        for (EntryPlan& plan : plans) scratch_.place_bundles(plan);
    }

    // By entry and schedule; the first is the earliest.
    std::vector<Layout> layouts(size_t entry, bool serial) const {
        const EntryPlan& plan = plans[entry];
        const Dependence dependence = dependence_of(plan);
        std::vector<Schedule> schedules = shortest_schedules(dependence, scratch_.sizes(plan));
        if (serial) schedules = serial_schedules(dependence, scratch_.sizes(plan), schedules.back());
        std::vector<Layout> layouts;
        for (Schedule& schedule : schedules) {
            std::vector<uint32_t> pool;
            if (spread_) pool = spread(plan, dependence, schedule, scratch_.pools(plan), scratch_.sizes(plan));
            layouts.push_back(scratch_.lay_out(plan, dependence, std::move(schedule), pool));
        }
        return layouts;
    }

    void place(const std::vector<Layout>& layouts) {
        scratch_.reserve(layouts);
        for (size_t e = 0; e < plans.size(); ++e) scratch_.place(plans[e], layouts[e]);
    }

    std::vector<EntryPlan> plans;
    const std::vector<Segment>& segments() const { return segments_; }

private:
    Caps caps_;
    std::vector<Segment> segments_;
    Scratch scratch_;
    bool spread_;
};

TEST(PlannedMemory, RandomPlansKeepEveryValueUntilItIsRead) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE(seed);
        const Caps caps = caps_for(seed);
        const bool spread = seed % 4 == 1;
        const TwoEntries planned(seed, caps, spread);
        const std::vector<Layout> first = planned.layouts(0, seed % 5 == 0), second = planned.layouts(1, seed % 5 == 0);
        for (size_t choice = 0; choice < first.size(); ++choice) {
            TwoEntries entries(seed, caps, spread);
            entries.place({first[choice], second[choice]});
            TaggedMemory memory(entries.segments());
            for (const Segment& segment : entries.segments()) EXPECT_LE(segment.bytes, caps.max_segment_bytes);
            uint32_t step = 0;
            for (const size_t e : {0, 1, 0}) {
                ASSERT_EQ(fault_of_places(entries.plans[e]), "");
                ASSERT_EQ(fault_of_run(entries.plans[e], memory, entries.segments(), step++), "");
                ASSERT_EQ(fault_of_barriers(emit_items(entries.plans[e])), "");
            }
        }
    }
}

TEST(PlannedMemory, SchedulesAreNeitherLongerNorLarger) {
    uint64_t earliest_bytes = 0, best_bytes = 0;
    double ratios = 0;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE(seed);
        TwoEntries entries(seed, caps_for(2));  // as far apart as the bundles of test_plans.h have their members
        const std::vector<Layout> layouts = entries.layouts(0, false);
        const auto groups = [](const Layout& l) { return *std::max_element(l.schedule.begin(), l.schedule.end()); };
        uint64_t best = layouts[0].report.peak;
        for (const Layout& layout : layouts) {
            EXPECT_LE(groups(layout), groups(layouts[0]));
            best = std::min(best, layout.report.peak);
        }
        earliest_bytes += layouts[0].report.peak;
        best_bytes += best;
        for (const Layout& layout : layouts) EXPECT_GE(layout.report.peak, layout.report.lower_bound);
        // The bound does not know how many blocks fit side by side between the gaps of bundles.
        const bool gaps = !entries.plans[0].bundles.empty();
        for (const Layout& layout : layouts)
            if (layout.report.peak == best) {
                EXPECT_LE(double(best), (gaps ? 1.3 : 1.1) * double(layout.report.lower_bound));
                ratios += double(best) / double(layout.report.lower_bound);
                break;
            }
        // Longer schedules pay where memory is scarce.
        for (const Layout& layout : entries.layouts(0, true)) EXPECT_GE(groups(layout), groups(layouts[0]));
    }
    EXPECT_LT(best_bytes, earliest_bytes * 9 / 10);
    EXPECT_LT(ratios / seeds, 1.02);
}

// Three producers with one consumer each: as early as possible all three values are alive at once.
TEST(PlannedMemory, ASlackProducerWaitsUntilItsValueIsWanted) {
    EntryPlan plan;
    const auto buffer = [&](uint64_t elements) {
        Buffer b;
        b.elements = elements;
        plan.buffers.push_back(b);
        return BufferId(plan.buffers.size() - 1);
    };
    const auto task = [&](std::vector<BufferId> reads, BufferId written) {
        Task t;
        for (BufferId b : reads) t.uses.push_back({b, b, kir::Access::read, {b}});
        t.uses.push_back({written, written, kir::Access::write, {written}});
        plan.tasks.push_back(t);
    };
    BufferId sum = buffer(64);
    task({}, sum);
    for (int i = 0; i < 3; ++i) {
        const BufferId large = buffer(64 * 1024), small = buffer(64), next = buffer(64);
        task({}, large);
        task({large, sum}, small);
        task({small}, next);
        sum = next;
    }
    std::vector<Segment> segments;
    const Caps caps = interpreter_caps();
    const Scratch scratch(segments, caps, true);
    const Dependence dependence = dependence_of(plan);
    std::vector<uint64_t> peaks;
    for (Schedule& schedule : shortest_schedules(dependence, scratch.sizes(plan)))
        peaks.push_back(scratch.lay_out(plan, dependence, std::move(schedule)).report.peak);
    EXPECT_GT(peaks[0], 3u * 256 * 1024);
    EXPECT_LT(*std::min_element(peaks.begin(), peaks.end()), 2u * 256 * 1024);
}

TEST(Hazards, BytesDecideAndReadsDoNotConflict) {
    using enum kir::Access;
    Hazards hazards;
    hazards.add({SegmentId(0u), 256, 256, read});
    hazards.add({SegmentId(0u), 1024, 256, write});
    hazards.add({SegmentId(0u), 512, 100, read});
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 0, 1024, read}));
    EXPECT_TRUE(hazards.conflicts({SegmentId(0u), 0, 257, write})) << "write after read";
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 0, 256, write}));
    EXPECT_TRUE(hazards.conflicts({SegmentId(0u), 608, 4, inout}));
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 612, 412, inout}));
    EXPECT_TRUE(hazards.conflicts({SegmentId(0u), 1276, 4, read})) << "read after write";
    EXPECT_TRUE(hazards.conflicts({SegmentId(0u), 1000, 1000, write})) << "write after write";
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 1280, 4, read}));
    EXPECT_FALSE(hazards.conflicts({SegmentId(1u), 0, 4096, write}));
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 1100, 0, write})) << "nothing is touched";
    hazards.clear();
    EXPECT_FALSE(hazards.conflicts({SegmentId(0u), 0, 4096, write}));
}

// Against a comparison of every pair.
TEST(Hazards, RandomWindowsAgreeWithEveryPair) {
    std::mt19937_64 random(4);
    for (int round = 0; round < 200; ++round) {
        Hazards hazards;
        std::vector<BindingWindow> all;
        for (int i = 0; i < 40; ++i) {
            const BindingWindow window{SegmentId(random() % 2), random() % 64, random() % 8,
                                       static_cast<kir::Access>(random() % 3)};
            const bool want = window.bytes != 0 && std::any_of(all.begin(), all.end(), [&](const BindingWindow& other) {
                                  return other.bytes != 0 && conflict(window, other);
                              });
            ASSERT_EQ(hazards.conflicts(window), want);
            hazards.add(window);
            all.push_back(window);
        }
    }
}

}  // namespace
}  // namespace darner::plan
