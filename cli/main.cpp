// SPDX-License-Identifier: MIT
// The darner command. It parses the command line, runs one subcommand and turns its Result into an exit code: 0 on success,
// 1 on any error, 130 when Ctrl-C ended it. Parse errors read like all other errors: one line, and a hint with the nearest word
// where one is near.
#include "cli/command.h"
#include "darner/base/nearest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>

namespace darner::cli {
namespace {

std::string full_name(const CLI::App* app) {
    return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
}

std::string help_hint(const CLI::App* app) { return fmt::format("see {} --help", full_name(app)); }

std::vector<std::string> subcommand_names(const CLI::App* app) {
    std::vector<std::string> names;
    for (const CLI::App* sub : app->get_subcommands({})) names.push_back(sub->get_name());
    return names;
}

std::vector<std::string> option_names(const CLI::App* app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

// The words that name the subcommand are checked before parsing: CLI11 reports a misspelt one as a missing one.
Result<const CLI::App*> find_command(const CLI::App& app, int argc, const char* const* argv) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc; ++i) {
        const std::vector<std::string> names = subcommand_names(at);
        if (names.empty()) return at;
        const std::string word = argv[i];
        if (word.starts_with("-")) {
            const std::vector<std::string> options = option_names(at);
            if (word != "-h" && std::find(options.begin(), options.end(), word) == options.end())
                return with_hint(invalid(fmt::format("{} has no option \"{}\"", full_name(at), word)),
                                 "options stand behind the command; " + help_hint(at));
            return at;  // --help or --version
        }
        const auto found = std::find(names.begin(), names.end(), word);
        if (found == names.end()) {
            const std::string near = did_you_mean(word, names);
            return with_hint(invalid(fmt::format("{} has no command \"{}\"", full_name(at), word)),
                             near.empty() ? help_hint(at) : near);
        }
        at = at->get_subcommand(word);
    }
    const std::vector<std::string> names = subcommand_names(at);
    if (names.empty()) return at;
    return with_hint(invalid(fmt::format("{} wants a command: {}", full_name(at), fmt::join(names, ", "))), help_hint(at));
}

// What parsing left over: a misspelt option, or one word too many.
Result<void> check_left_over(const CLI::App* command) {
    const std::vector<std::string> words = command->remaining();
    if (words.empty()) return {};
    const std::string& word = words.front();
    if (!word.starts_with("-"))
        return with_hint(invalid(fmt::format("{} does not expect \"{}\"", full_name(command), word)), help_hint(command));
    const std::string name = word.substr(0, word.find('='));
    const std::string near = did_you_mean(name, option_names(command));
    return with_hint(invalid(fmt::format("{} has no option \"{}\"", full_name(command), name)),
                     near.empty() ? help_hint(command) : near);
}

Error output_error() { return io_error("standard output could not be written"); }

Result<void> check_output() {
    std::cout.flush();  // CLI11 prints the help there
    if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return output_error();
    return {};
}

// The exit code.
Result<int> run(int argc, char** argv) {
    CommandLine line;
    add_devices(line);
    add_train(line);
    add_eval(line);
    add_sample(line);
    add_run(line);
    add_diff(line);
    add_plan(line);
    add_compile(line);
    add_grad(line);
    add_op(line);

    TRY(const CLI::App* command, find_command(line.app, argc, argv));
    try {
        line.app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help or --version
        line.app.exit(asked);
        TRY(check_output());
        return 0;
    } catch (const CLI::ParseError& error) {
        TRY(check_left_over(command));
        return with_hint(invalid(fmt::format("{}: {}", full_name(command), error.what())), help_hint(command));
    }
    TRY(check_left_over(command));
    CHECK(line.chosen != nullptr, "a command without a function");
    TRY(line.chosen());
    TRY(check_output());
    return line.exit_code;
}

// What a failed allocation or a failed write throws through the library, which itself throws nothing.
Error describe(const std::exception& failure) {
    if (std::ferror(stdout) != 0) return output_error();
    if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr || dynamic_cast<const std::length_error*>(&failure) != nullptr)
        return with_hint(limit_error("out of memory"), "use smaller shapes or a smaller batch, or free memory");
    return limit_error(failure.what());
}

// A standard stream that the caller closed gives its number to the next file opened, and what is meant for the stream would
// land in that file. The null device takes the number; opened for reading it makes writes fail as on a closed stream.
void hold_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != stream) std::abort();
}

}  // namespace
}  // namespace darner::cli

int main(int argc, char** argv) {
    darner::cli::hold_standard_streams();
    try {
        const darner::Result<int> result = darner::cli::run(argc, argv);
        if (result) return *result;
        darner::cli::print_error(result.error());
    } catch (const std::exception& failure) {
        darner::cli::print_error(darner::cli::describe(failure));
    }
    return 1;
}
