// SPDX-License-Identifier: MIT
#include "darner/plan/memory.h"

#include "darner/base/check.h"

#include <algorithm>
#include <numeric>

namespace darner::plan {

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

namespace {

// Allocations round up to 16 bytes and start at the device's binding alignment.
uint64_t allocation_alignment(const Caps& caps) { return std::max<uint64_t>(16, caps.offset_alignment); }

uint64_t allocation_bytes(const Buffer& buffer, const Caps& caps) {
    return align_up(std::max<uint64_t>(buffer.bytes(), 4), allocation_alignment(caps));
}

}  // namespace

std::pair<SegmentId, uint64_t> SegmentAllocator::append(uint64_t bytes) {
    const uint64_t size = align_up(std::max<uint64_t>(bytes, 4), allocation_alignment(caps_));
    if (!current_.valid() || segments_[current_.value].bytes + size > caps_.max_segment_bytes) {
        current_ = SegmentId(segments_.size());
        segments_.push_back({kind_, 0, zeroed_, slots_, {}});
    }
    const uint64_t offset = segments_[current_.value].bytes;
    segments_[current_.value].bytes += size;
    return {current_, offset};
}

// --- bundles -----------------------------------------------------------------------------------------------------------

Scratch::Shape Scratch::shape_of(const EntryPlan& plan, const Bundle& bundle) const {
    Shape shape{bundle.offsets, {}, align_up(bundle.bytes, allocation_alignment(caps_))};
    for (BufferId member : bundle.members) shape.sizes.push_back(plan.buffers[member.value].words() * 4);
    return shape;
}

uint32_t Scratch::index_of(SegmentId segment) const {
    return static_cast<uint32_t>(std::find(scratch_.begin(), scratch_.end(), segment) - scratch_.begin());
}

const Scratch::PlacedBundle& Scratch::place_bundle(const Shape& shape, SegmentAllocator& allocator, std::vector<bool>& taken) {
    for (size_t i = 0; i < placed_.size(); ++i)
        if (!taken[i] && placed_[i].shape == shape) {
            taken[i] = true;
            return placed_[i];
        }
    const auto [segment, offset] = allocator.append(shape.bytes);
    if (index_of(segment) == scratch_.size()) scratch_.push_back(segment);
    bundle_segments_ = scratch_.size();
    for (size_t i = 0; i < shape.offsets.size(); ++i) {
        const uint64_t start = shape.offsets[i] + shape.sizes[i];
        const uint64_t end = i + 1 < shape.offsets.size() ? shape.offsets[i + 1] : shape.bytes;
        if (start == end) continue;
        segments_[segment.value].kept_zero.push_back({offset + start, end - start});
    }
    taken.push_back(true);
    placed_.push_back({shape, segment, offset});
    return placed_.back();
}

void Scratch::place_bundles(EntryPlan& plan) {
    SegmentAllocator allocator(segments_, SegmentKind::scratch, true, caps_);
    std::vector<bool> taken(placed_.size(), false);
    for (const Bundle& bundle : plan.bundles) {
        const PlacedBundle& place = place_bundle(shape_of(plan, bundle), allocator, taken);
        for (size_t i = 0; i < bundle.members.size(); ++i) {
            Buffer& buffer = plan.buffers[bundle.members[i].value];
            buffer.segment = place.segment;
            buffer.offset = place.offset + bundle.offsets[i];
        }
    }
}

// --- layout ------------------------------------------------------------------------------------------------------------

std::vector<uint64_t> Scratch::sizes(const EntryPlan& plan) const {
    std::vector<uint64_t> sizes;
    for (const Buffer& buffer : plan.buffers) sizes.push_back(buffer.placed ? 0 : allocation_bytes(buffer, caps_));
    for (const Bundle& bundle : plan.bundles)
        for (BufferId member : bundle.members) sizes[member.value] = plan.buffers[member.value].words() * 4;
    return sizes;
}

namespace {

// Memory of bundles between two gaps, in whole units of the alignment: what is larger does not fit. Nobody but its members uses
// what remains behind them.
struct Stretch {
    uint64_t bytes = 0, remainder = 0;
    bool open = false;  // to what lies before or behind the bundle
    std::vector<BufferId> members;
};

struct BundleMemory {
    std::vector<Stretch> stretches;
    uint64_t bytes = 0;
};

// The most bytes alive in a group, with what gaps cost: for every length of a stretch, what is larger shares no bytes with
// stretches up to that length.
uint64_t lower_bound_of(const BundleMemory& bundles, std::span<const Block> blocks, const std::vector<Block>& life_of) {
    std::vector<uint64_t> lengths = {0};
    for (const Stretch& stretch : bundles.stretches) lengths.push_back(stretch.bytes);
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    uint64_t bound = 0;
    for (uint64_t length : lengths) {
        std::vector<Block> larger;
        for (const Block& block : blocks)
            if (block.bytes > length) larger.push_back(block);
        uint64_t closed = bundles.bytes;  // to what is larger
        for (const Stretch& stretch : bundles.stretches) {
            if (stretch.bytes <= length && !stretch.open) continue;
            closed -= stretch.bytes;
            for (BufferId member : stretch.members) larger.push_back(life_of[member.value]);
            larger.back().bytes -= stretch.remainder;
        }
        bound = std::max(bound, closed + most_live(larger));
    }
    return bound;
}

BundleMemory memory_of_bundles(const EntryPlan& plan, uint64_t alignment) {
    BundleMemory out;
    for (const Bundle& bundle : plan.bundles) {
        const uint64_t bytes = align_up(bundle.bytes, alignment);
        out.bytes += bytes;
        Stretch stretch;
        stretch.open = plan.buffers[bundle.members[0].value].offset != 0;
        uint64_t at = 0;  // from the bundle's start
        const auto close = [&](uint64_t next) {
            stretch.open |= at == bytes;
            stretch.remainder = stretch.bytes % alignment;
            stretch.bytes -= stretch.remainder;
            out.stretches.push_back(std::move(stretch));
            stretch = {};
            at = next;
        };
        for (size_t i = 0; i < bundle.members.size(); ++i) {
            if (at != bundle.offsets[i]) close(bundle.offsets[i]);
            const uint64_t size = plan.buffers[bundle.members[i].value].words() * 4;
            stretch.bytes += size;
            stretch.members.push_back(bundle.members[i]);
            at += size;
        }
        close(bytes);
    }
    return out;
}

// Packs blocks, all together or by pool, and collects where they come to lie.
class Placer {
public:
    Placer(std::span<const Block> blocks, uint64_t limit, Layout& out) : blocks_(blocks), limit_(limit), out_(out) {
        out.spots.resize(blocks.size());
    }

