// SPDX-License-Identifier: MIT
// Trains a network on Fashion-MNIST from files to a saved model: what `darner train fashion-mnist` does.
#pragma once

#include "darner/nn/fashion_mnist.h"
#include "darner/nn/trainer.h"

namespace darner {

inline constexpr uint32_t default_fashion_mnist_epochs = 5;

struct FashionMnistOptions {
    RunOptions run = {};  // its goal: epochs
    Choices<FashionMnistSettings> choices = {};
    std::string data_folder = default_fashion_mnist_folder;
};

// The evaluation of a round is the share of the test images that are classified right.
Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks = {});

}  // namespace darner
