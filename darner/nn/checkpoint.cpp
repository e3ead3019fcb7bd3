// SPDX-License-Identifier: MIT
// Checkpoints as safetensors: the state under its own names, the rest as JSON in the metadata, with a checksum over both. A file
// that is cut off, or whose blocks never reached the disk, is told from a whole one; times of day and speeds are not in it,
// so equal trainings have equal files.
#include "darner/nn/checkpoint.h"

#include "darner/base/files.h"
#include "darner/base/hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <system_error>

namespace darner {
namespace {

using nlohmann::ordered_json;

constexpr const char* version_key = "darner.checkpoint";
constexpr const char* training_key = "darner.training";
constexpr const char* checksum_key = "darner.checksum";
constexpr const char* version = "1";

ordered_json to_json(const Checkpoint& checkpoint) {
    const TrainingSettings& settings = checkpoint.settings;
    ordered_json history = ordered_json::array();
    for (const EpochResult& epoch : checkpoint.history)
        history.push_back({{"train_loss", epoch.train_loss}, {"test_accuracy", epoch.test_accuracy}});
    return {{"task", checkpoint.task},
            {"epochs", settings.epochs},
            {"batch", settings.batch},
            {"optimizer", settings.optimizer},
            {"learning_rate", settings.learning_rate},
            {"seed", settings.seed},
            {"hidden", settings.hidden},
            {"data", checkpoint.data},
            {"device", checkpoint.device},
            {"history", std::move(history)}};
}

// Fields of a JSON object by type. The first that is missing or of another type is kept.
class Fields {
public:
    explicit Fields(const ordered_json& object) : object_(object) {}

