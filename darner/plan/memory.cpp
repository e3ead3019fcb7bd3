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
    std::vector<BufferId> members;
};

struct BundleMemory {
    std::vector<Stretch> stretches;
    std::vector<FixedBlock> gaps;
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
            if (stretch.bytes <= length) continue;
            closed -= stretch.bytes;
            for (BufferId member : stretch.members) larger.push_back(life_of[member.value]);
            larger.back().bytes -= stretch.remainder;
        }
        bound = std::max(bound, closed + most_live(larger));
    }
    return bound;
}

// `segment_of`: the index of a segment for spots.
template <class SegmentOf>
BundleMemory memory_of_bundles(const EntryPlan& plan, uint64_t alignment, uint32_t end, const SegmentOf& segment_of) {
    BundleMemory out;
    for (const Bundle& bundle : plan.bundles) {
        const Buffer& head = plan.buffers[bundle.members[0].value];
        const uint64_t bytes = align_up(bundle.bytes, alignment);
        out.bytes += bytes;
        out.stretches.emplace_back();
        uint64_t at = 0;  // from the bundle's start
        const auto gap_until = [&](uint64_t offset) {
            if (offset == at) return;
            out.gaps.push_back({{offset - at, 0, end}, {segment_of(head.segment), head.offset + at}});
            if (offset != bytes) out.stretches.emplace_back();
        };
        for (size_t i = 0; i < bundle.members.size(); ++i) {
            gap_until(bundle.offsets[i]);
            const uint64_t size = plan.buffers[bundle.members[i].value].words() * 4;
            out.stretches.back().bytes += size;
            out.stretches.back().members.push_back(bundle.members[i]);
            at = bundle.offsets[i] + size;
        }
        gap_until(bytes);
    }
    for (Stretch& stretch : out.stretches) {
        stretch.remainder = stretch.bytes % alignment;
        stretch.bytes -= stretch.remainder;
    }
    return out;
}

}  // namespace

uint32_t Scratch::pools_for(const EntryPlan& plan) const {
    std::vector<SegmentId> segments;
    for (const Bundle& bundle : plan.bundles) segments.push_back(plan.buffers[bundle.members[0].value].segment);
    std::sort(segments.begin(), segments.end());
    segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
    return max_pools - std::min<uint32_t>(max_pools - 1, static_cast<uint32_t>(segments.size()));
}

Layout Scratch::lay_out(const EntryPlan& plan, const Dependence& dependence, Schedule schedule,
                        const std::vector<uint32_t>& pool) const {
    Layout out;
    const uint32_t end = schedule.empty() ? 0 : *std::max_element(schedule.begin(), schedule.end());
    const std::vector<uint64_t> bytes = sizes(plan);
    // Packing counts segments from the entry's own bundles on; those of other entries are left alone.
    std::vector<uint32_t> own;
    const auto own_index = [&](SegmentId segment) {
        const uint32_t index = index_of(segment);
        const size_t at = static_cast<size_t>(std::find(own.begin(), own.end(), index) - own.begin());
        if (at == own.size()) own.push_back(index);
        return static_cast<uint32_t>(at);
    };
    const BundleMemory bundles = memory_of_bundles(plan, allocation_alignment(caps_), end, own_index);
    std::vector<Block> blocks, life_of(plan.buffers.size());
    std::vector<FixedBlock> fixed = bundles.gaps;
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
    out.report.lower_bound = lower_bound_of(bundles, blocks, life_of);
    out.schedule = std::move(schedule);
    out.heights.resize(bundle_segments_);
    out.spots.resize(blocks.size());
    const auto pool_of = [&](size_t i) { return pool.empty() ? 0 : pool[out.packed[i].value]; };
    for (uint32_t p = 0; p < (pool.empty() ? 1 : max_pools); ++p) {
        std::vector<size_t> chosen;
        std::vector<Block> members;
        for (size_t i = 0; i < blocks.size(); ++i)
            if (pool_of(i) == p) {
                chosen.push_back(i);
                members.push_back(blocks[i]);
            }
        // Where scratch is spread, bundles keep their buffers to themselves.
        const Packing packing = pack(members, pool.empty() ? std::span<const FixedBlock>(fixed) : std::span<const FixedBlock>(),
                                     caps_.max_segment_bytes);
        const size_t shared = pool.empty() ? own.size() : 0;
        const auto segment_of = [&](size_t s) { return s < shared ? own[s] : bundle_segments_ + (s - shared) * max_pools + p; };
        for (size_t s = 0; s < packing.heights.size(); ++s) {
            out.heights.resize(std::max(out.heights.size(), segment_of(s) + 1));
            out.heights[segment_of(s)] = packing.heights[s];
        }
        for (size_t i = 0; i < chosen.size(); ++i)
            out.spots[chosen[i]] = {static_cast<uint32_t>(segment_of(packing.spots[i].segment)), packing.spots[i].offset};
    }
    if (!pool.empty())
        for (const FixedBlock& f : fixed) {
            uint64_t& height = out.heights[own[f.spot.segment]];
            height = std::max(height, f.spot.offset + f.block.bytes);
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
