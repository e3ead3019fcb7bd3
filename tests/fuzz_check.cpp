// SPDX-License-Identifier: MIT
#include "tests/fuzz_check.h"

#include "darner/runtime/devices.h"
#include "darner/runtime/perturb.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace darner::test {
namespace {

struct Expected {
    Tensor value;
    std::vector<double> bound;  // by element; of integers 0
};

struct FuzzReference {
    std::map<std::string, Expected> outputs, updates;
    std::string unsuitable;  // why no device can be held to it; empty: it can
};

constexpr uint32_t moves = 8;          // runs that estimate the spread
constexpr uint32_t edge_moves = 4;     // pairs of runs that look for jumps
constexpr double edge_amplitude = 16;  // how far those go
constexpr double bound_factor = 8;
constexpr double most_relative_bound = 0.05;  // of a tensor's largest value: above, the graph is too ill-conditioned to tell

double largest_value(DType dtype) { return dtype == DType::f16 ? 60000 : 1e38; }
double smallest_value(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 0x1p-126; }

// A node whose value jumps as its operands move: it must be the same for all that rounding may do.
bool jumps(const Node& node) {
    if (node.kind != NodeKind::op) return false;
    if (!is_float(node.type.dtype)) return true;
    return node.op->is_map() && std::holds_alternative<ZeroGrad>(node.op->grad) && !node.operands.empty();
}

std::string first_jump(const Graph& graph, const std::vector<Tensor>& exact, const std::vector<Tensor>& moved) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        if (jumps(graph.nodes[i]) && (exact[i].integer != moved[i].integer || exact[i].real != moved[i].real))
            return "close to a jump: " + graph.describe(NodeId(i));
    return {};
}

std::string out_of_range(const Graph& graph, const std::vector<Tensor>& values) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        for (const double v : values[i].real)
            if (!(std::fabs(v) <= largest_value(graph.nodes[i].type.dtype))) return "too large: " + graph.describe(NodeId(i));
    return {};
}

Expected expect(const Type& type, const Tensor& value, const std::vector<const Tensor*>& moved) {
    Expected expected{value, std::vector<double>(static_cast<size_t>(value.count()))};
    expected.value.dtype = type.dtype;
    for (size_t i = 0; i < value.real.size(); ++i) {
        double spread = 0;
        for (const Tensor* t : moved) spread = std::max(spread, std::fabs(t->real[i] - value.real[i]));
        expected.bound[i] = bound_factor * spread + smallest_value(type.dtype);
    }
    return expected;
}

std::string ill_conditioned(const std::string& name, const Expected& e) {
    double value = smallest_value(e.value.dtype) * 1e3, bound = 0;
    for (const double v : e.value.real) value = std::max(value, std::fabs(v));
    for (const double b : e.bound) bound = std::max(bound, b);
    const double most = e.value.dtype == DType::f32 ? most_relative_bound : 10 * most_relative_bound;
    return bound > most * value ? fmt::format("ill-conditioned: {}", name) : "";
}

// An error here is one of the reference and of the graph's expansion: no verdict, but a bug.
Result<FuzzReference> make_reference(const Graph& graph, const NamedTensors& leaves) {
    FuzzReference reference;
    TRY(const RoundingModel model, RoundingModel::of(graph));
    TRY(const std::vector<Tensor> values, eval_nodes(model.graph(), leaves));
    reference.unsuitable = out_of_range(model.graph(), values);
    std::vector<std::vector<Tensor>> moved;
    for (uint32_t seed = 1; seed <= moves && reference.unsuitable.empty(); ++seed) {
        TRY(std::vector<Tensor> run, model.values(leaves, seed, 1));
        reference.unsuitable = first_jump(model.graph(), values, run);
        moved.push_back(std::move(run));
    }
    for (uint32_t seed = 1; seed <= edge_moves && reference.unsuitable.empty(); ++seed)
        for (const double amplitude : {edge_amplitude, -edge_amplitude}) {
            if (!reference.unsuitable.empty()) break;
            TRY(const std::vector<Tensor> run, model.values(leaves, seed, amplitude));
            reference.unsuitable = first_jump(model.graph(), values, run);
        }
    if (!reference.unsuitable.empty()) return reference;
    const auto add = [&](std::map<std::string, Expected>& to, const std::string& name, NodeId node) {
        std::vector<const Tensor*> runs;
        for (const auto& run : moved) runs.push_back(&run[node.value]);
        const Expected& e = to[name] = expect(model.graph().type(node), values[node.value], runs);
        if (reference.unsuitable.empty()) reference.unsuitable = ill_conditioned(name, e);
    };
    for (const GraphOutput& output : model.graph().outputs) add(reference.outputs, output.name, output.node);
    for (const GraphUpdate& update : model.graph().updates)
        add(reference.updates, model.graph().params[model.graph().node(update.param).leaf].name, update.value);
    return reference;
}

