// SPDX-License-Identifier: MIT
#include "darner/runtime/session.h"

#include "darner/base/nearest.h"
#include "darner/base/reasons.h"
#include "darner/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace darner {

namespace {

std::string type_of(const ProgramTensor& tensor) { return fmt::format("{}[{}]", tensor.dtype, fmt::join(tensor.dims, ",")); }

bool has_type_of(const ProgramTensor& tensor, const Array& value) {
    return value.dtype == tensor.dtype && value.dims == tensor.dims;
}

std::vector<std::string> names_of(const Program& program, const std::vector<TensorId>& ids) {
    std::vector<std::string> names;
    for (TensorId id : ids) names.push_back(program.tensor(id).name);
    return names;
}

Error unknown(std::string_view what, std::string_view name, const std::vector<std::string>& known) {
    Error error = invalid(fmt::format("no {} named {}", what, name));
    const std::vector<std::string_view> views(known.begin(), known.end());
    if (const auto near = nearest_name(name, views); !near.empty())
        error.hint = fmt::format("did you mean {}?", near);
    else
        error.hint = fmt::format("there are: {}", fmt::join(known, ", "));
    return error;
}

Array empty_array(const ProgramTensor& tensor) { return {tensor.dtype, tensor.dims, std::vector<std::byte>(tensor.bytes)}; }

// What a checkpoint holds: all state but the data set.
bool is_saved(const ProgramTensor& tensor) { return !tensor.role.empty() && tensor.role != "data"; }

}  // namespace

Session::Session(std::shared_ptr<Device> device, std::shared_ptr<const Program> program, std::unique_ptr<Executable> executable)
    : device_(std::move(device)), program_(std::move(program)), executable_(std::move(executable)) {}

const PlanReport* Session::report(std::string_view graph) const {
    for (const PlanReport& report : program_->reports)
        if (report.entry == graph) return &report;
    return nullptr;
}

std::vector<std::string> Session::inputs(std::string_view graph) const {
    const Entry* entry = program_->find_entry(graph);
    return entry == nullptr ? std::vector<std::string>{} : names_of(*program_, entry->inputs);
}

std::vector<std::string> Session::outputs(std::string_view graph) const {
    const Entry* entry = program_->find_entry(graph);
    return entry == nullptr ? std::vector<std::string>{} : names_of(*program_, entry->outputs);
}

std::vector<std::string> Session::state() const {
    std::vector<std::string> names;
    for (const ProgramTensor& tensor : program_->tensors)
        if (!tensor.role.empty()) names.push_back(tensor.name);
    return names;
}

Result<uint32_t> Session::entry(std::string_view graph) const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < program_->entries.size(); ++i) {
        if (program_->entries[i].name == graph) return i;
        names.push_back(program_->entries[i].name);
    }
    return unknown("graph", graph, names);
}

// State, then inputs or outputs: of the graph run last where it has the name, of the first that has it else. A graph may name
// an input and an output alike; writing means the one, reading the other.
Result<TensorId> Session::find(std::string_view name, Side preferred) const {
    if (const TensorId state = program_->find_state(name); state.valid()) return state;
    TensorId found;
    int best = -1;
    for (const Entry& entry : program_->entries) {
        for (const auto* ids : {&entry.inputs, &entry.outputs})
            for (TensorId id : *ids) {
                const bool on_side = (ids == &entry.inputs) == (preferred == Side::input);
                const int rank = (entry.name == last_graph_ ? 2 : 0) + (on_side ? 1 : 0);
                if (program_->tensor(id).name != name || rank <= best) continue;
                found = id;
                best = rank;
            }
    }
    if (found.valid()) return found;
    std::vector<std::string> names;
    for (const ProgramTensor& tensor : program_->tensors) names.push_back(tensor.name);
    return unknown("tensor", name, names);
}

Result<void> Session::check_type(TensorId id, const Array& value) const {
    TRY(verify(value));
    const ProgramTensor& tensor = program_->tensor(id);
    if (has_type_of(tensor, value)) return {};
    return invalid(fmt::format("{} has the wrong type: got {}, expected {}", tensor.name, type_text(value), type_of(tensor)));
}

Result<void> Session::write(std::string_view name, const Array& value) {
    TRY(TensorId id, find(name, Side::input));
    TRY(check_type(id, value));
    return executable_->write(id, value.data);
}

Result<Array> Session::read(std::string_view name, uint32_t ago) {
    TRY(TensorId id, find(name, Side::output));
    Array out = empty_array(program_->tensor(id));
    TRY(executable_->read(id, out.data, ago));
    return out;
}

Result<NamedArrays> Session::run(std::string_view graph, const NamedArrays& inputs) {
    TRY(uint32_t index, entry(graph));
    const Entry& entry = program_->entries[index];
    Reasons missing;
    for (TensorId id : entry.inputs) {
        const ProgramTensor& tensor = program_->tensor(id);
        if (!inputs.contains(tensor.name)) missing.add(fmt::format("{}: {}", tensor.name, type_of(tensor)));
    }
    if (!missing.empty()) return invalid(fmt::format("graph {} needs inputs that were not given: {}", graph, missing.text(", ")));
    TRY(write_inputs(entry, inputs));
    TRY(executable_->submit(index, 1));
    TRY(executable_->wait());
    NamedArrays outputs;
    for (TensorId id : entry.outputs) {
        Array out = empty_array(program_->tensor(id));
        TRY(executable_->read(id, out.data));
        outputs.emplace(program_->tensor(id).name, std::move(out));
    }
    return outputs;
}

