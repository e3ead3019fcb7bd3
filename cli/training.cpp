// SPDX-License-Identifier: MIT
// How a training is started, shown and stopped.
#include "cli/training.h"

#include "cli/progress.h"
#include "darner/runtime/devices.h"

#include <fmt/format.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

constexpr int interrupted_exit_code = 128 + SIGINT;

// The first Ctrl-C asks the training to stop where it can say what is kept; the second one ends the process at once.
class Interrupt {
public:
    Interrupt() {
        struct sigaction action = {};
        action.sa_handler = [](int) { asked_ = 1; };
        action.sa_flags = SA_RESETHAND;
        sigaction(SIGINT, nullptr, &before_);
        if (before_.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
    }
    ~Interrupt() { sigaction(SIGINT, &before_, nullptr); }
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;
    bool asked() const { return asked_ != 0; }

private:
    static inline volatile std::sig_atomic_t asked_ = 0;
    struct sigaction before_ = {};
};

// A CPU that stands in for a missing GPU is said once: it explains the speed. Who names a device knows.
void note_cpu_device(const std::string& wanted) {
    if (!wanted.empty()) return;
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    if (!devices || devices->empty() || devices->front().caps.kind != DeviceKind::cpu) return;
    print_note(fmt::format("no GPU was found; running on the CPU through {}", devices->front().name));
}

class Display {
public:
    Display(const TrainingWords& words, bool json) : words_(words), json_(json), progress_(!json) {}

    void started(const TrainingStart& start) {
        start_ = start;
        for (const std::string& note : start.notes) print_note(note);
        if (json_) return;
        line(fmt::format("{} on {}: {} {}{}, {}", start.task, start.device, start.goal, start.unit, start.goal == 1 ? "" : "s",
                         to_text(start.settings)));
        if (words_.data_line) line(start.data);
        if (start.done == start.goal) line(fmt::format("all {} are done: --{}s N goes on to more", start.goal, start.unit));
    }

    void progress(const TrainingProgress& now) {
        if (json_) return;
        if (!first_shown_) {
            first_shown_ = true;
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
            line(fmt::format("first step after {:.1f} s: loss {:.4f}", seconds, now.loss));
        }
        const uint32_t unit = (now.step - 1) / start_.steps_per_unit + 1;
        progress_.update(now.step, now.steps,
                         fmt::format("{} {}/{}  loss {:.4f}  {:.0f} {}/s", start_.unit, unit, start_.goal, now.loss,
                                     now.examples_per_second, words_.examples),
                         now.seconds_left);
    }

    void round(const RoundReport& report) {
        if (json_) {
            nlohmann::ordered_json object{{start_.unit, report.done},
                                          {"train_loss", report.train_loss},
                                          {words_.evaluation, report.evaluation},
                                          {"seconds", report.seconds},
                                          {words_.examples + "_per_second", report.examples_per_second}};
            if (!report.sample.empty()) object["sample"] = report.sample;
            return line(object.dump());
        }
        line(fmt::format("{} {}/{}  train loss {:.4f}  {}  {:.1f} s  {:.0f} {}/s", start_.unit, report.done, start_.goal,
                         report.train_loss, words_.evaluation_text(report.evaluation), report.seconds, report.examples_per_second,
                         words_.examples));
        if (!report.sample.empty()) line(printable_lines(report.sample, "  | "));
    }

    void finished(const TrainingReport& report) {
        if (report.stopped) {
            progress_.clear();
            print_note("stopped by Ctrl-C: " + report.way_on);
        } else if (!json_) {
            line(fmt::format("saved {}", printable(report.model_file)));
        }
    }

private:
    // Flushed at once: a reader of a pipe follows the training too.
    void line(const std::string& text) {
        progress_.clear();
        fmt::print("{}\n", text);
        std::fflush(stdout);
    }

    const TrainingWords& words_;
    TrainingStart start_;
    bool json_, first_shown_ = false;
    Progress progress_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// "" is what a shell makes of a variable that is not set.
CLI::Validator folder_name() {
    return {
        [](std::string& text) { return text.empty() ? std::string("expected the name of a folder, got \"\"") : std::string(); },
        "", "folder"};
}

}  // namespace

void add_training_options(CLI::App& command, TrainingOptionTargets targets, const std::string& default_folder) {
    command.add_option("--optimizer", targets.optimizer, "How the params are updated: sgd, adam or adamw")
        ->check(one_of({"sgd", "adam", "adamw"}))
        ->type_name("NAME")
        ->capture_default_str();
    command.add_option("--lr", targets.learning_rate, "Learning rate")
        ->check(positive_f32())
        ->type_name("X")
        ->default_str(fmt::to_string(targets.learning_rate));
    command.add_option("--seed", targets.seed, "Seed of the first weights and of the order of the data")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N")
        ->capture_default_str();
    add_device(command, targets.run.device);
    command
        .add_option("--out", targets.run.out_folder,
                    "Folder for model.safetensors and, after each evaluation, checkpoint.safetensors; made if need be")
        ->check(folder_name())
        ->type_name("DIR")
        ->default_str(default_folder);
    command
        .add_option("--resume", targets.run.resume_folder,
                    "Go on from the checkpoint in this folder, with its options, to the same bits as one run; --out is this "
                    "folder if left out")
        ->check(folder_name())
        ->type_name("DIR");
    add_json(command, targets.json);
}

std::set<std::string> given_options(const CLI::App& command) {
    std::set<std::string> given;
    for (const CLI::Option* option : command.get_options())
        if (option->count() > 0) given.insert(option->get_name(false, false).substr(2));
    return given;
}

Result<void> show_training(const RunTraining& run, const TrainingWords& words, const std::string& device, bool json,
                           int& exit_code) {
    const Interrupt interrupt;
    Display display(words, json);
    TrainingCallbacks callbacks;
    callbacks.started = [&](const TrainingStart& start) {
        note_cpu_device(device);
        display.started(start);
    };
    callbacks.progress = [&](const TrainingProgress& now) { display.progress(now); };
    callbacks.round = [&](const RoundReport& report) { display.round(report); };
    callbacks.stop = [&] { return interrupt.asked(); };
    TRY(const TrainingReport report, run(callbacks));
    display.finished(report);
    if (report.stopped) exit_code = interrupted_exit_code;
    return {};
}

}  // namespace darner::cli
