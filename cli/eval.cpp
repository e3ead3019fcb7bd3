// SPDX-License-Identifier: MIT
// darner eval fashion-mnist: how well saved weights do on the test images, in all and for each class.
#include "cli/command.h"
#include "darner/nn/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

constexpr std::array class_names{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                 "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
static_assert(class_names.size() == fashion_mnist_classes);

struct EvalOptions {
    EvaluationOptions evaluation;
    bool json = false;
};

double share(const ClassCount& count) { return count.images == 0 ? 0 : static_cast<double>(count.correct) / count.images; }

void print_json(const EvaluationReport& report) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (size_t i = 0; i < report.result.classes.size(); ++i) {
        const ClassCount& count = report.result.classes[i];
        classes.push_back({{"class", i}, {"name", class_names[i]}, {"images", count.images}, {"correct", count.correct}});
    }
    const nlohmann::ordered_json object{{"weights", report.weights_file},
                                        {"device", report.device},
                                        {"model", report.model},
                                        {"layers", report.layers},
                                        {"images", report.images},
                                        {"accuracy", report.result.accuracy},
                                        {"mean_loss", report.result.mean_loss},
                                        {"classes", std::move(classes)}};
    fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_text(const EvaluationReport& report) {
    fmt::print("{} on {}: {}, layers {}, {} test images\n", printable(report.weights_file), report.device, report.model,
               fmt::join(report.layers, "-"), report.images);
    fmt::print("test accuracy {:.2f} %  mean loss {:.4f}\n", 100 * report.result.accuracy, report.result.mean_loss);
    for (size_t i = 0; i < report.result.classes.size(); ++i) {
        const ClassCount& count = report.result.classes[i];
        fmt::print("  {}  {:<12}{:6} of {:<6}{:6.2f} %\n", i, class_names[i], count.correct, count.images, 100 * share(count));
    }
}

Result<void> eval(const EvalOptions& options) {
    TRY(const EvaluationReport report, evaluate_fashion_mnist(options.evaluation));
    options.json ? print_json(report) : print_text(report);
    return {};
}

}  // namespace

void add_eval(CommandLine& line) {
    CLI::App& group = line.add_group("eval", "Evaluate saved weights on a data set that is installed here");
    group.footer("Example:\n  darner eval fashion-mnist --weights fashion-mnist-model");

    auto options = std::make_shared<EvalOptions>();
    EvaluationOptions& evaluation = options->evaluation;
    CLI::App& command = line.add(group, "fashion-mnist", "Accuracy and mean loss on the test images, in all and for each class",
                                 "darner eval fashion-mnist --weights fashion-mnist-model");
    command
        .add_option("--weights", evaluation.weights, "A folder of darner train, or a safetensors file: a model or a checkpoint")
        ->required()
        ->type_name("PATH");
    command.add_option("--data", evaluation.data_folder, "Folder of the two IDX files of the test images, plain or gzipped")
        ->type_name("DIR")
        ->capture_default_str();
    add_device(command, evaluation.device);
    add_json(command, options->json);
    line.on_run(command, [options] { return eval(*options); });
}

}  // namespace darner::cli
