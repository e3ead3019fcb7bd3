// SPDX-License-Identifier: MIT
// Buffers and tasks: the plan of one graph between grouping and the Program. A task is one dispatch; a buffer is memory that
// tasks read and write, placed later (memory.h). Nothing here knows of ops.
#pragma once

#include "darner/base/ids.h"
#include "darner/graph/graph.h"
#include "darner/kernels/storage.h"
#include "darner/program/program.h"

#include <string>
#include <vector>

namespace darner::plan {

struct BufferTag;
using BufferId = Id<BufferTag>;
struct TaskTag;
using TaskId = Id<TaskTag>;

struct Buffer {
    SegmentKind kind = SegmentKind::scratch;
    kernels::Storage storage = kernels::Storage::f32;
    uint64_t elements = 0;
    std::string label;    // of the node it holds: for refusals
    bool placed = false;  // state, inputs, outputs and constants come with their place
    SegmentId segment;
    uint64_t offset = 0;

    uint64_t bytes() const { return elements * kernels::byte_size(storage); }
    uint64_t words() const { return (bytes() + 3) / 4; }
};

// A binding: one buffer, or the window from one buffer's start to another's end (role-contiguous tensors).
struct Use {
    BufferId first, last;
    kir::Access access = kir::Access::read;
    std::vector<BufferId> covered;   // every buffer in the window; just `first` for one
    uint64_t offset = 0, bytes = 0;  // a part of one buffer, from its start; no bytes: all of it
};

struct Task {
    KernelId kernel;
    std::array<uint32_t, 3> groups = {1, 1, 1};
    std::vector<Use> uses;  // in binding order
    std::vector<uint32_t> params;
    std::vector<TaskId> after;  // besides what the uses imply: readers of memory that this task overwrites
    std::string label;
    uint64_t flops = 0;
    uint32_t level = 0;  // barrier group
};

// Scratch buffers that must lie at fixed distances, because one window spans them.
struct Bundle {
    std::vector<BufferId> members;
    std::vector<uint64_t> offsets;  // from the first, ascending
    uint64_t bytes = 0;
};

struct CopyTask {
    BufferId source, target;  // after every task that writes the source or touches the target
    uint32_t level = 0;       // barrier group
};

struct EntryPlan {
    std::vector<Buffer> buffers;
    std::vector<Task> tasks;
    std::vector<Bundle> bundles;
    std::vector<CopyTask> copies;
};

// Kernels of a Program so far; equal structure is one entry.
class KernelTable {
public:
    explicit KernelTable(std::vector<KernelCode>& kernels) : kernels_(kernels) {}
    KernelId add(kir::Kernel kernel);

private:
    std::vector<KernelCode>& kernels_;
    std::vector<std::pair<uint64_t, uint32_t>> by_hash_;  // sorted
};

}  // namespace darner::plan
