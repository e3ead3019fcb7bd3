// SPDX-License-Identifier: MIT
// Transformer blocks against PyTorch's from the same weights (testdata/transformer_layer.py): results and gradients of all params
// in the reference and on devices; what the blocks are made of, and what they refuse.
#include "darner/nn/transformer.h"
#include "darner/io/safetensors.h"
#include "darner/nn/test_support.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner::test {
namespace {

using ::testing::HasSubstr;
using testing::ok;

TEST(Transformer, EncoderLayerAgreesWithPyTorch) {
    for (const bool norm_first : {false, true}) {
        const Safetensors saved = ok(read_safetensors(std::string(DARNER_SOURCE_DIR "/tests/testdata/transformer_layer_") +
                                                      (norm_first ? "pre" : "post") + ".safetensors"));
        const auto tensor = [&](const std::string& name) {
            Tensor t = ok(tensor_of(saved.tensors.at(name)));
            t.dtype = DType::f32;
            return t;
        };
        Builder b;
        const Value x = b.input("x", f32({2, 5, 12}));
        const Value y = transformer_encoder_layer(x, 3, Mode::training,
                                                  {.feedforward = 20,
                                                   .activation = norm_first ? "gelu" : "relu",
                                                   .norm_first = norm_first,
                                                   .dropout = 0,
                                                   .causal = true});
        std::vector<Value> wrt = {x};
        std::vector<std::string> names = {"x"};
        NamedTensors leaves = {{"x", tensor("x")}, {"dy", tensor("dy")}};
        for (const GraphParam& param : b.graph().params) {
            if (!param.trainable) continue;
            wrt.push_back({&b, param.node});
            names.push_back(param.name);
            leaves[param.name] = tensor(param.name);
        }
        b.output("y", y);
        const std::vector<Value> d = gradients(y, wrt, b.input("dy", y.type()));
        for (size_t i = 0; i < d.size(); ++i) b.output("d_" + names[i], d[i]);
        const Graph graph = ok(b.finish());
        for (const auto& [name, leaf] : random_leaves(graph, 1)) leaves.emplace(name, leaf);  // `seed`, which only init reads
        EXPECT_EQ(names.size(), 13u);
        const EvalResult got = ok(eval(graph, leaves));
        for (const auto& [name, value] : got.outputs) EXPECT_EQ(difference(name, value, tensor("expected." + name)), "");
        const Tolerance tolerance{.relative = 1e-4, .of_largest = 1e-5};
        for (const DeviceCase& on : main_device_cases()) EXPECT_EQ(compare(graph, leaves, on, tolerance), "");
    }
}

TEST(Transformer, CrossAttentionProjectsByThirdsOfOneWeight) {
    Builder b;
    const Value q = b.input("q", f32({2, 3, 8})), memory = b.input("memory", f32({2, 7, 8}));
    const Value y = multihead_attention(q, memory, memory, 2, Mode::inference, {.name = "attn"});
    EXPECT_EQ(y.type(), q.type());
    std::vector<std::string> names;
    for (const GraphParam& param : b.graph().params)
        if (param.trainable) names.push_back(param.name);
    EXPECT_THAT(names,
                ::testing::ElementsAre("attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj.weight", "attn.out_proj.bias"));
    b.output("y", y);
    const Graph graph = ok(b.finish());
    for (const DeviceCase& on : main_device_cases()) EXPECT_EQ(compare(graph, random_leaves(graph, 1), on), "");
}

TEST(Transformer, DropoutActsInTrainingOnly) {
    for (const Mode mode : {Mode::training, Mode::inference}) {
        Builder b;
        const Value x = b.input("x", f32({2, 4, 8}));
        b.output("y", transformer_encoder_layer(x, 2, mode, {.feedforward = 8, .dropout = 0.5}));
        const Graph graph = ok(b.finish());
        NamedTensors leaves = random_leaves(graph, 1);
        const Tensor first = ok(eval(graph, leaves)).outputs.at("y");
        EXPECT_EQ(graph.find_param("step") != nullptr, mode == Mode::training);
        if (mode == Mode::inference) continue;
        leaves.at("step").integer[0] += 1;
        EXPECT_FALSE(ok(eval(graph, leaves)).outputs.at("y") == first);
    }
}

TEST(Transformer, RefusesSizesThatDoNotFit) {
    const auto error_of = [](Type type, int64_t heads, TransformerLayerOptions options = {}) {
        Builder b;
        transformer_encoder_layer(b.input("x", std::move(type)), heads, Mode::inference, options, {"net.cpp", 3});
        return b.failed() ? b.error().text() : "";
    };
    EXPECT_EQ(error_of(f32({1, 2, 6}), 3), "");
    EXPECT_THAT(error_of(f32({1, 2, 6}), 4), HasSubstr("net.cpp:3: [transformer_encoder_layer] got f32[1,2,6] for 4 heads"));
    EXPECT_THAT(error_of(f32({2, 6}), 3), HasSubstr("expected floats [batch, length, features]"));
    EXPECT_THAT(error_of(f32({1, 2, 6}), 0), HasSubstr("for 0 heads"));
    EXPECT_THAT(error_of(f32({1, 2, 6}), 3, {.activation = "tanh"}), HasSubstr("got activation tanh, expected relu or gelu"));
    Builder b;
    multihead_attention(b.input("q", f32({1, 2, 6})), b.input("k", f32({1, 2, 3})), b.input("v", f32({1, 2, 6})), 3,
                        Mode::inference);
    EXPECT_THAT(b.error().text(), HasSubstr("got f32[1,2,3] for queries of 6 features"));
}

}  // namespace
}  // namespace darner::test
