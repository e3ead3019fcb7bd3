// SPDX-License-Identifier: MIT
// For tests that ask other programs (validators, compilers): runs commands, keeps files in a folder that goes away, compares
// golden text. DARNER_UPDATE=1 rewrites golden files instead of comparing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace darner {

struct CommandResult {
    int exit_code = -1;
    std::string output;  // stdout and stderr
};
CommandResult run_command(const std::string& command);

class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    std::string path(std::string_view name) const { return (folder_ / name).string(); }
    std::string write(std::string_view name, std::string_view bytes) const;  // gives the path

private:
    std::filesystem::path folder_;
};

std::string read_text(const std::string& path);
std::string source_path(std::string_view path_in_tree);

// Compares with darner/emit/testdata/<name>; a failure shows both texts.
void expect_golden(std::string_view name, const std::string& text);

}  // namespace darner
