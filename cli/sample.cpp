// SPDX-License-Identifier: MIT
// darner sample: what a network of `darner train text` writes.
#include "cli/training.h"
#include "darner/nn/train_text.h"

#include <fmt/format.h>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

struct Options {
    TextSamplingOptions sampling;
    bool json = false;
};

Result<void> sample(const Options& options) {
    TRY(const TextSample sample, darner::sample_text(options.sampling));
    if (options.json) {
        const nlohmann::ordered_json object{{"weights", sample.weights_file}, {"device", sample.device}, {"sample", sample.text}};
        fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
        fmt::print("{}\n", printable_lines(sample.text));
    }
    return {};
}

}  // namespace

void add_sample_options(CLI::App& command, SampleOptions& sample) {
    command.add_option("--prompt", sample.prompt, "What the samples go on from; a line break if left out")->type_name("TEXT");
    command.add_option("--temperature", sample.temperature, "How freely samples are drawn; 0: always the likeliest character")
        ->check(not_negative())
        ->type_name("X")
        ->default_str(fmt::to_string(sample.temperature));
}

void add_sample(CommandLine& line) {
    auto options = std::make_shared<Options>();
    TextSamplingOptions& sampling = options->sampling;
    CLI::App& command = line.add(line.app, "sample", "Let a network of darner train text write",
                                 "darner sample --weights text-model --prompt \"It is\" --length 500");
    command
        .add_option("--weights", sampling.weights,
                    "A folder of darner train text, or a safetensors file: a model or a checkpoint")
        ->required()
        ->type_name("PATH");
    command.add_option("--length", sampling.sample.length, "Characters to write behind the prompt")
        ->check(whole_number(1, 1'000'000))
        ->type_name("N")
        ->capture_default_str();
    add_sample_options(command, sampling.sample);
    command.add_option("--seed", sampling.seed, "Seed of what is drawn")
        ->check(whole_number(0, INT64_MAX))
        ->type_name("N")
        ->capture_default_str();
    add_device(command, sampling.device);
    add_json(command, options->json);
    line.on_run(command, [options] { return sample(*options); });
}

}  // namespace darner::cli