std::string difference(const std::string& name, const Array& array, const Expected& want) {
    const auto got = tensor_of(array);
    if (!got) return fmt::format("{}: {}\n", name, got.error().text());
    if (got->dtype != want.value.dtype || got->dims != want.value.dims) return name + " has another type than the reference\n";
    for (int64_t i = 0; i < got->count(); ++i) {
        const double g = got->at(i), w = want.value.at(i), bound = want.bound[static_cast<size_t>(i)];
        const double stored = is_float(got->dtype) ? std::fabs(round_to(got->dtype, w) - w) : 0;  // of what needs no arithmetic
        if (std::fabs(g - w) <= bound + stored) continue;
        return fmt::format("{}[{}] is {}, the reference says {} within {:.3g}\n", name, i, g, w, bound + stored);
    }
    return {};
}

// One device a process and id: opening a driver takes longer than a graph does.
Result<std::shared_ptr<Device>> shared_device(const std::string& id) {
    static std::map<std::string, std::shared_ptr<Device>> open;
    std::shared_ptr<Device>& device = open[id];
    if (device == nullptr) {
        TRY(std::unique_ptr<Device> opened, open_device(id));
        device = std::move(opened);
    }
    return device;
}

class DeviceRun {
public:
    DeviceRun(const Graph& graph, Session session) : graph_(graph), session_(std::move(session)) {}

    static Result<DeviceRun> start(const Graph& graph, const DeviceCase& on) {
        CompileOptions options;
        TRY(options.open, shared_device(on.device));
        options.plan = on.plan;
        options.restrict_caps = on.restrict_caps;
        options.run_init = false;
        Module module;
        module.graphs.push_back(graph);
        TRY(Session session, compile(module, options));
        return DeviceRun(graph, std::move(session));
    }

    Result<void> write(const NamedTensors& leaves) {
        for (const GraphParam& param : graph_.params) TRY(session_.write(param.name, array_of(leaves.at(param.name))));
        for (const GraphInput& input : graph_.inputs) TRY(session_.write(input.name, array_of(leaves.at(input.name))));
        return {};
    }
    // A run that leaves an output alone shows what was there: NaN, or all bits set.
    Result<void> poison_outputs() {
        for (const GraphOutput& output : graph_.outputs) {
            const Type& type = graph_.type(output.node);
            Array array{to_string(type.dtype), type.shape(), {}};
            array.data.assign(static_cast<size_t>(type.count()) * byte_size(type.dtype), std::byte{0xff});
            TRY(session_.write(output.name, array));
        }
        return {};
    }
    Result<void> step(const NamedTensors& leaves) {
        TRY(poison_outputs());
        NamedArrays inputs;
        for (const GraphInput& input : graph_.inputs) inputs[input.name] = array_of(leaves.at(input.name));
        TRY(outputs_, session_.run(graph_.name, inputs));
        return {};
    }
    Result<std::string> compare(const FuzzReference& want) {
        std::string text;
        for (const auto& [name, expected] : want.outputs) text += difference(name, outputs_.at(name), expected);
        for (const auto& [name, expected] : want.updates) {
            TRY(const Array array, session_.read(name));
            text += difference("updated " + name, array, expected);
        }
        return text;
    }
    Result<void> read_state(NamedTensors& leaves) {
        for (const GraphParam& param : graph_.params) {
            TRY(const Array array, session_.read(param.name));
            TRY(leaves[param.name], tensor_of(array));
        }
        return {};
    }
    Session& session() { return session_; }
    const NamedArrays& outputs() const { return outputs_; }

private:
    const Graph& graph_;
    Session session_;
    NamedArrays outputs_;
};

