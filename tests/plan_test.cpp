// SPDX-License-Identifier: MIT
// Plans against the reference: every graph of plan_cases.h, on every device and under several caps.
#include "tests/compare.h"
#include "tests/plan_cases.h"

#include <gtest/gtest.h>

namespace darner::test {
namespace {

class Plan : public testing::TestWithParam<PlanCase> {};

TEST_P(Plan, AgreesWithTheReferenceOnEveryDevice) { EXPECT_EQ(compare_text(GetParam().text, 1, 1, GetParam().int_limit), ""); }

INSTANTIATE_TEST_SUITE_P(Graphs, Plan, testing::ValuesIn(plan_cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace darner::test
