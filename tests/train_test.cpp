// SPDX-License-Identifier: MIT
// Whole training runs through the command: what the network reaches on Fashion-MNIST and how fast, that a seed decides all
// bits, that the devices agree, and what the output looks like. Runs but the first use a small made-up data set.
#include "darner/base/files.h"
#include "darner/io/safetensors.h"
#include "tests/small_images.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>

namespace darner::test {
namespace {

using testing::HasSubstr;

ProcessResult train(const std::vector<std::string>& options) {
    std::vector<std::string> words{DARNER_BINARY_DIR "/bin/darner", "train", "fashion-mnist"};
    words.insert(words.end(), options.begin(), options.end());
    return run_process(words);
}

TEST(TrainFashionMnist, ReachesItsAccuracyInTime) {
    const TemporaryFolder folder;
    const ProcessResult result = train({"--json", "--out", folder.path(), "--device", "vulkan"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::vector<Json> epochs = json_lines(result.out);
    ASSERT_EQ(epochs.size(), 5u);
    for (size_t i = 0; i < epochs.size(); ++i) {
        EXPECT_EQ(epochs[i]["epoch"], i + 1);
        EXPECT_GT(epochs[i]["seconds"].get<double>(), 0);
        EXPECT_GT(epochs[i]["images_per_second"].get<double>(), 0);
        EXPECT_LT(epochs[i]["train_loss"].get<double>(), i == 0 ? std::log(10.0) : epochs[i - 1]["train_loss"].get<double>());
    }
    EXPECT_GE(epochs.back()["test_accuracy"].get<double>(), 0.87);
    EXPECT_LE(epochs.back()["test_accuracy"].get<double>(), 1.0);
    EXPECT_LT(result.seconds, 120);
    const Result<Safetensors> model = read_safetensors(folder.file("model.safetensors"));
    ASSERT_TRUE(model) << model.error().text();
    EXPECT_TRUE(model->tensors.contains("0.weight"));
}

// A tenth of what five epochs on all images take.
TEST(TrainFashionMnist, ACnnLearnsFromAFifthOfTheImages) {
    const TemporaryFolder folder;
    const ProcessResult result = train(
        {"--model", "cnn", "--train-images", "12000", "--epochs", "1", "--json", "--out", folder.path(), "--device", "vulkan"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const double accuracy = json_lines(result.out).at(0)["test_accuracy"];
    EXPECT_GE(accuracy, 0.78);
    const ProcessResult evaluated = run_process(
        {DARNER_BINARY_DIR "/bin/darner", "eval", "fashion-mnist", "--weights", folder.path(), "--json", "--device", "vulkan"});
    ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
    const Json report = json_lines(evaluated.out).at(0);
    EXPECT_EQ(report["model"], "cnn");
    EXPECT_EQ(report["layers"], Json({1, 16, 32, 10}));
    EXPECT_EQ(report["accuracy"], accuracy);
}

TEST(TrainFashionMnist, TheFirstStepShowsSoon) {
    const TemporaryFolder folder;
    const ProcessResult result = train({"--epochs", "1", "--out", folder.path(), "--device", "vulkan"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::smatch first;
    ASSERT_TRUE(std::regex_search(result.out, first, std::regex("first step after ([0-9.]+) s: loss ([0-9.]+)"))) << result.out;
    EXPECT_LT(std::stod(first[1]), 3.0);
    EXPECT_NEAR(std::stod(first[2]), std::log(10.0), 0.5);  // nothing learnt yet
    EXPECT_THAT(result.out, HasSubstr("epoch 1/1"));
    EXPECT_THAT(result.out, testing::Not(HasSubstr("\r")));  // no bar in a pipe
    EXPECT_THAT(result.err, testing::Not(HasSubstr("\r")));
}

class TrainSmall : public testing::Test {
protected:
    void SetUp() override { write_small_images(data_.path()); }
    // Batches of 16: the last of an epoch would be partial.
    ProcessResult run(const std::string& out, const std::vector<std::string>& more) {
        std::vector<std::string> words{"--data", data_.path(), "--out", out};
        if (std::find(more.begin(), more.end(), "--batch") == more.end()) words.insert(words.end(), {"--batch", "16"});
        words.insert(words.end(), more.begin(), more.end());
        return train(words);
    }
    std::string model_of(const std::string& out, const std::vector<std::string>& more) {
        const ProcessResult result = run(out, more);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        Result<std::string> bytes = read_text_file(out + "/model.safetensors");
        EXPECT_TRUE(bytes);
        return bytes ? *bytes : std::string();
    }
    TemporaryFolder data_, out_;
};

TEST_F(TrainSmall, TheSeedDecidesAllBits) {
    for (const char* optimizer : {"sgd", "adam", "adamw"}) {
        const std::vector<std::string> options{"--epochs", "3", "--optimizer", optimizer, "--device", "vulkan"};
        std::vector<std::string> other = options;
        other.insert(other.end(), {"--seed", "1"});
        const std::string first = model_of(out_.file("a"), options);
        EXPECT_EQ(first, model_of(out_.file("b"), options)) << optimizer;
        EXPECT_NE(first, model_of(out_.file("c"), other)) << optimizer;
    }
}

TEST_F(TrainSmall, LearnsAndCountsTheWholeTestSet) {
    const ProcessResult result = run(out_.path(), {"--epochs", "20", "--json", "--device", "vulkan"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::vector<Json> epochs = json_lines(result.out);
    ASSERT_EQ(epochs.size(), 20u);
    const double accuracy = epochs.back()["test_accuracy"];
    EXPECT_GE(accuracy, 0.95);
    EXPECT_NEAR(accuracy * 35, std::round(accuracy * 35), 1e-9);  // a share of 35 images
}

// An epoch of nine steps. training_step_test.cpp compares single steps with the reference; here the loop round them counts too.
TEST_F(TrainSmall, TheDevicesAgree) {
    // Adam divides a gradient by its own size: where that is near 0, rounding errors grow to a share of the learning rate, 1e-3.
    struct Case {
        const char *optimizer, *model, *hidden;
        double absolute;
    };
    for (const auto& [optimizer, model, hidden, absolute] :
         {Case{"sgd", "mlp", "256", 0}, Case{"adam", "mlp", "256", 1e-6}, Case{"sgd", "cnn", "3,4", 0}}) {
        SCOPED_TRACE(std::string(optimizer) + " " + model);
        std::vector<double> losses;
        std::vector<Safetensors> models;
        for (const char* device : {"interp", "vulkan"}) {
            const std::string out = out_.file(std::string(optimizer) + model + device);
            const ProcessResult result = run(out, {"--epochs", "1", "--json", "--optimizer", optimizer, "--model", model,
                                                   "--hidden", hidden, "--device", device});
            ASSERT_EQ(result.exit_code, 0) << result.err;
            losses.push_back(json_lines(result.out).at(0)["train_loss"].get<double>());
            Result<Safetensors> saved = read_safetensors(out + "/model.safetensors");
            ASSERT_TRUE(saved) << saved.error().text();
            models.push_back(std::move(*saved));
        }
        EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
        ASSERT_EQ(models[0].tensors.size(), models[1].tensors.size());
        for (const auto& [name, tensor] : models[0].tensors) {
            const auto a = values_of<float>(tensor), b = values_of<float>(models[1].tensors.at(name));
            ASSERT_EQ(a.size(), b.size());
            float largest = 0;
            for (float v : a) largest = std::max(largest, std::abs(v));
            for (size_t i = 0; i < a.size(); ++i)
                ASSERT_NEAR(a[i], b[i], 1e-5 * std::abs(a[i]) + 1e-6 * largest + absolute)
                    << optimizer << " " << name << " " << i;
        }
    }
}

TEST_F(TrainSmall, ACnnResumesToTheSameBitsOnItsPartOfTheImages) {
    const std::vector<std::string> options{"--model", "cnn", "--hidden", "3,4", "--train-images", "40", "--device", "vulkan"};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.end(), options.begin(), options.end());
        return more;
    };
    const std::string whole = model_of(out_.file("a"), with({"--epochs", "3"}));
    model_of(out_.file("b"), with({"--epochs", "1"}));
    const ProcessResult rest = train({"--data", data_.path(), "--resume", out_.file("b"), "--epochs", "3", "--device", "vulkan"});
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_THAT(rest.out, HasSubstr("model cnn, hidden 3,4, batch 16, optimizer adam, lr 0.001, seed 0, train-images 40\n"));
    const Result<std::string> resumed = read_text_file(out_.file("b") + "/model.safetensors");
    ASSERT_TRUE(resumed);
    EXPECT_EQ(*resumed, whole);
    const Result<Safetensors> model = read_safetensors(out_.file("a") + "/model.safetensors");
    ASSERT_TRUE(model);
    EXPECT_EQ(model->metadata.at("darner.model"), "cnn");
    EXPECT_EQ(type_text(model->tensors.at("3.weight")), "f32[4,3,3,3]");
    EXPECT_EQ(type_text(model->tensors.at("7.weight")), "f32[10,16]");  // 10 by 10 pixels, halved twice
}

TEST_F(TrainSmall, TheJsonIsALineAnEpoch) {
    const ProcessResult result = run(out_.path(), {"--epochs", "2", "--json", "--device", "vulkan"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string number = "[0-9.e+-]+";
    const std::string line = "\\{\"epoch\":[12],\"train_loss\":" + number + ",\"test_accuracy\":" + number +
                             ",\"seconds\":" + number + ",\"images_per_second\":" + number + "\\}\n";
    EXPECT_TRUE(std::regex_match(result.out, std::regex(line + line))) << result.out;
}

TEST_F(TrainSmall, ErrorsComeBeforeTheWork) {
    const auto error = [](const ProcessResult& result) {
        EXPECT_EQ(result.exit_code, 1);
        EXPECT_THAT(result.out, testing::IsEmpty());
        EXPECT_THAT(result.err, testing::StartsWith("error: "));
        return result.err;
    };
    EXPECT_THAT(error(run(out_.path(), {"--batch", "1000"})), HasSubstr("expected 1 to 150"));
    EXPECT_THAT(error(run(out_.path(), {"--train-images", "151"})), HasSubstr("there are 150 training images"));
    EXPECT_THAT(error(run(out_.path(), {"--model", "cnn", "--hidden", "2,2,2,2"})), HasSubstr("10 by 10 pixels are too few"));
    const std::string missing = error(train({"--data", out_.file("none"), "--out", out_.path()}));
    EXPECT_THAT(missing, HasSubstr("dataset-fashion-mnist"));
    EXPECT_THAT(missing, HasSubstr("./dev setup"));
    ASSERT_TRUE(write_text_file(out_.file("file"), "x"));
    EXPECT_THAT(error(run(out_.file("file"), {})), HasSubstr("file"));
    EXPECT_THAT(error(run("/proc", {})), HasSubstr("/proc/checkpoint.safetensors: cannot create a file"));
    ASSERT_TRUE(make_folder(out_.file("model.safetensors")));
    EXPECT_THAT(error(run(out_.path(), {})), HasSubstr("a folder has its name"));
}

TEST_F(TrainSmall, DivergedTrainingIsAnErrorAndKeepsTheOldModel) {
    const std::string old_model = model_of(out_.path(), {"--epochs", "1", "--device", "vulkan"});
    for (const char* optimizer : {"sgd", "adam", "adamw"}) {
        const ProcessResult result = run(out_.path(), {"--lr", "1e30", "--optimizer", optimizer, "--device", "vulkan", "--json"});
        EXPECT_EQ(result.exit_code, 1) << optimizer;
        EXPECT_THAT(result.out, testing::IsEmpty()) << optimizer;
        EXPECT_EQ(result.err, "error: training diverged by epoch 1: the loss is not finite\nhint: try a lower --lr\n")
            << optimizer;
    }
    const Result<std::string> kept = read_text_file(out_.file("model.safetensors"));
    ASSERT_TRUE(kept);
    EXPECT_EQ(*kept, old_model);
    const auto entries = std::filesystem::directory_iterator(out_.path());
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);  // the model and the checkpoint of the beginning
}

}  // namespace
}  // namespace darner::test
