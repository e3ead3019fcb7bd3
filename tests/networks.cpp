// SPDX-License-Identifier: MIT
#include "tests/networks.h"

#include "darner/nn/test_support.h"
#include "darner/nn/training.h"
#include "tests/compare.h"

#include <array>

namespace darner::test {

namespace {

TestNetwork network(std::string name, int64_t classes, Value loss, const Optimizer& optimizer) {
    return {std::move(name), testing::ok(training_step(loss, optimizer)), classes};
}

TestNetwork classifier(std::string name, int64_t batch, int64_t features, std::span<const int64_t> hidden, int64_t classes,
                       const Optimizer& optimizer) {
    Builder b;
    const Value logits = mlp(b.input("x", f32({batch, features})), hidden, classes);
    return network(std::move(name), classes, cross_entropy(logits, b.input("y", i32({batch}))), optimizer);
}

}  // namespace

NamedTensors TestNetwork::inputs(uint64_t seed) const {
    const NamedTensors leaves = random_leaves(step(), seed, 1, classes);
    NamedTensors inputs;
    for (const GraphInput& input : step().inputs) inputs[input.name] = leaves.at(input.name);
    return inputs;
}

TestNetwork mlp_network() { return classifier("mlp", 5, 7, std::array<int64_t, 2>{13, 6}, 4, adam({.learning_rate = 0.01})); }

TestNetwork deep_mlp_network() {
    std::vector<int64_t> hidden(19);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = 8 + static_cast<int64_t>(i * 5 % 11);
    return classifier("deep_mlp", 6, 9, hidden, 5, sgd({.learning_rate = 0.1, .momentum = 0.9}));
}

DecoderConfig tiny_decoder() {
    return {.vocabulary = 29,
            .hidden = 24,
            .intermediate = 20,
            .layers = 2,
            .heads = 6,
            .kv_heads = 2,
            .rope_theta = 100000,
            .init_stddev = 0.3};
}

TestNetwork transformer_network() {
    Builder b;
    const DecoderConfig config = tiny_decoder();
    const Value tokens = b.input("tokens", i32({2, 7}));
    return network("transformer", config.vocabulary, next_token_loss(decoder(tokens, config), tokens),
                   adamw({.learning_rate = 0.01}));
}

std::vector<TestNetwork> test_networks() {
    std::vector<TestNetwork> networks;
    networks.push_back(mlp_network());
    networks.push_back(deep_mlp_network());
    networks.push_back(transformer_network());
    return networks;
}

}  // namespace darner::test
