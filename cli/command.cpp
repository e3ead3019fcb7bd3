// SPDX-License-Identifier: MIT
#include "cli/command.h"

#include "darner/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace darner::cli {

namespace {

// Long descriptions wrap instead of running off the screen; otherwise CLI11's form.
class WrappingFormatter : public CLI::Formatter {
public:
    WrappingFormatter() {
        column_width(column);
        label("SUBCOMMAND", "COMMAND");
        label("REQUIRED", "");
    }
    std::string make_option_desc(const CLI::Option* option) const override { return wrapped(option->get_description()); }

private:
    static constexpr size_t column = 28, width = 100 - column;
    static std::string wrapped(const std::string& text) {
        std::string out;
        size_t line_start = 0;
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            if (!out.empty() && out.size() - line_start + 1 + word.size() > width) {
                out += '\n';
                line_start = out.size();
            } else if (!out.empty()) {
                out += ' ';
            }
            out += word;
        }
        return out;
    }
};

}  // namespace

CommandLine::CommandLine() {
    app.formatter(std::make_shared<WrappingFormatter>());
    app.set_version_flag("--version", "darner " DARNER_VERSION, "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.footer("darner COMMAND --help says more about each.\n\nExample:\n  darner train fashion-mnist --epochs 5");
}

CLI::App& CommandLine::add_group(std::string name, std::string description) {
    CLI::App& group = *app.add_subcommand(std::move(name), std::move(description));
    group.group("Commands");
    return group;
}

CLI::App& CommandLine::add(CLI::App& parent, std::string name, std::string description, std::string example) {
    CLI::App& command = *parent.add_subcommand(std::move(name), std::move(description));
    command.group("Commands");
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
            "", "whole number"};
}

CLI::Validator positive_real() {
    return {[](std::string& text) {
                double value = 0;
                if (parses(text, value) && std::isfinite(value) && value > 0) return std::string();
                return fmt::format("expected a positive number, got \"{}\"", text);
            },
            "", "positive number"};
}

CLI::Validator one_of(std::vector<std::string> choices) {
    return {[choices = std::move(choices)](std::string& text) {
                for (const std::string& choice : choices)
                    if (text == choice) return std::string();
                const std::string hint = did_you_mean(text, choices);
                return fmt::format("expected one of {}, got \"{}\"{}", fmt::join(choices, ", "), text,
                                   hint.empty() ? "" : "; " + hint);
            },
            "", "choice"};
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
