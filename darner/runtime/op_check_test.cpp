// SPDX-License-Identifier: MIT
// The op table test over the whole registry: on the reference, and on the checking interpreter as a device.
#include "darner/runtime/op_check.h"

#include "darner/graph/op_def.h"
#include "darner/runtime/devices.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

class OpCheck : public testing::TestWithParam<const OpDef*> {
protected:
    static void check(Device* device) {
        const auto report = check_op(GetParam()->name, device);
        ASSERT_TRUE(report) << report.error().text();
        for (const std::string& failure : report->failures) ADD_FAILURE() << report->op << ": " << failure;
        EXPECT_TRUE(report->ok);
        EXPECT_GT(report->cases, 0u);
    }
};

TEST_P(OpCheck, Reference) { check(nullptr); }

TEST_P(OpCheck, Interpreter) {
    const auto device = open_device("interp");
    ASSERT_TRUE(device) << device.error().text();
    check(device->get());
}

INSTANTIATE_TEST_SUITE_P(All, OpCheck, testing::ValuesIn(op_registry().all().begin(), op_registry().all().end()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(OpCheckNames, UnknownOpSuggestsTheNearest) {
    const auto report = check_op("sofmax", nullptr);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().text(), "[op check] there is no op \"sofmax\" (did you mean \"softmax\"?)");
}

}  // namespace
}  // namespace darner