Result<void> Session::run_async(std::string_view graph, const NamedArrays& inputs) {
    TRY(uint32_t index, entry(graph));
    TRY(write_inputs(program_->entries[index], inputs));
    return executable_->submit(index, 1);
}

Result<void> Session::write_ahead(std::string_view graph, std::string_view input, const Array& value, uint32_t ahead) {
    TRY(uint32_t index, entry(graph));
    TRY(const TensorId id, input_of(program_->entries[index], input));
    TRY(check_type(id, value));
    return executable_->write(id, value.data, ahead);
}

Result<TensorId> Session::input_of(const Entry& entry, std::string_view name) const {
    for (TensorId id : entry.inputs)
        if (program_->tensor(id).name == name) return id;
    Error error = unknown(fmt::format("input of {}", entry.name), name, names_of(*program_, entry.inputs));
    if (program_->find_state(name).valid()) error.hint = fmt::format("{} is state: Session::write() sets it", name);
    return error;
}

// Nothing is written where one of them does not fit.
Result<void> Session::write_inputs(const Entry& entry, const NamedArrays& inputs) {
    std::vector<std::pair<TensorId, const Array*>> writes;
    for (const auto& [name, value] : inputs) {
        TRY(const TensorId id, input_of(entry, name));
        TRY(check_type(id, value));
        writes.emplace_back(id, &value);
    }
    last_graph_ = entry.name;
    for (const auto& [id, value] : writes) TRY(executable_->write(id, value->data));
    return {};
}

Result<uint32_t> Session::ring_slots(std::string_view graph) const {
    TRY(uint32_t index, entry(graph));
    uint32_t slots = 1;
    for (const auto* ids : {&program_->entries[index].inputs, &program_->entries[index].outputs})
        for (TensorId id : *ids) slots = std::max(slots, program_->segment(program_->tensor(id).segment).slots);
    return slots;
}

Result<uint64_t> Session::finished(std::string_view graph) {
    TRY(uint32_t index, entry(graph));
    return executable_->finished(index);
}

Result<void> Session::submit(std::string_view graph, uint32_t steps) {
    TRY(uint32_t index, entry(graph));
    last_graph_ = graph;
    return executable_->submit(index, steps);
}

Result<void> Session::wait() { return executable_->wait(); }

Result<std::vector<DispatchTime>> Session::profile(std::string_view graph) {
    TRY(uint32_t index, entry(graph));
    return executable_->profile(index);
}

Result<void> Session::save(const std::string& path) {
    Safetensors contents;
    contents.metadata["format"] = "pt";
    for (const ProgramTensor& tensor : program_->tensors) {
        if (!is_saved(tensor)) continue;
        TRY(Array value, read(tensor.name));
        contents.tensors.emplace(tensor.name, std::move(value));
    }
    return write_safetensors(path, contents);
}

// All is checked before anything is written: a file that does not fit leaves the state as it was.
Result<void> Session::load(const std::string& path, bool strict) {
    TRY(Safetensors contents, read_safetensors(path));
    std::vector<std::string> missing, unexpected, mistyped;
    std::vector<std::pair<TensorId, const Array*>> writes;
    std::set<std::string_view> known;
    for (uint32_t i = 0; i < program_->tensors.size(); ++i) {
        const ProgramTensor& tensor = program_->tensors[i];
        if (!is_saved(tensor)) continue;
        known.insert(tensor.name);
        const auto found = contents.tensors.find(tensor.name);
        if (found == contents.tensors.end()) {
            missing.push_back(tensor.name);
        } else if (const Array& value = found->second; !has_type_of(tensor, value)) {
            mistyped.push_back(fmt::format("{}: got {}, expected {}", tensor.name, type_text(value), type_of(tensor)));
        } else {
            writes.emplace_back(TensorId(i), &value);
        }
    }
    for (const auto& [name, value] : contents.tensors)
        if (!known.contains(name)) unexpected.push_back(name);

    std::vector<std::string> problems;
    if (strict && !missing.empty()) problems.push_back(fmt::format("missing [{}]", fmt::join(missing, ", ")));
    if (strict && !unexpected.empty()) problems.push_back(fmt::format("unexpected [{}]", fmt::join(unexpected, ", ")));
    if (!mistyped.empty()) problems.push_back(fmt::format("of another type [{}]", fmt::join(mistyped, "; ")));
    if (!problems.empty()) return invalid(fmt::format("[load] {} does not fit this module: {}", path, fmt::join(problems, ", ")));
    for (const auto& [id, value] : writes) TRY(executable_->write(id, value->data));
    return {};
}

}  // namespace darner
