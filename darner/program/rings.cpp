// SPDX-License-Identifier: MIT
// The arithmetic of rings.
#include "darner/program/rings.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {

Result<Rings> Rings::create(const Program& program) {
    Rings rings(program);
    rings.entries_.resize(program.entries.size());
    rings.tensors_.resize(program.tensors.size());
    for (uint32_t e = 0; e < program.entries.size(); ++e) {
        for (TensorId id : program.entries[e].inputs) TRY(rings.add(id, e, true));
        for (TensorId id : program.entries[e].outputs) TRY(rings.add(id, e, false));
    }
    for (uint32_t t = 0; t < program.tensors.size(); ++t)
        if (program.tensors[t].per_step && rings.tensors_[t].entry == no_entry)
            return invalid(fmt::format("[program] tensor '{}' is per step, but no entry has it as an input or output",
                                       program.tensors[t].name));
    return rings;
}

Result<void> Rings::add(TensorId id, uint32_t entry, bool is_input) {
    const ProgramTensor& tensor = program_->tensor(id);
    if (!tensor.per_step) return {};
    const auto fail = [&](std::string_view what, uint32_t other) {
        return invalid(fmt::format("[program] per-step tensor '{}' of entry '{}' {} '{}'", tensor.name,
                                   program_->entries[entry].name, what, program_->entries[other].name));
    };
    TensorRing& ring = tensors_[id.value];
    if (ring.entry != no_entry) return fail("is an input or output already: of entry", ring.entry);
    const uint32_t slots = program_->segment(tensor.segment).slots;
    for (const TensorRing& other : tensors_)
        if (other.entry == entry && other.written.size() != slots)
            return fail(fmt::format("has a ring of {} slots, others {}: they differ in entry", slots, other.written.size()),
                        entry);
    ring = {entry, is_input, std::vector<uint64_t>(slots)};
    entries_[entry].slots = slots;
    return {};
}

Run Rings::run(uint32_t entry, uint64_t number) const {
    return {entry, number, static_cast<uint32_t>(number % entries_[entry].slots)};
}

Result<Run> Rings::find_write(TensorId id, uint32_t ahead) const {
    const TensorRing& ring = tensors_[id.value];
    const std::string& name = program_->tensor(id).name;
    if (ring.entry == no_entry) {
        if (ahead == 0) return Run{no_entry};
        return invalid(fmt::format("[write] tensor '{}' is not per step: it cannot be written {} runs ahead", name, ahead));
    }
    if (!ring.is_input) return invalid(fmt::format("[write] tensor '{}' is a per-step output: only runs write it", name));
    if (ahead < slots(ring.entry)) return run(ring.entry, submitted(ring.entry) + ahead);
    return invalid(fmt::format("[write] tensor '{}': {} runs ahead, but its ring has {} slots: at most {} ahead", name, ahead,
                               slots(ring.entry), slots(ring.entry) - 1));
}

Result<Run> Rings::find_read(TensorId id, uint32_t ago) const {
    const TensorRing& ring = tensors_[id.value];
    const std::string& name = program_->tensor(id).name;
    if (ring.entry == no_entry) {
        if (ago == 0) return Run{no_entry};
        return invalid(fmt::format("[read] tensor '{}' is not per step: what it held {} runs ago is gone", name, ago));
    }
    const uint64_t runs = submitted(ring.entry), kept = std::min<uint64_t>(runs, slots(ring.entry));
    if (ago < kept) return run(ring.entry, runs - 1 - ago);
    return invalid(fmt::format("[read] tensor '{}': {} runs before the last; entry '{}' has run {} times and its ring keeps {}",
                               name, ago, program_->entries[ring.entry].name, runs, slots(ring.entry)));
}

void Rings::written(TensorId id, const Run& run) {
    if (run.entry != no_entry) tensors_[id.value].written[run.slot] = run.number + 1;
}

bool Rings::is_written(TensorId id, const Run& run) const {
    return run.entry != no_entry && tensors_[id.value].written[run.slot] == run.number + 1;
}

Result<void> Rings::check_inputs(uint32_t entry, uint32_t steps) const {
    for (TensorId id : program_->entries[entry].inputs) {
        if (tensors_[id.value].entry == no_entry) continue;
        // No more than `slots` runs can have theirs, so the loop is short.
        for (uint32_t step = 0; step < steps; ++step) {
            if (is_written(id, run(entry, submitted(entry) + step))) continue;
            Error error = invalid(fmt::format("[submit] entry '{}': its per-step input '{}' is written for {} of {} runs",
                                              program_->entries[entry].name, program_->tensor(id).name, step, steps));
            error.hint = fmt::format("write it before each run, at most {} ahead", slots(entry) - 1);
            return error;
        }
    }
    return {};
}

}  // namespace darner
