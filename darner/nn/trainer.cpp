// SPDX-License-Identifier: MIT
// The training loop. Many steps go in one submit: enough for it to last some tens of milliseconds, so that submitting costs
// nothing, and few enough that progress shows and no driver takes the device for hung. The device always has a submit to
// go on with while the host reads the loss after an earlier one. A submit never crosses an epoch. How steps are cut into
// submits does not change what they compute, so a training that goes on from a checkpoint has the bits of one that never
// stopped.
#include "darner/nn/trainer.h"

#include "darner/base/files.h"
#include "darner/base/hash.h"
#include "darner/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <system_error>

namespace darner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double submit_seconds = 0.075;
constexpr uint32_t most_steps_per_submit = 4096;
constexpr size_t most_submits_in_flight = 3;  // fewer than a ring has slots, so that each one's loss can still be read

double seconds_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double>(end - start).count();
}

// Turns steps into submits of about submit_seconds: by the time of the last one, growing at most fourfold at once because
// the first ones also pay for warming up.
class SubmitSize {
public:
    uint32_t steps() const { return steps_; }
    void measured(uint32_t steps, double seconds) {
        const double wanted = seconds > 0 ? steps * submit_seconds / seconds : most_steps_per_submit;
        const double most = std::min<double>(4.0 * steps, most_steps_per_submit);
        steps_ = static_cast<uint32_t>(std::clamp(wanted, 1.0, most));
    }

private:
    uint32_t steps_ = 1;
};

Error diverged(uint32_t epoch, std::string_view what) {
    Error error = invalid(fmt::format("training diverged in epoch {}: {} is not finite", epoch, what));
    error.hint = "try a lower --lr";
    return error;
}

// The epochs of a run that has settings and a session. What it has reached is in `run`.
class Training {
public:
    Training(Checkpoint& run, const TrainingCallbacks& callbacks, const LabelledDataSet& data, Session& session)
        : run_(run),
          callbacks_(callbacks),
          data_(data),
          session_(session),
          steps_per_epoch_(static_cast<uint32_t>(data.train.count() / run.settings.batch)) {}

    Result<void> write_data() {
        TRY(session_.write("data.images", data_.train.images));
        TRY(session_.write("data.labels", data_.train.labels));
        return write_test_images(session_, data_.test);
    }

    // The next epoch; false when the caller wants to stop before its end.
    Result<bool> epoch(EpochReport& report) {
        const auto count = static_cast<uint32_t>(data_.train.count());
        const std::vector<int32_t> order = epoch_order(run_.settings.seed, run_.epochs_done(), count);
        TRY(session_.write("data.order", make_array<int32_t>({count}, order)));
        report = {.epoch = run_.epochs_done() + 1};
        const Clock::time_point start = Clock::now();
        for (uint32_t submitted = 0, done = 0; done < steps_per_epoch_;) {
            TRY(const bool wait, fill_queue(submitted));
            if (!wait) continue;
            TRY(const float loss_sum, finish_oldest(done));
            // The sum stays what it is once it is not finite: an epoch that diverged need not be finished.
            if (!std::isfinite(loss_sum)) return diverged(report.epoch, "the loss");
            report.train_loss = static_cast<double>(loss_sum) / done;
            report.seconds = seconds_between(start, last_finish_);
            report.images_per_second = static_cast<double>(done) * run_.settings.batch / report.seconds;
            show_progress(report, done);
            if (callbacks_.stop && callbacks_.stop()) return false;
        }
        TRY(const Evaluation evaluation, evaluate(session_, data_.test));
        report.test_accuracy = evaluation.accuracy;
        return true;
    }

private:
    struct Submit {
        uint32_t steps = 0;
        Clock::time_point queued;
    };

    // Queues the epoch's next submit where there is room for it and the oldest one is still at work. True when it is time to
    // take that one's loss.
    Result<bool> fill_queue(uint32_t& submitted) {
        if (in_flight_.size() == most_submits_in_flight || submitted == steps_per_epoch_) return true;
        if (!in_flight_.empty()) {
            TRY(const uint64_t finished, session_.finished("report"));
            if (finished > losses_read_) return true;
        }
        const uint32_t steps = std::min(submit_size_.steps(), steps_per_epoch_ - submitted);
        TRY(session_.submit("step", steps));
        TRY(session_.submit("report", 1));
        in_flight_.push_back({steps, Clock::now()});
        submitted += steps;
        return false;
    }

    // The sum of the losses after the oldest submit. Those behind it go on meanwhile.
    Result<float> finish_oldest(uint32_t& done) {
        TRY(const Array loss_sum, session_.read("loss_sum_so_far", static_cast<uint32_t>(in_flight_.size() - 1)));
        ++losses_read_;
        const Submit oldest = in_flight_.front();
        in_flight_.pop_front();
        const Clock::time_point now = Clock::now();
        submit_size_.measured(oldest.steps, seconds_between(std::max(oldest.queued, last_finish_), now));
        last_finish_ = now;
        done += oldest.steps;
        return values_of<float>(loss_sum)[0];
    }

