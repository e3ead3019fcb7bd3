// SPDX-License-Identifier: MIT
// The network and the graphs of `darner train fashion-mnist` and `darner eval fashion-mnist`: an MLP over standardised pixels,
// with the data sets on the device.
#pragma once

#include "darner/nn/checkpoint.h"
#include "darner/nn/data.h"
#include "darner/runtime/session.h"

#include <span>

namespace darner {

inline constexpr const char* fashion_mnist_task = "fashion-mnist";

// Mean and standard deviation of Fashion-MNIST's training pixels: inputs of mean 0 and variance 1 train faster.
inline constexpr double fashion_mnist_mean = 0.2860, fashion_mnist_deviation = 0.3530;

// Graphs `step`, `report`, `eval` and `init` over a resident data set of `train` and `test` examples.
Result<Module> fashion_mnist_module(const TrainingSettings& settings, const LabelledDataSet& data);

// `eval` alone, of a network with these hidden layers.
Result<Module> fashion_mnist_evaluation(std::span<const int64_t> hidden, const LabelledImages& test);

struct ClassCount {
    uint32_t images = 0, correct = 0;
};

struct Evaluation {
    double accuracy = 0, mean_loss = 0;
    std::vector<ClassCount> classes;
};

// Copies the test images to the device, where `eval` finds them; once a session.
Result<void> write_test_images(Session& session, const LabelledImages& test);
// Runs `eval` over all of them; waits for it.
Result<Evaluation> evaluate(Session& session, const LabelledImages& test);

}  // namespace darner
