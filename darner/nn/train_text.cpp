// SPDX-License-Identifier: MIT
// Text as a task of the trainer: a unit is a step, and a round ends where the step is a multiple of --report-every.
#include "darner/nn/train_text.h"

#include "darner/base/hash.h"

#include <fmt/format.h>

namespace darner {
namespace {

std::string data_in_words(const TextSet& text, const TextSplit& split) {
    Hasher hasher;
    hasher.add(text.vocabulary.text());
    hasher.add(std::string_view(reinterpret_cast<const char*>(text.tokens.data.data()), text.tokens.data.size()));
    return fmt::format("{} characters, {} distinct ones, the last {} held out, hash {:016x}", text.count(),
                       text.vocabulary.size(), split.held_out, hasher.value());
}

}  // namespace

Result<TrainingReport> train_text(const TextOptions& options, const TrainingCallbacks& callbacks) {
    const std::string command = fmt::format("darner train text --data {}", options.file);
    TRY(RunStart start, start_run(text_task, command, options.run));
    TRY(const TextSettings settings, settings_of_run(start, options.choices));
    TRY(const TextSet text, load_text(options.file));
    const auto at_file = [&](Error error) {
        if (error.where.empty()) error.where = options.file;
        return error;
    };
    const Result<TextSplit> split = split_text(text.count(), settings.context);
    if (!split) return at_file(split.error());
    const TextNetwork network = network_of(settings, text);
    TrainingTask task{.name = text_task,
                      .command = command,
                      .unit = "step",
                      .units_per_round = settings.report_every,
                      .default_goal = default_text_steps,
                      .examples_per_step = static_cast<double>(settings.batch) * settings.context,
                      .data = data_in_words(text, *split),
                      .data_path = options.file,
                      .settings = settings_of(settings),
                      .model = to_json(network),
                      .seed = settings.seed};
    TRY(task.module, text_module(settings, text, options.sample));
    task.write_data = [&](Session& session) { return session.write("data.text", text.tokens); };
    task.evaluate = [&](Session& session, RoundReport& report) -> Result<void> {
        TRY(report.evaluation, evaluate_text(session, settings, *split));
        if (options.sample.length == 0) return {};
        TRY(report.sample, draw_sample(session, network, options.sample, settings.seed, report.done));
        return {};
    };
    return train(task, std::move(start), options.run, callbacks);
}

Result<TextSample> sample_text(const TextSamplingOptions& options) {
    TRY(const SavedWeights weights, read_weights(options.weights, "darner train text --data FILE"));
    TextSample sample{.weights_file = weights.file};
    const auto at_file = [&](Error error) {
        if (error.where.empty()) error.where = sample.weights_file;
        return error;
    };
    const Result<TextNetwork> network = parse_text_network(weights.model);
    if (!network) return at_file(network.error());
    TRY(const Module module, text_sampling(*network, options.sample));
    TRY(Session session, compile(module, {.device = options.device, .run_init = false}));
    sample.device = session.device().name;
    for (const ProgramTensor& tensor : session.program().tensors) {
        if (tensor.role != to_string(Role::param)) continue;
        const auto found = weights.tensors.find(tensor.name);
        if (found == weights.tensors.end()) return at_file(invalid(fmt::format("[sample] {} is missing", tensor.name)));
        if (Result<void> written = session.write(tensor.name, found->second); !written)
            return at_file(std::move(written).error());
    }
    TRY(sample.text, draw_sample(session, *network, options.sample, options.seed, 0));
    return sample;
}

}  // namespace darner
