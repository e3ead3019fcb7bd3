// SPDX-License-Identifier: MIT
// Checkpoint files by themselves: what goes in comes out, damage is noticed, and what is written when. Whole trainings are in
// tests/checkpoint_test.cpp.
#include "darner/nn/checkpoint.h"

#include "darner/base/files.h"
#include "darner/nn/evaluate.h"
#include "darner/nn/test_support.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

namespace darner::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFiles : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "darner-checkpoint-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder = pattern;
    }
    void TearDown() override { fs::remove_all(folder); }

    static Checkpoint checkpoint_after(uint32_t epochs) {
        Checkpoint checkpoint;
        checkpoint.task = "t";
        checkpoint.done = epochs;
        checkpoint.goal = 9;
        checkpoint.settings = {{"batch", uint64_t{3}},
                               {"optimizer", "sgd"},
                               {"lr", 1.0},
                               {"seed", UINT64_MAX},
                               {"hidden", std::vector<int64_t>{5, 7}}};
        checkpoint.model = "{\"a\": 1}";
        checkpoint.data = "some \"data\" Ü";
        checkpoint.device = "device";
        for (uint32_t i = 0; i < epochs; ++i) checkpoint.history.push_back({i, 1.0 / (i + 3), 1e-300 * i});
        checkpoint.state["step"] = make_array<uint32_t>({}, {epochs});
        checkpoint.state["w"] = make_array<float>({2}, {0.5f, -1e-42f});
        return checkpoint;
    }
    std::string folder;
};

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
    EXPECT_EQ(a.task, b.task);
    EXPECT_EQ(a.unit, b.unit);
    EXPECT_EQ(a.done, b.done);
    EXPECT_EQ(a.goal, b.goal);
    EXPECT_EQ(a.settings, b.settings);
    EXPECT_EQ(a.model, b.model);
    EXPECT_EQ(a.data, b.data);
    EXPECT_EQ(a.device, b.device);
    EXPECT_EQ(a.history, b.history);
    EXPECT_EQ(a.state, b.state);
}

TEST_F(CheckpointFiles, RoundTrip) {
    const std::string path = folder + "/c";
    for (uint32_t epochs : {0u, 1u, 5u}) {
        ASSERT_TRUE(write_checkpoint(path, checkpoint_after(epochs)));
        expect_equal(ok(read_checkpoint(path)), checkpoint_after(epochs));
    }
}

TEST_F(CheckpointFiles, AnyDamageIsNoticed) {
    const std::string path = folder + "/c";
    ASSERT_TRUE(write_checkpoint(path, checkpoint_after(2)));
    const std::string whole = ok(read_text_file(path));
    const auto read = [](const std::string& bytes) -> Result<Checkpoint> {
        TRY(Safetensors file, parse_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size()))));
        return checkpoint_of(std::move(file), "c");
    };
    expect_equal(ok(read(whole)), checkpoint_after(2));
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read(whole.substr(0, size))) << "cut to " << size;
    // A changed byte of the header may only leave what the file says as it was: JSON has blanks.
    for (size_t at = 0; at < whole.size(); ++at) {
        for (char bit : {1, 4, 32}) {
            std::string changed = whole;
            changed[at] ^= bit;
            if (const Result<Checkpoint> parsed = read(changed)) expect_equal(*parsed, checkpoint_after(2));
        }
    }
}

TEST_F(CheckpointFiles, OddMetadataIsRefused) {
    const std::string path = folder + "/c";
    ASSERT_TRUE(write_checkpoint(path, checkpoint_after(1)));
    // Through the reader of the JSON alone: the checksum would catch the change first.
    const auto refused = [&](const std::string& from, const std::string& to) {
        Safetensors file = ok(read_safetensors(path));
        std::string& text = file.metadata.at("darner.training");
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
        file.metadata["darner.checksum"] = checkpoint_checksum(file.tensors, text);
        return checkpoint_of(std::move(file), "c").error().text();
    };
    EXPECT_THAT(refused("\"goal\":9", "\"goal\":-9"),
                HasSubstr("c: [checkpoint] \"goal\" of the metadata is missing or of the wrong type"));
    EXPECT_THAT(refused("\"goal\":9", "\"goal\":4294967296"), HasSubstr("\"goal\""));
    EXPECT_THAT(refused("\"batch\":3", "\"batch\":-3"), HasSubstr("\"settings.batch\""));
    EXPECT_THAT(refused("[5,7]", "[5,\"7\"]"), HasSubstr("\"settings.hidden\""));
    EXPECT_THAT(refused("[5,7]", "[5,-7]"), HasSubstr("\"settings.hidden\""));
    EXPECT_THAT(refused("\"history\":[", "\"history\":[3,"), HasSubstr("\"history\""));
    EXPECT_THAT(refused("\"train_loss\":", "\"train_loss\":\"low\",\"x\":"), HasSubstr("\"history.train_loss\""));
    EXPECT_THAT(refused("{\"task\"", "[\"task\""), HasSubstr("\"darner.training\""));
}

