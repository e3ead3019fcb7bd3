// SPDX-License-Identifier: MIT
// darner train text and darner sample as processes: that a network learns a text, that a training which stops and goes on has the
// bits of one run, what is refused, and that samples are text of the vocabulary and harmless to a terminal.
#include "darner/base/files.h"
#include "darner/nn/checkpoint.h"
#include "darner/nn/text.h"
#include "tests/small_images.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <random>

namespace darner::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

// Sentences of a few words in random order: an entropy far below that of their characters.
std::string made_up_text(size_t characters) {
    constexpr std::array words{"the fox", "a hen", "sees", "likes", "the pond", "and", "quietly", "over there"};
    std::mt19937 random(3);
    std::string text;
    while (text.size() < characters) {
        for (int i = 0; i < 4; ++i) text += std::string(i > 0 ? " " : "") + words[random() % words.size()];
        text += ".\n";
    }
    text.resize(characters);
    return text;
}

class TrainText : public testing::Test {
protected:
    void SetUp() override { write(made_up_text(6000)); }

    void write(const std::string& text) { ASSERT_TRUE(write_text_file(file(), text)); }
    std::string file() const { return folder_.file("text"); }
    std::string out(const std::string& name) const { return folder_.file(name); }

    ProcessResult darner(Words words, const OnOutput& on_output = {}) const {
        words.insert(words.begin(), DARNER_BINARY_DIR "/bin/darner");
        if (std::find(words.begin(), words.end(), "--device") == words.end()) words.insert(words.end(), {"--device", "vulkan"});
        return run_process(words, {}, on_output);
    }
    // A network that is trained in a moment, unless `more` says otherwise.
    ProcessResult train(const Words& more, const OnOutput& on_output = {}) const {
        Words words{"train", "text", "--data", file()};
        words.insert(words.end(), more.begin(), more.end());
        const Words small{"--batch", "4", "--context", "12", "--layers",       "1",
                          "--heads", "2", "--hidden",  "8",  "--report-every", "10"};
        for (size_t i = 0; i < small.size(); i += 2)
            if (std::find(more.begin(), more.end(), small[i]) == more.end() &&
                std::find(more.begin(), more.end(), "--resume") == more.end())
                words.insert(words.end(), {small[i], small[i + 1]});
        return darner(words, on_output);
    }
    std::string trained(const Words& more) const {
        const ProcessResult result = train(more);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.out;
    }
    std::string bytes_of(const std::string& path) const {
        Result<std::string> bytes = read_text_file(path);
        EXPECT_TRUE(bytes) << path;
        return bytes ? *bytes : std::string();
    }
    void expect_same_result(const std::string& a, const std::string& b) const {
        for (const char* name : {"/model.safetensors", "/checkpoint.safetensors"})
            EXPECT_EQ(bytes_of(out(a) + name), bytes_of(out(b) + name)) << a << " " << b << name;
    }

    TemporaryFolder folder_;
};

