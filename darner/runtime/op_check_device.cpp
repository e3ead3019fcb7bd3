// SPDX-License-Identifier: MIT
// The op table test on a device: values and gradients of all cases of one op against the f64 reference, within the bounds of
// docs/ops.md: ULP for elementwise ops, 4 u sqrt(K) |A||B| for contractions, else relative to element and tensor, and what
// rounding of the formula's own steps may change.
#include "darner/runtime/op_check_reference.h"

#include "darner/runtime/perturb.h"
#include "darner/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace darner {
namespace {

bool on_devices(DType dtype) { return dtype != DType::f64 && dtype != DType::i64; }

bool on_devices(const Graph& graph) {
    return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return on_devices(n.type.dtype); });
}

Array to_array(const Tensor& t) { return {to_string(t.dtype), t.dims, t.bytes()}; }

// The storage unit of a float: the relative spacing of its values, and the largest of them.
double unit(DType dtype) { return dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-24; }
double largest_value(DType dtype) { return dtype == DType::f16 ? 65504 : 3.38e38; }

double ulp_at(double value) {
    const double magnitude = std::max(std::fabs(value), 0x1p-126);
    return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

// The value of the op with |x| for each operand: the scale of a contraction's rounding errors.
Result<NamedTensors> contraction_scale(const Graph& graph, NamedTensors leaves) {
    for (auto& [name, tensor] : leaves)
        for (double& v : tensor.real) v = std::fabs(v);
    TRY(EvalResult result, eval(graph, leaves));
    return std::move(result.outputs);
}

struct Bounds {
    const CaseCheck& check;
    const NamedTensors& spread;                 // rounding_spread() of the graph
    const NamedTensors* contraction = nullptr;  // |A||B| by output name
    int64_t results = 0;                        // elements of y

    double of(const std::string& name, const Tensor& want, int64_t i, double tensor_scale) const {
        const double u = unit(want.dtype), value = want.real[i];
        // Subnormals may flush; those of f16 are rounded to a fixed spacing.
        double bound = want.dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
        // What needs no rounding and comes from an exact op has no error: this is how casts are held to ties to even.
        const bool exact = check.op.is_map() && check.op.ulp == 0 && name == "y" && round_to(want.dtype, value) == value;
        if (want.dtype != DType::f32 && !exact)
            bound += 2 * u * std::fabs(value) + (check.op.is_composite() ? 2 * u * tensor_scale : 0);
        if (contraction) {
            // A gradient sums over some of the axes of y.
            const auto length = static_cast<double>(std::max<int64_t>(1, name == "y" ? check.test.contraction : results));
            return bound + 4 * u * std::sqrt(length) * std::fabs(contraction->at(name).real[i]);
        }
        if (check.op.is_map() && name == "y")
            return bound + check.op.ulp * ulp_at(std::max(std::fabs(value), check.test.absolute_from));
        return bound + 1e-5 * std::fabs(value) + 1e-6 * tensor_scale + 4 * spread.at(name).real[i];
    }
};

void compare(const Bounds& bounds, const std::string& name, const Tensor& want, const Array& got_array, double magnitude) {
    const CaseCheck& check = bounds.check;
    const auto got = Tensor::from_bytes(want.dtype, want.dims, got_array.data);
    if (!got) return check.fail(fmt::format("{}: {}", name, got.error().text()));
    double scale = 0;
    for (const double v : want.real)
        if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    for (int64_t i = 0; i < want.count(); ++i) {
        const std::string what = fmt::format("x{:g}: {}[{}]", magnitude, name, i);
        if (!is_float(want.dtype)) {
            if (got->integer[i] != want.integer[i])
                check.fail(fmt::format("{}: got {}, expected {}", what, got->integer[i], want.integer[i]));
            continue;
        }
        const double w = want.real[i], limit = largest_value(want.dtype);
        // Beyond the range of the dtype a device has infinity or, through a cancelling formula, anything.
        if (std::fabs(w) > limit * 0.99 || std::isnan(w)) continue;
        check.compare(got->real[i], w, bounds.of(name, want, i, scale), what);
    }
}

void run_case(const CaseCheck& check, const Graph& graph, Session& session) {
    for (const double magnitude : check_magnitudes) {
        NamedTensors leaves = case_leaves(check.test, magnitude);
        if (const GraphInput* dy = graph.find_input("dy"))
            leaves.emplace("dy", case_values({graph.type(dy->node), Domain::fixed}, 5, 1));
        const auto want = eval(graph, leaves);
        if (!want) return check.fail(want.error().text());
        NamedArrays arrays;
        for (const auto& [name, tensor] : leaves) arrays.emplace(name, to_array(tensor));
        const auto got = session.run(graph.name, arrays);
        if (!got) return check.fail(got.error().text());
        const auto spread = rounding_spread(graph, leaves);
        if (!spread) return check.fail(spread.error().text());
        NamedTensors scales;
        Bounds bounds{check, *spread};
        if (check.test.contraction > 0) {
            auto computed = contraction_scale(graph, leaves);
            if (!computed) return check.fail(computed.error().text());
            scales = std::move(*computed);
            bounds.contraction = &scales;
            bounds.results = want->outputs.at("y").count();
        }
        for (const auto& [name, tensor] : want->outputs) {
            const auto found = got->find(name);
            if (found == got->end())
                check.fail("the device gives no output " + name);
            else
                compare(bounds, name, tensor, found->second, magnitude);
        }
    }
}

}  // namespace

void check_on_device(const OpDef& op, const std::vector<OpCase>& cases, Device& device, OpCheckReport& report) {
    Module module;
    std::vector<const OpCase*> tests;
    for (const OpCase& test : cases) {
        Result<Graph> graph = case_graph(op, test, true);
        if (!graph) return CaseCheck{op, test, report}.fail(graph.error().text());
        if (!on_devices(*graph)) continue;
        graph->name = fmt::format("case{}", module.graphs.size());
        module.graphs.push_back(std::move(*graph));
        tests.push_back(&test);
    }
    if (tests.empty()) return;
    CompileOptions options;
    options.open = std::shared_ptr<Device>(&device, [](Device*) {});  // the caller keeps it
    Result<Session> all = compile(module, options);
    for (size_t i = 0; i < tests.size(); ++i) {
        const CaseCheck check{op, *tests[i], report};
        if (all) {
            run_case(check, module.graphs[i], *all);
            continue;
        }
        // Something in the module does not compile: one by one the reports name it.
        Module one;
        one.graphs.push_back(module.graphs[i]);
        Result<Session> session = compile(one, options);
        if (!session)
            check.fail("does not compile: " + session.error().text());
        else
            run_case(check, one.graphs[0], *session);
    }
}

}  // namespace darner
