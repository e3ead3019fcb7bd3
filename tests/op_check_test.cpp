// SPDX-License-Identifier: MIT
// The op table test on the Vulkan device that is present: every op's values and gradients against the f64 reference. The
// reference alone and the interpreter are op_check_test.cpp's of the runtime.
#include "darner/runtime/op_check.h"

#include "darner/graph/op_def.h"
#include "darner/runtime/devices.h"

#include <gtest/gtest.h>

namespace darner::test {
namespace {

TEST(OpCheck, EveryOpOnVulkan) {
    const Result<std::unique_ptr<Device>> device = open_device("vulkan");
    ASSERT_TRUE(device) << device.error().text();
    for (const OpDef* op : op_registry().all()) {
        const Result<OpCheckReport> report = check_op(op->name, device->get());
        ASSERT_TRUE(report) << report.error().text();
        for (const std::string& failure : report->failures) ADD_FAILURE() << op->name << ": " << failure;
        EXPECT_TRUE(report->ok) << op->name;
        EXPECT_GT(report->cases, 0u) << op->name;
    }
}

}  // namespace
}  // namespace darner::test
