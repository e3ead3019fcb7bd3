// SPDX-License-Identifier: MIT
// The README keeps its word: its C++ example is examples/mlp.cpp to the letter, that program trains, and the commands and
// folders that it names exist.
#include "darner/base/files.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

namespace darner::test {
namespace {

std::string source_file(const std::string& name) {
    Result<std::string> text = read_text_file(std::string(DARNER_SOURCE_DIR) + "/" + name);
    EXPECT_TRUE(text) << name;
    return text ? *text : std::string();
}

// What stands between a line ```LANGUAGE and the next line ``` in the README, block by block.
std::vector<std::string> blocks(const std::string& language) {
    std::istringstream lines(source_file("README.md"));
    std::vector<std::string> found;
    bool inside = false, wanted = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            inside = !inside;
            wanted = inside && line == "```" + language;
            if (wanted) found.emplace_back();
        } else if (wanted) {
            found.back() += line + "\n";
        }
    }
    return found;
}

// Without the opening comment, which the README does not repeat.
std::string without_head(std::string text) {
    while (text.starts_with("//")) text.erase(0, text.find('\n') + 1);
    return text;
}

TEST(Readme, ItsExampleIsTheProgram) {
    const std::vector<std::string> code = blocks("cpp");
    ASSERT_EQ(code.size(), 1u);
    EXPECT_EQ(code[0], without_head(source_file("examples/mlp.cpp")));
}

TEST(Readme, ItsExampleTrains) {
    const ProcessResult result = run_process({DARNER_BINARY_DIR "/bin/example_mlp"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> losses;
    const std::regex line("step +[0-9]+  loss ([0-9.]+)");
    for (std::sregex_iterator it(result.out.begin(), result.out.end(), line), end; it != end; ++it)
        losses.push_back(std::stod((*it)[1]));
    ASSERT_EQ(losses.size(), 6u) << result.out;
    EXPECT_GT(losses.front(), 1.5);  // ten classes, nothing learnt: about ln 10
    EXPECT_LT(losses.front(), 3.5);
    EXPECT_LT(losses.back(), 0.05);
}

TEST(Readme, ItsTwoCommandsAreThere) {
    const std::string readme = source_file("README.md");
    for (const char* command : {"./dev demo", "./dev test"}) EXPECT_THAT(readme, testing::HasSubstr(command));
}

// A block of the tour: "$ build/bin/darner WORDS" lines with what each printed. Trainings are not repeated here, and what a
// device is called differs between machines: of those only the options are checked.
std::string replayed(const std::string& block, const std::string& folder) {
    const std::string prompt = "$ build/bin/darner ";
    std::string out;
    std::istringstream lines(block);
    bool skipping = false;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(prompt)) {
            if (!skipping) continue;
            out += line + "\n";
            continue;
        }
        out += line + "\n";
        const std::string words = line.substr(prompt.size());
        skipping = words.starts_with("train") || words.starts_with("eval") || words.starts_with("sample") ||
                   words.find("--fill") != std::string::npos;
        const std::string command =
            "cd " + folder + " && " DARNER_BINARY_DIR "/bin/darner " + words + (skipping ? " --help" : "");
        const ProcessResult result = run_process({"/bin/sh", "-c", command + " 2>&1"});
        if (skipping) {
            EXPECT_EQ(result.exit_code, 0) << line << result.out;
        } else {
            out += result.out;
        }
    }
    return out;
}

// DARNER_UPDATE=1 writes what the commands print now into the README.
TEST(Readme, ItsTourIsWhatTheCommandPrints) {
    std::string readme = source_file("README.md");
    const TemporaryFolder folder;
    size_t commands = 0;
    for (const std::string& block : blocks("")) {
        if (block.starts_with("graph ")) {
            ASSERT_TRUE(write_text_file(folder.file("model.dg"), block));
        }
        if (!block.starts_with("$ build/bin/darner ")) continue;
        const std::string now = replayed(block, folder.path());
        ++commands;
        if (std::getenv("DARNER_UPDATE") != nullptr) {
            readme.replace(readme.find(block), block.size(), now);
            ASSERT_TRUE(write_text_file(std::string(DARNER_SOURCE_DIR) + "/README.md", readme));
        } else {
            EXPECT_EQ(block, now);
        }
    }
    EXPECT_GE(commands, 4u);
}

TEST(Readme, ItsFoldersExist) {
    const std::string readme = source_file("README.md");
    const std::regex row("\\| `([a-z/_.]+)`");
    size_t rows = 0;
    for (std::sregex_iterator it(readme.begin(), readme.end(), row), end; it != end; ++it, ++rows)
        EXPECT_TRUE(std::filesystem::exists(std::string(DARNER_SOURCE_DIR) + "/" + (*it)[1].str())) << (*it)[1];
    EXPECT_GE(rows, 10u);
}

}  // namespace
}  // namespace darner::test
