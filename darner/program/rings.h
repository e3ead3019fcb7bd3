// SPDX-License-Identifier: MIT
// Rings, as every device keeps them: run i of an entry, counted from load, uses slot i % slots of the entry's ring segments.
// Here are the numbers: which slot a call of the host means, and whether the inputs of a run are there. A device holds one
// Rings for each loaded Program and adds the memory and the waiting.
#pragma once

#include "darner/program/program.h"

#include <vector>

namespace darner {

struct Run {
    uint32_t entry = 0;
    uint64_t number = 0;  // from 0
    uint32_t slot = 0;
};

class Rings {
public:
    // Fails when a per-step tensor is not in the tables of exactly one entry, or the rings of an entry differ in slots.
    // `program` has passed verify() and outlives the result.
    static Result<Rings> create(const Program& program);

    uint32_t slots(uint32_t entry) const { return entries_[entry].slots; }  // 1 without rings
    uint64_t submitted(uint32_t entry) const { return entries_[entry].runs; }
    Run run(uint32_t entry, uint64_t number) const;

    // The run that a write of a tensor is for, `ahead` behind the next one to be submitted, and the one that a read means, `ago`
    // before the last submitted. Both are below the slots. Of tensors that are not per step both must be 0; the run is then that
    // of no entry, in slot 0.
    Result<Run> find_write(TensorId tensor, uint32_t ahead) const;
    Result<Run> find_read(TensorId tensor, uint32_t ago) const;

    // The host's bytes for the run are under way.
    void written(TensorId tensor, const Run& run);
    bool is_written(TensorId tensor, const Run& run) const;
    // Whether each of the next `steps` runs has all its per-step inputs: a slot's bytes serve one run.
    Result<void> check_inputs(uint32_t entry, uint32_t steps) const;
    void submit(uint32_t entry, uint32_t steps) { entries_[entry].runs += steps; }

private:
    static constexpr uint32_t no_entry = 0xffffffffu;
    struct EntryRings {
        uint32_t slots = 1;
        uint64_t runs = 0;  // submitted since load
    };
    struct TensorRing {
        uint32_t entry = no_entry;
        bool is_input = false;
        std::vector<uint64_t> written;  // a slot: the run that its bytes are for, plus one; 0: none yet
    };
    explicit Rings(const Program& program) : program_(&program) {}
    Result<void> add(TensorId tensor, uint32_t entry, bool is_input);

    const Program* program_;
    std::vector<EntryRings> entries_;
    std::vector<TensorRing> tensors_;
};

}  // namespace darner