    // `own`: the segments of `fixed`, in its counting. What does not fit there goes to `general`, then to every
    // `Scratch::max_pools`-th from there.
    void place(const std::vector<size_t>& chosen, std::span<const FixedBlock> fixed, const std::vector<uint32_t>& own,
               size_t general, bool spread) {
        std::vector<Block> blocks;
        for (size_t i : chosen) blocks.push_back(blocks_[i]);
        // Segments that no other entry can use grow only where that saves something; a pool is one segment if it can be.
        Packing packing = pack(blocks, fixed, limit_, spread);
        if (!fixed.empty() && !spread)
            if (Packing grown = pack(blocks, fixed, limit_, true); grown.total() < packing.total()) packing = std::move(grown);
        const auto segment_of = [&](size_t s) {
            return s < own.size() ? own[s] : general + (s - own.size()) * Scratch::max_pools;
        };
        for (size_t s = 0; s < packing.heights.size(); ++s) {
            out_.heights.resize(std::max(out_.heights.size(), segment_of(s) + 1));
            out_.heights[segment_of(s)] = packing.heights[s];
        }
        for (size_t i = 0; i < chosen.size(); ++i)
            out_.spots[chosen[i]] = {static_cast<uint32_t>(segment_of(packing.spots[i].segment)), packing.spots[i].offset};
    }

private:
    std::span<const Block> blocks_;
    uint64_t limit_;
    Layout& out_;
};

}  // namespace

std::vector<uint32_t> Scratch::own_segments(const EntryPlan& plan) const {
    std::vector<uint32_t> own;
    for (const Bundle& bundle : plan.bundles) own.push_back(index_of(plan.buffers[bundle.members[0].value].segment));
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    return own;
}

std::vector<SegmentId> Scratch::pools(const EntryPlan& plan) const {
    std::vector<SegmentId> pools;
    for (uint32_t index : own_segments(plan))
        if (pools.size() + 1 < max_pools) pools.push_back(scratch_[index]);
    pools.resize(max_pools);
    return pools;
}

Layout Scratch::lay_out(const EntryPlan& plan, const Dependence& dependence, Schedule schedule,
                        const std::vector<uint32_t>& pool) const {
    Layout out;
    const uint32_t end = schedule.empty() ? 0 : *std::max_element(schedule.begin(), schedule.end());
    const std::vector<uint64_t> bytes = sizes(plan);
    // Segments with bundles of the entry count first; those of other entries are left alone.
    const std::vector<uint32_t> own = own_segments(plan);
    const auto own_index = [&](SegmentId segment) {
        return static_cast<uint32_t>(std::find(own.begin(), own.end(), index_of(segment)) - own.begin());
    };
    std::vector<Block> blocks, life_of(plan.buffers.size());
    std::vector<FixedBlock> fixed;
    const BundleMemory bundles = memory_of_bundles(plan, allocation_alignment(caps_));
    out.report.sum = bundles.bytes;
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
        const std::vector<uint32_t>& items = dependence.touched_by[b];
        if (items.empty()) continue;
        Block block{bytes[b], alias_ ? end : 0, alias_ ? 0 : end};
        for (uint32_t item : items) {
            block.first = std::min(block.first, schedule[item]);
            block.last = std::max(block.last, schedule[item]);
        }
        life_of[b] = block;
        const Buffer& buffer = plan.buffers[b];
        if (buffer.segment.valid()) {
            fixed.push_back({block, {own_index(buffer.segment), buffer.offset}});
        } else {
            blocks.push_back(block);
            out.packed.push_back(BufferId(b));
            out.report.sum += block.bytes;
        }
    }
    for (uint32_t s = 0; s < own.size(); ++s)
        for (const ByteRange& gap : segments_[scratch_[own[s]].value].kept_zero)
            fixed.push_back({{gap.bytes, 0, end}, {s, gap.offset}});
    out.report.lower_bound = lower_bound_of(bundles, blocks, life_of);
    out.schedule = std::move(schedule);
    out.heights.resize(bundle_segments_);
    for (const FixedBlock& f : fixed)
        out.heights[own[f.spot.segment]] = std::max(out.heights[own[f.spot.segment]], f.spot.offset + f.block.bytes);

