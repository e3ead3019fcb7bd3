// SPDX-License-Identifier: MIT
// Norm, pool and dropout layers: PyTorch's names and defaults, running statistics over several steps against PyTorch, and the
// two modes.
#include "darner/nn/norms.h"

#include "darner/io/safetensors.h"
#include "darner/nn/test_support.h"
#include "darner/nn/training.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace darner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The values of a float tensor of a file.
Tensor tensor_of_file(const Safetensors& file, const std::string& name) {
    const Array& array = file.tensors.at(name);
    const auto values = values_of<float>(array);
    return Tensor::of(DType::f32, array.dims, std::vector<double>(values.begin(), values.end()));
}

void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
    ASSERT_EQ(got.dims, want.dims) << what;
    for (int64_t i = 0; i < want.count(); ++i)
        EXPECT_NEAR(got.at(i), want.at(i), 2e-5 * (1 + std::abs(want.at(i)))) << what << "[" << i << "]";
}

Graph batch_norm_graph(Mode mode, std::optional<double> momentum) {
    Builder b(mode == Mode::training ? "train" : "eval");
    const Value x = b.input("x", f32({4, 3, 2, 5}));
    b.output("y", batch_norm(x, mode, {.name = "bn", .momentum = momentum}));
    return ok(b.finish());
}

TEST(BatchNorm, TakesPyTorchsStepsAndThenItsRunningStatistics) {
    const Safetensors file = ok(read_safetensors(DARNER_SOURCE_DIR "/tests/testdata/batch_norm_steps.safetensors"));
    for (const bool moving : {true, false}) {
        const std::string layer = moving ? "moving" : "plain";
        const std::optional<double> momentum = moving ? std::optional(0.1) : std::nullopt;
        std::vector<Graph> graphs;
        for (const Mode mode : {Mode::training, Mode::inference}) graphs.push_back(batch_norm_graph(mode, momentum));
        ReferenceSession session(ok(make_module(std::move(graphs))));
        session.write("bn.weight", Tensor::of(DType::f32, {3}, {1.5, -0.5, 2.0}));
        session.write("bn.bias", Tensor::of(DType::f32, {3}, {0.25, 1.0, -1.0}));
        for (int step = 0; step < 4; ++step) {
            const std::string at = std::to_string(step) + ".";
            const auto outputs = session.run(step < 3 ? "train" : "eval", {{"x", tensor_of_file(file, at + "x")}});
            expect_near(outputs.at("y"), tensor_of_file(file, at + layer + ".y"), at + layer + ".y");
            for (const std::string name : {"running_mean", "running_var"})
                expect_near(session.read("bn." + name), tensor_of_file(file, at + layer + "." + name), at + layer + "." + name);
        }
        EXPECT_THAT(session.read("bn.num_batches_tracked").integer, ElementsAre(3));
    }
}

TEST(BatchNorm, StateHasPyTorchsNamesAndIsNotTrained) {
    const Graph graph = batch_norm_graph(Mode::training, 0.1);
    std::map<std::string, std::pair<Role, bool>> params;
    for (const GraphParam& param : graph.params) params[param.name] = {param.role, param.trainable};
    const std::map<std::string, std::pair<Role, bool>> expected = {{"bn.weight", {Role::param, true}},
                                                                   {"bn.bias", {Role::param, true}},
                                                                   {"bn.running_mean", {Role::statistic, false}},
                                                                   {"bn.running_var", {Role::statistic, false}},
                                                                   {"bn.num_batches_tracked", {Role::statistic, false}}};
    EXPECT_EQ(params, expected);
    EXPECT_EQ(graph.updates.size(), 3u);
    EXPECT_EQ(batch_norm_graph(Mode::inference, 0.1).updates.size(), 0u);
}

TEST(BatchNorm, InHalfPrecisionKeepsItsStatisticsInF32) {
    Builder b;
    b.output("y", batch_norm(b.input("x", bf16({4, 3})), Mode::training));
    const Graph graph = ok(b.finish());
    EXPECT_EQ(graph.type(graph.find_output("y")->node), bf16({4, 3}));
    EXPECT_EQ(graph.type(graph.find_param("weight")->node), bf16({3}));
    EXPECT_EQ(graph.type(graph.find_param("running_var")->node), f32({3}));
}

// The step's loss sees the batch; a training step carries the updates along.
TEST(BatchNorm, UpdatesAreInTheTrainingStep) {
    Builder b;
    const Value x = b.input("x", f32({6, 2}));
    const Value y = Sequential{linear(3), batch_norm(Mode::training), relu()}(x);
    ReferenceSession session(ok(training_step(sum(mul(y, y)), sgd())), 3);
    session.run("step", {{"x", Tensor::of(DType::f32, {6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13})}});
    EXPECT_THAT(session.read("1.num_batches_tracked").integer, ElementsAre(1));
    EXPECT_NE(session.read("1.running_mean").real[0], 0);
    EXPECT_NE(session.read("1.running_var").real[0], 1);
}

