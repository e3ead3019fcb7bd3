// SPDX-License-Identifier: MIT
// darner plan: what becomes of graphs on a device, without one: kernels, barrier groups and memory, and with --estimate what each
// dispatch is expected to take.
#include "cli/command.h"
#include "cli/graph_file.h"
#include "cli/targets.h"
#include "darner/plan/estimate.h"
#include "darner/program/groups.h"
#include "darner/runtime/load.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace darner::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanCommand {
    std::string file, graph, target = "h200";
    std::vector<std::string> dims;
    bool estimate = false, json = false;
};

struct Memory {
    uint64_t state = 0, io = 0, constants = 0;
};

// State and constants are the program's; io is the entry's own.
Memory memory_of(const Program& program, const Entry& entry) {
    Memory memory;
    std::vector<SegmentId> io;
    for (const auto* ids : {&entry.inputs, &entry.outputs})
        for (const TensorId id : *ids) io.push_back(program.tensor(id).segment);
    for (size_t i = 0; i < program.segments.size(); ++i) {
        const Segment& segment = program.segments[i];
        if (segment.kind == SegmentKind::state) memory.state += segment.bytes;
        if (segment.kind == SegmentKind::constant) memory.constants += segment.bytes;
        if (std::find(io.begin(), io.end(), SegmentId(i)) != io.end()) memory.io += segment.bytes * segment.slots;
    }
    return memory;
}

std::string grid_text(const std::array<uint32_t, 3>& groups) {
    if (groups[2] != 1) return fmt::format("{}x{}x{}", groups[0], groups[1], groups[2]);
    return groups[1] != 1 ? fmt::format("{}x{}", groups[0], groups[1]) : std::to_string(groups[0]);
}

void print_report(const Program& program, const Entry& entry, const PlanReport& report, size_t groups) {
    const Memory memory = memory_of(program, entry);
    fmt::print("{}\n", printable(entry.name));
    fmt::print("  {} kernels, {} dispatches in {} barrier group{}, {} barriers", report.kernels, report.dispatches, groups,
               groups == 1 ? "" : "s", report.barriers);
    if (program.caps.hazard == HazardKind::per_buffer)
        fmt::print(", {} barriers expected of a device that tracks buffers", report.buffer_barriers);
    fmt::print("\n  memory: state {} bytes, inputs and outputs {}, constants {}\n", memory.state, memory.io, memory.constants);
    fmt::print("  scratch: {} bytes; {} live at once, {} without reuse\n", report.scratch_bytes, report.scratch_lower_bound,
               report.scratch_sum);
}

void print_estimate(const EntryEstimate& estimate) {
    fmt::print("  {:>5} {:>10} {:>12} {:>14} {:>16}  {}\n", "group", "us", "workgroups", "bytes", "FLOP", "what");
    for (size_t i = 0; i < estimate.groups.size(); ++i)
        for (const DispatchEstimate& row : estimate.groups[i].members)
            fmt::print("  {:>5} {:>10.2f} {:>12} {:>14} {:>16}  {}\n", i, row.seconds * 1e6, grid_text(row.workgroups), row.bytes,
                       row.flops, printable(row.label));
    fmt::print("  expected: {:.1f} us for {} bytes and {} FLOP in {} groups\n", estimate.seconds * 1e6, estimate.bytes,
               estimate.flops, estimate.groups.size());
}

Json json_of(const Program& program, const Entry& entry, const PlanReport& report, size_t groups,
             const std::optional<EntryEstimate>& estimate) {
    const Memory memory = memory_of(program, entry);
    Json out{{"graph", entry.name},
             {"kernels", report.kernels},
             {"dispatches", report.dispatches},
             {"groups", groups},
             {"barriers", report.barriers},
             {"buffer_barriers", report.buffer_barriers},
             {"state_bytes", memory.state},
             {"io_bytes", memory.io},
             {"constant_bytes", memory.constants},
             {"scratch_bytes", report.scratch_bytes},
             {"scratch_lower_bound", report.scratch_lower_bound},
             {"scratch_sum", report.scratch_sum}};
    if (!estimate) return out;
    Json rows = Json::array();
    for (size_t i = 0; i < estimate->groups.size(); ++i)
        for (const DispatchEstimate& row : estimate->groups[i].members)
            rows.push_back({{"group", i},
                            {"label", row.label},
                            {"kernel", row.kernel},
                            {"workgroups", row.workgroups},
                            {"bytes", row.bytes},
                            {"flops", row.flops},
                            {"microseconds", row.seconds * 1e6}});
    out["estimate"] = {{"microseconds", estimate->seconds * 1e6},
                       {"bytes", estimate->bytes},
                       {"flops", estimate->flops},
                       {"dispatches", std::move(rows)}};
    return out;
}

Result<void> plan_file(const PlanCommand& options) {
    TRY(const Module module, read_module(options.file));
    TRY(const SymbolBindings bindings, parse_dim_options(options.dims));
    if (!options.graph.empty()) TRY(pick_graph(module, options.graph, options.file));  // the error knows near names
    TRY(const Module bound, bind_module(module, bindings));
    TRY(const Program program, plan_program(bound, target_caps(options.target)));

    Json out = Json::array();
    for (size_t i = 0; i < program.entries.size(); ++i) {
        const Entry& entry = program.entries[i];
        if (!options.graph.empty() && entry.name != options.graph) continue;
        TRY(const std::vector<BarrierGroup> groups, barrier_groups(entry));
        std::optional<EntryEstimate> expected;
        if (options.estimate) {
            TRY(expected, estimate(program, entry, rates_of(program.caps)));
        }
        if (options.json) {
            out.push_back(json_of(program, entry, program.reports[i], groups.size(), expected));
            continue;
        }
        print_report(program, entry, program.reports[i], groups.size());
        if (expected) print_estimate(*expected);
    }
    if (options.json) fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
}

}  // namespace

void add_plan(CommandLine& line) {
    auto options = std::make_shared<PlanCommand>();
    CLI::App& command = line.add(line.app, "plan", "Show how graphs would run: kernels, barriers, memory, expected times",
                                 "darner plan model.dg --estimate\n"
                                 "darner plan model.dg --target webgpu --dim batch=32 --json");
    command.add_option("FILE", options->file, "Graph file (.dg); - is standard input")->required()->type_name("");
    command.add_option("--graph", options->graph, "Show this graph only")->type_name("NAME");
    command
        .add_option("--target", options->target,
                    "Plan for an NVIDIA H200 (h200), or for the least that every device of a kind has: vulkan or webgpu")
        ->check(one_of(target_names()))
        ->type_name("T")
        ->capture_default_str();
    command.add_flag("--estimate", options->estimate,
                     "Expected time of each dispatch, from bytes, FLOPs and the device's rates (an H200's where the target has "
                     "none)");
    command.add_option("--dim", options->dims, "Value of a symbol in the dims; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=N");
    add_json(command, options->json);
    line.on_run(command, [options] { return plan_file(*options); });
}

}  // namespace darner::cli
