// SPDX-License-Identifier: MIT
#include "darner/plan/packing.h"

#include "darner/base/fault.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace darner::plan {

namespace {

// Rounds of improvement end near the bound, or when this many placed blocks have been looked at: well under a second.
constexpr uint64_t improvement_visits = 10'000'000;
constexpr int improvement_rounds = 200;

enum class Fit : uint8_t { lowest, tightest };

using Order = std::vector<uint32_t>;

// Bytes alive by group.
std::vector<uint64_t> live_bytes(std::span<const Block> blocks) {
    uint32_t end = 0;
    for (const Block& block : blocks) end = std::max(end, block.last + 1);
    std::vector<uint64_t> live(end + 1, 0);
    for (const Block& block : blocks) {
        live[block.first] += block.bytes;
        live[block.last + 1] -= block.bytes;  // wraps, and wraps back in the sum
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    return live;
}

class Packer {
public:
    Packer(std::span<const Block> blocks, std::span<const FixedBlock> fixed, uint64_t limit, bool grow)
        : blocks_(blocks), fixed_(fixed), limit_(limit), grow_(grow) {}

    Packing run(const Order& order, Fit fit) {
        segments_.clear();
        Packing out;
        out.spots.resize(blocks_.size());
        for (const FixedBlock& fixed : fixed_) insert(fixed.block, fixed.spot);
        full_ = grow_ ? 0 : segments_.size();
        for (uint32_t index : order) {
            out.spots[index] = spot_for(blocks_[index], fit);
            insert(blocks_[index], out.spots[index]);
        }
        for (const Segment& segment : segments_) out.heights.push_back(segment.height);
        return out;
    }

    uint64_t visits() const { return visits_; }

private:
    struct Placed {
        uint64_t offset, end;
        uint32_t first, last;
    };
    struct Segment {
        std::vector<Placed> placed;  // by offset
        uint64_t height = 0;
    };

    void insert(const Block& block, Spot spot) {
        if (spot.segment >= segments_.size()) segments_.resize(spot.segment + 1);
        Segment& segment = segments_[spot.segment];
        const Placed placed{spot.offset, spot.offset + block.bytes, block.first, block.last};
        const auto at = std::upper_bound(segment.placed.begin(), segment.placed.end(), placed,
                                         [](const Placed& x, const Placed& y) { return x.offset < y.offset; });
        segment.placed.insert(at, placed);
        segment.height = std::max(segment.height, placed.end);
    }

    // The segment that grows least; a new one where the block fits in none.
    Spot spot_for(const Block& block, Fit fit) {
        Spot best{static_cast<uint32_t>(segments_.size()), 0};
        uint64_t least = UINT64_MAX;
        for (uint32_t s = 0; s < segments_.size() && least != 0; ++s) {
            const uint64_t offset = offset_in(segments_[s], block, fit);
            if (offset + block.bytes > (s < full_ ? segments_[s].height : limit_)) continue;
            const uint64_t end = std::max(offset + block.bytes, segments_[s].height);
            if (end - segments_[s].height >= least) continue;
            least = end - segments_[s].height;
            best = {s, offset};
        }
        return best;
    }

    // In the lowest or the tightest gap between what is alive at the same time; behind all of it where no gap is wide enough.
    uint64_t offset_in(const Segment& segment, const Block& block, Fit fit) {
        uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        size_t seen = 0;
        for (const Placed& placed : segment.placed) {
            ++seen;
            if (placed.first > block.last || block.first > placed.last) continue;
            if (fault(12) && block.first == placed.last) continue;
            if (placed.offset >= top + block.bytes && placed.offset - top < best_gap) {
                best = top;
                best_gap = placed.offset - top;
                if (fit == Fit::lowest) break;
            }
            top = std::max(top, placed.end);
        }
        visits_ += seen;
        if (best == UINT64_MAX) return top;
        return best;
    }

    std::span<const Block> blocks_;
    std::span<const FixedBlock> fixed_;
    uint64_t limit_;
    bool grow_;
    std::vector<Segment> segments_;
    size_t full_ = 0;  // so many segments do not grow
    uint64_t visits_ = 0;
};

template <class Key>
Order sorted_by(std::span<const Block> blocks, Key key) {
    Order order(blocks.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
        return std::tuple(key(blocks[y]), blocks[x].first, x) < std::tuple(key(blocks[x]), blocks[y].first, y);
    });
    return order;
}

// Group after group, the fullest first; in a group by size.
Order by_breadth(std::span<const Block> blocks, const Order& by_size) {
    const std::vector<uint64_t> live = live_bytes(blocks);
    const auto fullest = [&](const Block& block) {
        return *std::max_element(live.begin() + block.first, live.begin() + block.last + 1);
    };
    std::vector<uint64_t> keys(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) keys[i] = fullest(blocks[i]);
    Order order = by_size;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return keys[x] > keys[y]; });
    return order;
}

}  // namespace

