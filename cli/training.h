// SPDX-License-Identifier: MIT
// What the subcommands of `darner train` share: options, Ctrl-C, and how a training shows. On a terminal a progress bar stands
// below the lines of the rounds; in a pipe there are plain lines; with --json one object a round and nothing else on stdout.
// Samples have "  | " before each line and their control characters escaped: they must not look like lines of ours or steer the
// terminal.
#pragma once

#include "cli/command.h"
#include "darner/nn/text_model.h"
#include "darner/nn/trainer.h"

namespace darner::cli {

// How a training speaks of its rounds and its numbers.
struct TrainingWords {
    std::string examples = "images";                     // what the speed counts: "images/s"
    std::string evaluation = "test_accuracy";            // in JSON
    std::function<std::string(double)> evaluation_text;  // "test accuracy 87.00 %"
    bool data_line = false;                              // the data in words, below the line of the settings
};

// --optimizer, --lr, --seed, --out, --resume, --device and --json, with the defaults that the variables have.
struct TrainingOptionTargets {
    std::string& optimizer;
    double& learning_rate;
    uint64_t& seed;
    RunOptions& run;
    bool& json;
};
void add_training_options(CLI::App& command, TrainingOptionTargets targets, const std::string& default_folder);

// The names of the options that were given, without dashes: Choices::given.
std::set<std::string> given_options(const CLI::App& command);

// Runs a training and shows it; exit code 130 where Ctrl-C stopped it.
using RunTraining = std::function<Result<TrainingReport>(const TrainingCallbacks&)>;
Result<void> show_training(const RunTraining& run, const TrainingWords& words, const std::string& device, bool json,
                           int& exit_code);

// --prompt and --temperature.
void add_sample_options(CLI::App& command, SampleOptions& sample);

}  // namespace darner::cli
