// SPDX-License-Identifier: MIT
#include "darner/base/nearest.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

const std::vector<std::string> ops = {"add", "mul", "softmax", "log_softmax", "rms_norm", "relu", "exp"};

TEST(EditDistance, CountsChanges) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("", "abc"), 3u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("sofmtax", "softmax"), 1u);
    EXPECT_EQ(edit_distance("SoftMax", "softmax"), 0u);
}

TEST(DidYouMean, FindsSlips) {
    EXPECT_EQ(did_you_mean("sofmax", ops), "did you mean \"softmax\"?");
    EXPECT_EQ(did_you_mean("rmsnorm", ops), "did you mean \"rms_norm\"?");
    EXPECT_EQ(did_you_mean("Relu", ops), "did you mean \"relu\"?");
    EXPECT_EQ(did_you_mean("ad", ops), "did you mean \"add\"?");
}

TEST(DidYouMean, KeepsQuietOtherwise) {
    EXPECT_EQ(did_you_mean("convolution", ops), "");
    EXPECT_EQ(did_you_mean("x", ops), "");
    EXPECT_EQ(did_you_mean("", ops), "");
    EXPECT_EQ(did_you_mean(std::string(1'000'000, 'a'), ops), "");
    EXPECT_EQ(did_you_mean("add", std::vector<std::string>()), "");
}

TEST(DidYouMean, FirstAmongEqualsWins) {
    EXPECT_EQ(did_you_mean("colt", std::vector<std::string>{"bolt", "cold"}), "did you mean \"bolt\"?");
}

}  // namespace
}  // namespace darner
