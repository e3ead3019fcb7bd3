// SPDX-License-Identifier: MIT
// darner train fashion-mnist: trains, shows how it goes and saves the model. On a terminal a progress bar stands below the
// lines of the epochs; in a pipe there are plain lines; with --json one object an epoch and nothing else on stdout.
#include "cli/command.h"
#include "cli/progress.h"
#include "darner/nn/trainer.h"
#include "darner/runtime/devices.h"

#include <fmt/format.h>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

struct TrainOptions {
    FashionMnistOptions training;
    bool json = false;
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
    explicit Display(const TrainOptions& options) : options_(options.training), json_(options.json), progress_(!options.json) {}

    void started(const std::string& device) {
        if (json_) return;
        line(fmt::format("fashion-mnist on {}: {} epochs, batch {}, {}, lr {}, seed {}", device, options_.epochs, options_.batch,
                         options_.optimizer, options_.learning_rate, options_.seed));
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
                         options_.epochs, report.train_loss, 100 * report.test_accuracy, report.seconds,
                         report.images_per_second));
    }

    void finished(const TrainingReport& report) {
        if (!json_) line(fmt::format("saved {}", printable(report.model_file)));
    }

private:
    // Flushed at once: a reader of a pipe follows the training too.
    void line(const std::string& text) {
        progress_.clear();
        fmt::print("{}\n", text);
        std::fflush(stdout);
    }

    const FashionMnistOptions& options_;
    bool json_, first_shown_ = false;
    Progress progress_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

Result<void> train(const TrainOptions& options) {
    Display display(options);
    TrainingCallbacks callbacks;
    callbacks.started = [&](const std::string& device) {
        note_cpu_device(options.training.device);
        display.started(device);
    };
    callbacks.progress = [&](const TrainingProgress& now) { display.progress(now); };
    callbacks.epoch = [&](const EpochReport& report) { display.epoch(report); };
    TRY(const TrainingReport report, train_fashion_mnist(options.training, callbacks));
    display.finished(report);
    return {};
}

}  // namespace

void add_train(CommandLine& line) {
    CLI::App& group = line.add_group("train", "Train a network on a data set that is installed here");
    group.footer("Example:\n  darner train fashion-mnist --epochs 5");

    auto options = std::make_shared<TrainOptions>();
    FashionMnistOptions& training = options->training;
    training.out_folder = "fashion-mnist-model";
    CLI::App& command = line.add(group, "fashion-mnist", "Train a classifier of 28x28 images of clothes and save it",
                                 "darner train fashion-mnist --epochs 10 --optimizer adamw --out model");
    command.add_option("--epochs", training.epochs, "Passes over the training images")
        ->check(whole_number(1, 1'000'000))
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--batch", training.batch, "Images a step")
        ->check(whole_number(1, 1'000'000))
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--optimizer", training.optimizer, "How the params are updated: sgd, adam or adamw")
        ->check(one_of({"sgd", "adam", "adamw"}))
        ->type_name("NAME")
        ->capture_default_str();
    command.add_option("--lr", training.learning_rate, "Learning rate")
        ->check(positive_f32())
        ->type_name("X")
        ->capture_default_str();
    command.add_option("--seed", training.seed, "Seed of the first weights and of the order of the images")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--data", training.data_folder, "Folder of the four IDX files, plain or gzipped")
        ->type_name("DIR")
        ->capture_default_str();
    add_device(command, training.device);
    command.add_option("--out", training.out_folder, "Folder for model.safetensors; made if need be")
        ->type_name("DIR")
        ->capture_default_str();
    add_json(command, options->json);
    line.on_run(command, [options] { return train(*options); });
}

}  // namespace darner::cli
