// SPDX-License-Identifier: MIT
// darner train: a classifier of images of clothes, or a writer of text.
#include "cli/training.h"
#include "darner/nn/train_fashion_mnist.h"
#include "darner/nn/train_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace darner::cli {
namespace {

constexpr const char* default_fashion_mnist_model = "fashion-mnist-model";
constexpr const char* default_text_model = "text-model";

template <class Task>
struct TrainOptions {
    Task task;
    bool json = false;
};

template <class Number>
CLI::Option* add_count(CLI::App& command, const std::string& name, Number& value, const std::string& description,
                       int64_t at_least = 1, int64_t at_most = 1'000'000) {
    return command.add_option(name, value, description)
        ->check(whole_number(at_least, at_most))
        ->type_name("N")
        ->capture_default_str();
}

void add_fashion_mnist(CommandLine& line, CLI::App& group) {
    auto options = std::make_shared<TrainOptions<FashionMnistOptions>>();
    FashionMnistOptions& task = options->task;
    FashionMnistSettings& settings = task.choices.values;
    CLI::App& command = line.add(group, "fashion-mnist", "Train a classifier of 28x28 images of clothes and save it",
                                 "darner train fashion-mnist --epochs 10 --optimizer adamw --out model\n"
                                 "darner train fashion-mnist --model cnn\n"
                                 "darner train fashion-mnist --resume model");
    add_count(command, "--epochs", task.run.goal, "Passes over the training images, those before --resume included")
        ->default_str(fmt::to_string(default_fashion_mnist_epochs));
    command.add_option("--model", settings.model, "Network: mlp (linear layers) or cnn (3x3 convolutions and pools)")
        ->check(one_of({"mlp", "cnn"}))
        ->type_name("NAME")
        ->capture_default_str();
    command
        .add_option("--hidden", settings.hidden,
                    "Outputs of each hidden layer (of a cnn: of each convolution), with commas between")
        ->check(whole_number(1, 1'000'000))
        ->delimiter(',')
        ->type_name("N,...")
        ->default_str(
            fmt::format("{}; of a cnn {}", fmt::join(default_hidden("mlp"), ","), fmt::join(default_hidden("cnn"), ",")));
    add_count(command, "--batch", settings.batch, "Images a step");
    add_count(command, "--train-images", settings.train_images, "Train on the first N images only; 0: on all", 0, INT32_MAX);
    command.add_option("--data", task.data_folder, "Folder of the four IDX files, plain or gzipped")
        ->type_name("DIR")
        ->capture_default_str();
    add_training_options(command, {settings.optimizer, settings.learning_rate, settings.seed, task.run, options->json},
                         default_fashion_mnist_model);
    line.on_run(command, [options, &command, &line] {
        FashionMnistOptions& task = options->task;
        task.choices.given = given_options(command);
        if (task.run.resume_folder.empty() && task.run.out_folder.empty()) task.run.out_folder = default_fashion_mnist_model;
        TrainingWords words;
        words.evaluation_text = [](double accuracy) { return fmt::format("test accuracy {:.2f} %", 100 * accuracy); };
        const RunTraining run = [&](const TrainingCallbacks& callbacks) { return train_fashion_mnist(task, callbacks); };
        return show_training(run, words, task.run.device, options->json, line.exit_code);
    });
}

void add_text(CommandLine& line, CLI::App& group) {
    auto options = std::make_shared<TrainOptions<TextOptions>>();
    TextOptions& task = options->task;
    TextSettings& settings = task.choices.values;
    CLI::App& command =
        line.add(group, "text", "Train a small transformer to write like a text file, character by character, and save it",
                 "darner train text --data README.md --out model\n"
                 "darner train text --data README.md --resume model --steps 2000\n"
                 "darner sample --weights model --prompt \"It is\"");
    command.add_option("--data", task.file, "Text file in UTF-8; its end is held out for the validation loss")
        ->required()
        ->type_name("FILE");
    add_count(command, "--steps", task.run.goal, "Training steps, those before --resume included", 1, UINT32_MAX)
        ->default_str(fmt::to_string(default_text_steps));
    add_count(command, "--report-every", settings.report_every, "Steps between two evaluations, samples and checkpoints", 1,
              UINT32_MAX);
    add_count(command, "--batch", settings.batch, "Pieces of the text a step");
    add_count(command, "--context", settings.context, "Characters of a piece: how far the network looks back");
    add_count(command, "--layers", settings.layers, "Transformer blocks", 1, 1000);
    add_count(command, "--heads", settings.heads, "Attention heads; they divide --hidden into even parts");
    add_count(command, "--hidden", settings.hidden, "Features of a character");
    add_training_options(command, {settings.optimizer, settings.learning_rate, settings.seed, task.run, options->json},
                         default_text_model);
    add_count(command, "--sample", task.sample.length, "Characters of the sample after each evaluation; 0: none", 0);
    add_sample_options(command, task.sample);
    line.on_run(command, [options, &command, &line] {
        TextOptions& task = options->task;
        task.choices.given = given_options(command);
        if (task.run.resume_folder.empty() && task.run.out_folder.empty()) task.run.out_folder = default_text_model;
        TrainingWords words{.examples = "characters", .evaluation = "validation_loss", .data_line = true};
        words.evaluation_text = [](double loss) { return fmt::format("validation loss {:.4f}", loss); };
        const RunTraining run = [&](const TrainingCallbacks& callbacks) { return train_text(task, callbacks); };
        return show_training(run, words, task.run.device, options->json, line.exit_code);
    });
}

}  // namespace

void add_train(CommandLine& line) {
    CLI::App& group = line.add_group("train", "Train a network on a data set that is installed here, or on a text");
    group.footer("Example:\n  darner train fashion-mnist --epochs 5\n  darner train text --data README.md");
    add_fashion_mnist(line, group);
    add_text(line, group);
}

}  // namespace darner::cli
