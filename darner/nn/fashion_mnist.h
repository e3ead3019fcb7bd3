// SPDX-License-Identifier: MIT
// The network and the graphs of `darner train fashion-mnist` and `darner eval fashion-mnist`: a classifier of
// standardised pixels, with the data sets on the device.
#pragma once

#include "darner/nn/data.h"
#include "darner/runtime/session.h"

#include <string>
#include <string_view>
#include <vector>

namespace darner {

inline constexpr const char* fashion_mnist_task = "fashion-mnist";

// Mean and standard deviation of Fashion-MNIST's training pixels: inputs of mean 0 and variance 1 train faster.
inline constexpr double fashion_mnist_mean = 0.2860, fashion_mnist_deviation = 0.3530;

struct FashionMnistSettings {
    uint32_t batch = 64;
    std::string optimizer = "adam";  // sgd, adam or adamw; sgd has a momentum of 0.9
    double learning_rate = 1e-3;
    uint64_t seed = 0;
    std::vector<int64_t> hidden = {256};  // as in Classifier
    std::string model = "mlp";            // mlp or cnn
    uint32_t train_images = 0;            // trains on the first of them; 0: on all

    template <class Visit>
    void visit(Visit&& field) {
        field("model", model), field("hidden", hidden), field("batch", batch), field("optimizer", optimizer);
        field("lr", learning_rate), field("seed", seed), field("train-images", train_images);
    }
};

// From standardised pixels to logits of the classes.
struct Classifier {
    std::string model;            // mlp or cnn
    std::vector<int64_t> hidden;  // outputs of each hidden layer; of a cnn: of each convolution
};

// The sizes that the models have where the user gives none.
std::vector<int64_t> default_hidden(std::string_view model);

// Graphs `step`, `report`, `eval` and `init` over a resident data set of `train` and `test` examples.
Result<Module> fashion_mnist_module(const FashionMnistSettings& settings, const LabelledDataSet& data);

// `eval` alone.
Result<Module> fashion_mnist_evaluation(const Classifier& classifier, const LabelledImages& test);

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
