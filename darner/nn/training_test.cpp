// SPDX-License-Identifier: MIT
// Layers and the training step, run by the reference evaluator.
#include "darner/nn/training.h"

#include "darner/graph/text.h"
#include "darner/graph/verify.h"
#include "darner/nn/batches.h"
#include "darner/nn/models.h"
#include "darner/nn/test_support.h"
#include "darner/transform/transform.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

namespace darner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> param_names(const Graph& graph) {
    std::vector<std::string> names;
    for (const GraphParam& param : graph.params)
        if (param.role == Role::param) names.push_back(param.name);
    return names;
}

TEST(Layers, NamesAndShapesArePyTorchs) {
    Builder b;
    const Sequential net{linear(16), relu(), Sequential{linear(8, {.bias = false}), rms_norm(RmsNormOptions{.name = "norm"})},
                         linear(3)};
    b.output("y", net(b.input("x", f32({2, 5}))));
    const Graph graph = ok(b.finish());
    EXPECT_THAT(param_names(graph), ElementsAre("0.weight", "0.bias", "2.0.weight", "2.1.norm.weight", "3.weight", "3.bias"));
    EXPECT_EQ(graph.type(graph.find_param("0.weight")->node), f32({16, 5}));
    EXPECT_EQ(graph.type(graph.find_param("2.0.weight")->node), f32({8, 16}));
    EXPECT_EQ(graph.type(graph.find_output("y")->node), f32({2, 3}));
}

TEST(Layers, LinearStartsUniform) {
    Builder b;
    const Value y = linear(b.input("x", f32({1, 25})), 2000, {.name = "fc"});
    ReferenceSession session(ok(training_step(sum(y), sgd())), 5);
    for (const char* name : {"fc.weight", "fc.bias"}) {
        const Tensor& values = session.read(name);
        double low = 1, high = -1, mean = 0;
        for (double v : values.real) low = std::min(low, v), high = std::max(high, v), mean += v / values.count();
        EXPECT_GE(low, -0.2);
        EXPECT_LT(high, 0.2);
        EXPECT_LT(low, -0.19);
        EXPECT_GT(high, 0.19);
        EXPECT_NEAR(mean, 0, 0.01);
    }
    EXPECT_NE(session.read("fc.weight").real[0], session.read("fc.bias").real[0]) << "weight and bias share a stream";
}

TEST(Layers, ConvolutionsAreNamedAndStartAsPyTorchs) {
    Builder b;
    const Sequential net{conv(6, {3, 3}, {.geometry = {.strides = {2, 2}, .padding = {1, 1, 1, 1}, .groups = 2}}), relu(),
                         conv_transpose(500, {2, 2}, {.name = "up", .bias = false})};
    const Value y = net(b.input("x", f32({2, 4, 8, 8})));
    EXPECT_EQ(y.type(), f32({2, 500, 5, 5}));
    ReferenceSession session(ok(training_step(sum(y), sgd())), 5);
    EXPECT_EQ(session.read("0.weight").dims, (std::vector<int64_t>{6, 2, 3, 3}));
    EXPECT_EQ(session.read("0.bias").dims, std::vector<int64_t>{6});
    EXPECT_EQ(session.read("2.up.weight").dims, (std::vector<int64_t>{6, 500, 2, 2}));
    for (const auto& [name, bound] : {std::pair{"0.weight", 1 / std::sqrt(18)}, {"2.up.weight", 1 / std::sqrt(2000)}}) {
        double largest = 0;
        for (const double v : session.read(name).real) largest = std::max(largest, std::fabs(v));
        EXPECT_LE(largest, bound) << name;
        EXPECT_GE(largest, 0.9 * bound) << name;
    }
}

TEST(Layers, ConvolutionErrors) {
    const auto error_of = [](Type type, int64_t out, std::vector<int64_t> kernel, int64_t groups) {
        Builder b;
        b.output("y",
                 conv(b.input("x", std::move(type)), out, std::move(kernel), {.geometry = {.groups = groups}}, {"net.cpp", 3}));
        return b.finish().error().text();
    };
    EXPECT_THAT(error_of(f32({2, 3}), 4, {}, 1), HasSubstr("net.cpp:3: [conv] got f32[2,3]"));
    EXPECT_THAT(error_of(f32({2, 3, 4}), 4, {3}, 2), HasSubstr("3 channels to 4 do not part into 2 groups"));
    EXPECT_THAT(error_of(f32({2, 3, 4}), -1, {3}, 1), HasSubstr("3 channels to -1"));
    EXPECT_THAT(error_of(f32({2, 3, 4}), 4, {3, 3}, 1), HasSubstr("got a kernel of [3,3]"));
}

