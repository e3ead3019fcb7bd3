// SPDX-License-Identifier: MIT
// darner run --find-nan: a run with every node's value looked at; see darner/runtime/find_nan.h. Finding one is not a failure of
// the command.
#include "darner/runtime/find_nan.h"
#include "cli/node_text.h"
#include "cli/run.h"

#include <fmt/format.h>

namespace darner::cli {
namespace {

void print_text(const std::string& graph, const FindNanReport& report) {
    fmt::print("{} on {} ({})\n", printable(graph), report.device.name, report.device.id);
    if (!report.first) {
        fmt::print("all values of its {} nodes are finite\n", report.nodes);
        return;
    }
    fmt::print("first that is not finite: {}\n", printable(report.first->what));
    fmt::print("    element {} is {}; {} NaN and {} infinite of {}\n", report.first->element, report.first->value,
               report.first->range.nans, report.first->range.infinities, report.first->range.count);
    print_ranges(report.first->operands);
}

void print_json(const std::string& graph, const FindNanReport& report) {
    Json out{{"graph", graph}, {"device", report.device.id}, {"nodes", report.nodes}, {"first", nullptr}};
    if (report.first)
        out["first"] = {{"node", report.first->what},
                        {"element", report.first->element},
                        {"value", number(report.first->value)},
                        {"nans", report.first->range.nans},
                        {"infinities", report.first->range.infinities},
                        {"count", report.first->range.count},
                        {"operands", ranges(report.first->operands)}};
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Result<void> find_nan_in(const RunOptions& options, const Module& module) {
    if (!options.out_dir.empty()) return invalid("[run] --find-nan writes no files: leave --out-dir out");
    TRY(PreparedRun run, prepare_run(options, module));
    TRY(const NamedTensors leaves, leaf_values(run));
    TRY(const FindNanReport report, find_nan(run.graph, leaves, {.device = options.device}));
    options.json ? print_json(run.graph.name, report) : print_text(run.graph.name, report);
    return {};
}

}  // namespace darner::cli
