// SPDX-License-Identifier: MIT
// Rounding sensitivity of graphs; see perturb.h.
#include "darner/runtime/perturb.h"

#include "darner/graph/builder.h"
#include "darner/runtime/op_check_cases.h"
#include "darner/transform/transform.h"

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

DType widened(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

// Half the spacing of a float's values at 1, and the smallest spacing: what devices may flush or round to.
double unit(DType dtype) {
    return dtype == DType::f64 ? 0x1p-53 : dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
}
double smallest(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 0x1p-126; }

bool sums(const OpDef& op) {
    const auto* reduce = std::get_if<ReduceLower>(&op.lower);
    return (reduce && reduce->kind == Reduction::sum) || std::holds_alternative<ContractLower>(op.lower) ||
           std::holds_alternative<KernelLower>(op.lower);
}

// A change of dtype may round: always from a wider float, else where the value is none of the dtype's.
bool converts(const Call& call) {
    return std::none_of(call.types.begin(), call.types.end(), [&](const Type* t) { return t && t->dtype == call.out->dtype; });
}

// What a sum sums: the op's value with the magnitudes of its operands.
Result<Tensor> magnitudes(const Call& call, std::span<const Tensor* const> operands) {
    std::vector<Tensor> held(operands.size());
    std::vector<const Tensor*> pointers(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == nullptr) continue;
        held[i] = *operands[i];
        for (double& v : held[i].real) v = std::fabs(v);
        pointers[i] = &held[i];
    }
    return eval_call(call, pointers);
}

// In [-1.5, -0.5] or [0.5, 1.5]. Not just a sign: errors of one size would cancel as often as not.
double move_of(uint32_t seed, uint32_t node, size_t element) {
    uint64_t mixed = (uint64_t{seed} << 48) ^ (uint64_t{node} << 28) ^ element;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    const double size = 0.5 + static_cast<double>(mixed >> 11) * 0x1p-53;
    return mixed & 1 ? size : -size;
}

// The graph with f64 for all floats. Nodes keep their ids.
Result<Graph> widen(const Graph& graph) {
    Builder b(graph.name);
    std::vector<Value> map(graph.nodes.size());
    for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        const Type type = node.type.with(widened(node.type.dtype));
        switch (node.kind) {
            case NodeKind::input: map[id] = b.input(graph.inputs[node.leaf].name, type); break;
            case NodeKind::param: map[id] = b.param(graph.params[node.leaf].name, type); break;
            case NodeKind::constant: {
                Tensor value = graph.constant(node);
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
                map[id] = b.call_exact(*node.op, operands, std::move(attrs));
                break;
            }
        }
    }
    for (const GraphOutput& output : graph.outputs) b.output(output.name, map[output.node.value]);
    for (const GraphUpdate& update : graph.updates) b.update(map[update.param.value], map[update.value.value]);
    TRY(Graph wide, b.finish());
    CHECK(wide.nodes.size() == graph.nodes.size(), "widening a graph changed its nodes");
    return wide;
}

// `call` has the types whose rounding counts, `evaluated` those of the tensors.
Result<std::vector<double>> own_error(const Call& call, const Call& evaluated, std::span<const Tensor* const> operands,
                                      const Tensor& value) {
    std::vector<double> error(value.real.size());
    const OpDef& op = *call.op;
    const DType dtype = call.out->dtype;
    if (!is_float(dtype)) return error;
    const bool is_sum = sums(op), inexact = is_sum || op.ulp > 0;
    if (op.ulp > 0)
        for (size_t i = 0; i < error.size(); ++i)
            error[i] = op.ulp * 0x1p-23 * std::max(std::fabs(value.real[i]), absolute_below(op));
    if (is_sum) {
        TRY(const Tensor size, magnitudes(evaluated, operands));
        for (size_t i = 0; i < error.size(); ++i) error[i] += 0x1p-24 * size.real[i];
    }
    const bool conversion = call.has(0) && converts(call);
    const bool narrows = conversion && is_float(call.type(0).dtype) && unit(dtype) > unit(call.type(0).dtype);
    const bool from_integer = conversion && !is_float(call.type(0).dtype);
    for (size_t i = 0; i < error.size(); ++i) {
        const double v = value.real[i];
        const bool stored = (inexact && dtype != DType::f32) || narrows || (from_integer && round_to(dtype, v) != v);
        if (stored) error[i] += unit(dtype) * std::fabs(v);
        if ((inexact || narrows) && v != 0) error[i] += smallest(dtype);
    }
    return error;
}

