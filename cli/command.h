// SPDX-License-Identifier: MIT
// What the subcommands share: how one is added to the command line, the options that several have, and how errors and notes
// reach the user. A subcommand is one file with one add_… function: it declares its options and gives a function to run.
// Results go to stdout; errors, notes and progress go to stderr.
#pragma once

#include "darner/base/result.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace darner::cli {

using Run = std::function<Result<void>()>;

// The command line and, after parsing, the function of the subcommand that it names.
struct CommandLine {
    CommandLine();
    CLI::App app{"darner compiles a neural network once and trains or runs it on any GPU.", "darner"};
    Run chosen;
    int exit_code = 0;  // of a run without an error

    // A subcommand that only groups others ("op", "train").
    CLI::App& add_group(std::string name, std::string description);
    // `example` is the last part of its help: one or more lines. The options live in what `run` captures.
    CLI::App& add(CLI::App& parent, std::string name, std::string description, std::string example);
    void on_run(CLI::App& command, Run run);
};

void add_devices(CommandLine& line);
void add_train(CommandLine& line);
void add_eval(CommandLine& line);
void add_sample(CommandLine& line);
void add_run(CommandLine& line);
void add_diff(CommandLine& line);
void add_plan(CommandLine& line);
void add_compile(CommandLine& line);
void add_grad(CommandLine& line);
void add_op(CommandLine& line);
void add_op_check(CommandLine& line, CLI::App& op);

// Options with one spelling everywhere.
void add_json(CLI::App& command, bool& json);
void add_device(CLI::App& command, std::string& device);

// Validators whose messages say what was expected and what was given.
CLI::Validator whole_number(int64_t at_least, int64_t at_most);
CLI::Validator positive_f32();  // within the normal range of f32
CLI::Validator not_negative();
CLI::Validator one_of(std::vector<std::string> choices);

// An Error with a hint; the message starts like the library's: "[run] ...".
Error with_hint(Error error, std::string hint);

// The text with its control characters escaped: names from files must not steer the terminal or look like lines of ours.
std::string printable(std::string_view text);
// The same line by line.
std::string printable_lines(std::string_view text, std::string_view before_each = "");

// Text on stderr as it is. A stderr that is closed or full loses it: there is nowhere left to say so.
void write_stderr(std::string_view text);
// "error: …" and, when there is one, "hint: …" on stderr.
void print_error(const Error& error);
// "note: …" on stderr.
void print_note(std::string_view text);

}  // namespace darner::cli