TEST(BatchNorm, RefusesWhatHasNoStatistics) {
    const auto message = [](Type type, double momentum) {
        Builder b;
        batch_norm(b.input("x", std::move(type)), Mode::training, {.momentum = momentum});
        return b.failed() ? b.error().text() : "";
    };
    EXPECT_THAT(message(f32({1, 3}), 0.1), HasSubstr("1 elements with a correction of 1 have no variance"));
    EXPECT_THAT(message(f32({3}), 0.1), HasSubstr("[batch_norm] got f32[3], expected floats [N, C, ..]"));
    EXPECT_THAT(message(i32({3, 2}), 0.1), HasSubstr("expected floats"));
    EXPECT_THAT(message(f32({4, 3}), 1.5), HasSubstr("momentum must be between 0 and 1: got 1.5"));
}

TEST(Norms, ParamsAreNamedAndStartAsInPyTorch) {
    Builder b;
    const Value x = b.input("x", f32({2, 4, 3}));
    const Sequential net{layer_norm(), group_norm(2), instance_norm(ChannelNormOptions{.affine = false}),
                         layer_norm(LayerNormOptions{.name = "norm", .axis = 1, .bias = false})};
    b.output("y", net(x));
    std::vector<Graph> graphs;
    graphs.push_back(ok(b.finish()));
    std::vector<std::string> names;
    for (const GraphParam& param : graphs[0].params) names.push_back(param.name);
    EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "3.norm.weight"));
    EXPECT_EQ(graphs[0].type(graphs[0].find_param("3.norm.weight")->node), f32({4, 3}));
    ReferenceSession session(ok(make_module(std::move(graphs))));
    EXPECT_THAT(session.read("0.weight").real, ElementsAre(1, 1, 1));
    EXPECT_THAT(session.read("1.bias").real, ElementsAre(0, 0, 0, 0));
}

TEST(Dropout, DropsInTrainingAnewEachStepAndIsNothingAfterwards) {
    const auto graph = [](Mode mode) {
        Builder b(mode == Mode::training ? "train" : "eval");
        b.output("y", dropout(b.input("x", f32({1000})), mode, 0.25));
        if (mode == Mode::training) b.update(b.step(), add(b.step(), b.constant(u32(), 1.0)));
        return ok(b.finish());
    };
    std::vector<Graph> graphs;
    for (const Mode mode : {Mode::training, Mode::inference}) graphs.push_back(graph(mode));
    ReferenceSession session(ok(make_module(std::move(graphs))), 5);
    Tensor x = Tensor::zeros(DType::f32, {1000});
    for (double& v : x.real) v = 3;
    const auto first = session.run("train", {{"x", x}}).at("y").real, second = session.run("train", {{"x", x}}).at("y").real;
    const auto dropped = std::count(first.begin(), first.end(), 0.0);
    EXPECT_GT(dropped, 200);
    EXPECT_LT(dropped, 300);
    for (const double v : first) EXPECT_TRUE(v == 0 || std::abs(v - 4) < 1e-6) << v;
    EXPECT_NE(first, second);
    EXPECT_EQ(session.run("eval", {{"x", x}}).at("y").real, x.real);
}

TEST(Pools, AreLayers) {
    Builder b;
    const Value x = b.input("x", f32({2, 3, 9, 8}));
    const auto dims = [&](const Layer& layer) { return layer(x).dims(); };
    EXPECT_EQ(dims(max_pool({2, 2})), (Dims{2, 3, 4, 4}));
    EXPECT_EQ(dims(avg_pool({3, 2}, {.strides = {2, 1}, .ceil_mode = true})), (Dims{2, 3, 4, 7}));
    EXPECT_EQ(dims(adaptive_avg_pool({4, 4})), (Dims{2, 3, 4, 4}));
    EXPECT_EQ(dims(adaptive_max_pool({1, 2})), (Dims{2, 3, 1, 2}));
    EXPECT_EQ(dims(global_avg_pool()), (Dims{2, 3, 1, 1}));
    EXPECT_EQ(dims(global_max_pool()), (Dims{2, 3, 1, 1}));
    EXPECT_EQ(dims(Sequential{global_avg_pool(), flatten(), gelu("tanh"), silu()}), (Dims{2, 3}));
    EXPECT_FALSE(b.failed());
    global_avg_pool(b.input("rows", f32({2, 3})));
    EXPECT_THAT(b.error().text(), HasSubstr("[global_avg_pool] got f32[2,3], expected [N, C, ..]"));
}

}  // namespace
}  // namespace darner::testing
