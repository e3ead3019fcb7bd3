// SPDX-License-Identifier: MIT
// The folder that a training writes: its checkpoint and its model, and what stands in it in words.
#pragma once

#include "darner/nn/checkpoint.h"

#include <optional>
#include <string>
#include <vector>

namespace darner {

class TrainingFolder {
public:
    // `file` of the resumed folder goes on to be written; of another folder it has only the name. "" is no folder.
    TrainingFolder(CheckpointFile file, std::string command) : file_(std::move(file)), command_(std::move(command)) {}

    bool wanted() const { return !file_.folder().empty(); }
    std::string model_path() const { return file_.folder() + "/model.safetensors"; }

    // A folder that cannot be written is found before the training, not after it.
    Result<void> prepare();
    // Another training's unfinished work is kept, and `notes` say where. Before the first save of a training that was not resumed
    // here.
    Result<void> set_aside_unfinished(std::vector<std::string>& notes);

    Result<void> save(const Checkpoint& run);

    // "epochs 1 to 3 are kept; go on with: …", or nothing.
    std::string way_on() const;
    Error with_way_on(Error error) const;

private:
    CheckpointFile file_;
    std::string command_, unit_;
    std::optional<uint32_t> saved_;  // the units of the checkpoint that this run has written
};

bool same_folder(const std::string& a, const std::string& b);

}  // namespace darner
