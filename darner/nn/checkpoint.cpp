// SPDX-License-Identifier: MIT
// Checkpoints as safetensors: the state under its own names, the rest as JSON in the metadata, with a checksum over both. A file
// that is cut off, or whose blocks never reached the disk, is told from a whole one; times of day and speeds are not in it,
// so equal trainings have equal files.
#include "darner/nn/checkpoint.h"

#include "darner/base/files.h"
#include "darner/base/hash.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace darner {
namespace {

using nlohmann::ordered_json;

constexpr const char* version_key = "darner.checkpoint";
constexpr const char* training_key = "darner.training";
constexpr const char* checksum_key = "darner.checksum";
constexpr const char* version = "2";

ordered_json to_json(const Settings& settings) {
    ordered_json object = ordered_json::object();
    for (const auto& [name, setting] : settings)
        std::visit([&, &key = name](const auto& value) { object[key] = value; }, setting);
    return object;
}

ordered_json to_json(const Checkpoint& checkpoint) {
    ordered_json history = ordered_json::array();
    for (const RoundResult& round : checkpoint.history)
        history.push_back({{"done", round.done}, {"train_loss", round.train_loss}, {"evaluation", round.evaluation}});
    return {{"task", checkpoint.task},
            {"unit", checkpoint.unit},
            {"done", checkpoint.done},
            {"goal", checkpoint.goal},
            {"settings", to_json(checkpoint.settings)},
            {"model", checkpoint.model},
            {"data", checkpoint.data},
            {"device", checkpoint.device},
            {"history", std::move(history)}};
}

std::optional<Setting> setting_of(const ordered_json& value) {
    const auto is_size = [](const ordered_json& one) { return one.is_number_unsigned() && one.get<uint64_t>() <= INT64_MAX; };
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    if (value.is_number_float()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array() && std::all_of(value.begin(), value.end(), is_size)) return value.get<std::vector<int64_t>>();
    return {};
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
    void get(const char* name, Settings& into) {
        into.clear();
        const ordered_json* object = find(name, &ordered_json::is_object);
        if (object == nullptr) return;
        for (const auto& [key, value] : object->items()) {
            if (std::optional<Setting> setting = setting_of(value))
                into.emplace_back(key, std::move(*setting));
            else
                wrong_ = fmt::format("{}.{}", name, key);
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
    Fields fields(object);
    fields.get("task", checkpoint.task);
    fields.get("unit", checkpoint.unit);
    fields.get("done", checkpoint.done);
    fields.get("goal", checkpoint.goal);
    fields.get("settings", checkpoint.settings);
    fields.get("model", checkpoint.model);
    fields.get("data", checkpoint.data);
    fields.get("device", checkpoint.device);
    for (const ordered_json& round : fields.list("history")) {
        if (!round.is_object()) return wrong("history");
        Fields result(round);
        RoundResult& into = checkpoint.history.emplace_back();
        result.get("done", into.done);
        result.get("train_loss", into.train_loss);
        result.get("evaluation", into.evaluation);
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

Result<SavedWeights> read_weights(const std::string& path, const std::string& train_command) {
    SavedWeights weights{.file = path};
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        // A model beside the checkpoint of an unfinished training is that of an earlier one.
        const std::string model = path + "/model.safetensors", checkpoint = path + "/checkpoint.safetensors";
        const Result<Checkpoint> newest = read_checkpoint(checkpoint);
        weights.file = exists(model) && !(newest && newest->done < newest->goal) ? model : checkpoint;
        if (!exists(weights.file))
            return with_hint(io_error("the folder has no model.safetensors and no checkpoint.safetensors", path),
                             fmt::format("train a model: {} --out {}", train_command, path));
    }
    TRY(Safetensors file, read_safetensors(weights.file));
    weights.is_checkpoint = is_checkpoint(file);
    if (!weights.is_checkpoint) {
        weights.model = text_of(file.metadata, model_key);
        weights.tensors = std::move(file.tensors);
        return weights;
    }
    TRY(Checkpoint whole, checkpoint_of(std::move(file), weights.file));
    weights.model = std::move(whole.model);
    weights.tensors = std::move(whole.state);
    return weights;
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

Result<Checkpoint> CheckpointFile::read(const std::string& task, const std::string& command) {
    if (!exists(path()) && !exists(previous_path()))
        return with_hint(io_error("[resume] there is no checkpoint: the file does not exist", path()),
                         fmt::format("start a training that writes one: {} --out {}", command, folder_));
    Result<Checkpoint> found = read_checkpoint(path());
    is_ours_ = found.has_value();
    if (!found && found.error().kind == ErrorKind::unsupported) {
        return with_hint(std::move(found).error(),
                         fmt::format("use the darner that wrote it, or train anew: {} --out {}", command, folder_));
    }
    if (!found) {
        damage_ = std::move(found).error();
        found = read_checkpoint(previous_path());
        if (!found)
            return with_hint(*damage_, fmt::format("the checkpoint is lost and no earlier one is whole; train anew: {} --out {}",
                                                   command, folder_));
    }
    if (found->task == task) return found;
    return with_hint(unsupported(fmt::format("[resume] the checkpoint is of {}, expected {}", found->task, task), path()),
                     fmt::format("train anew: {} --out DIR", command));
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
    if (!exists(path()) && !exists(previous_path())) return std::string();
    // What cannot be read (damaged, or of another darner) may still be worth something, and so may the one before it.
    const Result<Checkpoint> old = read_checkpoint(path());
    if (old && (old->done == 0 || old->done >= old->goal)) return std::string();
    std::string free = folder_ + "/interrupted";
    for (int number = 2; exists(free); ++number) free = fmt::format("{}/interrupted-{}", folder_, number);
    const CheckpointFile aside(free);
    TRY(make_folder(aside.folder()));
    for (const auto& [from, to] : {std::pair(previous_path(), aside.previous_path()), std::pair(path(), aside.path())}) {
        if (!exists(from)) continue;
        std::error_code failure;
        std::filesystem::rename(from, to, failure);
        if (failure) return io_error(fmt::format("cannot move the checkpoint: {}", failure.message()), from);
    }
    return aside.folder();
}

void CheckpointFile::remove_leftovers() const {
    for (const std::string& path : {path(), previous_path(), folder_ + "/model.safetensors"}) darner::remove_leftovers(path);
}

}  // namespace darner
