// SPDX-License-Identifier: MIT
// Data sets, the order of an epoch, and batches on the device as the reference evaluator sees them.
#include "darner/nn/data.h"

#include "darner/nn/batches.h"
#include "darner/nn/fashion_mnist.h"
#include "darner/nn/models.h"
#include "darner/nn/test_support.h"
#include "darner/nn/training.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace darner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EpochOrder, IsThePublishedShuffle) {
    EXPECT_THAT(epoch_order(0, 0, 10), ElementsAre(2, 3, 9, 0, 8, 6, 5, 7, 1, 4));
    EXPECT_THAT(epoch_order(0, 1, 10), ElementsAre(3, 1, 9, 8, 5, 0, 7, 6, 2, 4));
    EXPECT_THAT(epoch_order((uint64_t{1} << 40) + 7, 3, 16), ElementsAre(0, 6, 12, 14, 2, 1, 10, 4, 9, 13, 8, 5, 11, 7, 15, 3));
    const std::vector<int32_t> long_order = epoch_order(1, 2, 1000);
    EXPECT_EQ(long_order.front(), 736);
    EXPECT_EQ(long_order.back(), 783);
}

TEST(EpochOrder, IsAPermutation) {
    for (const uint32_t count : {0u, 1u, 2u, 3u, 17u, 60000u}) {
        std::vector<int32_t> order = epoch_order(9, 4, count);
        std::sort(order.begin(), order.end());
        std::vector<int32_t> all(count);
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(order, all);
    }
}