TEST(Layers, SeedDecides) {
    const auto weights = [](uint64_t seed) {
        Builder b;
        const Value y = linear(b.input("x", f32({1, 4})), 4);
        return ReferenceSession(ok(training_step(sum(y), sgd())), seed).read("weight");
    };
    EXPECT_EQ(weights(3), weights(3));
    EXPECT_NE(weights(3), weights(4));
    EXPECT_NE(weights(3), weights(3 + (uint64_t{1} << 32)));
}

TEST(Layers, Errors) {
    const auto error_of = [](Type type, int64_t features) {
        Builder b;
        b.output("y", linear(b.input("x", std::move(type)), features, {}, {"net.cpp", 3}));
        return b.finish().error().text();
    };
    EXPECT_THAT(error_of(i32({2, 3}), 4), HasSubstr("net.cpp:3: [linear] got i32[2,3]"));
    EXPECT_THAT(error_of(f32(), 4), HasSubstr("[linear] got f32[]"));
    EXPECT_THAT(error_of(f32({2, Dim::symbol("n")}), 4), HasSubstr("known extent"));
    EXPECT_THAT(error_of(f32({2, 3}), -4), HasSubstr("out_features is -4"));
}

// A linear regression that all optimizers can solve.
Value regression_loss(Builder& b) {
    const Value x = b.input("x", f32({8, 3}));
    const Value target = sum(x, {1}, true) * 0.5 + 1.0;
    return mse(linear(x, 1, {.name = "fc"}), target);
}

NamedTensors regression_inputs() {
    Tensor x = Tensor::zeros(DType::f32, {8, 3});
    for (int i = 0; i < 24; ++i) x.real[i] = std::sin(1.7 * i);
    return {{"x", x}};
}

TEST(TrainingStep, LowersTheLoss) {
    for (const Optimizer& optimizer : {sgd({.learning_rate = 0.1}), sgd({.learning_rate = 0.05, .momentum = 0.9}),
                                       adam({.learning_rate = 0.1}), adamw({.learning_rate = 0.1})}) {
        SCOPED_TRACE(optimizer.name);
        Builder b;
        ReferenceSession session(ok(training_step(regression_loss(b), optimizer)));
        const NamedTensors inputs = regression_inputs();
        const double first = session.run("step", inputs).at("loss").at(0);
        double last = first;
        for (int i = 1; i < 20; ++i) last = session.run("step", inputs).at("loss").at(0);
        EXPECT_LT(last, 0.5 * first);
        EXPECT_EQ(session.read("step").at(0), 20);
    }
}

TEST(TrainingStep, TakesUpdatesAndOutputsOfTheUser) {
    Builder b;
    const Value x = b.input("x", f32({4})), w = b.param("w", f32({4}));
    const Value frozen = b.param("frozen", f32({4}), {.trainable = false});
    const Value runs = b.param("runs", u32(), {.init = b.constant(u32(), 0.0), .trainable = false, .role = Role::statistic});
    b.update(runs, runs + 2.0);
    b.update(b.step(), b.step() + 5.0);
    const Value y = x * w + frozen, loss = sum(y * y);
    b.output("loss", loss);
    ReferenceSession session(ok(training_step(loss, sgd({.learning_rate = 0.5}), {.graph = "train", .outputs = {{"y", y}}})));
    session.write("w", Tensor::of(DType::f32, {4}, {1, 2, 3, 4}));
    session.write("frozen", Tensor::of(DType::f32, {4}, {1, 1, 1, 1}));
    const NamedTensors outputs = session.run("train", {{"x", Tensor::of(DType::f32, {4}, {0, 1, 0, 0})}});
    EXPECT_EQ(outputs.at("y"), Tensor::of(DType::f32, {4}, {1, 3, 1, 1}));
    EXPECT_EQ(session.read("w"), Tensor::of(DType::f32, {4}, {1, 2 - 0.5 * 6, 3, 4}));
    EXPECT_EQ(session.read("frozen"), Tensor::of(DType::f32, {4}, {1, 1, 1, 1}));
    EXPECT_EQ(session.read("runs").at(0), 2);
    EXPECT_EQ(session.read("step").at(0), 5);
}

