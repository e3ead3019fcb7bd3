// SPDX-License-Identifier: MIT
// darner diff: a graph on a device, node by node and as a whole, against the f64 reference. Fails when a value is outside its
// bound; the first node named is where an error starts.
#include "darner/runtime/diff.h"
#include "cli/graph_file.h"
#include "cli/node_text.h"
#include "cli/run.h"

namespace darner::cli {
namespace {

constexpr size_t most_shown = 8;

void print_difference(const Difference& difference) {
    fmt::print("    element {}: got {:.9g}, expected {:.9g} within {:.3g}; {} of {} elements are outside\n", difference.element,
               difference.got, difference.want, difference.bound, difference.outside, difference.count);
    print_ranges(difference.operands);
}

void print_others(const char* what, const std::vector<Difference>& list, size_t from) {
    for (size_t i = from; i < std::min(list.size(), from + most_shown); ++i) {
        const Difference& d = list[i];
        fmt::print("{}: {}: got {:.9g}, expected {:.9g} within {:.3g}\n", what, printable(d.what), d.got, d.want, d.bound);
    }
    if (list.size() > from + most_shown) fmt::print("{}: and {} more\n", what, list.size() - from - most_shown);
}

void print_text(const std::string& graph, const DiffReport& report) {
    fmt::print("{} on {} ({})\n", printable(graph), report.device.name, report.device.id);
    if (report.ok())
        return fmt::print("all {} nodes are within their bounds; the largest error is {:.2g} of its bound\n", report.nodes,
                          report.worst_ratio);
    if (report.outside.empty())
        fmt::print(
            "all {} nodes are within their bounds by themselves: the error comes from how they are fused or from reused "
            "memory\n",
            report.nodes);
    else {
        fmt::print("first outside its bound: {}\n", printable(report.outside[0].what));
        print_difference(report.outside[0]);
    }
    print_others("also outside", report.outside, 1);
    print_others("in the whole run", report.results, 0);
}

Json json_of(const std::vector<Difference>& list) {
    Json out = Json::array();
    for (const Difference& d : list)
        out.push_back({{"what", d.what},
                       {"element", d.element},
                       {"got", number(d.got)},
                       {"want", number(d.want)},
                       {"bound", number(d.bound)},
                       {"outside", d.outside},
                       {"count", d.count},
                       {"operands", ranges(d.operands)}});
    return out;
}

void print_json(const std::string& graph, const DiffReport& report) {
    const Json out{{"graph", graph},
                   {"device", report.device.id},
                   {"nodes", report.nodes},
                   {"worst_ratio", report.worst_ratio},
                   {"outside", json_of(report.outside)},
                   {"results", json_of(report.results)}};
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Result<void> diff_file(const RunOptions& options) {
    TRY(const Module module, read_module(options.file));
    TRY(PreparedRun run, prepare_run(options, module));
    TRY(const NamedTensors leaves, leaf_values(run));
    TRY(const DiffReport report, diff(run.graph, leaves, {.device = options.device}));
    options.json ? print_json(run.graph.name, report) : print_text(run.graph.name, report);
    if (report.ok()) return {};
    return invalid(fmt::format("[diff] {} of {} nodes and {} results are outside their bounds", report.outside.size(),
                               report.nodes, report.results.size()));
}

}  // namespace

void add_diff(CommandLine& line) {
    auto options = std::make_shared<RunOptions>();
    CLI::App& command =
        line.add(line.app, "diff", "Compare each node of a graph on a device with the f64 reference",
                 "darner diff model.dg --fill random:1\ndarner diff model.dg --set x=x.npy --device interp --json");
    add_run_options(command, *options, "Graph file (.dg); - is standard input");
    line.on_run(command, [options] { return diff_file(*options); });
}

}  // namespace darner::cli
