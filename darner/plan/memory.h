// SPDX-License-Identifier: MIT
// Memory: segments of every kind, and the places of scratch buffers by liveness in barrier groups. Scratch is shared by the
// entries of a Program. The buffers of a bundle lie at fixed distances; the gaps between them are filled with zeros at load
// and nothing is ever placed there, but the memory of the members themselves is used by others while they are dead.
#pragma once

#include "darner/plan/packing.h"
#include "darner/plan/schedule.h"

namespace darner::plan {

uint64_t align_up(uint64_t value, uint64_t alignment);

// Lays memory of one kind out in segments below the device's size limit.
class SegmentAllocator {
public:
    SegmentAllocator(std::vector<Segment>& segments, SegmentKind kind, bool zeroed, const Caps& caps, uint32_t slots = 1)
        : segments_(segments), kind_(kind), zeroed_(zeroed), caps_(caps), slots_(slots) {}

    // Behind what was placed before; a new segment where the last is full.
    std::pair<SegmentId, uint64_t> append(uint64_t bytes);

private:
    std::vector<Segment>& segments_;
    SegmentKind kind_;
    bool zeroed_;
    const Caps& caps_;
    uint32_t slots_;
    SegmentId current_;
};

struct ScratchReport {
    uint64_t peak = 0, lower_bound = 0, sum = 0;
};

// A schedule of an entry with the places that its scratch buffers get.
struct Layout {
    Schedule schedule;
    std::vector<BufferId> packed;   // what is in no bundle
    std::vector<Spot> spots;        // of those; segments count scratch segments
    std::vector<uint64_t> heights;  // by scratch segment: what this entry uses of it
    ScratchReport report;
};

class Scratch {
public:
    // With `alias` off no two buffers of an entry share bytes.
    Scratch(std::vector<Segment>& segments, const Caps& caps, bool alias) : segments_(segments), caps_(caps), alias_(alias) {}

    // For every entry before the first is laid out. Bundles of equal shape in different entries share their place; others have
    // segments of their own, which only their entry uses.
    void place_bundles(EntryPlan& plan);

    // By buffer: what it takes when it is not placed yet or lies in a bundle; 0 for others.
    std::vector<uint64_t> sizes(const EntryPlan& plan) const;

    // `pool`: by buffer, where scratch is spread over several (spread.h); empty: all in one.
    Layout lay_out(const EntryPlan& plan, const Dependence& dependence, Schedule schedule,
                   const std::vector<uint32_t>& pool = {}) const;
    static constexpr uint32_t max_pools = 4;
    // The first pools are the segments with the entry's bundles, all but the last; the others are invalid here.
    std::vector<SegmentId> pools(const EntryPlan& plan) const;

    // Of all scratch segments, when each entry gets its layout.
    uint64_t needed_bytes(std::span<const Layout> layouts) const;
    // Makes the segments as large as the layouts of all entries need.
    void reserve(std::span<const Layout> layouts);
    // Gives the buffers their places, and tasks and copies their order.
    void place(EntryPlan& plan, const Layout& layout) const;

private:
    struct Shape {
        std::vector<uint64_t> offsets, sizes;
        uint64_t bytes = 0;
        bool operator==(const Shape&) const = default;
    };
    struct PlacedBundle {
        Shape shape;
        SegmentId segment;
        uint64_t offset = 0;
    };

    Shape shape_of(const EntryPlan& plan, const Bundle& bundle) const;
    const PlacedBundle& place_bundle(const Shape& shape, SegmentAllocator& allocator, std::vector<bool>& taken);
    uint32_t index_of(SegmentId segment) const;
    std::vector<uint32_t> own_segments(const EntryPlan& plan) const;  // with bundles of the entry; indices into scratch_

    std::vector<Segment>& segments_;
    const Caps& caps_;
    bool alias_;
    std::vector<PlacedBundle> placed_;
    // Those with bundles come first; then the first of each pool, the second of each, and so on, where they exist. Without
    // spreading there is the last pool alone, which all entries share.
    std::vector<SegmentId> scratch_;
    size_t bundle_segments_ = 0;
};

}  // namespace darner::plan
