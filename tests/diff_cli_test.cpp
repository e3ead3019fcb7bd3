// SPDX-License-Identifier: MIT
// darner diff and darner run --find-nan as processes: what is right, a planted fault, a NaN, and what they refuse.
#include "darner/base/files.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace darner::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr std::string_view model = R"(graph step {
  x = input f32[9]
  w = param f32[5] init=2
  p = slice(x, start=[0], stop=[9], step=[2])  @"take" model.py:3
  y = log(mul(p, w))  @"loss" model.py:4
  output y
  update w = add(w, mul(y, 0.5))
}
)";

class NodeCommands : public testing::Test {
protected:
    ProcessResult darner(std::vector<std::string> words, const std::vector<std::string>& environment = {}) {
        words.insert(words.begin(), DARNER_BINARY_DIR "/bin/darner");
        words.insert(words.begin() + 2, file_);
        return run_process(words, environment);
    }
    void SetUp() override { ASSERT_TRUE(write_text_file(file_, model)); }
    TemporaryFolder folder_;
    std::string file_ = folder_.file("model.dg");
};

TEST_F(NodeCommands, DiffOfARightDevicePasses) {
    for (const char* device : {"interp", "vulkan"}) {
        const ProcessResult result = darner({"diff", "--fill", "ones", "--device", device});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.out, HasSubstr("are within their bounds"));
    }
}

TEST_F(NodeCommands, DiffNamesTheNodeOfAPlantedFaultWithItsPlace) {
    const std::vector<std::string> planted = {"DARNER_FAULT=32"};
    const ProcessResult result = darner({"diff", "--fill", "random:1", "--device", "interp"}, planted);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, HasSubstr("first outside its bound: p = slice f32[5] (take at model.py:3)"));
    EXPECT_THAT(result.out, HasSubstr("x: input x f32[9]"));
    EXPECT_THAT(result.err, HasSubstr("error: [diff] 1 of "));
    const Json json = Json::parse(darner({"diff", "--fill", "random:1", "--device", "interp", "--json"}, planted).out);
    EXPECT_EQ(json["outside"][0]["what"], "p = slice f32[5] (take at model.py:3)");
    EXPECT_EQ(json["outside"][0]["count"], 5);
    EXPECT_EQ(json["outside"].size(), 1u);
    EXPECT_FALSE(json["results"].empty());
}

TEST_F(NodeCommands, FindNanNamesTheLogOfANegativeWithItsPlace) {
    const ProcessResult result = darner({"run", "--fill", "random:1", "--device", "interp", "--find-nan"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("first that is not finite: y = log f32[5] (loss at model.py:4)"));
    EXPECT_THAT(result.out, HasSubstr("x: mul f32[5]"));
    const Json json = Json::parse(darner({"run", "--fill", "random:1", "--device", "interp", "--find-nan", "--json"}).out);
    EXPECT_EQ(json["first"]["node"], "y = log f32[5] (loss at model.py:4)");
    EXPECT_EQ(json["first"]["value"], "nan");
    EXPECT_LT(json["first"]["operands"][0]["min"], 0);
}

TEST_F(NodeCommands, FindNanSaysWhenAllIsFinite) {
    const ProcessResult result = darner({"run", "--fill", "ones", "--device", "interp", "--find-nan"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("nodes are finite"));
    EXPECT_EQ(Json::parse(darner({"run", "--fill", "ones", "--device", "interp", "--find-nan", "--json"}).out)["first"], nullptr);
}

TEST_F(NodeCommands, WhatHasNoValueOrNoGraphIsRefused) {
    EXPECT_THAT(darner({"diff", "--device", "interp"}).err, HasSubstr("1 value is not set: x"));
    EXPECT_THAT(darner({"run", "--find-nan", "--fill", "ones", "--out-dir", "out"}).err, HasSubstr("--find-nan writes no files"));
    ASSERT_EQ(darner({"compile", "--target", "vulkan", "-o", folder_.file("model.dp")}).exit_code, 0);
    file_ = folder_.file("model.dp");
    EXPECT_THAT(darner({"run", "--find-nan", "--fill", "ones"}).err, HasSubstr("give the graph file"));
}

}  // namespace
}  // namespace darner::test
