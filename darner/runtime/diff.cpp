// SPDX-License-Identifier: MIT
// The bounds are those of docs/ops.md. A node may be off by its own rounding, and by what its operands' rounding changes: a
// fused kernel goes on from registers that hold more than the stored operand.
#include "darner/runtime/diff.h"

#include "darner/runtime/perturb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace darner {
namespace {

constexpr int moves = 4;             // evaluations with moved operands
constexpr double move_factor = 4;    // of the largest change that they show
constexpr double result_factor = 8;  // of the spread of a whole graph

double unit(DType dtype) { return dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0; }
double smallest(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 0x1p-126; }
double largest(DType dtype) { return dtype == DType::f16 ? 65504 : 3.38e38; }

// How many terms each element sums.
double terms(const Call& call) {
    int64_t terms = 1;
    if (const auto* contract = std::get_if<ContractLower>(&call.op->lower)) {
        terms = contract->space(call).terms();
    } else {
        int64_t read = 0;
        for (size_t i = 0; i < call.operand_count(); ++i)
            if (call.has(i)) read = std::max(read, call.type(i).count());
        terms = read / std::max<int64_t>(1, call.out->count());
    }
    return static_cast<double>(std::max<int64_t>(1, terms));
}

// Without the sign that a NaN may carry.
double shown(double value) { return std::isnan(value) ? std::fabs(value) : value; }

class NodeJudge {
public:
    explicit NodeJudge(const NodeValues& run) : run_(run), error_(run.graph.nodes.size()) {}

    // `value` is the reference's value of the node, computed from the device's operands.
    Result<void> judge(NodeId id, std::span<const Tensor* const> operands, const Tensor& value, DiffReport& report) {
        const NodeCall call(run_.graph, id);
        const Tensor& got = run_.values[id.value];
        TRY(std::vector<double> own, rounding_error(*call, operands, value));
        std::vector<double> moved(own.size());
        std::vector<std::vector<int64_t>> integers;  // what an integer may be as well
        for (int seed = 0; seed < moves; ++seed) {
            TRY(const Tensor other, moved_value(id, *call, operands, seed));
            for (size_t i = 0; i < moved.size(); ++i) {
                const double change = std::fabs(other.real[i] - value.real[i]);
                if (std::isfinite(change)) moved[i] = std::max(moved[i], change);
            }
            integers.push_back(other.integer);
        }
        const bool is_sum = !call->op->is_map();
        const double own_factor = is_sum ? 4 * std::sqrt(terms(*call)) : 1;
        Difference difference{run_.graph.describe(id)};
        difference.count = value.count();
        double worst = 0;
        for (int64_t i = 0; i < value.count(); ++i) {
            const auto at = static_cast<size_t>(i);
            const auto equals = [&](const std::vector<int64_t>& other) { return other[at] == got.integer[at]; };
            double bound = 0;
            bool good;
            if (is_float(value.dtype)) {
                bound = own_factor * own[at] + move_factor * moved[at] + stored_error(value.dtype, value.real[at]);
                good = agrees(got.real[at], value.real[at], bound, value.dtype);
            } else {
                good = equals(value.integer) || std::any_of(integers.begin(), integers.end(), equals);
            }
            const double error = std::fabs(got.at(i) - value.at(i));
            if (good && bound > 0 && std::isfinite(error)) report.worst_ratio = std::max(report.worst_ratio, error / bound);
            if (good) continue;
            ++difference.outside;
            const double ratio = std::isfinite(error) ? error / std::max(bound, 1e-300) : HUGE_VAL;
            if (difference.outside > 1 && !(ratio > worst)) continue;
            worst = ratio;
            difference.element = i;
            difference.got = shown(got.at(i));
            difference.want = shown(value.at(i));
            difference.bound = bound;
        }
        keep_error(id, *call, value, std::move(own), moved);
        ++report.nodes;
        if (difference.outside == 0) return {};
        difference.operands = operand_ranges(run_.graph, id, run_.values);
        report.outside.push_back(std::move(difference));
        return {};
    }

    static bool agrees(double got, double want, double bound, DType dtype) {
        if (std::isnan(want)) return std::isnan(got);
        // Beyond the largest value a device has infinity; close below, its rounding may get there.
        if (std::fabs(want) > largest(dtype) * 0.99) return std::fabs(got) > largest(dtype) * 0.98 && (got > 0) == (want > 0);
        return std::fabs(got - want) <= bound;
    }

