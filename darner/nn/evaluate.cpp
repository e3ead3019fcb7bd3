// SPDX-License-Identifier: MIT
// Evaluation of saved weights. What the network is follows from the shapes in the file; it is checked against the images before
// anything is compiled.
#include "darner/nn/evaluate.h"

#include "darner/io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <set>

namespace darner {
namespace {

std::string param_name(size_t layer, const char* what) { return fmt::format("{}.{}", 2 * layer, what); }

bool exists(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

Result<std::string> weights_file(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) return path;
    for (const char* name : {"model.safetensors", "checkpoint.safetensors"})
        if (const std::string file = fmt::format("{}/{}", path, name); exists(file)) return file;
    Error error = io_error("[eval] the folder has no model.safetensors and no checkpoint.safetensors", path);
    error.hint = fmt::format("train a model: darner train {} --out {}", fashion_mnist_task, path);
    return error;
}

Result<void> check_sizes(const std::vector<int64_t>& layers, const LabelledImages& test) {
    if (layers.front() != test.features())
        return invalid(fmt::format("the network takes {} inputs, the images have {} pixels", layers.front(), test.features()));
    if (layers.back() != fashion_mnist_classes)
        return invalid(
            fmt::format("the network tells {} classes apart, the images have {}", layers.back(), fashion_mnist_classes));
    return {};
}

}  // namespace

Result<std::vector<int64_t>> mlp_layers(const std::map<std::string, Array>& tensors, bool extra) {
    std::vector<int64_t> layers;
    std::vector<std::string> problems;
    std::set<std::string> known;
    for (size_t layer = 0;; ++layer) {
        const auto weight = tensors.find(param_name(layer, "weight")), bias = tensors.find(param_name(layer, "bias"));
        if (weight == tensors.end()) break;
        known.insert({weight->first, param_name(layer, "bias")});
        const Array& w = weight->second;
        if (w.dtype != "f32" || w.dims.size() != 2 || w.data.empty()) {
            problems.push_back(fmt::format("{} is {}, expected f32 of two axes, [outputs, inputs]", weight->first, type_text(w)));
            break;  // what stands behind it cannot be judged
        }
        if (layers.empty()) layers.push_back(w.dims[1]);
        if (w.dims[1] != layers.back())
            problems.push_back(
                fmt::format("{} is {}, but the layer before it has {} outputs", weight->first, type_text(w), layers.back()));
        layers.push_back(w.dims[0]);
        if (bias == tensors.end())
            problems.push_back(fmt::format("{} is missing", param_name(layer, "bias")));
        else if (bias->second.dtype != "f32" || bias->second.dims != std::vector<int64_t>{w.dims[0]})
            problems.push_back(fmt::format("{} is {}, expected f32[{}]", bias->first, type_text(bias->second), w.dims[0]));
    }
    if (layers.empty() && problems.empty()) problems.push_back("0.weight is missing");
    if (!extra && problems.empty())
        for (const auto& [name, array] : tensors)
            if (!known.contains(name)) problems.push_back(fmt::format("{} is unknown", name));
    if (problems.empty()) return layers;
    const size_t shown = std::min<size_t>(problems.size(), 10);
    std::string list = fmt::format("{}", fmt::join(problems.begin(), problems.begin() + static_cast<ptrdiff_t>(shown), "; "));
    if (shown < problems.size()) list += fmt::format("; and {} more", problems.size() - shown);
    Error error = invalid(fmt::format("[eval] these are not the weights of an MLP: {}", list));
    error.hint =
        "expected are 0.weight, 0.bias, 2.weight, ... as darner train and torch.nn.Sequential(Linear, ReLU, ...) name them";
    return error;
}

Result<EvaluationReport> evaluate_fashion_mnist(const EvaluationOptions& options) {
    EvaluationReport report;
    TRY(report.weights_file, weights_file(options.weights));
    const auto at_file = [&](Error error) {
        if (error.where.empty()) error.where = report.weights_file;
        return error;
    };
    TRY(Safetensors weights, read_safetensors(report.weights_file));
    const bool checkpoint = is_checkpoint(weights);
    if (checkpoint) {
        TRY(Checkpoint whole, checkpoint_of(std::move(weights), report.weights_file));
        weights.tensors = std::move(whole.state);
    }
    Result<std::vector<int64_t>> layers = mlp_layers(weights.tensors, checkpoint);
    if (!layers) return at_file(std::move(layers).error());
    report.layers = *layers;
    TRY(const LabelledImages test, load_fashion_mnist_test(options.data_folder));
    if (Result<void> fits = check_sizes(report.layers, test); !fits) return at_file(std::move(fits).error());
    report.images = test.count();

    TRY(const Module module, fashion_mnist_evaluation(std::span(report.layers).subspan(1, report.layers.size() - 2), test));
    TRY(Session session, compile(module, {.device = options.device}));
    report.device = session.device().name;
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (tensor.role != to_string(Role::param)) continue;
        TRY(session.write(tensor.name, weights.tensors.at(tensor.name)));
    }
    TRY(write_test_images(session, test));
    TRY(report.result, evaluate(session, test));
    if (!std::isfinite(report.result.mean_loss))
        return at_file(invalid("[eval] the loss is not finite: the weights are not those of a training that converged"));
    return report;
}

}  // namespace darner
