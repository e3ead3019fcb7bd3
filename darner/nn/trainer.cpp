// SPDX-License-Identifier: MIT
// The training loop. Many steps go in one submit: enough for it to last some tens of milliseconds, so that submitting costs
// nothing, and few enough that progress shows and no driver takes the device for hung. The device always has a submit to
// go on with while the host reads the loss after an earlier one. A submit never crosses a round. How steps are cut into
// submits does not change what they compute, so a training that goes on from a checkpoint has the bits of one that never
// stopped.
#include "darner/nn/trainer.h"

#include "darner/nn/training_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

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

// `unit` counts from 1.
Error diverged(const TrainingTask& task, uint32_t unit, std::string_view what) {
    Error error = invalid(fmt::format("training diverged by {} {}: {} is not finite", task.unit, unit, what));
    error.hint = "try a lower --lr";
    return error;
}

// The rounds of a run that has settings and a session. What it has reached is in `run`.
class Training {
public:
    Training(const TrainingTask& task, Checkpoint& run, const TrainingCallbacks& callbacks, Session& session)
        : task_(task), run_(run), callbacks_(callbacks), session_(session) {}

    // To the end of the round that is in progress; false when the caller wants to stop before it.
    Result<bool> round(RoundReport& report) {
        const uint32_t per_round = task_.units_per_round;
        // A training that had reached its goal within a round goes on in it.
        const uint32_t begin = run_.done - run_.done % per_round;
        report = {.done = std::min(run_.goal, begin + per_round)};
        if (task_.begin_round) TRY(task_.begin_round(session_, run_.done));
        const uint32_t first = steps(run_.done), end = steps(report.done);
        const Clock::time_point start = Clock::now();
        for (uint32_t submitted = first, done = first; done < end;) {
            TRY(const bool wait, fill_queue(submitted, end));
            if (!wait) continue;
            TRY(const float loss_sum, finish_oldest(done));
            // The sum stays what it is once it is not finite: a round that diverged need not be finished.
            if (!std::isfinite(loss_sum)) return diverged(task_, (done - 1) / task_.steps_per_unit + 1, "the loss");
            report.train_loss = static_cast<double>(loss_sum) / (done - steps(begin));
            report.seconds = seconds_between(start, last_finish_);
            report.examples_per_second = (done - first) * task_.examples_per_step / report.seconds;
            show_progress(report, done);
            if (callbacks_.stop && callbacks_.stop()) return false;
        }
        TRY(task_.evaluate(session_, report));
        return true;
    }

private:
    struct Submit {
        uint32_t steps = 0;
        Clock::time_point queued;
    };

    uint32_t steps(uint32_t units) const { return units * task_.steps_per_unit; }

