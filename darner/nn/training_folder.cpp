// SPDX-License-Identifier: MIT
// What a training leaves behind.
#include "darner/nn/training_folder.h"

#include "darner/base/files.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace darner {

bool same_folder(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return a == b || std::filesystem::equivalent(a, b, ignored);
}

Result<void> TrainingFolder::prepare() {
    TRY(make_folder(file_.folder()));
    std::error_code ignored;
    if (std::filesystem::is_directory(model_path(), ignored))
        return io_error("cannot write the model: a folder has its name", model_path());
    file_.remove_leftovers();
    return {};
}

Result<void> TrainingFolder::set_aside_unfinished(std::vector<std::string>& notes) {
    TRY(const std::string aside, file_.set_aside_unfinished());
    if (!aside.empty())
        notes.push_back(
            fmt::format("an unfinished training was in {0}; its checkpoint is in {1} now: go on with it by "
                        "--resume {1}",
                        file_.folder(), aside));
    return {};
}

Result<void> TrainingFolder::save(const Checkpoint& run) {
    TRY(file_.write(run));
    saved_ = run.done;
    unit_ = run.unit;
    return {};
}

std::string TrainingFolder::way_on() const {
    if (!saved_) return {};
    const std::string kept = *saved_ == 0   ? fmt::format("no {} was finished", unit_)
                             : *saved_ == 1 ? fmt::format("{} 1 is kept", unit_)
                                            : fmt::format("{}s 1 to {} are kept", unit_, *saved_);
    return fmt::format("{}; go on with: {} --resume {}", kept, command_, file_.folder());
}

Error TrainingFolder::with_way_on(Error error) const {
    if (error.hint.empty()) error.hint = way_on();
    return error;
}

}  // namespace darner
