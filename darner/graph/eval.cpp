// SPDX-License-Identifier: MIT
// The reference evaluator: node by node in order, each by its op's reference or, for composites, by evaluating the op's
// expansion in a small graph. Only expansions nest, so recursion follows the depth of definitions, never that of graphs.
#include "darner/graph/eval.h"

#include "darner/graph/builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {

namespace {

// Floats in double when any operand is one, else integers; the result goes where the output's dtype says.
Tensor eval_elements(const ElementRef& ref, const Call& call, std::span<const Tensor* const> operands) {
    const bool in_real = std::any_of(operands.begin(), operands.end(), [](const Tensor* t) { return t && is_float(t->dtype); });
    const DType dtype = call.out->dtype;
    Tensor out = Tensor::zeros(dtype, call.out->shape());
    CHECK(in_real || !ref.integer ? ref.real != nullptr : true,
          fmt::format("[{}] no reference for these operands", call.op->name));
    const bool use_real = in_real || !ref.integer;
    // Integer functions see the operands' dtype; where they differ (select) it is that of the last.
    const DType operand_dtype = operands.empty() ? dtype : operands.back()->dtype;
    std::vector<double> real(operands.size());
    std::vector<int64_t> integer(operands.size());
    for (int64_t i = 0; i < out.count(); ++i) {
        const auto at = static_cast<size_t>(i);
        if (use_real) {
            for (size_t k = 0; k < operands.size(); ++k) real[k] = operands[k]->at(i);
            out.set(i, ref.real(real));
        } else {
            for (size_t k = 0; k < operands.size(); ++k) integer[k] = operands[k]->integer[at];
            const int64_t value = ref.integer(integer, operand_dtype);
            if (is_float(dtype)) {
                out.real[at] = static_cast<double>(value);
            } else {
                out.integer[at] = wrap_to(dtype, value);
            }
        }
    }
    return out;
}

Result<Tensor> eval_expansion(const Call& call, std::span<const Tensor* const> operands) {
    const auto expand = call.op->expansion();
    CHECK(expand, fmt::format("[{}] neither a reference nor an expansion", call.op->name));
    Builder builder{std::string(call.op->name)};
    std::vector<Value> values(operands.size());
    NamedTensors leaves;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i]) continue;
        const std::string name = fmt::format("{}", i);
        values[i] = builder.input(name, call.type(i), Where{});
        leaves.emplace(name, *operands[i]);
    }
    BuildCall build;
    static_cast<Call&>(build) = call;
    build.builder = &builder;
    build.operands = values;
    builder.output("result", expand(build), Where{});
    TRY(Graph expansion, builder.finish());
    CHECK(expansion.type(expansion.outputs[0].node) == *call.out,
          fmt::format("[{}] the expansion gives {}, inference {}", call.op->name,
                      to_string(expansion.type(expansion.outputs[0].node)), to_string(*call.out)));
    TRY(EvalResult result, eval(expansion, leaves));
    return std::move(result.outputs.begin()->second);
}

class Evaluator {
public:
    Evaluator(const Graph& graph, const NamedTensors& leaves, OnValue on_value = {})
        : graph_(graph), leaves_(leaves), on_value_(std::move(on_value)), values_(graph.nodes.size()) {}

    // Evaluates the nodes that are marked. With `keep` all values stay, else each goes after its last use.
    Result<void> run(const std::vector<bool>& wanted, std::vector<uint32_t> uses, bool keep) {
        TRY(check_leaves(wanted));
        for (size_t i = 0; i < graph_.nodes.size(); ++i) {
            if (!wanted[i]) continue;
            TRY(values_[i], eval_node(NodeId(i)));
            if (keep) continue;
            for (NodeId operand : graph_.nodes[i].operands)
                if (operand.valid() && --uses[operand.value] == 0) values_[operand.value] = {};
        }
        return {};
    }
    std::vector<Tensor>& values() { return values_; }

private:
    Result<void> check_leaves(const std::vector<bool>& wanted) const {
        std::vector<std::string> problems;
        const auto check = [&](const std::string& name, NodeId node) {
            const auto found = leaves_.find(name);
            const Type& type = graph_.type(node);
            if (found == leaves_.end()) {
                if (wanted[node.value]) problems.push_back(fmt::format("{} {} is missing", name, to_string(type)));
                return;
            }
            const Tensor& value = found->second;
            if (value.type() != type) {
                problems.push_back(fmt::format("{}: got {}, expected {}", name, to_string(value.type()), to_string(type)));
            } else if (value.count() != type.count()) {
                problems.push_back(fmt::format("{}: got {} values for {}", name, value.count(), to_string(type)));
            }
        };
        for (const GraphInput& input : graph_.inputs) check(input.name, input.node);
        for (const GraphParam& param : graph_.params) check(param.name, param.node);
        if (!problems.empty()) return invalid(fmt::format("[eval] graph {}: {}", graph_.name, fmt::join(problems, "; ")));
        for (size_t i = 0; i < graph_.nodes.size(); ++i)
            if (wanted[i] && !graph_.nodes[i].type.is_concrete())
                return invalid(fmt::format("[eval] {}: its symbols have no values; bind them first", graph_.describe(NodeId(i))));
        return {};
    }

