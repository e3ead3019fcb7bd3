// SPDX-License-Identifier: MIT
// Fashion-MNIST as a task of the trainer: a unit is an epoch, and so is a round.
#include "darner/nn/train_fashion_mnist.h"

#include "darner/base/hash.h"

#include <fmt/format.h>

namespace darner {
namespace {

constexpr const char* train_command = "darner train fashion-mnist";

std::string data_in_words(const LabelledDataSet& data) {
    Hasher hasher;
    for (const Array* array : {&data.train.images, &data.train.labels, &data.test.images, &data.test.labels})
        hasher.add(std::string_view(reinterpret_cast<const char*>(array->data.data()), array->data.size()));
    return fmt::format("{} training and {} test images of {} pixels, hash {:016x}", data.train.count(), data.test.count(),
                       data.train.features(), hasher.value());
}

Result<void> write_data(Session& session, const LabelledDataSet& data) {
    TRY(session.write("data.images", data.train.images));
    TRY(session.write("data.labels", data.train.labels));
    return write_test_images(session, data.test);
}

Result<void> write_order(Session& session, const LabelledDataSet& data, uint64_t seed, uint32_t epoch) {
    const auto count = static_cast<uint32_t>(data.train.count());
    return session.write("data.order", make_array<int32_t>({count}, epoch_order(seed, epoch, count)));
}

}  // namespace

Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks) {
    TRY(RunStart start, start_run(fashion_mnist_task, train_command, options.run));
    TRY(FashionMnistSettings settings, settings_of_run(start, options.choices));
    if (!start.resumed && !options.choices.given.contains("hidden")) settings.hidden = default_hidden(settings.model);
    TRY(LabelledDataSet data, load_fashion_mnist(options.data_folder));
    if (settings.train_images > data.train.count())
        return invalid(fmt::format("[train] there are {} training images, got --train-images {}", data.train.count(),
                                   settings.train_images));
    if (settings.train_images > 0) data.train = first_images(data.train, settings.train_images);
    TrainingTask task{.name = fashion_mnist_task,
                      .command = train_command,
                      .default_goal = default_fashion_mnist_epochs,
                      .examples_per_step = static_cast<double>(settings.batch),
                      .data = data_in_words(data),
                      .data_path = options.data_folder,
                      .settings = settings_of(settings),
                      .model = settings.model,
                      .seed = settings.seed};
    task.metadata["inputs"] = fmt::format("(pixel / 255 - {}) / {}", fashion_mnist_mean, fashion_mnist_deviation);
    TRY(task.module, fashion_mnist_module(settings, data));
    task.steps_per_unit = static_cast<uint32_t>(data.train.count() / settings.batch);
    task.write_data = [&](Session& session) { return write_data(session, data); };
    task.begin_round = [&](Session& session, uint32_t epoch) { return write_order(session, data, settings.seed, epoch); };
    task.evaluate = [&](Session& session, RoundReport& report) -> Result<void> {
        TRY(const Evaluation evaluation, evaluate(session, data.test));
        report.evaluation = evaluation.accuracy;
        return {};
    };
    return train(task, std::move(start), options.run, callbacks);
}

}  // namespace darner
