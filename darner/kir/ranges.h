// SPDX-License-Identifier: MIT
// Which elements of its bindings a kernel touches when it runs for a box of workgroups: interval arithmetic over the integer
// instructions, with what branches state about their conditions. A value is a set of a few intervals, so that what wraps round
// the end of a row, or below zero before it is clamped, stays two short intervals and does not become one long one. The answer
// may be too large, never too small; what depends on loaded data may be anything.
#pragma once

#include "darner/kir/kernel.h"

#include <array>
#include <cstdint>
#include <vector>

namespace darner::kir {

struct Interval {
    int64_t low = 0, high = 0;  // both included
    bool operator==(const Interval&) const = default;
};
// Ascending, with gaps between; empty: nothing.
using Intervals = std::vector<Interval>;

// Workgroups low <= id < high, an axis.
struct WorkgroupBox {
    std::array<uint32_t, 3> low = {0, 0, 0}, high = {1, 1, 1};
};

class AccessRanges {
public:
    // `groups`: of the whole dispatch. `subgroup_size`: 0 when it is not known.
    AccessRanges(const Kernel& kernel, std::array<uint32_t, 3> groups, uint32_t subgroup_size);

    // By binding: the scalars that the box may read or write, within the binding's stated elements.
    std::vector<Intervals> of(const WorkgroupBox& box);

private:
    void find_needed();
    void run_block(BlockId id);
    void run(ValueId v);
    void access(ValueId v);
    void control(ValueId v);
    Intervals value(ValueId v) const;
    Intervals binary(Opcode op, Type type, const Intervals& a, const Intervals& b) const;
    Intervals compare(const Instruction& inst, ValueId a, ValueId b) const;
    const Intervals& at(ValueId v) const { return values_[v.value]; }
    // Narrows what the condition compares; false when it cannot be `holds`.
    bool assume(ValueId condition, bool holds);
    bool narrow(ValueId v, int64_t low, int64_t high);

    const Kernel& kernel_;
    std::array<uint32_t, 3> groups_;
    uint32_t subgroup_size_;
    std::vector<bool> needed_;  // by value: an index or a condition rests on it
    WorkgroupBox box_;
    std::vector<Intervals> values_, touched_;
    std::vector<bool> taken_;                          // by block of a branch: whether it may run
    std::vector<std::pair<ValueId, Intervals>> undo_;  // what assumptions have narrowed, newest last
};

}  // namespace darner::kir
