// SPDX-License-Identifier: MIT
// Packing: blocks that live over ranges of barrier groups get offsets in as few bytes as the heuristics find. Several orders are
// tried (by size, by breadth, by size times lifetime) and the smallest result is improved by a counted number
// of changes to its order: same input, same output. Nothing here knows of tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace darner::plan {

// Lives in the groups first..last, both included: two blocks that share a group share no byte.
struct Block {
    uint64_t bytes = 0;
    uint32_t first = 0, last = 0;
};

struct Spot {
    uint32_t segment = 0;
    uint64_t offset = 0;
};

// A block whose place is given; the others go round it.
struct FixedBlock {
    Block block;
    Spot spot;
};

struct Packing {
    std::vector<Spot> spots;        // of the blocks, in their order
    std::vector<uint64_t> heights;  // by segment: where its last block ends
    uint64_t total() const;
};

// Sizes are multiples of the alignment, and so are the offsets then. Segments with fixed blocks come first; without `grow` they
// stay as high as those. A block larger than `max_segment_bytes` gets a segment of its own: the caller has refused it before.
Packing pack(std::span<const Block> blocks, std::span<const FixedBlock> fixed, uint64_t max_segment_bytes, bool grow);

// The most bytes alive in one group: no packing is smaller.
uint64_t most_live(std::span<const Block> blocks);

}  // namespace darner::plan
