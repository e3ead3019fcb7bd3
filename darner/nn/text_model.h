// SPDX-License-Identifier: MIT
// A causal transformer over characters: the graphs that train it on a text held on the device, evaluate it on the text's end, and
// let it write.
#pragma once

#include "darner/nn/models.h"
#include "darner/nn/text.h"
#include "darner/runtime/session.h"

#include <string>

namespace darner {

inline constexpr const char* text_task = "text";

struct TextSettings {
    uint32_t batch = 16, context = 64;  // windows a step, and characters of each
    uint32_t layers = 2, heads = 4, hidden = 64;
    uint32_t report_every = 100;  // steps between two evaluations
    std::string optimizer = "adamw";
    double learning_rate = 3e-3;
    uint64_t seed = 0;

    template <class Visit>
    void visit(Visit&& field) {
        field("batch", batch), field("context", context), field("layers", layers), field("heads", heads);
        field("hidden", hidden), field("optimizer", optimizer), field("lr", learning_rate), field("seed", seed);
        field("report-every", report_every);
    }
};

// What must be known to use the weights. As JSON it is the `model` of checkpoints and model files.
struct TextNetwork {
    Vocabulary vocabulary;
    uint32_t context = 0, layers = 0, heads = 0, hidden = 0;

    bool operator==(const TextNetwork&) const = default;
};
std::string to_json(const TextNetwork& network);
Result<TextNetwork> parse_text_network(const std::string& json);
TextNetwork network_of(const TextSettings& settings, const TextSet& text);

// The end of a text is held out from training: a tenth, at most 65536 characters, at least one window. It is evaluated in windows
// that follow each other; each has the character that the last one predicts as its first.
struct TextSplit {
    int64_t train = 0, held_out = 0;  // characters
    int64_t windows = 0;              // that are evaluated
};
// The error says how long the text must be.
Result<TextSplit> split_text(int64_t characters, uint32_t context);

struct SampleOptions {
    uint32_t length = 200;     // characters; 0: no sample
    std::string prompt = {};   // what they continue; empty: a line break, or the first character where the text has none
    double temperature = 0.8;  // 0: always the likeliest character
};

// Graphs `step`, `report`, `eval`, `init` and, where a sample is wanted, `sample`. A step's windows begin at random places that
// follow from seed and step.
Result<Module> text_module(const TextSettings& settings, const TextSet& text, const SampleOptions& sample);
// `sample` alone.
Result<Module> text_sampling(const TextNetwork& network, const SampleOptions& sample);

// Runs `eval` over the held-out windows: the mean cross entropy of a character.
Result<double> evaluate_text(Session& session, const TextSettings& settings, const TextSplit& split);

// Runs `sample`: the prompt and what the network makes of it. Seed and `draw` decide the random numbers.
Result<std::string> draw_sample(Session& session, const TextNetwork& network, const SampleOptions& options, uint64_t seed,
                                uint32_t draw);

}  // namespace darner
