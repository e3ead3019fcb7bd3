// SPDX-License-Identifier: MIT
// Trains a network on Fashion-MNIST from files to a saved model: what `darner train fashion-mnist` does.
#pragma once

#include "darner/nn/checkpoint.h"
#include "darner/nn/fashion_mnist.h"

#include <functional>
#include <string>
#include <vector>

namespace darner {

struct FashionMnistOptions {
    TrainingChoices choices = {};
    std::string device = {};  // as CompileOptions::device
    std::string data_folder = default_fashion_mnist_folder;
    // Gets checkpoint.safetensors after each epoch and model.safetensors at the end. Empty: the resumed folder; without one
    // nothing is written.
    std::string out_folder = {};
    std::string resume_folder = {};  // goes on from the checkpoint there
};

struct TrainingStart {
    std::string device;  // its name
    TrainingSettings settings;
    uint32_t epochs_done = 0;        // by the checkpoint
    std::vector<std::string> notes;  // what a user should know: sentences without a full stop
};

struct EpochReport {
    uint32_t epoch = 0;  // from 1
    double train_loss = 0, test_accuracy = 0;
    double seconds = 0, images_per_second = 0;  // of training, evaluation aside
};

// When a submit is known to have finished.
struct TrainingProgress {
    uint32_t epoch = 0, epochs = 0;          // epoch from 1
    uint32_t step = 0, steps_per_epoch = 0;  // steps of this epoch that are done
    double loss = 0;                         // mean over them
    double images_per_second = 0, seconds_left = 0;
};

struct TrainingCallbacks {
    std::function<void(const TrainingStart&)> started = {};
    std::function<void(const TrainingProgress&)> progress = {};
    std::function<void(const EpochReport&)> epoch = {};  // its checkpoint is written
    std::function<bool()> stop = {};                     // asked after each submit; true breaks the training off
};

struct TrainingReport {
    std::string model_file;           // empty when nothing was written
    std::vector<EpochReport> epochs;  // of this run: those of the checkpoint aside
    bool stopped = false;             // by the callback
    std::string way_on;               // where the training broke off, in words, and how to go on
};

// Errors that break a training off say in their hint what is kept and how to go on.
Result<TrainingReport> train_fashion_mnist(const FashionMnistOptions& options, const TrainingCallbacks& callbacks = {});

}  // namespace darner