    static double stored_error(DType dtype, double value) {
        const double rounded = std::fabs(round_to(dtype, value) - value);
        return smallest(dtype) + (std::isfinite(rounded) ? rounded : 0);
    }

private:
    Result<Tensor> moved_value(NodeId id, const Call& call, std::span<const Tensor* const> operands, int seed) const {
        std::vector<Tensor> held(operands.size());
        std::vector<const Tensor*> pointers(operands.size());
        for (size_t k = 0; k < operands.size(); ++k) {
            if (operands[k] == nullptr) continue;
            held[k] = *operands[k];
            const std::vector<double>& error = error_[run_.graph.node(id).operands[k].value];
            for (size_t i = 0; i < error.size(); ++i) {
                const uint64_t mixed = (i * 2 + k + 1) * 0x9e3779b97f4a7c15u;
                const bool up = ((mixed >> (40 + seed / 2)) & 1) == static_cast<uint64_t>(seed % 2);
                held[k].real[i] += up ? error[i] : -error[i];
            }
            pointers[k] = &held[k];
        }
        return eval_call(call, pointers);
    }

    // How far a register may be from the stored value. What is exact hands on the error of its operands.
    void keep_error(NodeId id, const Call& call, const Tensor& value, std::vector<double> own, const std::vector<double>& moved) {
        const bool exact = call.op->is_map() && call.op->ulp == 0;
        const bool moves_values =
            std::holds_alternative<ViewLower>(call.op->lower) || std::holds_alternative<IndexLower>(call.op->lower);
        for (size_t i = 0; i < own.size(); ++i) {
            if ((exact || moves_values) && std::isfinite(moved[i])) own[i] += moved[i];
            own[i] = std::max(own[i], unit(value.dtype) * std::fabs(value.real[i]));
            if (!std::isfinite(own[i])) own[i] = 0;
        }
        error_[id.value] = std::move(own);
    }

    const NodeValues& run_;
    std::vector<std::vector<double>> error_;  // by node
};

// The graph as it is, end to end.
class ResultJudge {
public:
    static Result<ResultJudge> make(const Graph& graph, const NamedTensors& leaves) {
        ResultJudge judge;
        TRY(judge.model_, RoundingModel::of(graph));
        TRY(judge.want_, eval_nodes(judge.model_.graph(), leaves));
        TRY(judge.spread_, judge.model_.spread(leaves, moves));
        return judge;
    }

    std::optional<Difference> judge(std::string what, NodeId id, const Tensor& got) const {
        const Tensor& want = want_[id.value];
        Difference difference{std::move(what)};
        difference.count = want.count();
        for (int64_t i = 0; i < want.count(); ++i) {
            double bound = 0;
            if (is_float(want.dtype))
                bound =
                    result_factor * spread_[id.value][static_cast<size_t>(i)] + NodeJudge::stored_error(want.dtype, want.at(i));
            const bool good = is_float(want.dtype) ? NodeJudge::agrees(got.at(i), want.at(i), bound, want.dtype)
                                                   : got.integer[static_cast<size_t>(i)] == want.integer[static_cast<size_t>(i)];
            if (good || ++difference.outside > 1) continue;
            difference.element = i;
            difference.got = shown(got.at(i));
            difference.want = shown(want.at(i));
            difference.bound = bound;
        }
        if (difference.outside == 0) return {};
        return difference;
    }

    const Graph& graph() const { return model_.graph(); }

private:
    RoundingModel model_;
    std::vector<Tensor> want_;
    std::vector<std::vector<double>> spread_;
};

Result<void> compare_results(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options, DiffReport& report) {
    Graph bare = graph;
    for (GraphParam& param : bare.params) param.init = {};
    TRY(const StepValues got, run_step(bare, leaves, options));
    TRY(const ResultJudge judge, ResultJudge::make(bare, leaves));
    const auto add = [&](const std::string& what, NodeId id, const Tensor& value) {
        if (auto difference = judge.judge(what, id, value)) report.results.push_back(std::move(*difference));
    };
    for (const GraphOutput& output : judge.graph().outputs)
        add("output " + output.name, output.node, got.outputs.at(output.name));
    for (const GraphUpdate& update : judge.graph().updates) {
        const std::string& name = judge.graph().params[judge.graph().node(update.param).leaf].name;
        add("new value of " + name, update.value, got.updates.at(name));
    }
    return {};
}

}  // namespace

Result<DiffReport> diff(const Graph& graph, const NamedTensors& leaves, const CompileOptions& options) {
    TRY(const NodeValues run, run_every_node(graph, leaves, options));
    DiffReport report;
    report.device = run.device;
    NodeJudge judge(run);
    const OnValue compare = [&](NodeId id, std::span<const Tensor* const> operands, Tensor& value) -> Result<void> {
        TRY(judge.judge(id, operands, value, report));
        value = run.values[id.value];
        return {};
    };
    TRY(eval_nodes(run.graph, leaves, compare));
    TRY(compare_results(graph, leaves, options, report));
    return report;
}

}  // namespace darner
