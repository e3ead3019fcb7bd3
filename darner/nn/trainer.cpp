// SPDX-License-Identifier: MIT
// The training loop. Many steps go in one submit: enough for it to last some tens of milliseconds, so that submitting costs
// nothing, and few enough that progress shows and no driver takes the device for hung. A submit never crosses an epoch. How
// steps are cut into submits does not change what they compute.
#include "darner/nn/trainer.h"

#include "darner/base/files.h"
#include "darner/base/nearest.h"
#include "darner/io/safetensors.h"
#include "darner/nn/batches.h"
#include "darner/nn/models.h"
#include "darner/nn/training.h"
#include "darner/runtime/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

namespace darner {
namespace {

constexpr double submit_seconds = 0.075;
constexpr uint32_t most_steps_per_submit = 4096;
constexpr uint32_t evaluation_batch = 500;
constexpr std::string_view test_prefix = "eval";

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<Optimizer> make_optimizer(const FashionMnistOptions& options) {
    using Limits = std::numeric_limits<float>;  // the update computes in f32, which flushes what is smaller to zero
    if (!(options.learning_rate >= Limits::min() && options.learning_rate <= Limits::max()))
        return invalid(fmt::format("[train] the learning rate is {}, expected a number from {:.3g} to {:.3g}",
                                   options.learning_rate, Limits::min(), Limits::max()));
    if (options.optimizer == "sgd") return sgd({.learning_rate = options.learning_rate, .momentum = 0.9});
    if (options.optimizer == "adam") return adam({.learning_rate = options.learning_rate});
    if (options.optimizer == "adamw") return adamw({.learning_rate = options.learning_rate});
    Error error = invalid(fmt::format("[train] there is no optimizer {}: expected sgd, adam or adamw", options.optimizer));
    error.hint = did_you_mean(options.optimizer, std::vector<std::string>{"sgd", "adam", "adamw"});
    return error;
}

// Mean and standard deviation of Fashion-MNIST's training pixels: inputs of mean 0 and variance 1 train faster.
constexpr double pixel_mean = 0.2860, pixel_deviation = 0.3530;

ResidentSet resident(std::string_view prefix, const LabelledImages& set) {
    return {std::string(prefix), set.count(), set.features(), pixel_mean, pixel_deviation};
}
ResidentSet training_set(const LabelledDataSet& data) { return resident("data", data.train); }
ResidentSet test_set(const LabelledDataSet& data) { return resident(test_prefix, data.test); }

int64_t test_batch(const LabelledDataSet& data) { return std::min<int64_t>(evaluation_batch, data.test.count()); }

Result<void> check_options(const FashionMnistOptions& options, const LabelledDataSet& data) {
    if (options.epochs < 1) return invalid("[train] epochs is 0, expected at least 1");
    if (options.batch < 1 || options.batch > data.train.count())
        return invalid(fmt::format("[train] the batch size is {}, expected 1 to {}", options.batch, data.train.count()));
    const uint64_t steps = static_cast<uint64_t>(data.train.count() / options.batch) * options.epochs;
    if (steps > UINT32_MAX) return invalid(fmt::format("[train] {} steps are more than the step counter holds", steps));
    return {};
}

// Turns steps into submits of about submit_seconds: by the time of the last one, growing at most fourfold at once because
// the first ones also pay for warming up.
class SubmitSize {
public:
    uint32_t steps() const { return steps_; }
    void measured(uint32_t steps, double seconds) {
        const double wanted = seconds > 0 ? steps * submit_seconds / seconds : most_steps_per_submit;
        const double most = std::min<double>(4.0 * steps_, most_steps_per_submit);
        steps_ = static_cast<uint32_t>(std::clamp(wanted, 1.0, most));
    }

private:
    uint32_t steps_ = 1;
};

template <class T>
Result<T> read_scalar(Session& session, std::string_view name) {
    TRY(const Array array, session.read(name));
    return values_of<T>(array)[0];
}

Error diverged(uint32_t epoch, std::string_view what) {
    Error error = invalid(fmt::format("training diverged in epoch {}: {} is not finite", epoch, what));
    error.hint = "try a lower --lr";
    return error;
}

class Training {
public:
    Training(const FashionMnistOptions& options, const TrainingCallbacks& callbacks, const LabelledDataSet& data,
             Session& session)
        : options_(options),
          callbacks_(callbacks),
          data_(data),
          session_(session),
          steps_per_epoch_(static_cast<uint32_t>(data.train.count() / options.batch)) {}

    Result<void> write_data() {
        TRY(session_.write("data.images", data_.train.images));
        TRY(session_.write("data.labels", data_.train.labels));
        TRY(session_.write(fmt::format("{}.images", test_prefix), data_.test.images));
        return session_.write(fmt::format("{}.labels", test_prefix), data_.test.labels);
    }

    Result<EpochReport> epoch(uint32_t index) {
        const auto count = static_cast<uint32_t>(data_.train.count());
        const std::vector<int32_t> order = epoch_order(options_.seed, index, count);
        TRY(session_.write("data.order", make_array<int32_t>({count}, order)));
        const auto start = std::chrono::steady_clock::now();
        EpochReport report{.epoch = index + 1};
        for (uint32_t done = 0; done < steps_per_epoch_;) {
            const uint32_t steps = std::min(submit_size_.steps(), steps_per_epoch_ - done);
            const auto submit_start = std::chrono::steady_clock::now();
            TRY(session_.submit("step", steps));
            TRY(const float loss_sum, read_scalar<float>(session_, "loss_sum"));
            submit_size_.measured(steps, seconds_since(submit_start));
            done += steps;
            // The sum stays what it is once it is not finite: an epoch that diverged need not be finished.
            if (!std::isfinite(loss_sum)) return diverged(report.epoch, "the loss");
            report.train_loss = static_cast<double>(loss_sum) / done;
            report.seconds = seconds_since(start);
            report.images_per_second = static_cast<double>(done) * options_.batch / report.seconds;
            show_progress(report, done);
        }
        TRY(report.test_accuracy, test_accuracy());
        return report;
    }

private:
    void show_progress(const EpochReport& report, uint32_t done) const {
        if (!callbacks_.progress) return;
        TrainingProgress progress{
            .epoch = report.epoch, .epochs = options_.epochs, .step = done, .steps_per_epoch = steps_per_epoch_};
        progress.loss = report.train_loss;
        progress.images_per_second = report.images_per_second;
        const double steps_left = static_cast<double>(options_.epochs - report.epoch + 1) * steps_per_epoch_ - done;
        progress.seconds_left = steps_left * options_.batch / report.images_per_second;
        callbacks_.progress(progress);
    }