// Both steps in one submit, from a fresh load.
Result<std::string> compare_one_submit(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on, DeviceRun& apart) {
    TRY(DeviceRun together, DeviceRun::start(graph, on));
    TRY(together.write(leaves));
    TRY(together.poison_outputs());
    TRY(together.session().submit(graph.name, 2));
    TRY(together.session().wait());
    std::vector<std::string> names;
    for (const GraphOutput& output : graph.outputs) names.push_back(output.name);
    for (const GraphUpdate& update : graph.updates) names.push_back(graph.params[graph.node(update.param).leaf].name);
    std::string text;
    for (const std::string& name : names) {
        TRY(const Array a, together.session().read(name));
        TRY(const Array b, apart.session().read(name));
        if (a.data != b.data)
            text += fmt::format("{} has other bits after two steps in one submit than after two submits\n", name);
    }
    return text;
}

Result<FuzzResult> run_on_device(const Graph& graph, NamedTensors leaves, const DeviceCase& on) {
    const NamedTensors first_leaves = leaves;
    TRY(const FuzzReference first, make_reference(graph, leaves));
    if (!first.unsuitable.empty()) return FuzzResult{Verdict::unsuitable, first.unsuitable};
    TRY(DeviceRun run, DeviceRun::start(graph, on));
    TRY(run.write(leaves));
    TRY(run.step(leaves));
    TRY(std::string text, run.compare(first));
    if (!text.empty()) return FuzzResult{Verdict::bad, fmt::format("{}, first step:\n{}", on.name, text)};
    // The second step goes on from the device's own state, so that its bounds stay those of one step.
    TRY(run.read_state(leaves));
    TRY(run.step(leaves));
    TRY(const FuzzReference second, make_reference(graph, leaves));
    if (second.unsuitable.empty()) {
        TRY(text, run.compare(second));
        if (!text.empty()) return FuzzResult{Verdict::bad, fmt::format("{}, second step:\n{}", on.name, text)};
    }
    TRY(text, compare_one_submit(graph, first_leaves, on, run));
    if (!text.empty()) return FuzzResult{Verdict::bad, fmt::format("{}: {}", on.name, text)};
    return FuzzResult{};
}

// --- gradients ------------------------------------------------------------------------------------------------------

double loss_of(const Graph& graph, const std::vector<Tensor>& values) {
    return values[graph.find_output("loss")->node.value].at(0);
}

// All elements of all leaves moved alike: equal ones stay equal, so that this is smooth where they tie, and shows whether ties
// share a gradient as they should.
Result<FuzzResult> check_common_shift(const RoundingModel& model, const std::vector<Tensor>& at, const NamedTensors& leaves,
                                      const std::vector<std::string>& wrt) {
    double got = 0, size = 0;
    for (size_t k = 0; k < wrt.size(); ++k) {
        const GraphOutput* output = model.graph().find_output(fmt::format("d{}", k + 1));
        if (output == nullptr) return FuzzResult{};
        for (const double v : at[output->node.value].real) {
            got += v;
            size += std::fabs(v);
        }
    }
    double slopes[2];
    for (const int width : {0, 1}) {
        const double h = width == 0 ? 1e-6 : 4e-6;
        double losses[2];
        for (const int side : {0, 1}) {
            NamedTensors shifted = leaves;
            for (const std::string& name : wrt)
                for (double& v : shifted.at(name).real) v += side == 0 ? h : -h;
            TRY(const std::vector<Tensor> moved, model.values(shifted, 0, 0));
            if (!first_jump(model.graph(), at, moved).empty()) return FuzzResult{};
            losses[side] = loss_of(model.graph(), moved);
        }
        slopes[width] = (losses[0] - losses[1]) / (2 * h);
    }
    const double bound = 1e-6 * size + 1e-9 + 2 * std::fabs(slopes[1] - slopes[0]);
    if (std::fabs(got - slopes[0]) <= bound) return FuzzResult{};
    return FuzzResult{Verdict::bad, fmt::format("the gradients by all leaves add up to {}, central differences of a common shift "
                                                "say {} and {}",
                                                got, slopes[0], slopes[1])};
}

