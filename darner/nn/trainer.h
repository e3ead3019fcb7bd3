// SPDX-License-Identifier: MIT
// The training loop of the command: from the beginning or a checkpoint to a saved model, for any network whose module has the
// graphs `step`, `report` and those that its task evaluates with. A training is counted in units, epochs or steps; a round of
// some units ends with an evaluation, a checkpoint and a report.
//
//   TRY(RunStart start, start_run("chess", "darner train chess", options));
//   TRY(ChessSettings settings, settings_of_run(start, choices));
//   TrainingTask task{.name = "chess", .settings = settings_of(settings), .module = ..., ...};
//   return train(task, std::move(start), options, callbacks);
#pragma once

#include "darner/nn/checkpoint.h"
#include "darner/runtime/session.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace darner {

struct RunOptions {
    std::optional<uint32_t> goal = {};  // how many epochs or steps, those before a checkpoint included
    std::string device = {};            // as CompileOptions::device
    // Gets checkpoint.safetensors after each round and model.safetensors at the end. Empty: the resumed folder; without one
    // nothing is written.
    std::string out_folder = {};
    std::string resume_folder = {};  // goes on from the checkpoint there
};

struct TrainingStart {
    std::string task, device;  // their names
    Settings settings;
    std::string data;  // in words
    std::string unit;
    uint32_t done = 0, goal = 0;  // in units; done by the checkpoint
    uint32_t steps_per_unit = 1;
    std::vector<std::string> notes;  // what a user should know: sentences without a full stop
};

struct RoundReport {
    uint32_t done = 0;  // units, from the training's beginning
    double train_loss = 0, evaluation = 0;
    double seconds = 0, examples_per_second = 0;  // of training, evaluation aside
    std::string sample;                           // of what the network makes, where it makes something
};

// When a submit is known to have finished.
struct TrainingProgress {
    uint32_t step = 0, steps = 0;  // of the whole training
    double loss = 0;               // mean over this round's steps so far
    double examples_per_second = 0, seconds_left = 0;
};

struct TrainingCallbacks {
    std::function<void(const TrainingStart&)> started = {};
    std::function<void(const TrainingProgress&)> progress = {};
    std::function<void(const RoundReport&)> round = {};  // its checkpoint is written
    std::function<bool()> stop = {};                     // asked after each submit; true breaks the training off
};

struct TrainingReport {
    std::string model_file;           // empty when nothing was written
    std::vector<RoundReport> rounds;  // of this run: those of the checkpoint aside
    bool stopped = false;             // by the callback
    std::string way_on;               // where the training broke off, in words, and how to go on
};

// What is trained.
struct TrainingTask {
    std::string name;              // as in checkpoints
    std::string command;           // that trains it, for hints: "darner train chess"
    std::string unit = "epoch";    // or "step"
    uint32_t steps_per_unit = 1;   // of `step`, in one unit
    uint32_t units_per_round = 1;  // the last round may have fewer
    uint32_t default_goal = 1;     // in units
    double examples_per_step = 1;  // for the speed
    std::string data, data_path;   // Checkpoint::data, and where errors say that it comes from
    Settings settings;
    std::string model;                                 // Checkpoint::model
    std::map<std::string, std::string> metadata = {};  // of the model file, besides `model`
    uint64_t seed = 0;
    Module module;  // `step` sums its losses in `loss_sum`, anew each round; `report` is loss_report_graph()
    std::function<Result<void>(Session&)> write_data;
    std::function<Result<void>(Session&, uint32_t unit)> begin_round = {};  // `unit`: the round's first, from 0
    std::function<Result<void>(Session&, RoundReport&)> evaluate;           // fills in `evaluation` and `sample`
};

// Where a run begins: at the first step, or at a checkpoint.
struct RunStart {
    Checkpoint checkpoint;
    CheckpointFile file;  // of the resumed folder
    bool resumed = false;
    std::vector<std::string> notes;
};
Result<RunStart> start_run(const std::string& task, const std::string& command, const RunOptions& options);

template <class T>
Result<T> settings_of_run(const RunStart& start, const Choices<T>& choices) {
    if (!start.resumed) return choices.values;
    return resumed_settings(start.checkpoint.settings, choices);
}

// Errors that break a training off say in their hint what is kept and how to go on.
Result<TrainingReport> train(const TrainingTask& task, RunStart start, const RunOptions& options,
                             const TrainingCallbacks& callbacks = {});

}  // namespace darner
