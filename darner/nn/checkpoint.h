// SPDX-License-Identifier: MIT
// Checkpoints of a training: all state but the data set, and what the training was, in a safetensors file that is replaced in
// one piece after each evaluation. A training that goes on from one computes the same bits as one that never stopped, on the same
// device and driver.
#pragma once

#include "darner/base/result.h"
#include "darner/io/safetensors.h"
#include "darner/nn/settings.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

// What an evaluation during a training found.
struct RoundResult {
    uint32_t done = 0;  // epochs or steps before it
    double train_loss = 0, evaluation = 0;
    bool operator==(const RoundResult&) const = default;
};

struct Checkpoint {
    std::string task;             // "fashion-mnist"
    std::string unit = "epoch";   // what is counted: epochs or steps
    uint32_t done = 0, goal = 0;  // of them
    Settings settings;
    std::string model;                 // what the network is, for who reads its weights; goes into model files
    std::string data, device;          // in words: equal where the data and the device are
    std::vector<RoundResult> history;  // in order
    std::map<std::string, Array> state;
};

// The checkpoint of a folder. checkpoint.safetensors is always a whole one; the one before it stays beside it as
// checkpoint-previous.safetensors, for the case that the disk damages the first.
class CheckpointFile {
public:
    explicit CheckpointFile(std::string folder) : folder_(std::move(folder)) {}

    const std::string& folder() const { return folder_; }
    std::string path() const { return folder_ + "/checkpoint.safetensors"; }
    std::string previous_path() const { return folder_ + "/checkpoint-previous.safetensors"; }

    // The newest whole checkpoint of a training of `task`. Where the newest one is damaged, the one before it, and damage()
    // says what was wrong. Errors say what to do: `command` is what the user trains with.
    Result<Checkpoint> read(const std::string& task, const std::string& command);
    const std::optional<Error>& damage() const { return damage_; }

    // Replaces the checkpoint. What stands there now is kept as the previous one if this object has read or written it; it
    // belongs to another training otherwise, and goes.
    Result<void> write(const Checkpoint& checkpoint);

    // Before a training starts from the beginning: an unfinished one's checkpoints, and any that cannot be read, go to the first
    // free folder of "interrupted", "interrupted-2", ..., which is named then. Empty when there was nothing to keep.
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
// The metadata of a file with weights that says what the network is: Checkpoint::model.
inline constexpr const char* model_key = "darner.model";
// Over the tensors and the JSON of the metadata.
std::string checkpoint_checksum(const std::map<std::string, Array>& tensors, std::string_view training);

// The weights of a model file or of a checkpoint, whose other state is among the tensors. `path` may be a folder with either. The
// error of a folder without them says how `train_command` makes some.
struct SavedWeights {
    std::string file;
    std::string model;  // Checkpoint::model; empty where the file comes from elsewhere
    std::map<std::string, Array> tensors;
    bool is_checkpoint = false;
};
Result<SavedWeights> read_weights(const std::string& path, const std::string& train_command);

// One file, which must be whole.
Result<Checkpoint> read_checkpoint(const std::string& path);
Result<void> write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace darner
