// SPDX-License-Identifier: MIT
// How long a Program is expected to take, from its dispatches and a device's rates alone; nothing runs.
//
// The model. A dispatch has
//   work     max(bytes / copy rate, FLOPs / arithmetic rate): its time on a device that it fills. Bytes are those that must
//            move once: of overlapping windows the union, read and written each for itself, and of a binding no more than the
//            kernel's loads and stores can touch (a gather reads rows, not the table). FLOPs of contractions have a rate of
//            their own, for matrix units.
//   share    of the device's rates that its workgroups can draw: workgroups / compute units, at most 1.
//   latency  the loads that one invocation waits for one after the other (a round of a loop with loads in it is one wait).
// and takes max(work / share, latency). Members of a barrier group overlap: the group takes the longest member or the sum of
// all work, whichever is longer, plus a cost a dispatch and a cost a group. Caches that hold what the group before wrote, clock
// rates and how well a kernel uses its units are not in the model.
#pragma once

#include "darner/program/program.h"

#include <string>
#include <vector>

namespace darner {

struct Rates {
    double bytes_per_second = 0, flops = 0, contraction_flops = 0;
    double dispatch_seconds = 0, group_seconds = 0, load_seconds = 0;
    uint32_t compute_units = 1;
};

// What the caps say; where they have not been measured, an H200's figures.
Rates rates_of(const Caps& caps);

struct DispatchEstimate {
    std::string label, kernel;
    std::array<uint32_t, 3> workgroups = {1, 1, 1};
    uint64_t bytes = 0, flops = 0;
    double seconds = 0;  // alone, its own cost included
};

struct GroupEstimate {
    std::vector<DispatchEstimate> members;
    double seconds = 0;  // from its barrier on
};

struct EntryEstimate {
    std::vector<GroupEstimate> groups;  // repeats unrolled
    uint64_t bytes = 0, flops = 0;
    double seconds = 0;
};

// Of a Program that has passed verify(). Fails as barrier_groups() does.
Result<EntryEstimate> estimate(const Program& program, const Entry& entry, const Rates& rates);

}  // namespace darner
