// SPDX-License-Identifier: MIT
// Tensors larger than a binding may be: whole plans with the limit cut far below the sizes of their tensors, on the interpreter
// and on Vulkan, against the reference.
#include "darner/graph/builder.h"
#include "darner/graph/text.h"
#include "darner/ops/ops.h"
#include "tests/compare.h"
#include "tests/fuzz_check.h"
#include "tests/fuzz_graphs.h"
#include "tests/networks.h"
#include "tests/plan_cases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace darner::test {
namespace {

using testing::HasSubstr;

DeviceCase limited(DeviceCase on, uint64_t bytes) {
    const auto restrict_more = on.restrict_caps;
    on.restrict_caps = [=](Caps caps) {
        if (restrict_more) caps = restrict_more(caps);
        caps.max_binding_bytes = bytes;
        return caps;
    };
    on.name += fmt::format(", bindings of {} bytes", bytes);
    return on;
}

// Each plan under the caps of unlike devices, with bindings of so many bytes.
std::string compare_limited(const Graph& graph, uint64_t bytes, const std::vector<DeviceCase>& devices, int64_t int_limit = 3,
                            const Tolerance& tolerance = {}) {
    std::string all;
    for (const DeviceCase& on : devices)
        all += compare(graph, random_leaves(graph, 1, 1, int_limit), limited(on, bytes), tolerance);
    return all;
}

// --- graphs whose tensors are small: the limit is smaller ------------------------------------------------------------------

class SmallPlan : public testing::TestWithParam<PlanCase> {};

TEST_P(SmallPlan, AgreesWithTheReferenceWithinTinyBindings) {
    const auto module = parse_module(GetParam().text, "test");
    ASSERT_TRUE(module) << module.error().text();
    for (const uint64_t bytes : {4096, 1024})
        EXPECT_EQ(compare_limited(module->graphs[0], bytes, device_cases(), GetParam().int_limit), "");
}

INSTANTIATE_TEST_SUITE_P(Windows, SmallPlan, testing::ValuesIn(plan_cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace darner::test
