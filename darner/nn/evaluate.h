// SPDX-License-Identifier: MIT
// Evaluates saved weights on Fashion-MNIST's test images: what `darner eval fashion-mnist` does.
#pragma once

#include "darner/nn/fashion_mnist.h"

#include <map>
#include <string>
#include <vector>

namespace darner {

struct EvaluationOptions {
    std::string weights;      // a safetensors file, or a folder with model.safetensors or else checkpoint.safetensors
    std::string device = {};  // as CompileOptions::device
    std::string data_folder = default_fashion_mnist_folder;
};

struct EvaluationReport {
    std::string weights_file, device;
    std::string model;            // mlp or cnn
    std::vector<int64_t> layers;  // inputs (of a cnn: channels), the outputs of each hidden layer, classes
    int64_t images = 0;
    Evaluation result;
};

Result<EvaluationReport> evaluate_fashion_mnist(const EvaluationOptions& options);

// The layer sizes of an MLP from its params 0.weight, 0.bias, 2.weight, ..., or of a CNN from 0.weight, 0.bias, 3.weight, ...:
// inputs first, outputs last. The error lists all that does not fit. `extra` allows tensors besides these, as checkpoints have.
Result<std::vector<int64_t>> classifier_layers(const std::string& model, const std::map<std::string, Array>& tensors, bool extra);

}  // namespace darner
