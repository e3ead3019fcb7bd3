// SPDX-License-Identifier: MIT
// Settings as text, and by name and type.
#include "darner/nn/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace darner {
namespace {

const Setting* find(const Settings& settings, std::string_view name) {
    const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
    return found == settings.end() ? nullptr : &found->second;
}

template <class T>
bool read_as(const Settings& settings, std::string_view name, T& value) {
    const Setting* setting = find(settings, name);
    const T* typed = setting == nullptr ? nullptr : std::get_if<T>(setting);
    if (typed != nullptr) value = *typed;
    return typed != nullptr;
}

}  // namespace

std::string to_text(const Setting& setting) {
    if (const auto* list = std::get_if<std::vector<int64_t>>(&setting)) return fmt::format("{}", fmt::join(*list, ","));
    if (const auto* text = std::get_if<std::string>(&setting)) return *text;
    if (const auto* real = std::get_if<double>(&setting)) return fmt::to_string(*real);
    return fmt::to_string(std::get<uint64_t>(setting));
}

std::string to_text(const Settings& settings) {
    std::string text;
    for (const auto& [name, setting] : settings) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, to_text(setting));
    return text;
}

bool read_setting(const Settings& settings, std::string_view name, uint64_t& value) { return read_as(settings, name, value); }
bool read_setting(const Settings& settings, std::string_view name, double& value) { return read_as(settings, name, value); }
bool read_setting(const Settings& settings, std::string_view name, std::string& value) { return read_as(settings, name, value); }
bool read_setting(const Settings& settings, std::string_view name, std::vector<int64_t>& value) {
    return read_as(settings, name, value);
}
bool read_setting(const Settings& settings, std::string_view name, uint32_t& value) {
    uint64_t wide = 0;
    if (!read_as(settings, name, wide) || wide > UINT32_MAX) return false;
    value = static_cast<uint32_t>(wide);
    return true;
}

Result<void> check_same_training(const Settings& checkpoint, const Settings& chosen, const std::set<std::string>& given) {
    std::vector<std::string> differences;
    for (const auto& [name, value] : chosen) {
        if (!given.contains(name)) continue;
        const Setting* kept = find(checkpoint, name);
        if (kept != nullptr && *kept != value)
            differences.push_back(fmt::format("{} is {}, got {}", name, to_text(*kept), to_text(value)));
    }
    if (differences.empty()) return {};
    Error error = invalid(fmt::format("[resume] the checkpoint is of another training: {}", fmt::join(differences, "; ")));
    error.hint = "leave these options out to go on with the checkpoint's, or train anew without --resume";
    return error;
}

}  // namespace darner
