// SPDX-License-Identifier: MIT
// Trainings that stop and go on, through the command: the same bits as one run, whatever stops it and whenever; what is said
// of damaged, missing and unfit checkpoints; and that evaluation finds what training said. On a small made-up data set.
#include "darner/nn/checkpoint.h"
#include "darner/base/files.h"
#include "tests/small_images.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

namespace darner::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* darner_path = DARNER_BINARY_DIR "/bin/darner";

std::string bytes_of_file(const std::string& path) {
    Result<std::string> bytes = read_text_file(path);
    EXPECT_TRUE(bytes) << path;
    return bytes ? *bytes : std::string();
}

class Checkpoints : public testing::Test {
protected:
    void SetUp() override { write_small_images(data_.path()); }

    using Words = std::vector<std::string>;
    Words words(const char* command, const Words& more) const {
        Words all{darner_path, command, "fashion-mnist", "--data", data_.path()};
        all.insert(all.end(), more.begin(), more.end());
        if (std::find(all.begin(), all.end(), "--device") == all.end()) all.insert(all.end(), {"--device", "vulkan"});
        return all;
    }
    ProcessResult train(const Words& more, const OnOutput& on_output = {}) const {
        return run_process(words("train", more), {}, on_output);
    }
    ProcessResult eval(const Words& more) const { return run_process(words("eval", more)); }

    // Trains and must succeed; stdout.
    std::string trained(const Words& more) const {
        const ProcessResult result = train(more);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.out;
    }
    std::string out(const std::string& name) const { return out_.file(name); }
    std::string checkpoint(const std::string& name) const { return out(name) + "/checkpoint.safetensors"; }
    std::string model(const std::string& name) const { return out(name) + "/model.safetensors"; }
    void expect_same_result(const std::string& a, const std::string& b) const {
        EXPECT_EQ(bytes_of_file(model(a)), bytes_of_file(model(b))) << a << " " << b;
        EXPECT_EQ(bytes_of_file(checkpoint(a)), bytes_of_file(checkpoint(b))) << a << " " << b;
    }

    TemporaryFolder data_, out_;
};

