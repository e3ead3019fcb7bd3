// SPDX-License-Identifier: MIT
// Evaluation of saved weights. What the network is follows from the shapes in the file; it is checked against the images before
// anything is compiled.
#include "darner/nn/evaluate.h"

#include "darner/nn/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

namespace darner {
namespace {

std::string param_name(size_t index, const char* what) { return fmt::format("{}.{}", index, what); }

// mlp or cnn: as the file says, or, where it comes from elsewhere, as its first weight looks.
Result<std::string> model_in(std::string said, const std::map<std::string, Array>& tensors) {
    if (said.empty()) {
        const auto first = tensors.find("0.weight");
        return std::string(first != tensors.end() && first->second.dims.size() == 4 ? "cnn" : "mlp");
    }
    if (said == "mlp" || said == "cnn") return said;
    return invalid("[eval] the file is of another task: it says that its network is neither mlp nor cnn");
}

Result<void> check_sizes(const std::string& model, const std::vector<int64_t>& layers, const LabelledImages& test) {
    if (model == "cnn" && layers.front() != 1)
        return invalid(fmt::format("the network takes {} channels, the images have 1", layers.front()));
    if (model == "mlp" && layers.front() != test.features())
        return invalid(fmt::format("the network takes {} inputs, the images have {} pixels", layers.front(), test.features()));
    if (layers.back() != fashion_mnist_classes)
        return invalid(
            fmt::format("the network tells {} classes apart, the images have {}", layers.back(), fashion_mnist_classes));
    return {};
}

}  // namespace

Result<std::vector<int64_t>> classifier_layers(const std::string& model, const std::map<std::string, Array>& tensors,
                                               bool extra) {
    const bool cnn = model == "cnn";
    std::vector<int64_t> layers;
    std::vector<std::string> problems;
    std::set<std::string> known;
    bool convolution = cnn, whole = !cnn;
    for (size_t index = 0;; index += cnn ? 3 : 2) {
        // Behind the last pool a layer flattens.
        if (cnn && !tensors.contains(param_name(index, "weight"))) ++index, convolution = false;
        const auto weight = tensors.find(param_name(index, "weight")), bias = tensors.find(param_name(index, "bias"));
        if (weight == tensors.end()) break;
        known.insert({weight->first, param_name(index, "bias")});
        const Array& w = weight->second;
        const bool fits = convolution ? w.dims.size() == 4 && w.dims[2] == 3 && w.dims[3] == 3 : w.dims.size() == 2;
        if (w.dtype != "f32" || !fits || w.data.empty()) {
            problems.push_back(fmt::format("{} is {}, expected f32 of {}", weight->first, type_text(w),
                                           convolution ? "[outputs, inputs, 3, 3]" : "two axes, [outputs, inputs]"));
            break;  // what stands behind it cannot be judged
        }
        if (layers.empty()) layers.push_back(w.dims[1]);
        const bool flattened = cnn && !convolution;  // its inputs are each channel's pixels
        if (flattened ? w.dims[1] % layers.back() != 0 : w.dims[1] != layers.back())
            problems.push_back(
                fmt::format("{} is {}, but the layer before it has {} outputs", weight->first, type_text(w), layers.back()));
        layers.push_back(w.dims[0]);
        if (bias == tensors.end())
            problems.push_back(fmt::format("{} is missing", param_name(index, "bias")));
        else if (bias->second.dtype != "f32" || bias->second.dims != std::vector<int64_t>{w.dims[0]})
            problems.push_back(fmt::format("{} is {}, expected f32[{}]", bias->first, type_text(bias->second), w.dims[0]));
        if (flattened) {
            whole = true;
            break;
        }
    }
    if (!whole && !layers.empty() && problems.empty()) problems.push_back("the linear layer at the end is missing");
    if (layers.empty() && problems.empty()) problems.push_back("0.weight is missing");
    if (!extra && problems.empty())
        for (const auto& [name, array] : tensors)
            if (!known.contains(name)) problems.push_back(fmt::format("{} is unknown", name));
    if (problems.empty()) return layers;
    const size_t shown = std::min<size_t>(problems.size(), 10);
    std::string list = fmt::format("{}", fmt::join(problems.begin(), problems.begin() + static_cast<ptrdiff_t>(shown), "; "));
    if (shown < problems.size()) list += fmt::format("; and {} more", problems.size() - shown);
    Error error = invalid(fmt::format("[eval] these are not the weights of an {}: {}", cnn ? "CNN" : "MLP", list));
    error.hint = fmt::format(
        "expected are 0.weight, 0.bias, {}.weight, ... as darner train and torch.nn.Sequential({}, ReLU, ...) name them",
        cnn ? 3 : 2, cnn ? "Conv2d" : "Linear");
    return error;
}

Result<EvaluationReport> evaluate_fashion_mnist(const EvaluationOptions& options) {
    EvaluationReport report;
    TRY(SavedWeights weights, read_weights(options.weights, "darner train fashion-mnist"));
    report.weights_file = weights.file;
    const auto at_file = [&](Error error) {
        if (error.where.empty()) error.where = report.weights_file;
        return error;
    };
    Result<std::string> model = model_in(weights.model, weights.tensors);
    if (!model) return at_file(std::move(model).error());
    report.model = *model;
    Result<std::vector<int64_t>> layers = classifier_layers(report.model, weights.tensors, weights.is_checkpoint);
    if (!layers) return at_file(std::move(layers).error());
    report.layers = *layers;
    TRY(const LabelledImages test, load_fashion_mnist_test(options.data_folder));
    if (Result<void> fits = check_sizes(report.model, report.layers, test); !fits) return at_file(std::move(fits).error());
    report.images = test.count();

    const Classifier classifier{report.model, {report.layers.begin() + 1, report.layers.end() - 1}};
    TRY(const Module module, fashion_mnist_evaluation(classifier, test));
    TRY(Session session, compile(module, {.device = options.device}));
    report.device = session.device().name;
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (tensor.role != to_string(Role::param)) continue;
        if (Result<void> written = session.write(tensor.name, weights.tensors.at(tensor.name)); !written)
            return at_file(std::move(written).error());
    }
    TRY(write_test_images(session, test));
    TRY(report.result, evaluate(session, test));
    if (!std::isfinite(report.result.mean_loss))
        return at_file(invalid("[eval] the loss is not finite: the weights are not those of a training that converged"));
    return report;
}

}  // namespace darner