    Result<double> test_accuracy() {
        TRY(session_.submit("eval", static_cast<uint32_t>(evaluation_steps(test_set(data_), test_batch(data_)))));
        TRY(const uint32_t correct, read_scalar<uint32_t>(session_, fmt::format("{}.correct", test_prefix)));
        return static_cast<double>(correct) / static_cast<double>(data_.test.count());
    }

    const FashionMnistOptions& options_;
    const TrainingCallbacks& callbacks_;
    const LabelledDataSet& data_;
    Session& session_;
    uint32_t steps_per_epoch_;
    SubmitSize submit_size_;
};

// The network's params under PyTorch's names, and nothing else: what load_state_dict() takes.
Result<Safetensors> model_of(Session& session) {
    Safetensors file;
    file.metadata["format"] = "pt";
    file.metadata["inputs"] = fmt::format("(pixel / 255 - {}) / {}", pixel_mean, pixel_deviation);
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (tensor.role != to_string(Role::param)) continue;
        TRY(file.tensors[tensor.name], session.read(tensor.name));
    }
    return file;
}

// The loss is of the params before a step, so the last step can still spoil them.
Result<void> check_finite(const Safetensors& model, uint32_t epoch) {
    for (const auto& [name, array] : model.tensors) {
        if (array.dtype != "f32") continue;
        const auto values = values_of<float>(array);
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
            return diverged(epoch, name);
    }
    return {};
}

// Writes a file of the model's size where the model will be written, and removes it: a folder without write permission or a
// full disk is found before the training and not after it. A model.safetensors of an earlier training is left as it is.
Result<void> probe_model_file(const std::string& path, const Safetensors& model) {
    std::error_code failure;
    const std::filesystem::file_status status = std::filesystem::status(path, failure);
    if (std::filesystem::is_directory(status)) return io_error("cannot write the model: a folder has its name", path);
    const bool exists = std::filesystem::exists(status);
    if (exists && !std::filesystem::is_regular_file(status)) return {};  // a device or a pipe is written directly
    // Behind a symbolic link: the link stays and its target is replaced.
    const std::string target = exists ? std::filesystem::canonical(path, failure).string() : path;
    const std::string probe = fmt::format("{}.{}.probe", failure || target.empty() ? path : target, ::getpid());
    Result<void> written = write_safetensors(probe, model);
    std::filesystem::remove(probe, failure);
    if (written) return {};
    Error error = std::move(written).error();
    error.where = path;
    return error;
}

}  // namespace

Result<Module> fashion_mnist_module(const FashionMnistOptions& options, const LabelledDataSet& data) {
    TRY(check_options(options, data));
    TRY(const Optimizer optimizer, make_optimizer(options));
    // No user wrote these graphs: their nodes have a scope, but no place.
    constexpr Where nowhere;
    const auto logits = [&](Value inputs) { return mlp(inputs, options.hidden, data.classes, nowhere); };
    Builder b("step");
    const Builder::Place place = b.place(nowhere);
    const LabelledBatch batch = training_batch(b, training_set(data), options.batch);
    const Value loss = cross_entropy(logits(batch.inputs), batch.labels);
    accumulate_loss(b, loss, batch);
    std::vector<Graph> graphs;
    TRY(Graph step, training_graph(loss, optimizer, {}, nowhere));
    graphs.push_back(std::move(step));
    TRY(Graph eval, accuracy_graph(test_set(data), test_batch(data), logits, nowhere));
    graphs.push_back(std::move(eval));
    return make_module(std::move(graphs));
}

Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks) {
    TRY(make_optimizer(options));
    const std::string model_file = options.out_folder.empty() ? std::string() : options.out_folder + "/model.safetensors";
    if (!model_file.empty()) TRY(make_folder(options.out_folder));
    TRY(const LabelledDataSet data, load_fashion_mnist(options.data_folder));
    TRY(const Module module, fashion_mnist_module(options, data));
    TRY(Session session, compile(module, {.device = options.device, .seed = options.seed}));
    if (!model_file.empty()) {
        TRY(const Safetensors untrained, model_of(session));
        TRY(probe_model_file(model_file, untrained));
    }
    TrainingReport report;
    report.device = session.device().name;
    if (callbacks.started) callbacks.started(report.device);

    Training training(options, callbacks, data, session);
    TRY(training.write_data());
    for (uint32_t epoch = 0; epoch < options.epochs; ++epoch) {
        TRY(EpochReport done, training.epoch(epoch));
        report.epochs.push_back(done);
        if (callbacks.epoch) callbacks.epoch(done);
    }
    TRY(const Safetensors model, model_of(session));
    TRY(check_finite(model, options.epochs));
    if (!model_file.empty()) {
        TRY(write_safetensors(model_file, model));
        report.model_file = model_file;
    }
    return report;
}

}  // namespace darner