    // Queues the round's next submit where there is room for it and the oldest one is still at work. True when it is time to
    // take that one's loss.
    Result<bool> fill_queue(uint32_t& submitted, uint32_t end) {
        if (in_flight_.size() == most_submits_in_flight || submitted == end) return true;
        if (!in_flight_.empty()) {
            TRY(const uint64_t finished, session_.finished("report"));
            if (finished > losses_read_) return true;
        }
        const uint32_t steps = std::min(submit_size_.steps(), end - submitted);
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

    void show_progress(const RoundReport& report, uint32_t done) const {
        if (!callbacks_.progress) return;
        TrainingProgress progress{.step = done, .steps = steps(run_.goal), .loss = report.train_loss};
        progress.examples_per_second = report.examples_per_second;
        progress.seconds_left = (progress.steps - done) * task_.examples_per_step / report.examples_per_second;
        callbacks_.progress(progress);
    }

    const TrainingTask& task_;
    const Checkpoint& run_;
    const TrainingCallbacks& callbacks_;
    Session& session_;
    SubmitSize submit_size_;
    std::deque<Submit> in_flight_;
    uint64_t losses_read_ = 0;  // of all rounds
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
Safetensors model_of(const TrainingTask& task, const Session& session, const std::map<std::string, Array>& state) {
    Safetensors file;
    file.metadata = task.metadata;
    file.metadata["format"] = "pt";
    file.metadata[model_key] = task.model;
    for (const ProgramTensor& tensor : session.program().tensors)
        if (tensor.role == to_string(Role::param)) file.tensors[tensor.name] = state.at(tensor.name);
    return file;
}

// The loss is of the params before a step, so the last step can still spoil them.
Result<void> check_finite(const TrainingTask& task, const Safetensors& model, uint32_t unit) {
    for (const auto& [name, array] : model.tensors) {
        if (array.dtype != "f32") continue;
        const auto values = values_of<float>(array);
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
            return diverged(task, unit, name);
    }
    return {};
}

// --- from the beginning to the end --------------------------------------------------------------------------------------

// What the run's checkpoint says of its task from the first step on.
Result<void> describe(const TrainingTask& task, RunStart& start, const RunOptions& options) {
    Checkpoint& run = start.checkpoint;
    if (start.resumed && run.data != task.data) {
        Error error =
            invalid(fmt::format("[resume] the data is not that of the checkpoint: got {}, expected {}", task.data, run.data),
                    task.data_path);
        error.hint = "--data names what the training began with";
        return error;
    }
    run.unit = task.unit;
    run.data = task.data;
    run.settings = task.settings;
    run.model = task.model;
    run.goal = std::max(options.goal.value_or(start.resumed ? run.goal : task.default_goal), run.done);
    if (run.goal < 1) return invalid(fmt::format("[train] {}s is 0, expected at least 1", task.unit));
    if (const uint64_t steps = uint64_t{run.goal} * task.steps_per_unit; steps > UINT32_MAX)
        return invalid(fmt::format("[train] {} steps are more than the step counter holds", steps));
    // An evaluation within a round, where an earlier goal lay, is none of the longer training's.
    if (run.done < run.goal && run.done % task.units_per_round != 0 && !run.history.empty()) run.history.pop_back();
    if (start.resumed && run.done < run.goal)
        start.notes.push_back(fmt::format("going on from {}: {} of {} {}s are done, {} {} is next", start.file.folder(), run.done,
                                          run.goal, task.unit, task.unit, run.done + 1));
    return {};
}

Result<void> train_rounds(Training& training, const TrainingTask& task, Checkpoint& run, Session& session,
                          const TrainingCallbacks& callbacks, TrainingFolder& folder, TrainingReport& report) {
    while (run.done < run.goal && !report.stopped) {
        RoundReport done;
        TRY(const bool whole, training.round(done));
        report.stopped = !whole;
        if (!whole) break;
        TRY(run.state, read_state(session));
        TRY(check_finite(task, model_of(task, session, run.state), done.done));
        run.done = done.done;
        run.history.push_back({done.done, done.train_loss, done.evaluation});
        if (folder.wanted()) TRY(folder.save(run));
        report.rounds.push_back(done);
        if (callbacks.round) callbacks.round(done);
        report.stopped = run.done < run.goal && callbacks.stop && callbacks.stop();
    }
    return {};
}

}  // namespace

Result<RunStart> start_run(const std::string& task, const std::string& command, const RunOptions& options) {
    RunStart start{.checkpoint = {}, .file = CheckpointFile(options.resume_folder), .resumed = !options.resume_folder.empty()};
    start.checkpoint.task = task;
    if (!start.resumed) return start;
    TRY(start.checkpoint, start.file.read(task, command));
    if (start.file.damage())
        start.notes.push_back(fmt::format("{} is damaged ({}): going on from the checkpoint before it, {}", start.file.path(),
                                          start.file.damage()->message, start.file.previous_path()));
    return start;
}

Result<TrainingReport> train(const TrainingTask& task, RunStart start, const RunOptions& options,
                             const TrainingCallbacks& callbacks) {
    TRY(describe(task, start, options));
    Checkpoint& run = start.checkpoint;
    const bool here = options.out_folder.empty() || same_folder(options.out_folder, options.resume_folder);
    TrainingFolder folder(here ? start.file : CheckpointFile(options.out_folder), task.command);
    if (folder.wanted()) TRY(folder.prepare());
    TRY(Session session, compile(task.module, {.device = options.device, .seed = task.seed}));

    const std::string device = session.device().name;
    if (start.resumed) {
        TRY(write_state(session, run, start.file.path()));
        if (run.device != device)
            start.notes.push_back(
                fmt::format("the checkpoint was made on {}: the bits will not be those of one run there", run.device));
    } else {
        TRY(run.state, read_state(session));
    }
    run.device = device;
    if (folder.wanted() && !here) TRY(folder.set_aside_unfinished(start.notes));
    if (folder.wanted()) TRY(folder.save(run));
    if (callbacks.started)
        callbacks.started(
            {task.name, device, task.settings, task.data, task.unit, run.done, run.goal, task.steps_per_unit, start.notes});

    TRY(task.write_data(session));
    Training training(task, run, callbacks, session);
    TrainingReport report;
    if (Result<void> trained = train_rounds(training, task, run, session, callbacks, folder, report); !trained)
        return folder.with_way_on(std::move(trained).error());
    report.way_on = folder.way_on();
    if (report.stopped || !folder.wanted()) return report;
    report.model_file = folder.model_path();
    if (Result<void> written = write_safetensors(report.model_file, model_of(task, session, run.state)); !written)
        return folder.with_way_on(std::move(written).error());
    return report;
}

}  // namespace darner
