// SPDX-License-Identifier: MIT
#include "darner/base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace darner {
namespace {

Result<int> half(int v) {
    if (v % 2 != 0) return invalid("[half] odd number", "input:3");
    return v / 2;
}

Result<int> quarter(int v) {
    TRY(const int h, half(v));
    TRY(int q, half(h));
    return q;
}

Result<void> check_even(int v) {
    TRY(half(v));
    return {};
}

TEST(Result, HoldsAValueOrAnError) {
    EXPECT_EQ(*half(8), 4);
    const Result<int> failed = half(7);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::invalid);
    EXPECT_EQ(failed.error().text(), "input:3: [half] odd number");
}

TEST(Result, TryPassesErrorsOn) {
    EXPECT_EQ(*quarter(12), 3);
    EXPECT_FALSE(quarter(6));
    EXPECT_TRUE(check_even(2));
    EXPECT_EQ(check_even(3).error().where, "input:3");
}

TEST(Result, CarriesMoveOnlyValues) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
    const std::unique_ptr<int> taken = *std::move(result);
    EXPECT_EQ(*taken, 5);
}

TEST(Result, HintIsInTheText) {
    Error error = unsupported("no such op");
    error.hint = "did you mean \"add\"?";
    EXPECT_EQ(error.text(), "no such op (did you mean \"add\"?)");
}

TEST(ResultDeathTest, ValueOfAnErrorIsABug) { EXPECT_DEATH((void)*half(1), "value\\(\\) of a Result.*odd number"); }

TEST(CheckDeathTest, PrintsConditionAndMessage) {
    const int extent = -1;
    EXPECT_DEATH(CHECK(extent >= 0, "an extent"), "CHECK failed: extent >= 0 an extent");
}

}  // namespace
}  // namespace darner
