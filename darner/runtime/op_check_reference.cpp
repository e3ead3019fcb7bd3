// SPDX-License-Identifier: MIT
// The op table test on the reference evaluator; see op_check.h.
#include "darner/runtime/op_check_reference.h"

#include "darner/graph/build_call.h"
#include "darner/graph/text.h"
#include "darner/ops/ops.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace darner {

std::string operand_input(size_t i) { return fmt::format("x{}", i); }
bool is_differentiated(const CaseOperand& operand) { return !operand.left_out && is_float(operand.type.dtype); }

NamedTensors case_leaves(const OpCase& test, double magnitude) {
    NamedTensors leaves;
    for (size_t i = 0; i < test.operands.size(); ++i)
        if (!test.operands[i].left_out) leaves.emplace(operand_input(i), case_values(test.operands[i], i, magnitude));
    return leaves;
}

namespace {

std::vector<Value> inputs(Builder& b, const OpCase& test) {
    std::vector<Value> values;
    for (size_t i = 0; i < test.operands.size(); ++i)
        values.push_back(test.operands[i].left_out ? Value{} : b.input(operand_input(i), test.operands[i].type));
    return values;
}

Value apply(Builder& b, const OpDef& op, const OpCase& test, std::span<const Value> operands) {
    std::vector<NamedAttr> attrs;
    for (const auto& [name, value] : test.attrs) attrs.emplace_back(name, value);
    return b.call(op.name, operands, attrs);
}

// Values of a cotangent or a tangent: like an operand, but never multiplied.
Tensor direction(const Type& type, size_t number) { return case_values({type, Domain::fixed}, number, 1); }

Result<NamedTensors> evaluate(const Graph& graph, const NamedTensors& leaves) {
    TRY(EvalResult result, eval(graph, leaves));
    return std::move(result.outputs);
}

void check_type(const CaseCheck& check, const Graph& graph, const NamedTensors& outputs) {
    const Type& type = graph.type(graph.find_output("y")->node);
    const Tensor& y = outputs.at("y");
    if (y.type() == type) return;
    check.fail(fmt::format("the reference gives {}, inference says {}", to_string(y.type()), to_string(type)));
}

void check_round_trip(const CaseCheck& check, const Graph& graph) {
    const std::string text = to_text(graph);
    const Result<Module> parsed = parse_module(text);
    if (!parsed) return check.fail("its text does not parse: " + parsed.error().text());
    const std::string again = to_text(parsed->graphs.at(0));
    if (again != text) check.fail(fmt::format("its text changes in a round trip:\n{}\n{}", text, again));
}

void check_expansion(const CaseCheck& check, const Graph& graph, const NamedTensors& leaves, const NamedTensors& outputs) {
    const Result<Graph> expanded = expand(graph);
    if (!expanded) return check.fail("the expansion fails: " + expanded.error().text());
    for (const Node& node : expanded->nodes)
        if (is_composite(node)) return check.fail("the expansion leaves " + std::string(node.op->name));
    const auto got = evaluate(*expanded, leaves);
    if (!got) return check.fail("the expansion does not evaluate: " + got.error().text());
    if (!(got->at("y") == outputs.at("y"))) check.fail("the expansion differs from the composite");
}

// --- gradients against central differences --------------------------------------------------------------------------

// Nonlinear and monotonic, keeps signs and ties, and its slope is near 1 at every magnitude.
Value bend(Value x, double magnitude) { return x * (tanh(x * (1 / magnitude)) * 0.1 + 1.0); }

// loss = sum(w * (y + tanh(y) / 2)) with y = op(bend(x0), ...), and d_x0, ...
Result<Graph> mid_graph(const OpDef& op, const OpCase& test, double magnitude) {
    Builder b;
    const std::vector<Value> leaves = inputs(b, test);
    std::vector<Value> bent, wrt;
    for (size_t i = 0; i < leaves.size(); ++i) {
        const bool differentiated = is_differentiated(test.operands[i]);
        bent.push_back(differentiated ? bend(leaves[i], magnitude) : leaves[i]);
        if (differentiated) wrt.push_back(leaves[i]);
    }
    Value y = apply(b, op, test, bent);
    if (!is_float(y.dtype())) y = cast(y, DType::f32);
    const Value w = b.input("w", y.type());
    const Value terms = mul(w, add(y, tanh(y) * 0.5));
    const Value loss = sum(terms);
    const std::vector<Value> gradients_of = gradients(loss, wrt);
    b.output("loss", loss);
    b.output("size", sum(abs(terms)));
    size_t next = 0;
    for (size_t i = 0; i < leaves.size(); ++i)
        if (is_differentiated(test.operands[i]) && next < gradients_of.size())
            b.output("d_" + operand_input(i), gradients_of[next++]);
    return b.finish();
}

// Only the loss: central differences need no gradients.
Result<Graph> loss_graph(const Graph& graph) {
    Graph loss = graph;
    std::erase_if(loss.outputs, [](const GraphOutput& output) { return output.name != "loss"; });
    return cleanup(loss);
}

double largest(const Tensor& t) {
    double m = 0;
    for (const double v : t.real) m = std::max(m, std::fabs(v));
    return m;
}

void check_differences(const CaseCheck& check, double magnitude) {
    const Result<Graph> graph = mid_graph(check.op, check.test, magnitude);
    if (!graph) return check.fail("the gradient fails: " + graph.error().text());
    NamedTensors leaves = case_leaves(check.test, magnitude);
    leaves.emplace("w", direction(graph->type(graph->find_input("w")->node), 7));
    const auto values = evaluate(*graph, leaves);
    if (!values) return check.fail("the gradient does not evaluate: " + values.error().text());
    const Result<Graph> loss_only = loss_graph(*graph);
    if (!loss_only) return check.fail(loss_only.error().text());
    const double size = values->at("size").at(0);
    for (size_t i = 0; i < check.test.operands.size(); ++i) {
        if (!is_differentiated(check.test.operands[i])) continue;
        const Tensor& gradient = values->at("d_" + operand_input(i));
        const double scale = largest(gradient);
        Tensor& x = leaves.at(operand_input(i));
        // A few elements spread over the tensor; a rule that is wrong is wrong in most places.
        const int64_t stride = std::max<int64_t>(1, x.count() / 9);
        for (int64_t at = 0; at < x.count(); at += stride) {
            const double size_of_x = is_multiplied(check.test.operands[i].domain) ? magnitude : 1;
            const double center = x.real[at], h = 1e-5 * std::max(std::fabs(center), 0.1 * size_of_x);
            double loss[2];
            for (const int side : {0, 1}) {
                x.real[at] = center + (side == 0 ? h : -h);
                const auto moved = evaluate(*loss_only, leaves);
                if (!moved) return check.fail(moved.error().text());
                loss[side] = moved->at("loss").at(0);
            }
            x.real[at] = center;
            const double want = (loss[0] - loss[1]) / (2 * h), got = gradient.real[at];
            const double bound = 1e-6 * std::max(std::fabs(got), std::fabs(want)) + 1e-7 * scale + 1e-15 * size / h;
            check.compare(got, want, bound, fmt::format("x{:g}: d_x{}[{}] against central differences", magnitude, i, at));
        }
    }
}

// --- vjp against jvp ------------------------------------------------------------------------------------------------

// The tangent of the op's result by its rule alone; invalid where it is zero. By expansion there is no rule to check.
Value forward_tangent(const HeldCall& call, std::span<const Value> tangents) {
    const Grad& grad = call->op->grad;
    Builder& b = *call->builder;
    if (const auto* deriv = std::get_if<Deriv>(&grad)) {
        Value total;
        for (size_t i = 0; i < tangents.size(); ++i) {
            if (!tangents[i].valid()) continue;
            const Value d = deriv->derivative(*call, i);
            if (!d.valid()) continue;
            const Value term = mul(d, tangents[i]);
            total = total.valid() ? add(total, term) : term;
        }
        return total;
    }
    std::vector<Value> operands;
    for (size_t i = 0; i < call.operand_count(); ++i) operands.push_back(call.operand(i));
    const auto with = [&](std::span<const Value> values) {
        return b.call_exact(*call->op, values, std::vector<AttrValue>(call->attrs.begin(), call->attrs.end()));
    };
    if (std::holds_alternative<Linear>(grad)) {
        for (size_t i = 0; i < operands.size(); ++i)
            if (tangents[i].valid()) operands[i] = tangents[i];
        return with(operands);
    }
    if (std::holds_alternative<Bilinear>(grad)) {
        const Value first[] = {tangents[0], operands[1]}, second[] = {operands[0], tangents[1]};
        return add(with(first), with(second));
    }
    if (const auto* custom = std::get_if<CustomGrad>(&grad)) return custom->jvp(*call, tangents);
    return {};
}

// <dy, J dx> = <J^T dy, dx>
void check_adjoint(const CaseCheck& check, double magnitude) {
    const Grad& grad = check.op.grad;
    if (std::holds_alternative<ByExpansion>(grad) || std::holds_alternative<ZeroGrad>(grad)) return;
    Builder b;
    const std::vector<Value> leaves = inputs(b, check.test);
    const Value y = apply(b, check.op, check.test, leaves);
    if (b.failed() || !is_float(y.dtype())) return;
    std::vector<Value> tangents, wrt, wrt_tangents;
    NamedTensors values = case_leaves(check.test, magnitude);
    const auto extra_input = [&](const std::string& name, const Type& type, size_t number) {
        values.emplace(name, direction(type, number));
        return b.input(name, type);
    };
    for (size_t i = 0; i < leaves.size(); ++i) {
        tangents.push_back({});
        if (!is_differentiated(check.test.operands[i])) continue;
        tangents.back() = extra_input(fmt::format("t{}", i), leaves[i].type(), 3 + i);
        wrt.push_back(leaves[i]);
        wrt_tangents.push_back(tangents.back());
    }
    if (wrt.empty()) return;
    const Value dy = extra_input("dy", y.type(), 11);
    const auto in_double = [](Value v) { return cast(v, DType::f64); };
    const Node node = b.graph().node(y.id);
    const HeldCall call(b, node, leaves, y);
    Value forward = forward_tangent(call, tangents);
    if (!forward.valid() && !b.failed()) forward = b.constant(y.type(), 0);
    const Value forward_terms = mul(in_double(dy), in_double(forward));
    Value backward = b.constant(f64(), 0);
    const std::vector<Value> transposed = gradients(y, wrt, dy);
    for (size_t i = 0; i < transposed.size(); ++i)
        backward = add(backward, sum(mul(in_double(transposed[i]), in_double(wrt_tangents[i]))));
    b.output("forward", sum(forward_terms));
    b.output("backward", backward);
    // The terms of both sums, and of the sums inside rules like softmax's, which cancel.
    b.output("size", sum(abs(forward_terms)));
    b.output("cancelling", sum(abs(in_double(dy))));
    const Result<Graph> graph = b.finish();
    if (!graph) return check.fail("vjp or jvp fails: " + graph.error().text());
    const auto result = evaluate(*graph, values);
    if (!result) return check.fail("vjp or jvp does not evaluate: " + result.error().text());
    // Casts inside a rule for half precision round; otherwise both sides are the same sums in double.
    const DType dtype = leaves.empty() ? DType::f32 : wrt[0].dtype();
    const bool rounds = dtype == DType::f16 || dtype == DType::bf16 || y.dtype() != dtype;
    const double size = result->at("size").at(0) + 1e-4 * result->at("cancelling").at(0);
    check.compare(result->at("backward").at(0), result->at("forward").at(0), (rounds ? 2e-2 : 1e-10) * size + 1e-300,
                  fmt::format("x{:g}: <J^T dy, dx> against <dy, J dx>", magnitude));
}

void check_finite(const CaseCheck& check, const NamedTensors& outputs, double magnitude) {
    for (const auto& [name, tensor] : outputs)
        for (size_t i = 0; i < tensor.real.size(); ++i)
            if (!std::isfinite(tensor.real[i]))
                return check.fail(fmt::format("x{:g}: {}[{}] is {}", magnitude, name, i, tensor.real[i]));
}

}  // namespace