    void show_progress(const EpochReport& report, uint32_t done) const {
        if (!callbacks_.progress) return;
        TrainingProgress progress{
            .epoch = report.epoch, .epochs = run_.settings.epochs, .step = done, .steps_per_epoch = steps_per_epoch_};
        progress.loss = report.train_loss;
        progress.images_per_second = report.images_per_second;
        const double steps_left = static_cast<double>(progress.epochs - report.epoch + 1) * steps_per_epoch_ - done;
        progress.seconds_left = steps_left * run_.settings.batch / report.images_per_second;
        callbacks_.progress(progress);
    }

    const Checkpoint& run_;
    const TrainingCallbacks& callbacks_;
    const LabelledDataSet& data_;
    Session& session_;
    uint32_t steps_per_epoch_;
    SubmitSize submit_size_;
    std::deque<Submit> in_flight_;
    uint64_t losses_read_ = 0;  // of all epochs
    Clock::time_point last_finish_ = {};
};

// --- state ----------------------------------------------------------------------------------------------------------

bool is_saved(const ProgramTensor& tensor) { return !tensor.role.empty() && tensor.role != to_string(Role::data); }

Result<std::map<std::string, Array>> read_state(Session& session) {
    std::map<std::string, Array> state;
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (!is_saved(tensor)) continue;
        TRY(state[tensor.name], session.read(tensor.name));
    }
    return state;
}

Result<void> write_state(Session& session, const Checkpoint& checkpoint, const std::string& path) {
    const auto unfit = [&](const std::string& name, std::string_view what) {
        return invalid(fmt::format("[resume] the checkpoint does not fit this network: {} {}", name, what), path);
    };
    size_t known = 0;
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (!is_saved(tensor)) continue;
        const auto found = checkpoint.state.find(tensor.name);
        if (found == checkpoint.state.end()) return unfit(tensor.name, "is missing");
        if (Result<void> written = session.write(tensor.name, found->second); !written) {
            Error error = std::move(written).error();
            error.where = path;
            return error;
        }
        ++known;
    }
    if (known == checkpoint.state.size()) return {};
    for (const auto& [name, array] : checkpoint.state)
        if (!session.program().find_state(name).valid()) return unfit(name, "is unknown");
    return unfit("data", "is not part of one");
}