    void get(const char* name, std::string& into) {
        if (const ordered_json* value = find(name, &ordered_json::is_string)) into = value->get<std::string>();
    }
    void get(const char* name, double& into) {
        if (const ordered_json* value = find(name, &ordered_json::is_number)) into = value->get<double>();
    }
    void get(const char* name, uint64_t& into) {
        if (const ordered_json* value = find(name, &ordered_json::is_number_unsigned)) into = value->get<uint64_t>();
    }
    void get(const char* name, uint32_t& into) {
        uint64_t wide = 0;
        get(name, wide);
        if (wide > UINT32_MAX) wrong_ = name;
        into = static_cast<uint32_t>(wide);
    }
    void get(const char* name, std::vector<int64_t>& into) {
        into.clear();
        for (const ordered_json& value : list(name)) {
            if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
                wrong_ = name;
            else
                into.push_back(value.get<int64_t>());
        }
    }
    const ordered_json& list(const char* name) {
        static const ordered_json none = ordered_json::array();
        const ordered_json* value = find(name, &ordered_json::is_array);
        return value != nullptr ? *value : none;
    }
    const std::string& wrong() const { return wrong_; }

private:
    const ordered_json* find(const char* name, bool (ordered_json::*has_type)() const noexcept) {
        const auto found = object_.find(name);
        if (found != object_.end() && ((*found).*has_type)()) return &*found;
        wrong_ = name;
        return nullptr;
    }
    const ordered_json& object_;
    std::string wrong_;
};

Result<Checkpoint> from_json(const std::string& text, const std::string& path) {
    const auto wrong = [&](std::string_view field) {
        return invalid(fmt::format("[checkpoint] \"{}\" of the metadata is missing or of the wrong type", field), path);
    };
    const ordered_json object = ordered_json::parse(text, nullptr, false);
    if (!object.is_object()) return wrong(training_key);
    Checkpoint checkpoint;
    TrainingSettings& settings = checkpoint.settings;
    Fields fields(object);
    fields.get("task", checkpoint.task);
    fields.get("epochs", settings.epochs);
    fields.get("batch", settings.batch);
    fields.get("optimizer", settings.optimizer);
    fields.get("learning_rate", settings.learning_rate);
    fields.get("seed", settings.seed);
    fields.get("hidden", settings.hidden);
    fields.get("data", checkpoint.data);
    fields.get("device", checkpoint.device);
    for (const ordered_json& epoch : fields.list("history")) {
        if (!epoch.is_object()) return wrong("history");
        Fields result(epoch);
        EpochResult& into = checkpoint.history.emplace_back();
        result.get("train_loss", into.train_loss);
        result.get("test_accuracy", into.test_accuracy);
        if (!result.wrong().empty()) return wrong("history." + result.wrong());
    }
    if (!fields.wrong().empty()) return wrong(fields.wrong());
    return checkpoint;
}

std::string text_of(const std::map<std::string, std::string>& metadata, const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
}

bool exists(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Error with_hint(Error error, std::string hint) {
    error.hint = std::move(hint);
    return error;
}

// A second name for the file, or a copy where the file system has no such names.
Result<void> keep_as(const std::string& path, const std::string& kept) {
    std::error_code failure;
    std::filesystem::remove(kept, failure);
    std::filesystem::create_hard_link(path, kept, failure);
    if (failure) std::filesystem::copy_file(path, kept, failure);
    if (failure) return io_error(fmt::format("cannot keep the previous checkpoint: {}", failure.message()), kept);
    return {};
}

}  // namespace

TrainingSettings settings_of(const TrainingChoices& choices, TrainingSettings defaults) {
    return {.epochs = choices.epochs.value_or(defaults.epochs),
            .batch = choices.batch.value_or(defaults.batch),
            .optimizer = choices.optimizer.value_or(defaults.optimizer),
            .learning_rate = choices.learning_rate.value_or(defaults.learning_rate),
            .seed = choices.seed.value_or(defaults.seed),
            .hidden = choices.hidden.value_or(defaults.hidden)};
}

Result<TrainingSettings> resumed_settings(const Checkpoint& checkpoint, const TrainingChoices& choices) {
    const TrainingSettings& old = checkpoint.settings;
    const TrainingSettings wanted = settings_of(choices, old);
    std::vector<std::string> differences;
    const auto compare = [&](const char* name, const auto& in_checkpoint, const auto& got) {
        if (in_checkpoint != got) differences.push_back(fmt::format("{} is {}, got {}", name, in_checkpoint, got));
    };
    compare("batch", old.batch, wanted.batch);
    compare("optimizer", old.optimizer, wanted.optimizer);
    compare("lr", old.learning_rate, wanted.learning_rate);
    compare("seed", old.seed, wanted.seed);
    compare("hidden", fmt::format("{}", fmt::join(old.hidden, ",")), fmt::format("{}", fmt::join(wanted.hidden, ",")));
    if (differences.empty()) return wanted;
    return with_hint(invalid(fmt::format("[resume] the checkpoint is of another training: {}", fmt::join(differences, "; "))),
                     "leave these options out to go on with the checkpoint's, or train anew without --resume");
}

std::string checkpoint_checksum(const std::map<std::string, Array>& tensors, std::string_view training) {
    Hasher hasher;
    hasher.add(training);
    for (const auto& [name, array] : tensors) {
        hasher.add(std::string_view(name));
        hasher.add(std::string_view(type_text(array)));
        hasher.add(std::string_view(reinterpret_cast<const char*>(array.data.data()), array.data.size()));
    }
    return fmt::format("{:016x}", hasher.value());
}

bool is_checkpoint(const Safetensors& file) { return file.metadata.contains(version_key); }

Result<Checkpoint> checkpoint_of(Safetensors file, const std::string& path) {
    if (!is_checkpoint(file)) return unsupported("[checkpoint] a safetensors file, but not a checkpoint of darner's", path);
    if (const std::string written = text_of(file.metadata, version_key); written != version)
        return unsupported(fmt::format("[checkpoint] its format is {}, this darner reads format {}", written, version), path);
    const std::string training = text_of(file.metadata, training_key);
    if (text_of(file.metadata, checksum_key) != checkpoint_checksum(file.tensors, training))
        return invalid("[checkpoint] the checksum is wrong: the file was changed or not written to its end", path);
    TRY(Checkpoint checkpoint, from_json(training, path));
    checkpoint.state = std::move(file.tensors);
    return checkpoint;
}

Result<Checkpoint> read_checkpoint(const std::string& path) {
    TRY(Safetensors file, read_safetensors(path));
    return checkpoint_of(std::move(file), path);
}

Result<void> write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
    Safetensors file;
    file.tensors = checkpoint.state;
    const std::string training = to_json(checkpoint).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    file.metadata = {{"format", "pt"},
                     {version_key, version},
                     {training_key, training},
                     {checksum_key, checkpoint_checksum(file.tensors, training)}};
    return write_safetensors(path, file);
}

Result<Checkpoint> CheckpointFile::read(const std::string& task) {
    if (!exists(path()) && !exists(previous_path()))
        return with_hint(io_error("[resume] there is no checkpoint: the file does not exist", path()),
                         fmt::format("start a training that writes one: darner train {} --out {}", task, folder_));
    Result<Checkpoint> found = read_checkpoint(path());
    is_ours_ = found.has_value();
    if (!found && found.error().kind == ErrorKind::unsupported) {
        return with_hint(std::move(found).error(),
                         fmt::format("use the darner that wrote it, or train anew: darner train {} --out {}", task, folder_));
    }
    if (!found) {
        damage_ = std::move(found).error();
        found = read_checkpoint(previous_path());
        if (!found)
            return with_hint(*damage_, fmt::format("the checkpoint is lost and no earlier one is whole; train anew: darner train "
                                                   "{} --out {}",
                                                   task, folder_));
    }
    if (found->task == task) return found;
    return with_hint(unsupported(fmt::format("[resume] the checkpoint is of {}, expected {}", found->task, task), path()),
                     fmt::format("train anew: darner train {} --out DIR", task));
}

Result<void> CheckpointFile::write(const Checkpoint& checkpoint) {
    if (is_ours_) TRY(keep_as(path(), previous_path()));
    TRY(write_checkpoint(path(), checkpoint));
    if (!is_ours_) {
        std::error_code ignored;
        std::filesystem::remove(previous_path(), ignored);
    }
    is_ours_ = true;
    return {};
}

Result<std::string> CheckpointFile::set_aside_unfinished() {
    const Result<Checkpoint> old = read_checkpoint(path());
    if (!old || old->epochs_done() == 0 || old->epochs_done() >= old->settings.epochs) return std::string();
    const CheckpointFile aside(folder_ + "/interrupted");
    TRY(make_folder(aside.folder()));
    std::error_code failure;
    std::filesystem::rename(path(), aside.path(), failure);
    if (failure) return io_error(fmt::format("cannot move the checkpoint: {}", failure.message()), path());
    std::filesystem::remove(aside.previous_path(), failure);
    return aside.folder();
}

void CheckpointFile::remove_leftovers() const {
    for (const std::string& path : {path(), previous_path(), folder_ + "/model.safetensors"}) darner::remove_leftovers(path);
}

}  // namespace darner
