// SPDX-License-Identifier: MIT
// Program: a compiled module. Segments of memory, tensors at offsets in them, kernels, and per entry (one named graph of
// the module: `step`, `eval`, `init`, ...) a tree of dispatches, barriers and repeats with its tables of inputs and outputs.
// Entries share the state segments. A Program knows nothing of ops; it is all that a device sees.
#pragma once

#include "darner/base/ids.h"
#include "darner/base/result.h"
#include "darner/kir/kernel.h"
#include "darner/program/caps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace darner {

struct SegmentTag;
struct TensorTag;
struct KernelTag;
using SegmentId = Id<SegmentTag>;
using TensorId = Id<TensorTag>;
using KernelId = Id<KernelTag>;

// state: crosses steps (params, moments, counters). io: inputs and outputs, touched by the host. scratch: dead between steps.
// constant: written once at load from Program::constants.
enum class SegmentKind : uint8_t { state, io, scratch, constant };
const char* to_string(SegmentKind kind);

struct ByteRange {
    uint64_t offset = 0, bytes = 0;
    bool operator==(const ByteRange&) const = default;
};

struct Segment {
    SegmentKind kind = SegmentKind::scratch;
    uint64_t bytes = 0;
    bool zeroed = false;  // filled with zeros at load: state, whose gaps between tensors stay zero
    uint32_t slots = 1;   // of kind io: a ring. It exists this often, and the runs of its entry take the slots in turn
    // Of zeroed scratch: gaps between tensors that one window spans, ascending. They stay zero; what lies outside is dead between
    // steps like all scratch.
    std::vector<ByteRange> kept_zero = {};
};

// A tensor that the host can name: an input, an output, or a piece of state. `dtype` is the spelling of the graph
// ("f32", "i32", "u8", "bool", ...); elements are dense, row-major, packed.
struct ProgramTensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> dims;
    SegmentId segment;
    uint64_t offset = 0;
    uint64_t bytes = 0;  // of the data, before rounding up to the allocation's 16
    std::string role;    // of state: "param", "moment", "statistic", "counter", "data"; else empty
    bool trainable = false;
    bool per_step = false;  // an input or output in a ring: each run has its own
};

struct KernelCode {
    kir::Kernel kir;
    uint64_t hash = 0;            // structural hash: equal kernels are one entry
    std::vector<uint32_t> spirv;  // filled by runtime for devices that want it
    std::string wgsl;
};

// A window of a segment as a kernel sees it, in bytes; the offset is a multiple of Caps::offset_alignment.
struct BindingWindow {
    SegmentId segment;
    uint64_t offset = 0, bytes = 0;
    kir::Access access = kir::Access::read;
    bool operator==(const BindingWindow&) const = default;
};

struct Dispatch {
    KernelId kernel;
    std::array<uint32_t, 3> groups = {1, 1, 1};
    std::vector<BindingWindow> bindings;
    std::vector<uint32_t> params;
    std::string label;  // ops and provenance, for traces and errors
    uint64_t bytes_moved = 0, flops = 0;
    // Three words on the device that hold the workgroups, each at most what `groups` says; zero skips the dispatch.
    std::optional<BindingWindow> groups_from = {};
};

// Everything before it is finished and visible to everything behind it.
struct Barrier {};

// Device-side copy between windows of equal size (multiples of 4 bytes).
struct Copy {
    BindingWindow source, target;
};

struct Repeat;
using Item = std::variant<Dispatch, Barrier, Copy, Repeat>;

// `body` `count` times in a row, with nothing between the rounds: a hazard from one round to the next needs a Barrier in it.
struct Repeat {
    uint32_t count = 0;
    std::vector<Item> body;
    // One word that holds the number of the round, from 0, while the round runs; the device writes it, with what barriers that
    // takes, before the round.
    std::optional<BindingWindow> counter = {};
};

struct Entry {
    std::string name;
    std::vector<TensorId> inputs, outputs;
    std::vector<Item> body;  // opens behind everything of the step before it
};

struct PlanReport {
    std::string entry;
    uint32_t kernels = 0, dispatches = 0, barriers = 0;
    uint32_t buffer_barriers = 0;  // what a device that tracks hazards per buffer is expected to insert; 0 for others
    uint64_t scratch_bytes = 0, scratch_lower_bound = 0, scratch_sum = 0, state_bytes = 0;
    uint64_t bytes_moved = 0, flops = 0;
};

struct Constant {
    SegmentId segment;
    uint64_t offset = 0;
    std::vector<std::byte> bytes;
};

struct Program {
    Caps caps;  // what it was planned for
    std::vector<Segment> segments;
    std::vector<ProgramTensor> tensors;
    std::vector<KernelCode> kernels;
    std::vector<Constant> constants;
    std::vector<Entry> entries;
    std::vector<PlanReport> reports;  // one an entry

    const Segment& segment(SegmentId id) const { return segments[id.value]; }
    const ProgramTensor& tensor(TensorId id) const { return tensors[id.value]; }
    const KernelCode& kernel(KernelId id) const { return kernels[id.value]; }
    const Entry* find_entry(std::string_view name) const;
    TensorId find_state(std::string_view name) const;  // invalid when there is none
};

// Text for people: segments, tensors, entries with their dispatches.
std::string to_text(const Program& program);

// Ranges within segments, alignment, binding counts against the kernels, overlap of bindings in one dispatch, groups against
// caps. The error lists violations of all kinds, the first ones where they are many.
Result<void> verify(const Program& program);
// The same against the limits of a device that the Program may not have been planned for.
Result<void> verify(const Program& program, const Caps& caps);

}  // namespace darner
