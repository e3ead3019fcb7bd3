// SPDX-License-Identifier: MIT
// darner train fashion-mnist: trains, shows how it goes and saves the model. On a terminal a progress bar stands below the
// lines of the epochs; in a pipe there are plain lines; with --json one object an epoch and nothing else on stdout.
#include "cli/command.h"
#include "cli/progress.h"
#include "darner/nn/trainer.h"
#include "darner/runtime/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

constexpr const char* default_folder = "fashion-mnist-model";
constexpr int interrupted_exit_code = 128 + SIGINT;

struct TrainOptions {
    FashionMnistOptions training;
    bool json = false;
};

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
    explicit Display(bool json) : json_(json), progress_(!json) {}

    void started(const TrainingStart& start) {
        epochs_ = start.settings.epochs;
        for (const std::string& note : start.notes) print_note(note);
        if (json_) return;
        const TrainingSettings& settings = start.settings;
        line(fmt::format("fashion-mnist on {}: {} {}, batch {}, {}, lr {}, seed {}", start.device, settings.epochs,
                         settings.epochs == 1 ? "epoch" : "epochs", settings.batch, settings.optimizer, settings.learning_rate,
                         settings.seed));
        if (start.epochs_done == settings.epochs)
            line(fmt::format("all {} are done: --epochs N goes on to more", settings.epochs));
    }

    void progress(const TrainingProgress& now) {
        if (json_) return;
        if (!first_shown_) {
            first_shown_ = true;
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
            line(fmt::format("first step after {:.1f} s: loss {:.4f}", seconds, now.loss));
        }
        const uint64_t done = uint64_t{now.epoch - 1} * now.steps_per_epoch + now.step;
        progress_.update(
            done, uint64_t{now.epochs} * now.steps_per_epoch,
            fmt::format("epoch {}/{}  loss {:.4f}  {:.0f} images/s", now.epoch, now.epochs, now.loss, now.images_per_second),
            now.seconds_left);
    }

    void epoch(const EpochReport& report) {
        if (json_) {
            const nlohmann::ordered_json object{{"epoch", report.epoch},
                                                {"train_loss", report.train_loss},
                                                {"test_accuracy", report.test_accuracy},
                                                {"seconds", report.seconds},
                                                {"images_per_second", report.images_per_second}};
            return line(object.dump());
        }
        line(fmt::format("epoch {}/{}  train loss {:.4f}  test accuracy {:.2f} %  {:.1f} s  {:.0f} images/s", report.epoch,
                         epochs_, report.train_loss, 100 * report.test_accuracy, report.seconds, report.images_per_second));
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

    uint32_t epochs_ = 0;
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

Result<void> train(const TrainOptions& options, int& exit_code) {
    const Interrupt interrupt;
    Display display(options.json);
    TrainingCallbacks callbacks;
    callbacks.started = [&](const TrainingStart& start) {
        note_cpu_device(options.training.device);
        display.started(start);
    };
    callbacks.progress = [&](const TrainingProgress& now) { display.progress(now); };
    callbacks.epoch = [&](const EpochReport& report) { display.epoch(report); };
    callbacks.stop = [&] { return interrupt.asked(); };
    TRY(const TrainingReport report, train_fashion_mnist(options.training, callbacks));
    display.finished(report);
    if (report.stopped) exit_code = interrupted_exit_code;
    return {};
}

}  // namespace

void add_train(CommandLine& line) {
    CLI::App& group = line.add_group("train", "Train a network on a data set that is installed here");
    group.footer("Example:\n  darner train fashion-mnist --epochs 5");

    auto options = std::make_shared<TrainOptions>();
    FashionMnistOptions& training = options->training;
    TrainingChoices& choices = training.choices;
    const TrainingSettings defaults;
    CLI::App& command = line.add(group, "fashion-mnist", "Train a classifier of 28x28 images of clothes and save it",
                                 "darner train fashion-mnist --epochs 10 --optimizer adamw --out model\n"
                                 "darner train fashion-mnist --resume model");
    command.add_option("--epochs", choices.epochs, "Passes over the training images, those before --resume included")
        ->check(whole_number(1, 1'000'000))
        ->type_name("N")
        ->default_str(fmt::to_string(defaults.epochs));
    command.add_option("--batch", choices.batch, "Images a step")
        ->check(whole_number(1, 1'000'000))
        ->type_name("N")
        ->default_str(fmt::to_string(defaults.batch));
    command.add_option("--hidden", choices.hidden, "Outputs of each hidden layer, with commas between")
        ->check(whole_number(1, 1'000'000))
        ->delimiter(',')
        ->type_name("N,...")
        ->default_str(fmt::format("{}", fmt::join(defaults.hidden, ",")));
    command.add_option("--optimizer", choices.optimizer, "How the params are updated: sgd, adam or adamw")
        ->check(one_of({"sgd", "adam", "adamw"}))
        ->type_name("NAME")
        ->default_str(defaults.optimizer);
    command.add_option("--lr", choices.learning_rate, "Learning rate")
        ->check(positive_f32())
        ->type_name("X")
        ->default_str(fmt::to_string(defaults.learning_rate));
    command.add_option("--seed", choices.seed, "Seed of the first weights and of the order of the images")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N")
        ->default_str(fmt::to_string(defaults.seed));
    command.add_option("--data", training.data_folder, "Folder of the four IDX files, plain or gzipped")
        ->type_name("DIR")
        ->capture_default_str();
    add_device(command, training.device);
    command
        .add_option("--out", training.out_folder,
                    "Folder for model.safetensors and, after each epoch, checkpoint.safetensors; made if need be")
        ->check(folder_name())
        ->type_name("DIR")
        ->default_str(default_folder);
    command
        .add_option("--resume", training.resume_folder,
                    "Go on from the checkpoint in this folder, with its options, to the same bits as one run; --out is this "
                    "folder if left out")
        ->check(folder_name())
        ->type_name("DIR");
    add_json(command, options->json);
    line.on_run(command, [options, &line] {
        FashionMnistOptions& training = options->training;
        if (training.resume_folder.empty() && training.out_folder.empty()) training.out_folder = default_folder;
        return train(*options, line.exit_code);
    });
}

}  // namespace darner::cli