    Placer placer(blocks, caps_.max_segment_bytes, out);
    std::vector<size_t> all(blocks.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const auto general = [&](uint32_t p) { return bundle_segments_ + p; };
    if (pool.empty()) placer.place(all, fixed, own, general(max_pools - 1), false);  // the last is no entry's bundle pool
    for (uint32_t p = 0; p < max_pools && !pool.empty(); ++p) {
        std::vector<size_t> chosen;
        for (size_t i : all)
            if (pool[out.packed[i].value] == p) chosen.push_back(i);
        std::vector<FixedBlock> in_pool;
        for (const FixedBlock& f : fixed)
            if (f.spot.segment == p && p + 1 < max_pools) in_pool.push_back({f.block, {0, f.spot.offset}});
        std::vector<uint32_t> first;
        if (!in_pool.empty()) first = {own[p]};
        placer.place(chosen, in_pool, first, general(p), true);
    }
    out.report.peak = std::accumulate(out.heights.begin(), out.heights.end(), uint64_t{0});
    return out;
}

uint64_t Scratch::needed_bytes(std::span<const Layout> layouts) const {
    std::vector<uint64_t> heights;
    for (SegmentId segment : scratch_) heights.push_back(segment.valid() ? segments_[segment.value].bytes : 0);
    for (const Layout& layout : layouts) {
        heights.resize(std::max(heights.size(), layout.heights.size()));
        for (size_t i = 0; i < layout.heights.size(); ++i) heights[i] = std::max(heights[i], layout.heights[i]);
    }
    return std::accumulate(heights.begin(), heights.end(), uint64_t{0});
}

void Scratch::reserve(std::span<const Layout> layouts) {
    for (const Layout& layout : layouts)
        for (size_t i = 0; i < layout.heights.size(); ++i) {
            if (layout.heights[i] == 0) continue;
            scratch_.resize(std::max(scratch_.size(), i + 1));
            if (!scratch_[i].valid()) {
                scratch_[i] = SegmentId(segments_.size());
                segments_.push_back({SegmentKind::scratch, 0, false, 1, {}});
            }
            Segment& segment = segments_[scratch_[i].value];
            segment.bytes = std::max(segment.bytes, layout.heights[i]);
        }
}

void Scratch::place(EntryPlan& plan, const Layout& layout) const {
    for (size_t i = 0; i < layout.packed.size(); ++i) {
        Buffer& buffer = plan.buffers[layout.packed[i].value];
        buffer.segment = scratch_[layout.spots[i].segment];
        buffer.offset = layout.spots[i].offset;
    }
    for (Buffer& buffer : plan.buffers) buffer.placed |= buffer.segment.valid();
    apply(layout.schedule, plan);
}

}  // namespace darner::plan
