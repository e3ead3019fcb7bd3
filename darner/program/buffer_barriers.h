// SPDX-License-Identifier: MIT
// What devices do that track hazards by buffer (WebGPU): they see which buffers a dispatch or copy uses and how, never which
// bytes. Before one that uses a buffer written since the last barrier, or writes one used since then, they insert a barrier,
// behind which all that came before is finished. A model of that, to plan by and to report.
#pragma once

#include "darner/program/program.h"

#include <span>

namespace darner {

class BufferTracker {
public:
    struct Use {
        uint32_t buffer = 0;
        bool writes = false;
    };
    // Uses of the next dispatch or copy. Whether it has to wait for one since the last barrier.
    bool waits(std::span<const Use> uses);

private:
    struct Touched {
        uint32_t round = 0;  // between which barriers; 0: never
        bool written = false;
    };
    std::vector<Touched> touched_;  // by buffer
    uint32_t round_ = 1;
};

// Barriers that such a device inserts in a step of the entry. Fails like barrier_groups().
Result<uint32_t> buffer_barriers(const Entry& entry);

}  // namespace darner
