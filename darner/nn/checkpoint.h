// SPDX-License-Identifier: MIT
// Checkpoints of a training: all state but the data set, and what the training was, in a safetensors file that is replaced in
// one piece after each epoch. A training that goes on from one computes the same bits as one that never stopped, on the same
// device and driver.
#pragma once

#include "darner/base/result.h"
#include "darner/io/safetensors.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

// What decides the bits of a training, beside its data and its device.
struct TrainingSettings {
    uint32_t epochs = 5;
    uint32_t batch = 64;
    std::string optimizer = "adam";  // sgd, adam or adamw; sgd has a momentum of 0.9
    double learning_rate = 1e-3;
    uint64_t seed = 0;
    std::vector<int64_t> hidden = {256};  // outputs of each hidden layer
};

// The same as a user gives them: what is left out is the default's, or the checkpoint's where a training goes on.
struct TrainingChoices {
    std::optional<uint32_t> epochs = {}, batch = {};
    std::optional<std::string> optimizer = {};
    std::optional<double> learning_rate = {};
    std::optional<uint64_t> seed = {};
    std::optional<std::vector<int64_t>> hidden = {};
};

TrainingSettings settings_of(const TrainingChoices& choices, TrainingSettings defaults = {});

struct EpochResult {
    double train_loss = 0, test_accuracy = 0;
    bool operator==(const EpochResult&) const = default;
};

struct Checkpoint {
    std::string task;  // "fashion-mnist"
    TrainingSettings settings;
    std::string data, device;          // in words: equal where the data and the device are
    std::vector<EpochResult> history;  // of the epochs that are done
    std::map<std::string, Array> state;

    auto epochs_done() const { return static_cast<uint32_t>(history.size()); }
};

// Settings of a training that goes on: all choices but the number of epochs must be the checkpoint's; the error lists those
// that are not.
Result<TrainingSettings> resumed_settings(const Checkpoint& checkpoint, const TrainingChoices& choices);

// The checkpoint of a folder. checkpoint.safetensors is always a whole one; the one of the epoch before stays beside it as
// checkpoint-previous.safetensors, for the case that the disk damages the first.
class CheckpointFile {
public:
    explicit CheckpointFile(std::string folder) : folder_(std::move(folder)) {}

    const std::string& folder() const { return folder_; }
    std::string path() const { return folder_ + "/checkpoint.safetensors"; }
    std::string previous_path() const { return folder_ + "/checkpoint-previous.safetensors"; }

    // The newest whole checkpoint of a training of `task`. Where the newest one is damaged, the one before it, and damage()
    // says what was wrong. Errors say what to do.
    Result<Checkpoint> read(const std::string& task);
    const std::optional<Error>& damage() const { return damage_; }

    // Replaces the checkpoint. What stands there now is kept as the previous one if this object has read or written it; it
    // belongs to another training otherwise, and goes.
    Result<void> write(const Checkpoint& checkpoint);

    // Before a training starts from the beginning: an unfinished one's checkpoint that holds an epoch or more goes to the
    // folder "interrupted", which is named then. Empty when there was nothing to keep.
    Result<std::string> set_aside_unfinished();

    // What writers that were killed left behind.
    void remove_leftovers() const;

private:
    std::string folder_;
    bool is_ours_ = false;  // the file at path() is whole and of this training
    std::optional<Error> damage_;
};

// Whether the file says that it is a checkpoint; what it holds then. `path` names it in errors.
bool is_checkpoint(const Safetensors& file);
Result<Checkpoint> checkpoint_of(Safetensors file, const std::string& path);
// Over the tensors and the JSON of the metadata.
std::string checkpoint_checksum(const std::map<std::string, Array>& tensors, std::string_view training);

// One file, which must be whole.
Result<Checkpoint> read_checkpoint(const std::string& path);
Result<void> write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace darner