TEST_F(TrainText, LearnsTheTextAndSaysSo) {
    const ProcessResult result = train({"--steps", "300", "--report-every", "100", "--batch", "16", "--hidden", "32", "--lr",
                                        "1e-2", "--sample", "40", "--out", out("a"), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::vector<Json> lines = json_lines(result.out);
    ASSERT_EQ(lines.size(), 3u);
    const Vocabulary vocabulary = make_text_set(made_up_text(6000), "t")->vocabulary;
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(lines[i]["step"], 100 * (i + 1));
        EXPECT_GT(lines[i]["characters_per_second"].get<double>(), 0);
        const Result<std::vector<int32_t>> sample = vocabulary.tokens(lines[i]["sample"].get<std::string>());
        ASSERT_TRUE(sample) << sample.error().text();
        EXPECT_EQ(sample->size(), 41u);  // behind the line break that is the prompt
        if (i > 0) EXPECT_LT(lines[i]["train_loss"].get<double>(), lines[i - 1]["train_loss"].get<double>());
    }
    // A network that knows nothing but how often each character occurs is at 2.8; the text itself, by whole words, at about 0.5.
    EXPECT_LT(lines[2]["validation_loss"].get<double>(), 1.2);
    EXPECT_GT(lines[2]["validation_loss"].get<double>(), 0.3);
}

TEST_F(TrainText, ShowsWhatItDoes) {
    const std::string shown = trained({"--steps", "25", "--sample", "8", "--prompt", "the", "--out", out("a")});
    EXPECT_THAT(
        shown,
        AllOf(HasSubstr(": 25 steps, batch 4, context 12, layers 1, heads 2, hidden 8, optimizer adamw, lr 0.003, seed 0"),
              HasSubstr("\n6000 characters, "), HasSubstr(" the last 600 held out"), HasSubstr("\nstep 10/25  train loss "),
              HasSubstr("\nstep 25/25  train loss "), HasSubstr("  validation loss "), HasSubstr(" characters/s\n  | the"),
              HasSubstr("\nsaved " + out("a") + "/model.safetensors\n"), Not(HasSubstr("\r"))));
    EXPECT_THAT(trained({"--steps", "10", "--sample", "0", "--out", out("b")}), Not(HasSubstr("  | ")));
}

// --- the same bits ----------------------------------------------------------------------------------------------------

TEST_F(TrainText, ResumedTrainingsHaveTheBitsOfOneRun) {
    for (const char* device : {"vulkan", "interp"}) {
        const std::string whole = std::string("w") + device, parts = std::string("p") + device;
        const auto with = [&](Words more) {
            more.insert(more.end(), {"--device", device, "--sample", "2", "--json", "--report-every", "4", "--seed", "5"});
            return more;
        };
        const std::vector<Json> straight = json_lines(trained(with({"--steps", "10", "--out", out(whole)})));
        // 6 is no multiple of 4: the second run goes on within a round. How it samples changes nothing.
        trained(with({"--steps", "6", "--out", out(parts)}));
        const std::string rest = trained(
            {"--steps", "10", "--resume", out(parts), "--device", device, "--sample", "3", "--temperature", "2", "--json"});
        expect_same_result(whole, parts);
        const std::vector<Json> resumed = json_lines(rest);
        ASSERT_EQ(straight.size(), 3u);
        ASSERT_EQ(resumed.size(), 2u);
        for (size_t i = 0; i < 2; ++i)
            for (const char* field : {"step", "train_loss", "validation_loss"})
                EXPECT_EQ(resumed[i][field], straight[i + 1][field]);
    }
    trained({"--steps", "10", "--sample", "0", "--report-every", "4", "--seed", "6", "--out", out("other")});
    EXPECT_NE(bytes_of(out("other") + "/model.safetensors"), bytes_of(out("wvulkan") + "/model.safetensors"));
}

TEST_F(TrainText, CtrlCSaysWhatIsKeptAndHowToGoOn) {
    const Words options{"--steps", "400", "--sample", "0", "--json", "--out"};
    const auto with = [&](const std::string& folder) {
        Words words = options;
        words.push_back(folder);
        return words;
    };
    const auto before = std::signal(SIGINT, SIG_DFL);  // a shell's background jobs have it ignored
    bool sent = false;
    const OnOutput interrupt = [&](pid_t process, const ProcessResult& so_far) {
        if (!sent && std::count(so_far.out.begin(), so_far.out.end(), '\n') >= 2) sent = kill(process, SIGINT) == 0;
    };
    const ProcessResult result = train(with(out("a")), interrupt);
    std::signal(SIGINT, before);
    EXPECT_EQ(result.exit_code, 130);
    const uint32_t kept = read_checkpoint(out("a") + "/checkpoint.safetensors")->done;
    EXPECT_GE(kept, 20u);
    EXPECT_LT(kept, 400u);
    EXPECT_THAT(result.err,
                HasSubstr("note: stopped by Ctrl-C: steps 1 to " + std::to_string(kept) +
                          " are kept; go on with: darner train text --data " + file() + " --resume " + out("a") + "\n"));
    EXPECT_EQ(darner({"sample", "--weights", out("a"), "--length", "3"}).exit_code, 0);  // its checkpoint is enough
    trained({"--resume", out("a"), "--sample", "0"});
    trained(with(out("whole")));
    expect_same_result("whole", "a");
}

// --- odd texts --------------------------------------------------------------------------------------------------------

TEST_F(TrainText, ATextOfOneCharacterIsLearntAtOnce) {
    write(std::string(200, 'x'));
    const std::vector<Json> lines = json_lines(trained({"--steps", "5", "--sample", "6", "--json", "--out", out("a")}));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["validation_loss"], 0.0);
    EXPECT_EQ(lines[0]["sample"], "xxxxxxx");
}

