// SPDX-License-Identifier: MIT
// Trains a network on Fashion-MNIST from files to a saved model: what `darner train fashion-mnist` does.
#pragma once

#include "darner/base/result.h"
#include "darner/nn/data.h"
#include "darner/nn/optimizers.h"

#include <functional>
#include <string>
#include <vector>

namespace darner {

struct FashionMnistOptions {
    uint32_t epochs = 5;
    uint32_t batch = 64;
    std::string optimizer = "adam";  // sgd, adam or adamw; sgd has a momentum of 0.9
    double learning_rate = 1e-3;
    uint64_t seed = 0;
    std::vector<int64_t> hidden = {256};
    std::string device = {};  // as CompileOptions::device
    std::string data_folder = default_fashion_mnist_folder;
    std::string out_folder = {};  // gets model.safetensors; empty: nothing is written
};

struct EpochReport {
    uint32_t epoch = 0;  // from 1
    double train_loss = 0, test_accuracy = 0;
    double seconds = 0, images_per_second = 0;  // of training, evaluation aside
};

// After each submit.
struct TrainingProgress {
    uint32_t epoch = 0, epochs = 0;          // epoch from 1
    uint32_t step = 0, steps_per_epoch = 0;  // steps of this epoch that are done
    double loss = 0;                         // mean over them
    double images_per_second = 0, seconds_left = 0;
};

struct TrainingCallbacks {
    std::function<void(const std::string& device_name)> started = {};
    std::function<void(const TrainingProgress&)> progress = {};
    std::function<void(const EpochReport&)> epoch = {};
};

struct TrainingReport {
    std::string device;      // its name
    std::string model_file;  // empty when nothing was written
    std::vector<EpochReport> epochs;
};

Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks = {});

// The module that it runs: graphs `step`, `eval` and `init` over a resident data set of `train` and `test` examples.
Result<Module> fashion_mnist_module(const FashionMnistOptions& options, const LabelledDataSet& data);

}  // namespace darner