Result<FuzzResult> check_gradients(const Graph& graph, NamedTensors leaves) {
    TRY(const RoundingModel model, RoundingModel::of(graph));
    TRY(const std::vector<Tensor> at, model.values(leaves, 0, 0));
    if (std::string why = out_of_range(model.graph(), at); !why.empty()) return FuzzResult{Verdict::unsuitable, why};
    // d1, d2, ... follow the float leaves, params first.
    std::vector<std::string> wrt;
    for (const GraphParam& p : graph.params)
        if (is_float(graph.type(p.node).dtype)) wrt.push_back(p.name);
    for (const GraphInput& p : graph.inputs)
        if (is_float(graph.type(p.node).dtype)) wrt.push_back(p.name);
    size_t compared = 0;
    for (size_t k = 0; k < wrt.size(); ++k) {
        const GraphOutput* output = model.graph().find_output(fmt::format("d{}", k + 1));
        if (output == nullptr) continue;
        const Tensor& gradient = at[output->node.value];
        double largest = 0;  // constants in a rule are rounded to f32, and what they multiply may cancel
        for (const double v : gradient.real) largest = std::max(largest, std::fabs(v));
        Tensor& x = leaves.at(wrt[k]);
        for (int64_t i = 0; i < x.count(); i += std::max<int64_t>(1, x.count() / 3)) {
            // Two widths: where the differences do not agree among themselves the function bends too much to tell.
            const double center = x.real[i];
            double slopes[2];
            bool smooth = true;
            for (const int width : {0, 1}) {
                const double h = (width == 0 ? 1e-5 : 4e-5) * std::max(0.1, std::fabs(center));
                double losses[2];
                for (const int side : {0, 1}) {
                    x.real[i] = center + (side == 0 ? h : -h);
                    TRY(const std::vector<Tensor> moved, model.values(leaves, 0, 0));
                    smooth = smooth && first_jump(model.graph(), at, moved).empty();
                    losses[side] = loss_of(model.graph(), moved);
                }
                slopes[width] = (losses[0] - losses[1]) / (2 * h);
            }
            x.real[i] = center;
            if (!smooth) continue;
            ++compared;
            const double got = gradient.real[i], size = std::max(std::fabs(got), std::fabs(slopes[0]));
            const double rounding = 1e-15 * std::max(1.0, std::fabs(loss_of(model.graph(), at))) * 1e6;
            if (std::fabs(got - slopes[0]) > 1e-6 * (size + largest) + rounding + 2 * std::fabs(slopes[1] - slopes[0]))
                return FuzzResult{Verdict::bad, fmt::format("gradient d{} by {}[{}] is {}, central differences say {} and {}",
                                                            k + 1, wrt[k], i, got, slopes[0], slopes[1])};
        }
    }
    TRY(FuzzResult together, check_common_shift(model, at, leaves, wrt));
    if (together.verdict == Verdict::bad) return together;
    return compared > 0 ? FuzzResult{} : FuzzResult{Verdict::unsuitable, "nothing to differentiate"};
}

FuzzResult settled(const Result<FuzzResult>& result, const std::string& where) {
    return result ? *result : FuzzResult{Verdict::bad, fmt::format("{}: {}", where, result.error().text())};
}

}  // namespace

FuzzResult fuzz_on_device(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on) {
    return settled(run_on_device(graph, leaves, on), on.name);
}

FuzzResult fuzz_gradients(const Graph& graph, const NamedTensors& leaves) {
    return settled(check_gradients(graph, leaves), "gradients");
}

}  // namespace darner::test
