// SPDX-License-Identifier: MIT
// Trains a character-level transformer on a text file, and lets it write: what `darner train text` and `darner sample` do.
#pragma once

#include "darner/nn/text_model.h"
#include "darner/nn/trainer.h"

namespace darner {

inline constexpr uint32_t default_text_steps = 1000;

struct TextOptions {
    RunOptions run = {};  // its goal: steps
    Choices<TextSettings> choices = {};
    std::string file;
    SampleOptions sample = {};  // after each evaluation
};

// The evaluation of a round is the mean cross entropy of a held-out character.
Result<TrainingReport> train_text(const TextOptions& options, const TrainingCallbacks& callbacks = {});

struct TextSamplingOptions {
    std::string weights;      // a safetensors file or a folder of `darner train text`
    std::string device = {};  // as CompileOptions::device
    SampleOptions sample = {};
    uint64_t seed = 0;
};

struct TextSample {
    std::string weights_file, device;
    std::string text;  // the prompt and what follows
};

Result<TextSample> sample_text(const TextSamplingOptions& options);

}  // namespace darner
