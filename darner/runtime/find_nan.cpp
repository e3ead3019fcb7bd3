// SPDX-License-Identifier: MIT
#include "darner/runtime/find_nan.h"

#include <algorithm>
#include <cmath>

namespace darner {

Result<FindNanReport> find_nan(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options) {
    TRY(const NodeValues run, run_every_node(graph, leaves, options));
    FindNanReport report;
    report.device = run.device;
    report.nodes = run.graph.nodes.size();
    for (size_t i = 0; i < run.values.size() && !report.first; ++i) {
        const std::vector<double>& values = run.values[i].real;
        const auto bad = std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
        if (bad == values.end()) continue;
        const NodeId id(i);
        report.first = NotFinite{run.graph.describe(id), bad - values.begin(), std::isnan(*bad) ? std::fabs(*bad) : *bad,
                                 value_range(run.graph.describe(id), run.values[i]), operand_ranges(run.graph, id, run.values)};
    }
    return report;
}

}  // namespace darner