TEST(TrainingStep, ParamsThatTheLossDoesNotReachStay) {
    Builder b;
    const Value w = b.param("w", f32({2})), unused = b.param("unused", f32({3}));
    (void)unused;
    ReferenceSession session(ok(training_step(sum(w * w), adam())));
    session.write("w", Tensor::of(DType::f32, {2}, {1, 2}));
    session.write("unused", Tensor::of(DType::f32, {3}, {1, 2, 3}));
    session.run("step");
    EXPECT_EQ(session.read("unused"), Tensor::of(DType::f32, {3}, {1, 2, 3}));
}

TEST(TrainingStep, EachGradientHasAPlaceInMemory) {
    Builder b;
    const std::array<int64_t, 2> hidden = {4, 5};
    const Value loss = cross_entropy(mlp(b.input("x", f32({2, 3})), hidden, 2), b.input("y", i32({2})));
    const Graph step = ok(training_graph(loss, sgd()));
    size_t materialized = 0;
    for (const Node& node : step.nodes) materialized += node.kind == NodeKind::op && node.op->name == "materialize";
    EXPECT_EQ(materialized, 6u);
}

TEST(TrainingStep, TextRoundTrip) {
    Builder b;
    const Module module = ok(training_step(regression_loss(b), adamw({.learning_rate = 1e-3f})));
    ASSERT_NE(module.find("step"), nullptr);
    ASSERT_NE(module.find("init"), nullptr);
    const std::string text = to_text(module);
    const Module parsed = ok(parse_module(text, "module.dg"));
    EXPECT_EQ(to_text(parsed), text);
    EXPECT_TRUE(verify(parsed));
}

TEST(TrainingStep, Errors) {
    {
        Builder b;
        const Value w = b.param("w", f32({2}));
        EXPECT_THAT(training_step(w, sgd()).error().text(), HasSubstr("[training] the loss must be one float"));
    }
    {
        Builder b;
        const Value x = b.input("x", f32());
        EXPECT_THAT(training_step(x * x, sgd()).error().text(), HasSubstr("no trainable float param"));
    }
    {
        Builder b;
        const Value broken = matmul(b.input("x", f32({2, 3})), b.input("y", f32({2, 3})));
        EXPECT_THAT(training_step(broken, sgd()).error().text(), HasSubstr("[matmul]"));
    }
    EXPECT_FALSE(training_step({}, sgd()));
}

// Whatever layers, losses, gradients and optimizers add has the place of the call that asked for it.
TEST(TrainingStep, NodesHaveThePlacesOfTheUser) {
    for (const Optimizer& optimizer : {sgd({.momentum = 0.9}), adam(), adamw()}) {
        Builder b;
        const std::array<int64_t, 1> hidden{5};
        const LabelledBatch batch = training_batch(b, {.count = 8, .features = 6}, 4);
        const Value loss = cross_entropy(mlp(batch.inputs, hidden, 3), batch.labels);
        accumulate_loss(b, loss, batch.epoch_step);
        const Module module = ok(training_step(loss, optimizer));
        for (const Graph& graph : module.graphs) {
            for (const Graph& each : {graph, ok(expand(graph)), ok(cleanup(ok(expand(graph))))})
                for (const Provenance& place : each.provenances)
                    EXPECT_TRUE(place.file.empty() || place.file == __FILE__) << optimizer.name << ": " << place.text();
        }
    }
}

TEST(MakeModule, RefusesEqualNamesAndConflicts) {
    const auto graph = [](const char* name, Type type) {
        Builder b(name);
        b.output("y", b.param("w", std::move(type)));
        return ok(b.finish());
    };
    EXPECT_THAT(make_module({graph("a", f32()), graph("a", f32())}).error().text(), HasSubstr("two graphs are named a"));
    EXPECT_FALSE(make_module({graph("a", f32()), graph("b", f32({2}))}));
    EXPECT_TRUE(make_module({graph("a", f32()), graph("b", f32())}));
}

}  // namespace
}  // namespace darner::testing
