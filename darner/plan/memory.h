// SPDX-License-Identifier: MIT
// Places scratch buffers: offsets in a few segments by liveness in barrier groups, largest first at the lowest offset that is
// free for the whole life. Buffers of a bundle go to zeroed memory of their own, whose gaps stay zero.
#pragma once

#include "darner/plan/tasks.h"
#include "darner/program/program.h"

namespace darner::plan {

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

uint64_t align_up(uint64_t value, uint64_t alignment);

struct ScratchReport {
    uint64_t peak = 0, lower_bound = 0, sum = 0;
};

// Scratch segments are shared by the entries of a Program: `scratch` lists them, grown as needed. With `alias` off no two
// buffers share bytes.
ScratchReport place_scratch(EntryPlan& plan, std::vector<Segment>& segments, std::vector<SegmentId>& scratch,
                            SegmentAllocator& bundles, const Caps& caps, bool alias);

}  // namespace darner::plan
