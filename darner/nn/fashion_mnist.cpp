// SPDX-License-Identifier: MIT
// The modules of Fashion-MNIST. No user wrote these graphs: their nodes have a scope, but no place.
#include "darner/nn/fashion_mnist.h"

#include "darner/base/nearest.h"
#include "darner/nn/batches.h"
#include "darner/nn/models.h"
#include "darner/nn/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace darner {
namespace {

constexpr uint32_t evaluation_batch = 500;
constexpr std::string_view test_prefix = "eval";
constexpr Where nowhere;

ResidentSet resident(std::string_view prefix, const LabelledImages& set) {
    return {std::string(prefix), set.count(), set.features(), fashion_mnist_mean, fashion_mnist_deviation};
}

int64_t test_batch(const LabelledImages& test) { return std::min<int64_t>(evaluation_batch, test.count()); }

Result<Optimizer> make_optimizer(const TrainingSettings& settings) {
    using Limits = std::numeric_limits<float>;  // the update computes in f32, which flushes what is smaller to zero
    const double rate = settings.learning_rate;
    if (!(rate >= Limits::min() && rate <= Limits::max()))
        return invalid(fmt::format("[train] the learning rate is {}, expected a number from {:.3g} to {:.3g}", rate,
                                   Limits::min(), Limits::max()));
    if (settings.optimizer == "sgd") return sgd({.learning_rate = rate, .momentum = 0.9});
    if (settings.optimizer == "adam") return adam({.learning_rate = rate});
    if (settings.optimizer == "adamw") return adamw({.learning_rate = rate});
    Error error = invalid(fmt::format("[train] there is no optimizer {}: expected sgd, adam or adamw", settings.optimizer));
    error.hint = did_you_mean(settings.optimizer, std::vector<std::string>{"sgd", "adam", "adamw"});
    return error;
}

Result<void> check_settings(const TrainingSettings& settings, const LabelledDataSet& data) {
    if (settings.epochs < 1) return invalid("[train] epochs is 0, expected at least 1");
    if (settings.batch < 1 || settings.batch > data.train.count())
        return invalid(fmt::format("[train] the batch size is {}, expected 1 to {}", settings.batch, data.train.count()));
    for (int64_t size : settings.hidden)
        if (size < 1) return invalid(fmt::format("[train] a hidden layer of {} outputs, expected 1 or more", size));
    const uint64_t steps = static_cast<uint64_t>(data.train.count() / settings.batch) * settings.epochs;
    if (steps > UINT32_MAX) return invalid(fmt::format("[train] {} steps are more than the step counter holds", steps));
    return {};
}

Result<Graph> eval_graph(std::span<const int64_t> hidden, const LabelledImages& test) {
    const auto logits = [&](Value inputs) { return mlp(inputs, hidden, fashion_mnist_classes, nowhere); };
    return evaluation_graph(resident(test_prefix, test), test_batch(test), fashion_mnist_classes, logits, nowhere);
}

}  // namespace

Result<Module> fashion_mnist_module(const TrainingSettings& settings, const LabelledDataSet& data) {
    TRY(check_settings(settings, data));
    TRY(const Optimizer optimizer, make_optimizer(settings));
    Builder b("step");
    const Builder::Place place = b.place(nowhere);
    const LabelledBatch batch = training_batch(b, resident("data", data.train), settings.batch);
    const Value loss = cross_entropy(mlp(batch.inputs, settings.hidden, data.classes, nowhere), batch.labels);
    accumulate_loss(b, loss, batch);
    std::vector<Graph> graphs;
    TRY(Graph step, training_graph(loss, optimizer, {}, nowhere));
    graphs.push_back(std::move(step));
    TRY(Graph report, loss_report_graph(nowhere));
    graphs.push_back(std::move(report));
    TRY(Graph eval, eval_graph(settings.hidden, data.test));
    graphs.push_back(std::move(eval));
    return make_module(std::move(graphs));
}

Result<Module> fashion_mnist_evaluation(std::span<const int64_t> hidden, const LabelledImages& test) {
    std::vector<Graph> graphs;
    TRY(Graph eval, eval_graph(hidden, test));
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
