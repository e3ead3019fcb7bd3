// SPDX-License-Identifier: MIT
// Rounding sensitivity of graphs; see perturb.h.
#include "darner/runtime/perturb.h"

#include "darner/graph/builder.h"
#include "darner/ops/ops.h"
#include "darner/transform/transform.h"

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

constexpr uint32_t seeds = 4;

DType widened(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

// The relative error of one op in units of 2^-24, half an ULP of f32.
double error_of(const OpDef& op) {
    if (op.is_map()) return 2 * op.ulp;
    const auto* reduce = std::get_if<ReduceLower>(&op.lower);
    const bool sums = (reduce && reduce->kind == Reduction::sum) || std::holds_alternative<ContractLower>(op.lower) ||
                      std::holds_alternative<KernelLower>(op.lower);
    return sums ? 2 : 0;
}

double sign_of(uint32_t seed, uint32_t node) {
    const uint32_t mixed = (node * 2654435761u) ^ (seed * 2246822519u);
    return (mixed >> 15) & 1 ? 1 : -1;
}

}  // namespace

Result<Graph> perturbed(const Graph& graph, uint32_t seed) {
    TRY(const Graph expanded, expand(graph));
    Builder b(expanded.name);
    std::vector<Value> map(expanded.nodes.size());
    for (uint32_t id = 0; id < expanded.nodes.size(); ++id) {
        const Node& node = expanded.nodes[id];
        const Type type = node.type.with(widened(node.type.dtype));
        switch (node.kind) {
            case NodeKind::input: map[id] = b.input(expanded.inputs[node.leaf].name, type); break;
            case NodeKind::param: map[id] = b.param(expanded.params[node.leaf].name, type); break;
            case NodeKind::constant: {
                Tensor value = expanded.constant(node);
                value.dtype = type.dtype;
                map[id] = b.constant(type, std::move(value));
                break;
            }
            case NodeKind::op: {
                std::vector<Value> operands;
                for (const NodeId operand : node.operands) operands.push_back(operand.valid() ? map[operand.value] : Value{});
                std::vector<AttrValue> attrs = node.attrs;
                for (AttrValue& attr : attrs)
                    if (auto* dtype = std::get_if<DType>(&attr)) *dtype = widened(*dtype);
                Value y = b.call_exact(*node.op, operands, std::move(attrs));
                if (const double error = error_of(*node.op); seed != 0 && error > 0 && is_float(type.dtype))
                    y = y * (1 + sign_of(seed, id) * error * 0x1p-24);
                map[id] = y;
                break;
            }
        }
    }
    for (const GraphOutput& output : expanded.outputs) b.output(output.name, map[output.node.value]);
    return b.finish();
}

Result<NamedTensors> rounding_spread(const Graph& graph, const NamedTensors& leaves) {
    NamedTensors wide = leaves;
    for (auto& [name, tensor] : wide) tensor.dtype = widened(tensor.dtype);
    TRY(const Graph plain, perturbed(graph, 0));
    TRY(const EvalResult exact, eval(plain, wide));
    NamedTensors spread;
    for (const auto& [name, tensor] : exact.outputs)
        if (is_float(tensor.dtype)) spread.emplace(name, Tensor::zeros(tensor.dtype, tensor.dims));
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
        TRY(const Graph moved, perturbed(graph, seed));
        TRY(const EvalResult result, eval(moved, wide));
        for (auto& [name, tensor] : spread)
            for (size_t i = 0; i < tensor.real.size(); ++i) {
                const double change = std::fabs(result.outputs.at(name).real[i] - exact.outputs.at(name).real[i]);
                if (std::isfinite(change)) tensor.real[i] = std::max(tensor.real[i], change);
            }
    }
    return spread;
}

}  // namespace darner
