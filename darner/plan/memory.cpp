// SPDX-License-Identifier: MIT
#include "darner/plan/memory.h"

#include "darner/base/check.h"

#include <algorithm>

namespace darner::plan {

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

namespace {

// Allocations round up to 16 bytes and start at the device's binding alignment.
uint64_t allocation_alignment(const Caps& caps) { return std::max<uint64_t>(16, caps.offset_alignment); }

struct Life {
    uint32_t buffer = 0, first = 0, last = 0;
    uint64_t bytes = 0;
    size_t segment = 0;  // index into the scratch list
    uint64_t offset = 0;
    bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives_of(const EntryPlan& plan, const Caps& caps, bool alias) {
    std::vector<Life> lives(plan.buffers.size());
    std::vector<bool> used(plan.buffers.size(), false);
    const uint32_t end = plan.tasks.empty() ? 0 : plan.tasks.back().level + 1;
    const auto touch = [&](BufferId buffer, uint32_t level) {
        Life& life = lives[buffer.value];
        life.first = used[buffer.value] ? std::min(life.first, level) : level;
        life.last = std::max(life.last, level);
        used[buffer.value] = true;
    };
    for (const Task& task : plan.tasks)
        for (const Use& use : task.uses)
            for (BufferId buffer : use.covered) touch(buffer, task.level);
    for (const CopyTask& copy : plan.copies) touch(copy.source, end);
    std::vector<Life> scratch;
    for (uint32_t i = 0; i < lives.size(); ++i) {
        if (!used[i] || plan.buffers[i].placed) continue;
        lives[i].buffer = i;
        lives[i].bytes = align_up(std::max<uint64_t>(plan.buffers[i].bytes(), 4), allocation_alignment(caps));
        if (!alias) {
            lives[i].first = 0;
            lives[i].last = end;
        }
        scratch.push_back(lives[i]);
    }
    return scratch;
}

uint64_t lower_bound_of(const std::vector<Life>& lives) {
    uint32_t end = 0;
    for (const Life& life : lives) end = std::max(end, life.last);
    std::vector<uint64_t> live(end + 1, 0);
    for (const Life& life : lives)
        for (uint32_t level = life.first; level <= life.last; ++level) live[level] += life.bytes;
    return lives.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

// The lowest free offset of a segment for a life, given what is placed there.
uint64_t lowest_offset(const std::vector<Life>& placed, const Life& life, size_t segment) {
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (const Life& other : placed)
        if (other.segment == segment && other.overlaps(life)) taken.push_back({other.offset, other.offset + other.bytes});
    std::sort(taken.begin(), taken.end());
    uint64_t offset = 0;
    for (const auto& [from, to] : taken) {
        if (offset + life.bytes <= from) break;
        offset = std::max(offset, to);
    }
    return offset;
}

}  // namespace

std::pair<SegmentId, uint64_t> SegmentAllocator::append(uint64_t bytes) {
    const uint64_t size = align_up(std::max<uint64_t>(bytes, 4), allocation_alignment(caps_));
    if (!current_.valid() || segments_[current_.value].bytes + size > caps_.max_segment_bytes) {
        current_ = SegmentId(segments_.size());
        segments_.push_back({kind_, 0, zeroed_, slots_});
    }
    const uint64_t offset = segments_[current_.value].bytes;
    segments_[current_.value].bytes += size;
    return {current_, offset};
}

ScratchReport place_scratch(EntryPlan& plan, std::vector<Segment>& segments, std::vector<SegmentId>& scratch,
                            SegmentAllocator& bundles, const Caps& caps, bool alias) {
    ScratchReport report;
    for (const Bundle& bundle : plan.bundles) {
        const auto [segment, offset] = bundles.append(bundle.bytes);
        for (size_t i = 0; i < bundle.members.size(); ++i) {
            Buffer& buffer = plan.buffers[bundle.members[i].value];
            buffer.placed = true;
            buffer.segment = segment;
            buffer.offset = offset + bundle.offsets[i];
        }
        report.sum += bundle.bytes;
    }
    const uint64_t in_bundles = report.sum;

    std::vector<Life> lives = lives_of(plan, caps, alias);
    for (const Life& life : lives) report.sum += life.bytes;
    report.lower_bound = in_bundles + lower_bound_of(lives);
    std::stable_sort(lives.begin(), lives.end(), [](const Life& x, const Life& y) {
        return std::tuple(y.bytes, x.first, x.buffer) < std::tuple(x.bytes, y.first, y.buffer);
    });
    std::vector<Life> placed;
    std::vector<uint64_t> heights;
    for (Life& life : lives) {
        for (life.segment = 0;; ++life.segment) {
            if (life.segment == heights.size()) heights.push_back(0);
            life.offset = lowest_offset(placed, life, life.segment);
            if (life.offset == 0 || life.offset + life.bytes <= caps.max_segment_bytes) break;
        }
        heights[life.segment] = std::max(heights[life.segment], life.offset + life.bytes);
        placed.push_back(life);
    }
    while (scratch.size() < heights.size()) {
        scratch.push_back(SegmentId(segments.size()));
        segments.push_back({SegmentKind::scratch, 0, false, 1});
    }
    report.peak = in_bundles;
    for (size_t i = 0; i < heights.size(); ++i) {
        Segment& segment = segments[scratch[i].value];
        segment.bytes = std::max(segment.bytes, heights[i]);
        report.peak += heights[i];
    }
    for (const Life& life : placed) {
        Buffer& buffer = plan.buffers[life.buffer];
        buffer.segment = scratch[life.segment];
        buffer.offset = life.offset;
    }
    return report;
}

}  // namespace darner::plan