uint64_t Packing::total() const { return std::accumulate(heights.begin(), heights.end(), uint64_t{0}); }

uint64_t most_live(std::span<const Block> blocks) {
    const std::vector<uint64_t> live = live_bytes(blocks);
    return *std::max_element(live.begin(), live.end());
}

Packing pack(std::span<const Block> blocks, std::span<const FixedBlock> fixed, uint64_t max_segment_bytes, bool grow) {
    std::vector<Block> all(blocks.begin(), blocks.end());
    for (const FixedBlock& f : fixed) all.push_back(f.block);
    const uint64_t bound = most_live(all);
    const Order by_size = sorted_by(blocks, [](const Block& b) { return b.bytes; });
    const Order by_area = sorted_by(blocks, [](const Block& b) { return double(b.bytes) * (b.last - b.first + 1); });
    // Of blocks of like size those that live long first: the others find their way round them.
    const Order by_class = sorted_by(
        blocks, [](const Block& b) { return std::pair(std::bit_width(b.bytes), uint64_t{b.last - b.first} * b.bytes); });
    const std::pair<Order, Fit> attempts[] = {{by_class, Fit::lowest},
                                              {by_size, Fit::lowest},
                                              {by_breadth(blocks, by_size), Fit::lowest},
                                              {by_area, Fit::tightest},
                                              {by_area, Fit::lowest}};

    Packer packer(blocks, fixed, max_segment_bytes, grow);
    Packing best;
    Order order;
    Fit fit = Fit::lowest;
    for (const auto& [tried, how] : attempts) {
        Packing packing = packer.run(tried, how);
        if (order.empty() || packing.total() < best.total()) {
            best = std::move(packing);
            order = tried;
            fit = how;
        }
        if (best.total() <= bound) return best;
    }
    // What sticks out at the top of a segment, or what lives beside it, moves to another place in the order, drawn from numbers
    // that are the same every time; what is no worse is kept, so that several moves can add up.
    uint32_t full = 0;
    for (const FixedBlock& f : fixed) full = grow ? 0 : std::max(full, f.spot.segment + 1);
    const uint64_t enough = packer.visits() + improvement_visits, near = bound + bound / 128;
    uint64_t state = 0x9e3779b97f4a7c15ull;
    const auto below = [&](size_t n) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<size_t>((state >> 33) % n);
    };
    for (int round = 0; round < improvement_rounds && best.total() > near && packer.visits() < enough; ++round) {
        const auto top = std::find_if(order.begin(), order.end(), [&](uint32_t i) {
            const Spot spot = best.spots[i];
            return spot.segment >= full && spot.offset + blocks[i].bytes == best.heights[spot.segment];
        });
        if (top == order.end()) break;  // fixed blocks alone decide
        size_t from = static_cast<size_t>(top - order.begin());
        if (round % 2 != 0) {
            const Block& highest = blocks[*top];
            const size_t start = below(order.size());
            for (size_t i = 0; i < order.size(); ++i) {
                from = (start + i) % order.size();
                if (blocks[order[from]].first <= highest.last && highest.first <= blocks[order[from]].last) break;
            }
        }
        Order changed = order;
        const uint32_t moved = changed[from];
        changed.erase(changed.begin() + static_cast<ptrdiff_t>(from));
        changed.insert(changed.begin() + static_cast<ptrdiff_t>(below(from + 1)), moved);
        Packing packing = packer.run(changed, fit);
        if (packing.total() > best.total()) continue;
        best = std::move(packing);
        order = std::move(changed);
    }
    return best;
}

}  // namespace darner::plan
