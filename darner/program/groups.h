// SPDX-License-Identifier: MIT
// An Entry's tree of items as the flat list that devices record: repeats unrolled, items gathered in barrier groups.
// Members of one group may run in any order and at the same time; a group starts when the one before it has finished.
#pragma once

#include "darner/program/program.h"

#include <vector>

namespace darner {

// One item of a group: exactly one of the two is set. Points into the Entry.
struct Member {
    const Dispatch* dispatch = nullptr;
    const Copy* copy = nullptr;
};
using BarrierGroup = std::vector<Member>;

// No group is empty: barriers with nothing between them are one. Fails when the repeats unroll to more items than a
// device can record.
Result<std::vector<BarrierGroup>> barrier_groups(const Entry& entry);

}  // namespace darner
