// SPDX-License-Identifier: MIT
#include "cli/command.h"

#include "darner/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace darner::cli {

CLI::App& CommandLine::add_group(std::string name, std::string description) {
    return *app.add_subcommand(std::move(name), std::move(description));
}

CLI::App& CommandLine::add(CLI::App& parent, std::string name, std::string description, std::string example) {
    CLI::App& command = *parent.add_subcommand(std::move(name), std::move(description));
    // Words that no option takes are kept, so that main can say which option was meant.
    command.allow_extras();
    std::string footer = "Example:";
    for (size_t at = 0; at < example.size();) {
        const size_t end = std::min(example.find('\n', at), example.size());
        footer += "\n  " + example.substr(at, end - at);
        at = end + 1;
    }
    command.footer(footer);
    return command;
}

void CommandLine::on_run(CLI::App& command, Run run) {
    command.callback([this, run = std::move(run)] { chosen = run; });
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "Print JSON, for machines"); }

void add_device(CLI::App& command, std::string& device) {
    command
        .add_option("--device", device,
                    "Where to run: vulkan, vulkan:N, a part of a device's name, or interp (the checking interpreter); the best "
                    "device present if left out")
        ->type_name("D");
}

namespace {

template <class T>
bool parses(const std::string& text, T& value) {
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    return code == std::errc() && stop == end;
}

}  // namespace

CLI::Validator whole_number(int64_t at_least, int64_t at_most) {
    return {[=](std::string& text) {
                int64_t value = 0;
                if (parses(text, value) && value >= at_least && value <= at_most) return std::string();
                return fmt::format("expected a whole number from {} to {}, got \"{}\"", at_least, at_most, text);
            },
            "N", "whole number"};
}

CLI::Validator positive_real() {
    return {[](std::string& text) {
                double value = 0;
                if (parses(text, value) && std::isfinite(value) && value > 0) return std::string();
                return fmt::format("expected a positive number, got \"{}\"", text);
            },
            "X", "positive number"};
}

CLI::Validator one_of(std::vector<std::string> choices) {
    std::string shown = fmt::format("{}", fmt::join(choices, "|"));
    return {[choices = std::move(choices)](std::string& text) {
                for (const std::string& choice : choices)
                    if (text == choice) return std::string();
                const std::string hint = did_you_mean(text, choices);
                return fmt::format("expected one of {}, got \"{}\"{}", fmt::join(choices, ", "), text,
                                   hint.empty() ? "" : "; " + hint);
            },
            shown, "choice"};
}

Error with_hint(Error error, std::string hint) {
    if (error.hint.empty()) error.hint = std::move(hint);
    return error;
}

void print_error(const Error& error) {
    std::fflush(stdout);  // what was printed before stays before
    fmt::print(stderr, "error: {}{}\n", error.where.empty() ? "" : error.where + ": ", error.message);
    if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
}

void print_note(std::string_view text) { fmt::print(stderr, "note: {}\n", text); }

}  // namespace darner::cli
