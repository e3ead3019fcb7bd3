// SPDX-License-Identifier: MIT
// Small networks as training modules, for tests of what happens to whole steps: planning, memory, devices, checkpoints.
#pragma once

#include "darner/graph/eval.h"
#include "darner/nn/models.h"

#include <cstdint>
#include <string>
#include <vector>

namespace darner::test {

struct TestNetwork {
    std::string name;
    Module module;        // graphs `step` and `init`
    int64_t classes = 0;  // integer inputs lie in [0, classes)
    const Graph& step() const { return *module.find("step"); }
    NamedTensors inputs(uint64_t seed) const;  // of one step, at random
};

TestNetwork mlp_network();          // three layers of odd widths, adam
TestNetwork deep_mlp_network();     // twenty layers, sgd with momentum
TestNetwork transformer_network();  // two layers of tiny_decoder(), adamw
std::vector<TestNetwork> test_networks();

// Six query heads on two key and value heads of four features; the sizes of testdata/decoder_tied.safetensors.
DecoderConfig tiny_decoder();

}  // namespace darner::test
