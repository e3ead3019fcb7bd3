// SPDX-License-Identifier: MIT
#include "cli/command.h"

#include "darner/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <charconv>
#include <cstdio>
#include <limits>
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

CLI::Validator positive_f32() {
    return {[](std::string& text) {
                using Limits = std::numeric_limits<float>;
                double value = 0;
                if (parses(text, value) && value >= Limits::min() && value <= Limits::max()) return std::string();
                return fmt::format("expected a positive number from {:.3g} to {:.3g}, the range of f32, got \"{}\"",
                                   Limits::min(), Limits::max(), text);
            },
            "", "positive number"};
}

CLI::Validator not_negative() {
    return {[](std::string& text) {
                double value = 0;
                if (parses(text, value) && value >= 0 && std::isfinite(value)) return std::string();
                return fmt::format("expected a number from 0 on, got \"{}\"", text);
            },
            "", "number"};
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

std::string printable(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        const bool is_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F, in UTF-8
        if (byte == '\n')
            out += "\\n";
        else if (byte == '\t')
            out += "\\t";
        else if (byte < 0x20 || byte == 0x7f)
            out += fmt::format("\\x{:02x}", byte);
        else if (is_c1)
            out += fmt::format("\\u{:04x}", next);
        else
            out += text[i];
        if (is_c1) ++i;
    }
    return out;
}

std::string printable_lines(std::string_view text, std::string_view before_each) {
    std::string out;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        if (at > 0) out += '\n';
        out += before_each;
        out += printable(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

void write_stderr(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

void print_error(const Error& error) {
    std::fflush(stdout);  // what was printed before stays before
    std::string text = "error: " + printable(error.where.empty() ? error.message : error.where + ": " + error.message) + "\n";
    if (!error.hint.empty()) text += "hint: " + printable(error.hint) + "\n";
    write_stderr(text);
}

void print_note(std::string_view text) { write_stderr("note: " + printable(text) + "\n"); }

}  // namespace darner::cli
