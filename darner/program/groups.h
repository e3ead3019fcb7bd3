// SPDX-License-Identifier: MIT
// An Entry's tree of items as the flat list that devices record: repeats unrolled, items gathered in barrier groups.
// Members of one group may run in any order and at the same time; a group starts when the one before it has finished.
// A member may be an indirect dispatch (Dispatch::groups_from): a device must make its words visible to the reading of
// workgroup counts as it makes bindings visible to kernels.
#pragma once

#include "darner/program/program.h"

#include <vector>

namespace darner {

// One item of a group: exactly one of the three is set. Points into the Entry.
struct Member {
    const Dispatch* dispatch = nullptr;
    const Copy* copy = nullptr;
    // The word of a Repeat that becomes `round` here. It stands in a group of its own: rounds before it have read the word,
    // the round behind it will.
    const BindingWindow* counter = nullptr;
    uint32_t round = 0;
};
using BarrierGroup = std::vector<Member>;

// No group is empty: barriers with nothing between them are one, and a Repeat without dispatches and copies vanishes with its
// counter. Fails when the repeats unroll to more items than a
// device can record.
Result<std::vector<BarrierGroup>> barrier_groups(const Entry& entry);

}  // namespace darner