Result<Graph> case_graph(const OpDef& op, const OpCase& test, bool with_gradients) {
    Builder b;
    const std::vector<Value> leaves = inputs(b, test);
    const Value y = apply(b, op, test, leaves);
    b.output("y", y);
    if (with_gradients && !b.failed() && is_float(y.dtype())) {
        std::vector<Value> wrt;
        std::vector<std::string> names;
        for (size_t i = 0; i < leaves.size(); ++i) {
            if (!is_differentiated(test.operands[i])) continue;
            wrt.push_back(leaves[i]);
            names.push_back("d_" + operand_input(i));
        }
        const std::vector<Value> d = wrt.empty() ? wrt : gradients(y, wrt, b.input("dy", y.type()));
        for (size_t i = 0; i < d.size(); ++i) b.output(names[i], d[i]);
    }
    return b.finish();
}

void check_on_reference(const CaseCheck& check) {
    const Result<Graph> graph = case_graph(check.op, check.test, false);
    if (!graph) return check.fail("cannot be built: " + graph.error().text());
    check_round_trip(check, *graph);
    const Result<Graph> with_gradients = case_graph(check.op, check.test, true);
    if (!with_gradients) return check.fail("the gradient cannot be built: " + with_gradients.error().text());
    for (const double magnitude : check_magnitudes) {
        NamedTensors leaves = case_leaves(check.test, magnitude);
        const auto outputs = evaluate(*graph, leaves);
        if (!outputs) return check.fail("does not evaluate: " + outputs.error().text());
        check_type(check, *graph, *outputs);
        check_expansion(check, *graph, leaves, *outputs);
        if (const GraphInput* dy = with_gradients->find_input("dy"))
            leaves.emplace("dy", direction(with_gradients->type(dy->node), 5));
        const auto derivatives = evaluate(*with_gradients, leaves);
        if (!derivatives) return check.fail("the gradient does not evaluate: " + derivatives.error().text());
        if (check.test.smooth) {
            check_finite(check, *derivatives, magnitude);
            check_differences(check, magnitude);
        }
        check_adjoint(check, magnitude);
    }
}

}  // namespace darner
