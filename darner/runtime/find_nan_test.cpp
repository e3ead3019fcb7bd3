// SPDX-License-Identifier: MIT
#include "darner/runtime/find_nan.h"

#include "darner/graph/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace darner {
namespace {

Graph parse(std::string_view text) {
    Result<Module> module = parse_module(text, "model.dg");
    EXPECT_TRUE(module) << (module ? "" : module.error().text());
    return module ? module->graphs.at(0) : Graph{};
}

class FindNan : public testing::TestWithParam<const char*> {
protected:
    FindNanReport run(const Graph& graph, const NamedTensors& leaves) {
        CompileOptions options;
        options.device = GetParam();
        const Result<FindNanReport> report = find_nan(graph, leaves, options);
        EXPECT_TRUE(report) << (report ? "" : report.error().text());
        return report ? *report : FindNanReport{};
    }
};

constexpr std::string_view model = R"(
graph step {
  x = input f32[4]
  w = param f32[4] init=1
  s = mul(x, w)
  l = log(s)  @"loss" model.py:12
  m = mean(mul(l, 2))
  output m
  update w = add(w, mul(l, 0.5))
})";

TEST_P(FindNan, NamesTheLogOfANegativeWithItsPlaceAndItsOperand) {
    const FindNanReport report = run(
        parse(model), {{"x", Tensor::of(DType::f32, {4}, {1, 2, -0.5, 4})}, {"w", Tensor::of(DType::f32, {4}, {1, 1, 1, 1})}});
    ASSERT_TRUE(report.first);
    EXPECT_EQ(report.first->what, "l = log f32[4] (loss at model.py:12)");
    EXPECT_EQ(report.first->element, 2);
    EXPECT_TRUE(std::isnan(report.first->value));
    EXPECT_EQ(report.first->range.nans, 1);
    ASSERT_EQ(report.first->operands.size(), 1u);
    EXPECT_EQ(report.first->operands[0].min, -0.5);
    EXPECT_EQ(report.first->operands[0].max, 4);
}

TEST_P(FindNan, AnInfinityIsNotFiniteEither) {
    const FindNanReport report =
        run(parse(model), {{"x", Tensor::of(DType::f32, {4}, {1, 2, 3, 0})}, {"w", Tensor::of(DType::f32, {4}, {1, 1, 1, 1})}});
    ASSERT_TRUE(report.first);
    EXPECT_EQ(report.first->value, -HUGE_VAL);
    EXPECT_EQ(report.first->range.infinities, 1);
    EXPECT_EQ(to_text(report.first->operands[0]), "x: s = mul f32[4], 0 to 3");
}

TEST_P(FindNan, ALeafThatHoldsANanIsTheOneToName) {
    const FindNanReport report =
        run(parse(model), {{"x", Tensor::of(DType::f32, {4}, {1, 2, 3, 4})}, {"w", Tensor::of(DType::f32, {4}, {1, NAN, 1, 1})}});
    ASSERT_TRUE(report.first);
    EXPECT_EQ(report.first->what.substr(0, 14), "param w f32[4]");
    EXPECT_EQ(report.first->element, 1);
    EXPECT_TRUE(report.first->operands.empty());
}

TEST_P(FindNan, NothingIsNamedWhereAllIsFinite) {
    const FindNanReport report =
        run(parse(model), {{"x", Tensor::of(DType::f32, {4}, {1, 2, 3, 4})}, {"w", Tensor::of(DType::f32, {4}, {1, 1, 1, 1})}});
    EXPECT_FALSE(report.first);
    EXPECT_GE(report.nodes, 6u);
}

TEST_P(FindNan, AMissingValueIsAnError) {
    CompileOptions options;
    options.device = GetParam();
    const auto report = find_nan(parse(model), {{"w", Tensor::of(DType::f32, {4}, {1, 1, 1, 1})}}, options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message, "there is no value for x");
}

INSTANTIATE_TEST_SUITE_P(Devices, FindNan, testing::Values("interp", "vulkan"));

}  // namespace
}  // namespace darner
