// SPDX-License-Identifier: MIT
#include "tests/compare.h"

#include "darner/graph/text.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace darner::test {

namespace {

Caps cpu_like(Caps caps) {
    caps.kind = DeviceKind::cpu;
    return caps;
}

Caps webgpu_like(Caps caps) {
    Caps cut = webgpu_default_caps();
    cut.code = caps.code;
    cut.kind = caps.kind;
    return cut;
}

}  // namespace

std::vector<DeviceCase> device_cases() {
    return {
        {"interp", "interp"},
        {"interp, subgroups of 8", "interp:8"},
        {"interp, cpu-like", "interp:8", cpu_like},
        {"interp, WebGPU's limits", "interp", webgpu_like},
        {"interp, nothing fused", "interp", {}, {.merge_windows = false, .fuse = false, .alias_scratch = false}},
        {"vulkan", "vulkan"},
    };
}

std::vector<DeviceCase> main_device_cases() { return {{"interp", "interp"}, {"vulkan", "vulkan"}}; }

DeviceCase with_bindings(DeviceCase on, uint64_t bytes) {
    const auto restrict_more = on.restrict_caps;
    on.restrict_caps = [=](Caps caps) {
        if (restrict_more) caps = restrict_more(caps);
        caps.max_binding_bytes = bytes;
        return caps;
    };
    on.name += fmt::format(", bindings of {} bytes", bytes);
    return on;
}

NamedTensors random_leaves(const Graph& graph, uint64_t seed, double magnitude, int64_t int_limit) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    NamedTensors leaves;
    const auto fill = [&](const std::string& name, const Type& type) {
        Tensor tensor = Tensor::zeros(type.dtype, type.shape());
        for (int64_t i = 0; i < tensor.count(); ++i) {
            if (is_float(type.dtype))
                tensor.real[i] = round_to(type.dtype == DType::f64 ? DType::f32 : type.dtype, normal(random) * magnitude);
            else
                tensor.integer[i] =
                    static_cast<int64_t>(random() % static_cast<uint64_t>(type.dtype == DType::boolean ? 2 : int_limit));
        }
        leaves[name] = std::move(tensor);
    };
    for (const auto& input : graph.inputs) fill(input.name, graph.type(input.node));
    for (const auto& param : graph.params) fill(param.name, graph.type(param.node));
    return leaves;
}

Array array_of(const Tensor& tensor) { return {to_string(tensor.dtype), tensor.dims, tensor.bytes()}; }

Result<Tensor> tensor_of(const Array& array) { return Tensor::from_bytes(*parse_dtype(array.dtype), array.dims, array.data); }

std::string difference(const std::string& name, const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
    if (got.dtype != want.dtype || got.dims != want.dims) return fmt::format("{} has another type than the reference\n", name);
    double relative = tolerance.relative;
    const auto stated = tolerance.largest.find(name);
    double largest = stated == tolerance.largest.end() ? 0 : stated->second;
    for (int64_t i = 0; i < want.count(); ++i)
        if (std::isfinite(want.at(i))) largest = std::max(largest, std::abs(want.at(i)));
    if (want.dtype == DType::f16) relative = std::max(relative, 0x1p-10);
    if (want.dtype == DType::bf16) relative = std::max(relative, 0x1p-7);
    for (int64_t i = 0; i < want.count(); ++i) {
        const double g = got.at(i), w = want.at(i);
        const bool equal = std::isnan(w)   ? std::isnan(g)
                           : std::isinf(w) ? g == w
                                           : std::abs(g - w) <= relative * std::abs(w) + tolerance.of_largest * largest;
        if (!equal || (!is_float(want.dtype) && g != w))
            return fmt::format("{}[{}] is {}, the reference says {}\n", name, i, g, w);
    }
    return {};
}

namespace {

Result<std::string> run_and_compare(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on,
                                    const Tolerance& tolerance) {
    TRY(EvalResult want, eval(graph, leaves));
    CompileOptions options;
    options.device = on.device;
    options.plan = on.plan;
    options.restrict_caps = on.restrict_caps;
    options.run_init = false;
    Module module;
    module.graphs.push_back(graph);
    TRY(Session session, compile(module, options));
    NamedArrays inputs;
    for (const auto& input : graph.inputs) inputs[input.name] = array_of(leaves.find(input.name)->second);
    for (const auto& param : graph.params) TRY(session.write(param.name, array_of(leaves.find(param.name)->second)));
    TRY(NamedArrays got, session.run(graph.name, inputs));
    std::string differences;
    for (const auto& [name, tensor] : want.outputs) {
        TRY(Tensor value, tensor_of(got.find(name)->second));
        differences += difference(name, value, tensor, tolerance);
    }
    for (const auto& [name, tensor] : want.updates) {
        TRY(Array array, session.read(name));
        TRY(Tensor value, tensor_of(array));
        differences += difference("updated " + name, value, tensor, tolerance);
    }
    return differences;
}

}  // namespace

std::string compare(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on, const Tolerance& tolerance) {
    const auto differences = run_and_compare(graph, leaves, on, tolerance);
    if (!differences) return fmt::format("{}: {}\n", on.name, differences.error().text());
    return differences->empty() ? "" : fmt::format("{}: {}", on.name, *differences);
}

std::string compare_text(std::string_view text, uint64_t seed, double magnitude, int64_t int_limit) {
    const auto module = parse_module(text, "test");
    if (!module) return module.error().text();
    const Graph& graph = module->graphs[0];
    std::string all;
    for (const DeviceCase& on : device_cases()) all += compare(graph, random_leaves(graph, seed, magnitude, int_limit), on);
    return all;
}

}  // namespace darner::test
