// SPDX-License-Identifier: MIT
#include "darner/emit/tools_test.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace darner {

CommandResult run_command(const std::string& command) {
    CommandResult result;
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (!pipe) return result;
    std::array<char, 4096> buffer;
    for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) result.output.append(buffer.data(), n);
    const int status = pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

TemporaryFolder::TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "darner-emit-XXXXXX").string();
    if (!mkdtemp(pattern.data())) ADD_FAILURE() << "no temporary folder";
    folder_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::string TemporaryFolder::write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
}

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string source_path(std::string_view path_in_tree) {
    return std::string(DARNER_SOURCE_DIR) + "/" + std::string(path_in_tree);
}

void expect_golden(std::string_view name, const std::string& text) {
    const std::string path = source_path("darner/emit/testdata/" + std::string(name));
    if (const char* update = getenv("DARNER_UPDATE"); update && std::string_view(update) == "1") {
        std::ofstream(path, std::ios::binary) << text;
        return;
    }
    EXPECT_EQ(text, read_text(path)) << "differs from " << path << "; DARNER_UPDATE=1 accepts the new text";
}

}  // namespace darner
