// SPDX-License-Identifier: MIT
// darner run of a .dp file: one run of an entry. The program knows its tensors, not the graph; which state an entry reads and
// writes comes from the windows that its dispatches and copies touch.
#include "cli/command.h"
#include "cli/run_values.h"
#include "darner/base/nearest.h"
#include "darner/program/dp.h"
#include "darner/runtime/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace darner::cli {
namespace {

struct Touched {
    bool read = false, written = false;
};

void add_window(Touched& touched, const ProgramTensor& tensor, const BindingWindow& window, bool is_read, bool is_written) {
    const bool overlaps = window.segment == tensor.segment && window.offset < tensor.offset + tensor.bytes &&
                          tensor.offset < window.offset + window.bytes;
    touched.read |= overlaps && is_read;
    touched.written |= overlaps && is_written;
}

void add_items(Touched& touched, const ProgramTensor& tensor, const std::vector<Item>& items) {
    for (const Item& item : items) {
        if (const Dispatch* d = std::get_if<Dispatch>(&item)) {
            for (const BindingWindow& w : d->bindings)
                add_window(touched, tensor, w, w.access != kir::Access::write, w.access != kir::Access::read);
            if (d->groups_from) add_window(touched, tensor, *d->groups_from, true, false);
        } else if (const Copy* c = std::get_if<Copy>(&item)) {
            add_window(touched, tensor, c->source, true, false);
            add_window(touched, tensor, c->target, false, true);
        } else if (const Repeat* r = std::get_if<Repeat>(&item)) {
            add_items(touched, tensor, r->body);
        }
    }
}

Touched touched_by(const Entry* entry, const ProgramTensor& tensor) {
    Touched touched;
    if (entry != nullptr) add_items(touched, tensor, entry->body);
    return touched;
}

bool is_state(const Program& program, const ProgramTensor& tensor) {
    return program.segment(tensor.segment).kind == SegmentKind::state;
}

// The entry of that name; with an empty name the only one besides `init`.
Result<const Entry*> pick_entry(const Program& program, const std::string& name, const std::string& file) {
    std::vector<std::string> names;
    const Entry* only = nullptr;
    size_t candidates = 0;
    for (const Entry& entry : program.entries) {
        names.push_back(entry.name);
        if (entry.name == "init" && program.entries.size() > 1) continue;
        only = &entry;
        ++candidates;
    }
    if (!name.empty()) {
        if (const Entry* found = program.find_entry(name)) return found;
        return with_hint(invalid(fmt::format("there is no graph \"{}\"; the program has {}", name, fmt::join(names, ", ")), file),
                         did_you_mean(name, names));
    }
    if (candidates == 1) return only;
    return with_hint(invalid(fmt::format("the program has {} graphs: {}", names.size(), fmt::join(names, ", ")), file),
                     "name one with --graph NAME");
}

Result<Leaf> leaf_of(const ProgramTensor& tensor, bool is_param, bool may_stay_unset) {
    const std::optional<DType> dtype = parse_dtype(tensor.dtype);
    if (!dtype)
        return unsupported(fmt::format("\"{}\" has dtype {}, which darner run cannot make values of", tensor.name, tensor.dtype));
    return Leaf{tensor.name, {*dtype, {tensor.dims.begin(), tensor.dims.end()}}, is_param, may_stay_unset};
}

// Inputs, and the state that a run needs: what the entry or its `init` reads.
Result<std::vector<Leaf>> leaves_of(const Program& program, const Entry& entry, const Entry* init) {
    std::vector<Leaf> leaves;
    for (TensorId id : entry.inputs) {
        TRY(Leaf leaf, leaf_of(program.tensor(id), false, false));
        leaves.push_back(std::move(leaf));
    }
    for (const ProgramTensor& tensor : program.tensors) {
        if (!is_state(program, tensor)) continue;
        const Touched by_entry = touched_by(&entry, tensor), by_init = touched_by(init, tensor);
        if (!by_entry.read && !by_init.read && !by_entry.written) continue;
        const bool is_seed = tensor.name == "seed" && has_seed(program);
        TRY(Leaf leaf, leaf_of(tensor, true, by_init.written || is_seed || (!by_entry.read && !by_init.read)));
        leaves.push_back(std::move(leaf));
    }
    return leaves;
}

}  // namespace

Result<void> run_program(const RunOptions& options, std::span<const std::byte> file) {
    if (!options.dims.empty())
        return with_hint(invalid("[--dim] a compiled program has numbers for all its dims"),
                         "give --dim to darner compile, or run the graph file");
    TRY(Program program, parse_dp(file, options.file));
    TRY(const Entry* picked, pick_entry(program, options.graph, options.file));
    const std::string name = picked->name;
    const Entry* init = name == "init" ? nullptr : program.find_entry("init");
    TRY(const std::vector<Leaf> leaves, leaves_of(program, *picked, init));
    TRY(Given given, gather_values(options, leaves));

    TRY(Session session,
        load_program(std::move(program), {.device = options.device, .run_init = false, .seed = options.seed.value_or(0)}));
    TRY(fill_values(given));
    TRY(set_state(session, options, given, init != nullptr));
    TRY(const NamedArrays outputs, session.run(name, given.inputs));

    const Program& loaded = session.program();
    const Entry& entry = *loaded.find_entry(name);
    std::vector<Shown> results;
    for (TensorId id : entry.outputs) {
        const std::string& output = loaded.tensor(id).name;
        results.push_back({output, "", outputs.find(output)->second, false});
    }
    for (const ProgramTensor& tensor : loaded.tensors) {
        if (!is_state(loaded, tensor) || !touched_by(&entry, tensor).written) continue;
        TRY(Array value, session.read(tensor.name));
        results.push_back({tensor.name, "", std::move(value), true});
    }
    return show_results(options, name, session.device(), std::move(results));
}

}  // namespace darner::cli