TEST_F(TrainText, TextsOfManyScriptsAndTheShortestThatIsEnough) {
    Vocabulary many;
    for (char32_t c = 0x4e00; c < 0x4e00 + 400; ++c) many.characters.push_back(c);
    write(many.text() + many.text());
    const std::vector<Json> lines = json_lines(trained({"--steps", "2", "--sample", "5", "--json", "--out", out("a")}));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(many.tokens(lines[0]["sample"].get<std::string>()));
    write("abcdefghij");
    EXPECT_THAT(error_of(train({"--context", "5"})), HasSubstr("10 characters are too few: a context of 5 needs 6 to train on"));
    trained({"--context", "4", "--steps", "2", "--sample", "9", "--out", out("b")});
}

TEST_F(TrainText, SamplesAreHarmlessToATerminal) {
    std::string text;
    for (int i = 0; i < 100; ++i)
        text +=
            "\x1b[2J\a\x7f\xc2\x9b"
            "1m\r\n";
    write(text);
    const std::string shown = trained({"--steps", "10", "--sample", "60", "--out", out("a")});
    const ProcessResult drawn = darner({"sample", "--weights", out("a"), "--length", "60"});
    EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
    for (const std::string& output : {shown, drawn.out}) {
        for (const char c : {'\x1b', '\a', '\x7f', '\r'}) EXPECT_EQ(output.find(c), std::string::npos) << static_cast<int>(c);
        EXPECT_THAT(output, Not(HasSubstr("\xc2\x9b")));
    }
    EXPECT_THAT(shown, HasSubstr("\\x"));
}

TEST_F(TrainText, WhatCannotBeTrainedOnIsRefused) {
    const auto refused = [&](const Words& more) {
        Words words = more;
        words.insert(words.end(), {"--out", out("none")});
        const std::string error = error_of(train(words));
        EXPECT_FALSE(std::filesystem::exists(out("none")));
        return error;
    };
    EXPECT_THAT(refused({"--heads", "3"}), HasSubstr("8 features do not divide into 3 heads of an even size"));
    EXPECT_THAT(refused({"--prompt", "Zebra"}), HasSubstr("\"Z\" (U+005A) does not occur in the text"));
    EXPECT_THAT(refused({"--temperature", "-1"}), HasSubstr("expected a number from 0 on, got \"-1\""));
    EXPECT_THAT(refused({"--context", "4000"}), HasSubstr("hint: take a longer text or a shorter --context"));
    write("");
    EXPECT_THAT(refused({}), HasSubstr(file() + ": [text] 0 characters are too few"));
    write("caf\xe9 au lait");
    EXPECT_THAT(refused({}),
                AllOf(HasSubstr(file() + ": [text] byte 3 (0xe9) is not part of valid UTF-8"), HasSubstr("hint: convert")));
    std::filesystem::remove(file());
    EXPECT_THAT(refused({}), HasSubstr("No such file"));
    EXPECT_THAT(error_of(darner({"train", "text"})), HasSubstr("--data is required"));
}

TEST_F(TrainText, CheckpointsOfOtherTrainingsAreRefused) {
    const std::string path = out("a") + "/checkpoint.safetensors";
    trained({"--steps", "10", "--sample", "0", "--out", out("a")});
    EXPECT_THAT(error_of(train({"--resume", out("a"), "--hidden", "16", "--steps", "20"})),
                AllOf(HasSubstr("the checkpoint is of another training: hidden is 8, got 16"),
                      HasSubstr("hint: leave these options out")));
    EXPECT_THAT(error_of(darner({"train", "fashion-mnist", "--resume", out("a")})),
                HasSubstr("the checkpoint is of text, expected fashion-mnist"));
    EXPECT_THAT(error_of(darner({"eval", "fashion-mnist", "--weights", out("a")})), HasSubstr("of another task"));
    write(made_up_text(5000));
    EXPECT_THAT(error_of(train({"--resume", out("a"), "--steps", "20"})),
                HasSubstr("the data is not that of the checkpoint: got 5000 characters"));
    write(made_up_text(6000));
    Result<Checkpoint> changed = read_checkpoint(path);
    ASSERT_TRUE(changed);
    changed->settings.erase(changed->settings.begin());
    ASSERT_TRUE(write_checkpoint(path, *changed));
    EXPECT_THAT(error_of(train({"--resume", out("a"), "--steps", "20"})),
                HasSubstr("the setting \"batch\" is missing or of the wrong type"));
}

