// SPDX-License-Identifier: MIT
// Settings of a training: what decides its bits, beside its data and its device. A task keeps them in a struct whose visit()
// names each field once; what a checkpoint stores, what a resumed training compares and what the user reads follow from that.
#pragma once

#include "darner/base/result.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace darner {

using Setting = std::variant<uint64_t, double, std::string, std::vector<int64_t>>;
using Settings = std::vector<std::pair<std::string, Setting>>;  // under the names of the command's options, without dashes

// T is a struct with `void visit(F f)`, which calls f(name, field) for each field. The types of fields are those of Setting
// and uint32_t.
template <class T>
Settings settings_of(T values) {
    Settings settings;
    values.visit([&](const char* name, const auto& value) { settings.emplace_back(name, value); });
    return settings;
}

// What a user gives: the values of names that are not in `given` are the task's defaults, or the checkpoint's where a
// training goes on.
template <class T>
struct Choices {
    T values = {};
    std::set<std::string> given = {};
};

// "8", "0.001", "adam", "12,7".
std::string to_text(const Setting& setting);
// "batch 16, lr 0.001".
std::string to_text(const Settings& settings);

// False when there is no setting of this name and type, or its value does not fit.
bool read_setting(const Settings& settings, std::string_view name, uint32_t& value);
bool read_setting(const Settings& settings, std::string_view name, uint64_t& value);
bool read_setting(const Settings& settings, std::string_view name, double& value);
bool read_setting(const Settings& settings, std::string_view name, std::string& value);
bool read_setting(const Settings& settings, std::string_view name, std::vector<int64_t>& value);

template <class T>
Result<T> settings_from(const Settings& settings) {
    T values;
    std::string wrong;
    values.visit([&](const char* name, auto& value) {
        if (!read_setting(settings, name, value)) wrong = name;
    });
    if (wrong.empty()) return values;
    return invalid("[checkpoint] the setting \"" + wrong + "\" is missing or of the wrong type");
}

// The error lists which of the given settings differ from those of the checkpoint.
Result<void> check_same_training(const Settings& checkpoint, const Settings& chosen, const std::set<std::string>& given);

// The checkpoint's settings for a training that goes on.
template <class T>
Result<T> resumed_settings(const Settings& checkpoint, const Choices<T>& choices) {
    TRY(T values, settings_from<T>(checkpoint));
    TRY(check_same_training(checkpoint, settings_of(choices.values), choices.given));
    return values;
}

}  // namespace darner