size_t lines_in(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

// --- the same bits --------------------------------------------------------------------------------------------------------

TEST_F(Checkpoints, ResumedTrainingsHaveTheBitsOfOneRun) {
    const std::vector<std::pair<const char*, const char*>> cases{
        {"sgd", "vulkan"}, {"adam", "vulkan"}, {"adamw", "vulkan"}, {"adam", "interp"}};
    for (const auto& [optimizer, device] : cases) {
        SCOPED_TRACE(std::string(optimizer) + " on " + device);
        const std::string name = std::string(optimizer) + device;
        const Words options{"--batch", "16", "--optimizer", optimizer, "--device", device,
                            "--seed",  "5",  "--hidden",    "12,7",    "--json"};
        const auto with = [&](Words more) {
            more.insert(more.end(), options.begin(), options.end());
            return more;
        };
        const std::vector<Json> straight = json_lines(trained(with({"--epochs", "3", "--out", out(name)})));
        std::vector<Json> parts = json_lines(trained(with({"--epochs", "1", "--out", out(name + "r")})));
        const std::string resumed = trained({"--epochs", "3", "--resume", out(name + "r"), "--device", device, "--json"});
        for (const Json& line : json_lines(resumed)) parts.push_back(line);
        expect_same_result(name, name + "r");
        ASSERT_EQ(straight.size(), 3u);
        ASSERT_EQ(parts.size(), 3u);
        for (size_t i = 0; i < 3; ++i)
            for (const char* field : {"epoch", "train_loss", "test_accuracy"}) EXPECT_EQ(parts[i][field], straight[i][field]);
        const Result<Checkpoint> file = read_checkpoint(checkpoint(name));
        ASSERT_TRUE(file);
        EXPECT_EQ(to_text(file->settings),
                  "model mlp, hidden 12,7, batch 16, optimizer " + std::string(optimizer) + ", lr 0.001, seed 5, train-images 0");
        ASSERT_EQ(file->done, 3u);
        EXPECT_EQ(file->history[2].train_loss, straight[2]["train_loss"].get<double>());
    }
}

TEST_F(Checkpoints, AnotherFolderTakesTheRest) {
    trained({"--epochs", "2", "--batch", "16", "--out", out("whole")});
    trained({"--epochs", "1", "--batch", "16", "--out", out("start")});
    const std::string start = bytes_of_file(checkpoint("start"));
    trained({"--epochs", "2", "--resume", out("start"), "--out", out("end")});
    expect_same_result("whole", "end");
    EXPECT_EQ(bytes_of_file(checkpoint("start")), start);
}

TEST_F(Checkpoints, AnotherDeviceGoesOnAndSaysThatTheBitsDiffer) {
    trained({"--epochs", "1", "--batch", "16", "--hidden", "8", "--out", out("a")});
    const std::string device = read_checkpoint(checkpoint("a"))->device;
    const ProcessResult result = train({"--epochs", "2", "--resume", out("a"), "--device", "interp"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("note: the checkpoint was made on " + device + ": the bits will not be those of one run"));
}

TEST_F(Checkpoints, ACompleteTrainingSaysSo) {
    trained({"--epochs", "2", "--batch", "16", "--out", out("a")});
    const std::string before = bytes_of_file(model("a"));
    fs::remove(model("a"));  // a run killed between its last checkpoint and its model
    for (const Words& more : {Words{"--resume", out("a")}, Words{"--resume", out("a"), "--epochs", "1"}}) {
        const ProcessResult result = train(more);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.out, HasSubstr("all 2 are done"));
        EXPECT_THAT(result.out, Not(HasSubstr("train loss")));
        EXPECT_EQ(bytes_of_file(model("a")), before);
    }
    EXPECT_EQ(read_checkpoint(checkpoint("a"))->goal, 2u);
}

// --- killed ---------------------------------------------------------------------------------------------------------------

// Each run is killed some time after it began or after it finished an epoch, up to about an epoch later: in the start, in
// steps, in an evaluation, while a checkpoint is written.
TEST_F(Checkpoints, KilledAtAnyMomentATrainingLosesAtMostTheEpochInProgress) {
    constexpr uint32_t epochs = 40;
    trained({"--epochs", std::to_string(epochs), "--batch", "16", "--out", out("whole")});
    std::mt19937 random(7);
    size_t kills = 0, told = 0;
    uint32_t done = 0;
    ProcessResult result = train({"--epochs", std::to_string(epochs), "--batch", "16", "--out", out("a")},
                                 [&](pid_t process, const ProcessResult&) { kill(process, SIGKILL); });
    ASSERT_EQ(result.exit_code, 128 + SIGKILL);
    for (int attempt = 0; attempt < 200 && result.exit_code != 0; ++attempt) {
        const size_t printed_epochs = random() % 4;
        const auto delay = std::chrono::microseconds(random() % 30'000);
        bool killed = false;
        const OnOutput killer = [&](pid_t process, const ProcessResult& so_far) {
            const bool now =
                printed_epochs == 0 ? so_far.err.find("going on") != std::string::npos : lines_in(so_far.out) >= printed_epochs;
            if (killed || !now || kills >= 14) return;
            std::this_thread::sleep_for(delay);
            killed = kill(process, SIGKILL) == 0;
        };
        result = train({"--resume", out("a"), "--json"}, killer);
        kills += result.exit_code == 128 + SIGKILL;
        told += result.err.find("going on from") != std::string::npos;
        for (const Json& line : json_lines(result.out.substr(0, result.out.rfind('\n') + 1)))
            EXPECT_EQ(line["epoch"], ++done) << "an epoch that was printed was lost, or one was done twice";
        const Result<Checkpoint> kept = read_checkpoint(checkpoint("a"));  // whole at any moment
        ASSERT_TRUE(kept) << kept.error().text();
        // What was printed is kept; killed between writing and printing, a run has kept one more.
        EXPECT_GE(kept->done, done);
        EXPECT_LE(kept->done, done + 1);
        done = kept->done;
    }
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GE(kills, 10u);
    EXPECT_GE(told, kills);
    expect_same_result("whole", "a");
    for (const auto& entry : fs::directory_iterator(out("a")))
        EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp"))) << "a killed run's file is left";
}

TEST_F(Checkpoints, LeftoversOfKilledRunsGoAndOtherFilesStay) {
    trained({"--epochs", "1", "--batch", "16", "--out", out("a")});
    const std::vector<std::string> ours{"checkpoint.safetensors.4-0.tmp", "model.safetensors.99999999-12.tmp"};
    const std::vector<std::string> others{"checkpoint.safetensors.tmp", "checkpoint.safetensors.4-x.tmp", "notes.4-0.tmp"};
    for (const auto* names : {&ours, &others})
        for (const std::string& name : *names) ASSERT_TRUE(write_text_file(out("a") + "/" + name, "x"));
    trained({"--epochs", "2", "--resume", out("a")});
    for (const std::string& name : ours) EXPECT_FALSE(fs::exists(out("a") + "/" + name)) << name;
    for (const std::string& name : others) EXPECT_TRUE(fs::exists(out("a") + "/" + name)) << name;
}

TEST_F(Checkpoints, CtrlCSaysWhatIsKeptAndHowToGoOn) {
    trained({"--epochs", "60", "--batch", "16", "--out", out("whole")});
    // A shell starts background jobs with the signal ignored, and what ignores it at its start goes on ignoring it.
    const auto before = std::signal(SIGINT, SIG_DFL);
    bool sent = false;
    const OnOutput interrupt = [&](pid_t process, const ProcessResult& so_far) {
        if (sent || lines_in(so_far.out) < 4) return;  // two epochs behind the two lines of the start
        sent = kill(process, SIGINT) == 0;
    };
    const ProcessResult result = train({"--epochs", "60", "--batch", "16", "--out", out("a")}, interrupt);
    std::signal(SIGINT, before);
    EXPECT_EQ(result.exit_code, 130);
    const uint32_t kept = read_checkpoint(checkpoint("a"))->done;
    EXPECT_GE(kept, 2u);
    EXPECT_LT(kept, 60u);
    EXPECT_THAT(result.err, HasSubstr("note: stopped by Ctrl-C: epochs 1 to " + std::to_string(kept) +
                                      " are kept; go on with: darner train fashion-mnist --resume " + out("a") + "\n"));
    EXPECT_FALSE(fs::exists(model("a")));
    trained({"--resume", out("a")});
    expect_same_result("whole", "a");
}

// --- disks ----------------------------------------------------------------------------------------------------------------

// From the second epoch on no file may grow: what a full disk does to a write, at a moment of the test's choice.
TEST_F(Checkpoints, AFullDiskLosesAtMostTheEpochInProgress) {
    trained({"--epochs", "60", "--batch", "16", "--out", out("whole")});
    const auto before = std::signal(SIGXFSZ, SIG_IGN);  // the process inherits it: its writes fail instead
    const OnOutput fill = [&](pid_t process, const ProcessResult& so_far) {
        const rlimit limit{20'000, 20'000};
        if (lines_in(so_far.out) >= 2) EXPECT_EQ(prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
    };
    const ProcessResult result = train({"--epochs", "60", "--batch", "16", "--out", out("a"), "--json"}, fill);
    std::signal(SIGXFSZ, before);
    EXPECT_EQ(result.exit_code, 1);
    const size_t printed = lines_in(result.out);
    ASSERT_GE(printed, 2u);
    ASSERT_LT(printed, 60u);
    EXPECT_THAT(result.err, AllOf(StartsWith("error: " + checkpoint("a") + ": cannot write the file: File too large\n"),
                                  HasSubstr("hint: epochs 1 to " + std::to_string(printed) +
                                            " are kept; go on with: darner "
                                            "train fashion-mnist --resume " +
                                            out("a"))));
    EXPECT_EQ(read_checkpoint(checkpoint("a"))->done, printed);
    for (const auto& entry : fs::directory_iterator(out("a")))
        EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp")));
    trained({"--resume", out("a")});
    expect_same_result("whole", "a");
}

TEST_F(Checkpoints, ADamagedFileLosesOneEpochAndSaysSo) {
    trained({"--epochs", "3", "--batch", "16", "--out", out("whole")});
    trained({"--epochs", "2", "--batch", "16", "--out", out("a")});
    const std::string whole = bytes_of_file(checkpoint("a"));
    std::string flipped = whole, zeroed = whole;
    flipped[whole.size() / 2] ^= 1;
    std::fill(zeroed.end() - 4096, zeroed.end(), '\0');  // blocks that never reached the disk
    for (const std::string& damaged :
         {std::string(), whole.substr(0, 5), whole.substr(0, 200), whole.substr(0, whole.size() - 1), flipped, zeroed}) {
        fs::remove_all(out("b"));
        fs::copy(out("a"), out("b"));
        ASSERT_TRUE(write_text_file(checkpoint("b"), damaged));
        const ProcessResult result = train({"--epochs", "3", "--resume", out("b"), "--json"});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.err, HasSubstr("note: " + checkpoint("b") + " is damaged"));
        EXPECT_THAT(result.err, HasSubstr("1 of 3 epochs are done, epoch 2 is next"));
        EXPECT_EQ(lines_in(result.out), 2u);
        expect_same_result("whole", "b");
    }
    // Nothing whole is left.
    for (const char* name : {"/checkpoint.safetensors", "/checkpoint-previous.safetensors"})
        ASSERT_TRUE(write_text_file(out("a") + name, whole.substr(0, 200)));
    const std::string error = error_of(train({"--resume", out("a")}));
    EXPECT_THAT(error, HasSubstr(checkpoint("a") + ": [safetensors]"));
    EXPECT_THAT(error,
                HasSubstr("hint: the checkpoint is lost and no earlier one is whole; train anew: darner train fashion-mnist"));
}

// --- refusals -------------------------------------------------------------------------------------------------------------

TEST_F(Checkpoints, OptionsThatContradictAreRefused) {
    trained({"--epochs", "1", "--batch", "16", "--out", out("a")});
    const std::string before = bytes_of_file(checkpoint("a"));
    const auto refused = [&](Words more) {
        more.insert(more.end(), {"--epochs", "2", "--resume", out("a")});
        const std::string error = error_of(train(more));
        EXPECT_THAT(error, HasSubstr("hint: leave these options out"));
        return error;
    };
    EXPECT_THAT(refused({"--batch", "8"}), HasSubstr("the checkpoint is of another training: batch is 16, got 8\n"));
    EXPECT_THAT(refused({"--optimizer", "sgd"}), HasSubstr(": optimizer is adam, got sgd\n"));
    EXPECT_THAT(refused({"--lr", "0.5"}), HasSubstr(": lr is 0.001, got 0.5\n"));
    EXPECT_THAT(refused({"--seed", "1"}), HasSubstr(": seed is 0, got 1\n"));
    EXPECT_THAT(refused({"--hidden", "8,4"}), HasSubstr(": hidden is 256, got 8,4\n"));
    EXPECT_THAT(refused({"--seed", "1", "--batch", "8"}), HasSubstr("batch is 16, got 8; seed is 0, got 1\n"));
    const TemporaryFolder other;
    write_small_images(other.path(), 9);
    const ProcessResult elsewhere =
        run_process({darner_path, "train", "fashion-mnist", "--data", other.path(), "--epochs", "2", "--resume", out("a")});
    EXPECT_THAT(error_of(elsewhere), HasSubstr("the data is not that of the checkpoint: got 150 training and 35 test images"));
    EXPECT_EQ(bytes_of_file(checkpoint("a")), before);
    trained({"--epochs", "2", "--resume", out("a"), "--batch", "16", "--optimizer", "adam", "--lr", "1e-3", "--seed", "0"});
}

TEST_F(Checkpoints, WhatIsNoCheckpointIsRefused) {
    const auto refused = [&](const std::string& name) { return error_of(train({"--resume", out(name)})); };
    EXPECT_THAT(refused("none"), AllOf(HasSubstr("there is no checkpoint"), HasSubstr("hint: start a training that writes one")));
    EXPECT_THAT(error_of(train({"--resume", ""})), HasSubstr("expected the name of a folder"));
    trained({"--epochs", "1", "--batch", "16", "--out", out("a")});
    const std::string whole = bytes_of_file(checkpoint("a"));
    const auto write = [&](const std::string& bytes) { ASSERT_TRUE(write_text_file(checkpoint("a"), bytes)); };
    write(bytes_of_file(model("a")));
    EXPECT_THAT(refused("a"), HasSubstr("a safetensors file, but not a checkpoint of darner's"));
    std::string newer = whole;
    newer.replace(newer.find("\"darner.checkpoint\":\"2\""), 23, "\"darner.checkpoint\":\"7\"");
    write(newer);
    EXPECT_THAT(refused("a"),
                AllOf(HasSubstr("its format is 7, this darner reads format 2"), HasSubstr("hint: use the darner that wrote it")));
    write(whole);
    Result<Checkpoint> other = read_checkpoint(checkpoint("a"));
    ASSERT_TRUE(other);
    other->task = "chess";
    ASSERT_TRUE(write_checkpoint(checkpoint("a"), *other));
    EXPECT_THAT(refused("a"), HasSubstr("the checkpoint is of chess, expected fashion-mnist"));
    other->task = "fashion-mnist";
    other->state.erase("0.bias");
    ASSERT_TRUE(write_checkpoint(checkpoint("a"), *other));
    EXPECT_THAT(refused("a"), HasSubstr("does not fit this network: 0.bias is missing"));
    other->state["0.bias"] = make_array<float>({3}, {1, 2, 3});
    ASSERT_TRUE(write_checkpoint(checkpoint("a"), *other));
    EXPECT_THAT(refused("a"), HasSubstr("0.bias has the wrong type: got f32[3], expected f32[256]"));
}

TEST_F(Checkpoints, ANewTrainingKeepsAnUnfinishedOnesWork) {
    trained({"--epochs", "3", "--batch", "16", "--out", out("whole")});
    const OnOutput interrupt = [&](pid_t process, const ProcessResult& so_far) {
        if (lines_in(so_far.out) == 1) kill(process, SIGKILL);
    };
    ASSERT_EQ(train({"--epochs", "3", "--batch", "16", "--out", out("a"), "--json"}, interrupt).exit_code, 128 + SIGKILL);
    const ProcessResult second = train({"--epochs", "1", "--batch", "10", "--out", out("a")});
    EXPECT_EQ(second.exit_code, 0) << second.err;
    if (fs::exists(out("a") + "/interrupted")) {  // unless the kill came too late
        EXPECT_THAT(second.err, HasSubstr("go on with it by --resume " + out("a") + "/interrupted"));
        trained({"--resume", out("a") + "/interrupted"});
        expect_same_result("whole", "a/interrupted");
    }
    EXPECT_EQ(read_checkpoint(checkpoint("a"))->settings[2], (std::pair<std::string, Setting>("batch", uint64_t{10})));
}

// --- evaluation -----------------------------------------------------------------------------------------------------------

TEST_F(Checkpoints, EvaluationFindsWhatTrainingSaid) {
    const std::vector<Json> epochs =
        json_lines(trained({"--epochs", "4", "--batch", "16", "--hidden", "20,9", "--out", out("a"), "--json"}));
    ASSERT_EQ(epochs.size(), 4u);
    const auto evaluated = [&](const std::string& weights) {
        const ProcessResult result = eval({"--weights", weights, "--json"});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return json_lines(result.out).at(0);
    };
    const Json of_folder = evaluated(out("a"));
    EXPECT_EQ(of_folder["weights"], model("a"));
    EXPECT_EQ(of_folder["accuracy"], epochs[3]["test_accuracy"]);
    EXPECT_EQ(of_folder["layers"], Json({100, 20, 9, 10}));
    EXPECT_EQ(of_folder["images"], small_test_images);
    uint32_t images = 0, correct = 0;
    for (const Json& one : of_folder["classes"])
        images += one["images"].get<uint32_t>(), correct += one["correct"].get<uint32_t>();
    EXPECT_EQ(images, small_test_images);
    EXPECT_DOUBLE_EQ(correct / 35.0, of_folder["accuracy"].get<double>());
    const Json of_checkpoint = evaluated(checkpoint("a"));
    EXPECT_EQ(of_checkpoint["mean_loss"], of_folder["mean_loss"]);
    EXPECT_EQ(evaluated(out("a") + "/checkpoint-previous.safetensors")["accuracy"], epochs[2]["test_accuracy"]);
    fs::remove(model("a"));
    EXPECT_EQ(evaluated(out("a"))["weights"], checkpoint("a"));
    const ProcessResult interp = eval({"--weights", out("a"), "--device", "interp", "--json"});
    EXPECT_NEAR(json_lines(interp.out).at(0)["mean_loss"].get<double>(), of_folder["mean_loss"].get<double>(), 1e-5);
    const ProcessResult text = eval({"--weights", out("a")});
    EXPECT_THAT(text.out, AllOf(HasSubstr(": mlp, layers 100-20-9-10, 35 test images"), HasSubstr("test accuracy "),
                                HasSubstr("9  Ankle boot")));
}

TEST_F(Checkpoints, EvaluationRefusesWhatDoesNotFit) {
    trained({"--epochs", "1", "--batch", "16", "--hidden", "8", "--out", out("a")});
    Result<Safetensors> whole = read_safetensors(model("a"));
    ASSERT_TRUE(whole);
    const auto refused = [&](const auto& change) {
        Safetensors changed = *whole;
        change(changed.tensors);
        EXPECT_TRUE(write_safetensors(out("bad"), changed));
        return error_of(eval({"--weights", out("bad")}));
    };
    EXPECT_THAT(refused([](auto& t) { t.erase("0.bias"); }), HasSubstr("0.bias is missing"));
    EXPECT_THAT(refused([](auto& t) { t["fc.weight"] = t["0.bias"]; }), HasSubstr("fc.weight is unknown"));
    EXPECT_THAT(refused([](auto& t) {
                    t["2.weight"] = make_array<float>({10, 1}, std::vector<float>(10));
                }),
                HasSubstr("2.weight is f32[10,1], but the layer before it has 8 outputs"));
    EXPECT_THAT(refused([](auto& t) { t.clear(); }), HasSubstr("0.weight is missing"));
    EXPECT_THAT(refused([](auto& t) {
                    t["2.weight"] = make_array<float>({4, 8}, std::vector<float>(32));
                    t["2.bias"] = make_array<float>({4}, std::vector<float>(4));
                }),
                HasSubstr("the network tells 4 classes apart, the images have 10"));
    EXPECT_THAT(refused([](auto& t) {
                    t["0.weight"] = make_array<float>({8, 5}, std::vector<float>(40));
                }),
                HasSubstr("the network takes 5 inputs, the images have 100 pixels"));
    EXPECT_THAT(refused([](auto& t) { t["0.bias"] = make_array<float>({8}, std::vector<float>(8, NAN)); }),
                HasSubstr("not finite"));
    ASSERT_TRUE(write_text_file(out("bad"), "no tensors"));
    EXPECT_THAT(error_of(eval({"--weights", out("bad")})), HasSubstr("[safetensors]"));
    EXPECT_THAT(error_of(eval({"--weights", out("none")})), HasSubstr("No such file"));
    ASSERT_TRUE(make_folder(out("empty")));
    EXPECT_THAT(error_of(eval({"--weights", out("empty")})), HasSubstr("hint: train a model: darner train fashion-mnist --out"));
    EXPECT_THAT(error_of(eval({})), HasSubstr("--weights is required"));
}

// --- memory ---------------------------------------------------------------------------------------------------------------

// Resident bytes of the process, the device's among them: Mesa's CPU driver keeps them in host memory.
size_t resident_bytes(pid_t process) {
    std::istringstream in(bytes_of_file("/proc/" + std::to_string(process) + "/statm"));
    size_t total = 0, resident = 0;
    in >> total >> resident;
    return resident * 4096;
}

TEST_F(Checkpoints, MemoryDoesNotGrowWithTheEpochs) {
    size_t early = 0, late = 0;
    const OnOutput measure = [&](pid_t process, const ProcessResult& so_far) {
        const size_t epochs = lines_in(so_far.out);
        if (epochs >= 10 && early == 0) early = resident_bytes(process);
        if (epochs < 400) late = resident_bytes(process);
    };
    const ProcessResult result =
        train({"--epochs", "400", "--batch", "16", "--hidden", "16", "--out", out("a"), "--json"}, measure);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GT(early, size_t{1} << 20);
    EXPECT_LT(late, early + (size_t{4} << 20)) << "early " << early << ", late " << late;
}

}  // namespace
}  // namespace darner::test