// Of a kernel that is many steps at once: what the rounding of the steps may change.
Result<std::vector<double>> error_of_steps(const Call& call, std::span<const Tensor* const> operands) {
    Builder b;
    std::vector<Value> values(operands.size());
    NamedTensors leaves;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == nullptr) continue;
        const std::string name = std::to_string(i);
        values[i] = b.input(name, call.type(i));
        leaves.emplace(name, *operands[i]);
    }
    b.output("result", b.call_exact(*call.op, values, std::vector<AttrValue>(call.attrs.begin(), call.attrs.end())));
    TRY(const Graph graph, b.finish());
    TRY(const NamedTensors spread, rounding_spread(graph, leaves));
    return spread.at("result").real;
}

}  // namespace

Result<std::vector<double>> rounding_error(const Call& call, std::span<const Tensor* const> operands, const Tensor& value) {
    const bool many_steps = !call.op->is_composite() && call.op->expansion() != nullptr;
    return many_steps ? error_of_steps(call, operands) : own_error(call, call, operands, value);
}

Result<RoundingModel> RoundingModel::of(const Graph& graph) {
    RoundingModel model;
    TRY(model.graph_, expand_kernels(graph));
    TRY(model.wide_, widen(model.graph_));
    return model;
}

Result<std::vector<Tensor>> RoundingModel::values(const NamedTensors& leaves, uint32_t seed, double amplitude) const {
    NamedTensors wide = leaves;
    for (auto& [name, tensor] : wide) tensor.dtype = widened(tensor.dtype);
    OnValue move;
    if (amplitude != 0)
        move = [&](NodeId id, std::span<const Tensor* const> operands, Tensor& value) -> Result<void> {
            if (!is_float(value.dtype)) return {};
            TRY(const std::vector<double> error, own_error(*NodeCall(graph_, id), *NodeCall(wide_, id), operands, value));
            for (size_t i = 0; i < error.size(); ++i) value.real[i] += amplitude * move_of(seed, id.value, i) * error[i];
            return {};
        };
    return eval_nodes(wide_, wide, move);
}

Result<std::vector<std::vector<double>>> RoundingModel::spread(const NamedTensors& leaves, uint32_t seeds) const {
    TRY(const std::vector<Tensor> exact, values(leaves, 0, 0));
    std::vector<std::vector<double>> spread(exact.size());
    for (size_t node = 0; node < exact.size(); ++node) spread[node].resize(exact[node].real.size());
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
        TRY(const std::vector<Tensor> moved, values(leaves, seed, 1));
        for (size_t node = 0; node < exact.size(); ++node)
            for (size_t i = 0; i < spread[node].size(); ++i) {
                const double change = std::fabs(moved[node].real[i] - exact[node].real[i]);
                if (std::isfinite(change)) spread[node][i] = std::max(spread[node][i], change);
            }
    }
    return spread;
}

Result<NamedTensors> rounding_spread(const Graph& graph, const NamedTensors& leaves) {
    constexpr uint32_t seeds = 4;
    TRY(const RoundingModel model, RoundingModel::of(graph));
    TRY(const auto spread, model.spread(leaves, seeds));
    NamedTensors of_outputs;
    for (const GraphOutput& output : model.graph().outputs) {
        const Type& type = model.graph().type(output.node);
        if (is_float(type.dtype)) of_outputs[output.name] = Tensor::of(DType::f64, type.shape(), spread[output.node.value]);
    }
    return of_outputs;
}

}  // namespace darner
