// SPDX-License-Identifier: MIT
// The modules of Fashion-MNIST. No user wrote these graphs: their nodes have a scope, but no place.
#include "darner/nn/fashion_mnist.h"

#include "darner/base/nearest.h"
#include "darner/nn/batches.h"
#include "darner/nn/models.h"
#include "darner/nn/training.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner {
namespace {

constexpr uint32_t evaluation_batch = 500;
constexpr std::string_view test_prefix = "eval";
constexpr Where nowhere;

ResidentSet resident(std::string_view prefix, const LabelledImages& set) {
    return {std::string(prefix), set.count(), set.features(), fashion_mnist_mean, fashion_mnist_deviation};
}

int64_t test_batch(const LabelledImages& test) { return std::min<int64_t>(evaluation_batch, test.count()); }

Result<void> check_network(const Classifier& network, const LabelledImages& images) {
    const std::vector<std::string> models{"mlp", "cnn"};
    if (std::find(models.begin(), models.end(), network.model) == models.end()) {
        Error error = invalid(fmt::format("[train] there is no model {}: expected mlp or cnn", network.model));
        error.hint = did_you_mean(network.model, models);
        return error;
    }
    for (int64_t size : network.hidden)
        if (size < 1) return invalid(fmt::format("[train] a hidden layer of {} outputs, expected 1 or more", size));
    if (network.model == "mlp") return {};
    const std::vector<int64_t>& pixels = images.extents;
    if (pixels.size() != 2)
        return invalid(fmt::format("[train] a cnn takes images with two axes, got {} for each", pixels.size()));
    if (std::min(pixels[0], pixels[1]) >> network.hidden.size() < 1)
        return invalid(fmt::format("[train] {} convolutions halve the images as often, and {} by {} pixels are too few for that",
                                   network.hidden.size(), pixels[0], pixels[1]));
    return {};
}

Result<void> check_settings(const FashionMnistSettings& settings, const LabelledDataSet& data) {
    if (settings.batch < 1 || settings.batch > data.train.count())
        return invalid(fmt::format("[train] the batch size is {}, expected 1 to {}", settings.batch, data.train.count()));
    return check_network({settings.model, settings.hidden}, data.train);
}

Value logits(const Classifier& network, Value inputs, const LabelledImages& images) {
    if (network.model == "mlp") return mlp(inputs, network.hidden, fashion_mnist_classes, nowhere);
    const Value pixels = reshape(inputs, {-1, 1, images.extents[0], images.extents[1]}, nowhere);
    return cnn(pixels, network.hidden, fashion_mnist_classes, nowhere);
}

Result<Graph> eval_graph(const Classifier& network, const LabelledImages& test) {
    const auto network_of = [&](Value inputs) { return logits(network, inputs, test); };
    return evaluation_graph(resident(test_prefix, test), test_batch(test), fashion_mnist_classes, network_of, nowhere);
}

}  // namespace

std::vector<int64_t> default_hidden(std::string_view model) {
    return model == "cnn" ? std::vector<int64_t>{16, 32} : std::vector<int64_t>{256};
}

Result<Module> fashion_mnist_module(const FashionMnistSettings& settings, const LabelledDataSet& data) {
    TRY(check_settings(settings, data));
    TRY(const Optimizer optimizer, optimizer_named(settings.optimizer, settings.learning_rate, {}, nowhere));
    const Classifier network{settings.model, settings.hidden};
    Builder b("step");
    const Builder::Place place = b.place(nowhere);
    const LabelledBatch batch = training_batch(b, resident("data", data.train), settings.batch);
    const Value loss = cross_entropy(logits(network, batch.inputs, data.train), batch.labels);
    accumulate_loss(b, loss, batch.epoch_step);
    std::vector<Graph> graphs;
    TRY(Graph step, training_graph(loss, optimizer, {}, nowhere));
    graphs.push_back(std::move(step));
    TRY(Graph report, loss_report_graph(nowhere));
    graphs.push_back(std::move(report));
    TRY(Graph eval, eval_graph(network, data.test));
    graphs.push_back(std::move(eval));
    return make_module(std::move(graphs));
}

Result<Module> fashion_mnist_evaluation(const Classifier& classifier, const LabelledImages& test) {
    TRY(check_network(classifier, test));
    std::vector<Graph> graphs;
    TRY(Graph eval, eval_graph(classifier, test));
    graphs.push_back(std::move(eval));
    return make_module(std::move(graphs));
}

Result<void> write_test_images(Session& session, const LabelledImages& test) {
    TRY(session.write(fmt::format("{}.images", test_prefix), test.images));
    return session.write(fmt::format("{}.labels", test_prefix), test.labels);
}

Result<Evaluation> evaluate(Session& session, const LabelledImages& test) {
    TRY(session.submit("eval", static_cast<uint32_t>(evaluation_steps(resident(test_prefix, test), test_batch(test)))));
    TRY(const Array correct, session.read(fmt::format("{}.correct", test_prefix)));
    TRY(const Array loss_sum, session.read(fmt::format("{}.loss_sum", test_prefix)));
    Evaluation result;
    uint64_t right = 0;
    for (uint32_t count : values_of<uint32_t>(correct)) {
        result.classes.push_back({.correct = count});
        right += count;
    }
    for (uint8_t label : values_of<uint8_t>(test.labels)) ++result.classes[label].images;
    const auto count = static_cast<double>(test.count());
    result.accuracy = static_cast<double>(right) / count;
    result.mean_loss = static_cast<double>(values_of<float>(loss_sum)[0]) / count;
    return result;
}

}  // namespace darner