TEST_F(CheckpointFiles, TheEpochBeforeIsKeptAndServesWhereTheLastIsDamaged) {
    CheckpointFile file(folder);
    for (uint32_t epochs : {0u, 1u, 2u}) ASSERT_TRUE(file.write(checkpoint_after(epochs)));
    EXPECT_EQ(ok(read_checkpoint(file.path())).done, 2u);
    EXPECT_EQ(ok(read_checkpoint(file.previous_path())).done, 1u);

    ASSERT_TRUE(write_text_file(file.path(), "cut"));
    CheckpointFile reader(folder);
    EXPECT_EQ(ok(reader.read("t", "train t")).done, 1u);
    ASSERT_TRUE(reader.damage());
    EXPECT_THAT(reader.damage()->message, HasSubstr("[safetensors]"));
    // The damaged file never becomes the one that is kept.
    ASSERT_TRUE(reader.write(checkpoint_after(1)));
    EXPECT_FALSE(fs::exists(reader.previous_path()));
    ASSERT_TRUE(reader.write(checkpoint_after(2)));
    EXPECT_EQ(ok(read_checkpoint(reader.previous_path())).done, 1u);

    // Another training's files go.
    CheckpointFile other(folder);
    ASSERT_TRUE(other.write(checkpoint_after(0)));
    EXPECT_EQ(ok(read_checkpoint(other.path())).done, 0u);
    EXPECT_FALSE(fs::exists(other.previous_path()));
}

TEST_F(CheckpointFiles, OnlyUnfinishedWorkIsSetAside) {
    CheckpointFile file(folder);
    EXPECT_EQ(ok(file.set_aside_unfinished()), "");
    for (uint32_t epochs : {0u, 9u}) {
        ASSERT_TRUE(file.write(checkpoint_after(epochs)));
        EXPECT_EQ(ok(file.set_aside_unfinished()), "") << epochs;
    }
    ASSERT_TRUE(file.write(checkpoint_after(4)));
    EXPECT_EQ(ok(file.set_aside_unfinished()), folder + "/interrupted");
    EXPECT_FALSE(fs::exists(file.path()));
    EXPECT_EQ(ok(read_checkpoint(folder + "/interrupted/checkpoint.safetensors")).done, 4u);
}

TEST_F(CheckpointFiles, NothingThatWasSetAsideIsLost) {
    for (uint32_t epochs : {3u, 4u, 5u}) {
        CheckpointFile file(folder);
        ASSERT_TRUE(file.write(checkpoint_after(epochs - 1)));
        ASSERT_TRUE(file.write(checkpoint_after(epochs)));
        if (epochs == 5) ASSERT_TRUE(write_text_file(file.path(), "damaged"));
        const std::string aside = folder + (epochs == 3 ? "/interrupted" : epochs == 4 ? "/interrupted-2" : "/interrupted-3");
        EXPECT_EQ(ok(file.set_aside_unfinished()), aside);
        EXPECT_FALSE(fs::exists(file.path()) || fs::exists(file.previous_path()));
        EXPECT_EQ(ok(read_checkpoint(aside + "/checkpoint-previous.safetensors")).done, epochs - 1);
    }
    EXPECT_EQ(ok(read_checkpoint(folder + "/interrupted/checkpoint.safetensors")).done, 3u);
    EXPECT_EQ(ok(read_checkpoint(folder + "/interrupted-2/checkpoint.safetensors")).done, 4u);
}

struct Chess {
    uint32_t batch = 64;
    uint64_t seed = 0;
    double rate = 0.5;
    std::string opening = "e4";
    std::vector<int64_t> hidden = {3};
    template <class Visit>
    void visit(Visit&& field) {
        field("batch", batch), field("seed", seed), field("lr", rate), field("opening", opening), field("hidden", hidden);
    }
};

TEST(TrainingSettings, AreReadByNameAndType) {
    const Settings settings = settings_of(Chess{.batch = 7, .seed = UINT64_MAX, .rate = 0.1, .hidden = {4, 5}});
    EXPECT_EQ(to_text(settings), "batch 7, seed 18446744073709551615, lr 0.1, opening e4, hidden 4,5");
    EXPECT_EQ(settings_of(ok(settings_from<Chess>(settings))), settings);
    for (size_t i = 0; i < settings.size(); ++i) {
        Settings changed = settings;
        changed[i].first += "x";
        const std::string expected = "the setting \"" + settings[i].first + "\" is missing or of the wrong type";
        EXPECT_THAT(settings_from<Chess>(changed).error().text(), HasSubstr(expected));
        changed = settings;
        changed[i].second = i == 3 ? Setting(1.5) : Setting(std::string("7"));
        EXPECT_THAT(settings_from<Chess>(changed).error().text(), HasSubstr(expected));
    }
    Settings wide = settings;
    wide[0].second = uint64_t{1} << 32;
    EXPECT_FALSE(settings_from<Chess>(wide));
}