    Result<Tensor> eval_node(NodeId id) const {
        const Node& node = graph_.node(id);
        switch (node.kind) {
            case NodeKind::input: return leaves_.find(graph_.inputs[node.leaf].name)->second;
            case NodeKind::param: return leaves_.find(graph_.params[node.leaf].name)->second;
            case NodeKind::constant: return eval_constant(node);
            case NodeKind::op: break;
        }
        std::vector<const Tensor*> operands;
        for (NodeId operand : node.operands) operands.push_back(operand.valid() ? &values_[operand.value] : nullptr);
        TRY(Tensor value, eval_call(*NodeCall(graph_, id), operands));
        if (on_value_) TRY(on_value_(id, operands, value));
        return value;
    }

    Tensor eval_constant(const Node& node) const {
        Tensor value = graph_.constant(node);
        const auto count = static_cast<size_t>(node.type.count());
        if (value.count() == 1) {
            value.real.resize(value.real.size() * count, value.real.empty() ? 0 : value.real[0]);
            value.integer.resize(value.integer.size() * count, value.integer.empty() ? 0 : value.integer[0]);
        }
        value.dims = node.type.shape();
        return value;
    }

    const Graph& graph_;
    const NamedTensors& leaves_;
    const OnValue on_value_;
    std::vector<Tensor> values_;
};

}  // namespace

Result<EvalResult> eval(const Graph& graph, const NamedTensors& leaves) {
    // Operands come before their users, so one sweep backwards finds what is needed and how often.
    std::vector<bool> wanted(graph.nodes.size());
    std::vector<uint32_t> uses(graph.nodes.size());
    const auto want = [&](NodeId id) {
        wanted[id.value] = true;
        ++uses[id.value];
    };
    for (const GraphOutput& output : graph.outputs) want(output.node);
    for (const GraphUpdate& update : graph.updates) want(update.value);
    for (size_t i = graph.nodes.size(); i-- > 0;) {
        if (!wanted[i]) continue;
        for (NodeId operand : graph.nodes[i].operands)
            if (operand.valid()) want(operand);
    }
    Evaluator evaluator(graph, leaves);
    TRY(evaluator.run(wanted, std::move(uses), false));
    EvalResult result;
    for (const GraphOutput& output : graph.outputs) result.outputs[output.name] = evaluator.values()[output.node.value];
    for (const GraphUpdate& update : graph.updates)
        result.updates[graph.params[graph.node(update.param).leaf].name] = evaluator.values()[update.value.value];
    return result;
}

Result<Tensor> eval_call(const Call& call, std::span<const Tensor* const> operands) {
    if (const auto* elements = std::get_if<ElementRef>(&call.op->ref)) return eval_elements(*elements, call, operands);
    if (const auto* whole = std::get_if<TensorRef>(&call.op->ref)) {
        Tensor value = whole->eval(call, operands);
        CHECK(value.type() == *call.out, fmt::format("[{}] the reference gives {}, inference {}", call.op->name,
                                                     to_string(value.type()), to_string(*call.out)));
        return value;
    }
    return eval_expansion(call, operands);
}

Result<std::vector<Tensor>> eval_nodes(const Graph& graph, const NamedTensors& leaves, const OnValue& on_value) {
    Evaluator evaluator(graph, leaves, on_value);
    TRY(evaluator.run(std::vector<bool>(graph.nodes.size(), true), {}, true));
    return std::move(evaluator.values());
}

}  // namespace darner