TEST_F(TrainText, ATrainingThatDivergesIsAnError) {
    const ProcessResult result = train({"--lr", "1e30", "--steps", "50", "--out", out("a"), "--json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("error: training diverged by step "), HasSubstr("hint: try a lower --lr")));
}

// --- darner sample ----------------------------------------------------------------------------------------------------

TEST_F(TrainText, SavedNetworksWrite) {
    trained({"--steps", "20", "--sample", "0", "--out", out("a")});
    const auto sample = [&](Words more) {
        more.insert(more.begin(), {"sample", "--json", "--weights"});
        const ProcessResult result = darner(more);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return json_lines(result.out).at(0)["sample"].get<std::string>();
    };
    const std::string first = sample({out("a"), "--prompt", "the pond and the hen sees a fox", "--length", "30"});
    EXPECT_EQ(first.size(), 61u);
    EXPECT_THAT(first, StartsWith("the pond and the hen sees a fox"));
    EXPECT_EQ(sample({out("a") + "/checkpoint.safetensors", "--prompt", "the pond and the hen sees a fox", "--length", "30"}),
              first);
    EXPECT_NE(sample({out("a"), "--prompt", "the pond and the hen sees a fox", "--length", "30", "--seed", "1"}), first);
    // The likeliest characters do not depend on the seed; a longer sample begins like a shorter one.
    const std::string greedy = sample({out("a"), "--temperature", "0", "--length", "30"});
    EXPECT_EQ(sample({out("a"), "--temperature", "0", "--length", "30", "--seed", "9"}), greedy);
    EXPECT_EQ(sample({out("a"), "--temperature", "0", "--length", "10"}), greedy.substr(0, 11));
    EXPECT_EQ(sample({out("a"), "--temperature", "0", "--length", "10", "--device", "interp"}), greedy.substr(0, 11));
}

TEST_F(TrainText, WhatCannotWriteIsRefused) {
    trained({"--steps", "2", "--sample", "0", "--out", out("a")});
    Result<Safetensors> whole = read_safetensors(out("a") + "/model.safetensors");
    ASSERT_TRUE(whole);
    const auto refused = [&](const auto& change) {
        Safetensors changed = *whole;
        change(changed);
        EXPECT_TRUE(write_safetensors(out("bad"), changed));
        return error_of(darner({"sample", "--weights", out("bad")}));
    };
    EXPECT_THAT(refused([](Safetensors& file) { file.metadata.clear(); }),
                HasSubstr("of the network's description is missing or wrong"));
    EXPECT_THAT(refused([](Safetensors& file) { file.tensors.erase("model.norm.weight"); }),
                HasSubstr("model.norm.weight is missing"));
    EXPECT_THAT(refused([](Safetensors& file) { file.tensors["model.norm.weight"] = make_array<float>({1}, {1}); }),
                HasSubstr("model.norm.weight has the wrong type: got f32[1], expected f32[8]"));
    EXPECT_THAT(error_of(darner({"sample", "--weights", out("a"), "--prompt", "Z"})), HasSubstr("does not occur in the text"));
    EXPECT_THAT(error_of(darner({"sample", "--weights", out("gone")})), HasSubstr("No such file"));
    ASSERT_TRUE(make_folder(out("empty")));
    EXPECT_THAT(error_of(darner({"sample", "--weights", out("empty")})),
                HasSubstr("hint: train a model: darner train text --data FILE --out"));
}

}  // namespace
}  // namespace darner::test