// The network's params under PyTorch's names, and nothing else: what load_state_dict() takes.
Safetensors model_of(const Session& session, const std::map<std::string, Array>& state) {
    Safetensors file;
    file.metadata["format"] = "pt";
    file.metadata["inputs"] = fmt::format("(pixel / 255 - {}) / {}", fashion_mnist_mean, fashion_mnist_deviation);
    for (const ProgramTensor& tensor : session.program().tensors)
        if (tensor.role == to_string(Role::param)) file.tensors[tensor.name] = state.at(tensor.name);
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

// --- where a training begins and what it leaves ---------------------------------------------------------------------

std::string data_in_words(const LabelledDataSet& data) {
    Hasher hasher;
    for (const Array* array : {&data.train.images, &data.train.labels, &data.test.images, &data.test.labels})
        hasher.add(std::string_view(reinterpret_cast<const char*>(array->data.data()), array->data.size()));
    return fmt::format("{} training and {} test images of {} pixels, hash {:016x}", data.train.count(), data.test.count(),
                       data.train.features(), hasher.value());
}

bool same_folder(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return a == b || std::filesystem::equivalent(a, b, ignored);
}

// The files of a training, and what stands in them.
class Output {
public:
    explicit Output(const std::string& folder) : file_(folder) {}

    bool wanted() const { return !file_.folder().empty(); }
    CheckpointFile& file() { return file_; }
    std::string model_path() const { return file_.folder() + "/model.safetensors"; }

    // Another training's unfinished work is kept; a folder that cannot be written is found before the training, not after it.
    Result<void> prepare(bool resumed_here, std::vector<std::string>& notes) {
        TRY(make_folder(file_.folder()));
        std::error_code ignored;
        if (std::filesystem::is_directory(model_path(), ignored))
            return io_error("cannot write the model: a folder has its name", model_path());
        file_.remove_leftovers();
        if (resumed_here) return {};
        TRY(const std::string aside, file_.set_aside_unfinished());
        if (!aside.empty())
            notes.push_back(
                fmt::format("an unfinished training was in {0}; its checkpoint is in {1} now: go on with it by "
                            "--resume {1}",
                            file_.folder(), aside));
        return {};
    }

    Result<void> save(const Checkpoint& run) {
        TRY(file_.write(run));
        saved_ = run.epochs_done();
        return {};
    }

    // "epochs 1 to 3 are kept in DIR: …"
    std::string way_on() const {
        if (!saved_) return {};
        const std::string kept = *saved_ == 0   ? "no epoch was finished"
                                 : *saved_ == 1 ? "epoch 1 is kept"
                                                : fmt::format("epochs 1 to {} are kept", *saved_);
        return fmt::format("{}; go on with: darner train {} --resume {}", kept, fashion_mnist_task, file_.folder());
    }

    Error with_way_on(Error error) const {
        if (error.hint.empty()) error.hint = way_on();
        return error;
    }

private:
    CheckpointFile file_;
    std::optional<uint32_t> saved_;  // the epochs of the checkpoint that this run has written
};

// At the first epoch with the settings given, or where the checkpoint of `resumed` stands.
Result<Checkpoint> beginning(const FashionMnistOptions& options, CheckpointFile& resumed, std::vector<std::string>& notes) {
    Checkpoint run;
    run.task = fashion_mnist_task;
    run.settings = settings_of(options.choices);
    if (options.resume_folder.empty()) return run;
    TRY(run, resumed.read(run.task));
    TRY(const TrainingSettings settings, resumed_settings(run, options.choices));
    run.settings = settings;
    const uint32_t done = run.epochs_done();
    run.settings.epochs = std::max(run.settings.epochs, done);
    if (resumed.damage())
        notes.push_back(fmt::format("{} is damaged ({}): going on from the checkpoint of the epoch before it, {}", resumed.path(),
                                    resumed.damage()->message, resumed.previous_path()));
    if (done < run.settings.epochs)
        notes.push_back(fmt::format("going on from {}: {} of {} epochs are done, epoch {} starts from its beginning",
                                    resumed.folder(), done, run.settings.epochs, done + 1));
    return run;
}

Result<void> check_data(Checkpoint& run, const LabelledDataSet& data, const FashionMnistOptions& options) {
    const std::string now = data_in_words(data);
    if (!options.resume_folder.empty() && run.data != now) {
        Error error = invalid(fmt::format("[resume] the data is not that of the checkpoint: got {}, expected {}", now, run.data),
                              options.data_folder);
        error.hint = "--data names the folder of the images that the training began with";
        return error;
    }
    run.data = now;
    return {};
}

Result<void> train_epochs(Training& training, Checkpoint& run, Session& session, const TrainingCallbacks& callbacks,
                          Output& output, TrainingReport& report) {
    while (run.epochs_done() < run.settings.epochs && !report.stopped) {
        EpochReport done;
        TRY(const bool whole, training.epoch(done));
        report.stopped = !whole;
        if (!whole) break;
        TRY(run.state, read_state(session));
        TRY(check_finite(model_of(session, run.state), done.epoch));
        run.history.push_back({done.train_loss, done.test_accuracy});
        if (output.wanted()) TRY(output.save(run));
        report.epochs.push_back(done);
        if (callbacks.epoch) callbacks.epoch(done);
        report.stopped = run.epochs_done() < run.settings.epochs && callbacks.stop && callbacks.stop();
    }
    return {};
}

}  // namespace

Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks) {
    TrainingStart start;
    CheckpointFile resumed(options.resume_folder);
    TRY(Checkpoint run, beginning(options, resumed, start.notes));
    TRY(const LabelledDataSet data, load_fashion_mnist(options.data_folder));
    TRY(check_data(run, data, options));
    TRY(const Module module, fashion_mnist_module(run.settings, data));
    const bool here = options.out_folder.empty() || same_folder(options.out_folder, options.resume_folder);
    Output output(here ? options.resume_folder : options.out_folder);
    if (here) output.file() = resumed;
    if (output.wanted()) TRY(output.prepare(here, start.notes));
    TRY(Session session, compile(module, {.device = options.device, .seed = run.settings.seed}));

    start.device = session.device().name;
    start.settings = run.settings;
    start.epochs_done = run.epochs_done();
    if (!options.resume_folder.empty()) {
        TRY(write_state(session, run, resumed.path()));
        if (run.device != start.device)
            start.notes.push_back(
                fmt::format("the checkpoint was made on {}: the bits will not be those of one run there", run.device));
    } else {
        TRY(run.state, read_state(session));
    }
    run.device = start.device;
    if (output.wanted()) TRY(output.save(run));
    if (callbacks.started) callbacks.started(start);

    Training training(run, callbacks, data, session);
    TRY(training.write_data());
    TrainingReport report;
    if (Result<void> trained = train_epochs(training, run, session, callbacks, output, report); !trained)
        return output.with_way_on(std::move(trained).error());
    report.way_on = output.way_on();
    if (report.stopped || !output.wanted()) return report;
    report.model_file = output.model_path();
    if (Result<void> written = write_safetensors(report.model_file, model_of(session, run.state)); !written)
        return output.with_way_on(std::move(written).error());
    return report;
}

}  // namespace darner
