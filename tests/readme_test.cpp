// SPDX-License-Identifier: MIT
// The README keeps its word: its C++ example is examples/mlp.cpp to the letter, that program trains, and the commands and
// folders that the README names exist.
#include "darner/base/files.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <regex>

namespace darner::test {
namespace {

std::string source_file(const std::string& name) {
    Result<std::string> text = read_text_file(std::string(DARNER_SOURCE_DIR) + "/" + name);
    EXPECT_TRUE(text) << name;
    return text ? *text : std::string();
}

// What stands between ```LANGUAGE and ``` in the README, block by block.
std::vector<std::string> blocks(const std::string& language) {
    const std::string readme = source_file("README.md");
    const std::string open = "```" + language + "\n";
    std::vector<std::string> found;
    for (size_t at = readme.find(open); at != std::string::npos; at = readme.find(open, at)) {
        at += open.size();
        const size_t end = readme.find("```", at);
        found.push_back(readme.substr(at, end - at));
        at = end + 3;
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

TEST(Readme, ItsCommandsExist) {
    const std::string readme = source_file("README.md");
    EXPECT_THAT(readme, testing::HasSubstr("./dev demo"));
    EXPECT_THAT(readme, testing::HasSubstr("./dev test"));
    const std::regex command("\\$ build/bin/darner ([a-z]+)( (list|show|check|fashion-mnist))?");
    std::vector<std::string> seen;
    for (std::sregex_iterator it(readme.begin(), readme.end(), command), end; it != end; ++it) {
        std::vector<std::string> words{DARNER_BINARY_DIR "/bin/darner", (*it)[1]};
        if ((*it)[3].matched) words.push_back((*it)[3]);
        words.push_back("--help");
        EXPECT_EQ(run_process(words).exit_code, 0) << it->str();
        seen.push_back((*it)[1]);
    }
    EXPECT_GE(seen.size(), 4u);
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