TEST(TrainingSettings, OfAResumedTrainingAreItsCheckpoints) {
    const Settings checkpoint = settings_of(Chess{.batch = 16, .seed = 4});
    EXPECT_EQ(ok(resumed_settings<Chess>(checkpoint, {})).seed, 4u);
    EXPECT_EQ(ok(resumed_settings<Chess>(checkpoint, {{.batch = 16, .seed = 9}, {"batch"}})).seed, 4u);
    EXPECT_THAT(resumed_settings<Chess>(checkpoint, {{.batch = 8, .seed = 5}, {"batch", "seed"}}).error().text(),
                HasSubstr("the checkpoint is of another training: batch is 16, got 8; seed is 4, got 5"));
    EXPECT_FALSE(resumed_settings<Chess>(checkpoint, {{.hidden = {}}, {"hidden"}}));
}

TEST(ClassifierLayers, ComeFromTheShapes) {
    const auto zeros = [](std::vector<int64_t> dims) {
        int64_t count = 1;
        for (int64_t extent : dims) count *= extent;
        return make_array<float>(dims, std::vector<float>(static_cast<size_t>(count)));
    };
    std::map<std::string, Array> tensors{
        {"0.weight", zeros({4, 3})}, {"0.bias", zeros({4})}, {"2.weight", zeros({2, 4})}, {"2.bias", zeros({2})}};
    EXPECT_THAT(ok(classifier_layers("mlp", tensors, false)), ElementsAre(3, 4, 2));
    tensors["adam.m.0.weight"] = zeros({4, 3});
    EXPECT_THAT(ok(classifier_layers("mlp", tensors, true)), ElementsAre(3, 4, 2));
    EXPECT_THAT(classifier_layers("mlp", tensors, false).error().text(), HasSubstr("adam.m.0.weight is unknown"));
    tensors["0.bias"] = zeros({5});
    tensors.erase("2.bias");
    EXPECT_THAT(classifier_layers("mlp", tensors, true).error().text(),
                HasSubstr("0.bias is f32[5], expected f32[4]; 2.bias is missing"));
    tensors["0.weight"] = make_array<uint8_t>({2, 2}, {1, 2, 3, 4});
    EXPECT_THAT(classifier_layers("mlp", tensors, true).error().text(),
                HasSubstr("0.weight is u8[2,2], expected f32 of two axes"));
}

TEST(ClassifierLayers, OfACnn) {
    const auto zeros = [](std::vector<int64_t> dims) {
        int64_t count = 1;
        for (int64_t extent : dims) count *= extent;
        return make_array<float>(dims, std::vector<float>(static_cast<size_t>(count)));
    };
    const std::map<std::string, Array> whole{{"0.weight", zeros({4, 1, 3, 3})}, {"0.bias", zeros({4})},
                                             {"3.weight", zeros({6, 4, 3, 3})}, {"3.bias", zeros({6})},
                                             {"7.weight", zeros({10, 24})},     {"7.bias", zeros({10})}};
    EXPECT_THAT(ok(classifier_layers("cnn", whole, false)), ElementsAre(1, 4, 6, 10));
    const auto refused = [&](const std::string& name, std::optional<Array> array) {
        std::map<std::string, Array> changed = whole;
        changed.erase(name);
        if (array) changed[name] = *array;
        return classifier_layers("cnn", changed, false).error().text();
    };
    EXPECT_THAT(refused("7.weight", {}), HasSubstr("the linear layer at the end is missing"));
    EXPECT_THAT(refused("3.bias", {}), HasSubstr("3.bias is missing"));
    EXPECT_THAT(refused("0.weight", {}), HasSubstr("0.weight is missing"));
    EXPECT_THAT(refused("7.weight", zeros({10, 25})), HasSubstr("7.weight is f32[10,25], but the layer before it has 6 outputs"));
    EXPECT_THAT(refused("3.weight", zeros({6, 4, 5, 5})), HasSubstr("expected f32 of [outputs, inputs, 3, 3]"));
    EXPECT_THAT(refused("8.weight", zeros({1, 1})), HasSubstr("8.weight is unknown"));
    EXPECT_THAT(classifier_layers("mlp", whole, false).error().text(), HasSubstr("these are not the weights of an MLP"));
}

}  // namespace
}  // namespace darner::testing