TEST(LabelledImages, Checks) {
    const Array images = make_array<uint8_t>({2, 1, 3}, {1, 2, 3, 4, 5, 6});
    const Array labels = make_array<uint8_t>({2}, {0, 9});
    const LabelledImages good = ok(make_labelled_images(images, labels, 10, "set"));
    EXPECT_EQ(good.images.dims, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(good.count(), 2);
    EXPECT_EQ(good.features(), 3);
    const auto error_of = [&](Array i, Array l, int64_t classes) {
        return make_labelled_images(std::move(i), std::move(l), classes, "set").error().text();
    };
    EXPECT_THAT(error_of(images, labels, 9), HasSubstr("label 9 is out of range: there are 9 classes"));
    EXPECT_THAT(error_of(images, make_array<uint8_t>({1}, {0}), 10), HasSubstr("got u8[1], expected u8[2]"));
    EXPECT_THAT(error_of(make_array<float>({2, 1}, {0, 1}), labels, 10), HasSubstr("wrong images: got f32[2,1]"));
    EXPECT_THAT(error_of(make_array<uint8_t>({0, 3}, {}), make_array<uint8_t>({0}, {}), 10), HasSubstr("there are no images"));
}

TEST(FashionMnist, MissingFolder) {
    const Result<LabelledDataSet> data = load_fashion_mnist("/nonexistent");
    ASSERT_FALSE(data);
    EXPECT_THAT(data.error().text(), HasSubstr("/nonexistent/train-images-idx3-ubyte.gz"));
    EXPECT_THAT(data.error().text(), HasSubstr("dataset-fashion-mnist"));
}

TEST(FashionMnist, Loads) {
    if (!std::filesystem::exists(default_fashion_mnist_folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
    const LabelledDataSet data = ok(load_fashion_mnist());
    EXPECT_EQ(data.train.images.dims, (std::vector<int64_t>{60000, 784}));
    EXPECT_EQ(data.test.images.dims, (std::vector<int64_t>{10000, 784}));
    EXPECT_EQ(data.classes, 10);
}

Tensor bytes_tensor(std::vector<int64_t> dims, std::vector<double> values) {
    return Tensor::of(DType::u8, std::move(dims), std::move(values));
}

TEST(Batches, FollowTheOrderAndDropTheRest) {
    Builder b("step");
    const LabelledBatch batch = training_batch(b, {"data", 5, 2}, 2);
    b.output("x", batch.inputs);
    b.output("labels", batch.labels);
    const Value w = b.param("w", f32(), {.init = b.constant(f32(), 1)});
    const Value loss = sum(batch.inputs) * w;
    accumulate_loss(b, loss, batch.epoch_step);
    ReferenceSession session(ok(training_step(loss, sgd({.learning_rate = 0}))));
    session.write("data.images", bytes_tensor({5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 255}));
    session.write("data.labels", bytes_tensor({5}, {0, 1, 2, 3, 4}));
    session.write("data.order", Tensor::of(DType::i32, {5}, {4, 2, 0, 1, 3}));
    const int64_t labels_of_steps[][2] = {{4, 2}, {0, 1}, {4, 2}, {0, 1}};
    const double losses[] = {(40 + 255 + 20 + 21) / 255.0, (0 + 1 + 10 + 11) / 255.0};
    for (int step = 0; step < 4; ++step) {
        const NamedTensors outputs = session.run("step");
        for (int i = 0; i < 2; ++i) EXPECT_EQ(outputs.at("labels").integer[i], labels_of_steps[step][i]);
        EXPECT_NEAR(session.read("loss_sum").at(0), step % 2 ? losses[0] + losses[1] : losses[0], 1e-6);
        if (step % 2 == 0) EXPECT_NEAR(outputs.at("x").at(1), 1, 1e-7) << "255 is 1";
    }
}

TEST(Batches, InputsAreStandardised) {
    Builder b("step");
    const LabelledBatch batch = training_batch(b, {"data", 1, 2, 0.5, 0.25}, 1);
    b.output("x", batch.inputs);
    ReferenceSession session(ok(make_module([&] {
        std::vector<Graph> graphs;
        graphs.push_back(ok(b.finish()));
        return graphs;
    }())));
    session.write("data.images", bytes_tensor({1, 2}, {0, 255}));
    session.write("data.labels", bytes_tensor({1}, {0}));
    session.write("data.order", Tensor::of(DType::i32, {1}, {0}));
    const Tensor x = session.run("step").at("x");
    EXPECT_NEAR(x.at(0), -2, 1e-6);
    EXPECT_NEAR(x.at(1), 2, 1e-6);
}

TEST(Batches, EvaluationCountsEachExampleOnce) {
    // The logits are the pixels themselves, so an answer is right where the label's pixel is the brightest.
    const ResidentSet set{"eval", 5, 3};
    std::vector<Graph> graphs;
    graphs.push_back(ok(evaluation_graph(set, 2, 3, [](Value x) { return x; })));
    ReferenceSession session(ok(make_module(std::move(graphs))));
    session.write("eval.images", bytes_tensor({5, 3}, {9, 0, 0, 0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 9, 0}));
    session.write("eval.labels", bytes_tensor({5}, {0, 1, 0, 0, 1}));
    ASSERT_EQ(evaluation_steps(set, 2), 3);
    // Pixels of 9 and 0: the label's is the bright one four times, and a dark one once.
    const double bright = 9 / 255.0, all = std::log(std::exp(bright) + 2), losses = 5 * all - 4 * bright;
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 3; ++i) session.run("eval");
        const Tensor& correct = session.read("eval.correct");
        EXPECT_EQ(correct.integer, (std::vector<int64_t>{2, 2, 0})) << "round " << round;
        EXPECT_NEAR(session.read("eval.loss_sum").at(0), losses, 1e-6) << "round " << round;
        EXPECT_EQ(session.read("eval.batch").at(0), 0);
    }
}

TEST(Batches, Errors) {
    Builder b;
    training_batch(b, {"data", 5, 2}, 6);
    EXPECT_THAT(b.error().text(), HasSubstr("the batch size is 6, expected 1 to 5"));
    EXPECT_THAT(evaluation_graph({"eval", 0, 2}, 1, 2, [](Value x) { return x; }).error().text(), HasSubstr("has 0 examples"));
}

LabelledDataSet tiny_set() {
    const auto part = [](int64_t count) {
        std::vector<uint8_t> pixels, labels;
        for (int64_t i = 0; i < count; ++i) {
            labels.push_back(static_cast<uint8_t>(i % 10));
            for (int64_t p = 0; p < 12; ++p) pixels.push_back(p == i % 10 ? 255 : static_cast<uint8_t>(p * i % 50));
        }
        return ok(
            make_labelled_images(make_array<uint8_t>({count, 3, 4}, pixels), make_array<uint8_t>({count}, labels), 10, "tiny"));
    };
    return {part(40), part(20), 10};
}

TEST(FashionMnistModule, LearnsATinySet) {
    const LabelledDataSet data = tiny_set();
    const Module module = ok(fashion_mnist_module({.batch = 8, .learning_rate = 0.02, .hidden = {16}}, data));
    for (const Graph& graph : module.graphs)  // no user wrote it
        for (const Provenance& place : graph.provenances) EXPECT_EQ(place.file, "") << place.text();
    ReferenceSession session(module);
    const auto tensor = [](const Array& array) { return ok(Tensor::from_bytes(DType::u8, array.dims, array.data)); };
    session.write("data.images", tensor(data.train.images));
    session.write("data.labels", tensor(data.train.labels));
    session.write("eval.images", tensor(data.test.images));
    session.write("eval.labels", tensor(data.test.labels));
    double first = 0, last = 0;
    for (uint32_t epoch = 0; epoch < 12; ++epoch) {
        const std::vector<int32_t> order = epoch_order(0, epoch, 40);
        session.write("data.order", Tensor::of(DType::i32, {40}, {order.begin(), order.end()}));
        for (int step = 0; step < 5; ++step) session.run("step");
        (epoch == 0 ? first : last) = session.read("loss_sum").at(0) / 5;
    }
    session.run("eval");
    EXPECT_LT(last, 0.3 * first);
    double correct = 0;
    for (int64_t c = 0; c < 10; ++c) correct += session.read("eval.correct").at(c);
    EXPECT_GE(correct, 18);
    EXPECT_TRUE(session.has("0.weight") && session.has("2.bias"));
}

TEST(FashionMnistModule, WrongOptions) {
    const LabelledDataSet data = tiny_set();
    const auto error_of = [&](FashionMnistSettings options) { return fashion_mnist_module(options, data).error().text(); };
    EXPECT_THAT(error_of({.batch = 41}), HasSubstr("the batch size is 41, expected 1 to 40"));
    EXPECT_THAT(error_of({.batch = 1, .hidden = {4, 0}}), HasSubstr("a hidden layer of 0 outputs"));
    EXPECT_THAT(error_of({.batch = 1, .optimizer = "adma"}), HasSubstr("did you mean \"adam\"?"));
    EXPECT_THAT(error_of({.batch = 1, .learning_rate = -1}), HasSubstr("the learning rate is -1"));
    EXPECT_THAT(error_of({.batch = 1, .model = "cn"}), HasSubstr("did you mean \"cnn\"?"));
    EXPECT_THAT(error_of({.batch = 1, .hidden = {2, 2, 2}, .model = "cnn"}), HasSubstr("3 by 4 pixels are too few"));
}

}  // namespace
}  // namespace darner::testing
