// SPDX-License-Identifier: MIT
// A NaN in an input reaches the outputs that PyTorch would give it to, in the reference and on every device: not even min, max,
// relu and the maximum inside a softmax lose it.
#include "darner/graph/text.h"
#include "tests/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace darner::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

constexpr std::string_view text = R"(graph g {
    x = input f32[7,300]
    y = input f32[7,300]
    output relu = relu(x)
    output maximum = maximum(x, y)
    output minimum = minimum(x, y)
    output abs = abs(x)
    output sign = sign(x)
    output tanh = tanh(x)
    output max_rows = max(x, axes=[1])
    output min_rows = min(x, axes=[1])
    output sum_rows = sum(x, axes=[1])
    output max_columns = max(x, axes=[0])
    output min_columns = min(x, axes=[0])
    output sum_columns = sum(x, axes=[0])
    output max_all = max(x)
    output min_all = min(x)
    output softmax = softmax(x)
    output log_softmax = log_softmax(x)
    output softmax_columns = softmax(x, axis=0)
    output argmax_rows = argmax(x, axis=1)
    output argmin_rows = argmin(x, axis=1)
    output argmax_columns = argmax(x, axis=0)
})";
constexpr int64_t rows = 7, cols = 300;

// In x, at the ends of rows and inside them; rows 1 and 5 and most columns stay numbers. One NaN in y alone, one in both.
NamedTensors leaves_with_nan(const Graph& graph) {
    NamedTensors leaves = random_leaves(graph, 3);
    for (const auto& [row, col] : {std::pair{0, 0}, {2, 299}, {3, 17}, {3, 18}, {4, 151}, {6, 64}})
        leaves.at("x").real[row * cols + col] = nan;
    for (const auto& [row, col] : {std::pair{1, 9}, {3, 17}}) leaves.at("y").real[row * cols + col] = nan;
    return leaves;
}

bool any_nan(const Tensor& x, int64_t row, int64_t col) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            if ((row < 0 || r == row) && (col < 0 || c == col) && std::isnan(x.real[r * cols + c])) return true;
    return false;
}

TEST(Nan, ReachesTheReferencesOutputs) {
    const auto module = parse_module(text, "test");
    ASSERT_TRUE(module) << module.error().text();
    const NamedTensors leaves = leaves_with_nan(module->graphs[0]);
    const auto result = eval(module->graphs[0], leaves);
    ASSERT_TRUE(result) << result.error().text();
    const Tensor &x = leaves.at("x"), &y = leaves.at("y");
    const auto is_nan = [&](const char* output, int64_t at) { return std::isnan(result->outputs.at(output).real[at]); };
    for (int64_t row = 0; row < rows; ++row) {
        const bool in_row = any_nan(x, row, -1);
        for (const char* output : {"max_rows", "min_rows", "sum_rows"}) EXPECT_EQ(is_nan(output, row), in_row) << output << row;
        for (int64_t col = 0; col < cols; ++col) {
            const int64_t at = row * cols + col;
            const bool in_x = std::isnan(x.real[at]), in_either = in_x || std::isnan(y.real[at]);
            for (const char* output : {"relu", "abs", "sign", "tanh"}) EXPECT_EQ(is_nan(output, at), in_x) << output << at;
            for (const char* output : {"maximum", "minimum"}) EXPECT_EQ(is_nan(output, at), in_either) << output << at;
            for (const char* output : {"softmax", "log_softmax"}) EXPECT_EQ(is_nan(output, at), in_row) << output << at;
            EXPECT_EQ(is_nan("softmax_columns", at), any_nan(x, -1, col)) << at;
        }
    }
    for (int64_t col = 0; col < cols; ++col)
        for (const char* output : {"max_columns", "min_columns", "sum_columns"})
            EXPECT_EQ(is_nan(output, col), any_nan(x, -1, col)) << output << col;
    EXPECT_TRUE(is_nan("max_all", 0) && is_nan("min_all", 0));
    for (const auto& [row, first] : {std::pair{0, 0}, {2, 299}, {3, 17}, {4, 151}, {6, 64}})
        for (const char* output : {"argmax_rows", "argmin_rows"})
            EXPECT_EQ(result->outputs.at(output).integer[row], first) << output;
}

TEST(Nan, DevicesAgreeWithTheReference) {
    const auto module = parse_module(text, "test");
    ASSERT_TRUE(module) << module.error().text();
    const NamedTensors leaves = leaves_with_nan(module->graphs[0]);
    for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(module->graphs[0], leaves, on), "");
    // There rows are split.
    EXPECT_EQ(compare(module->graphs[0], leaves, with_bindings({"interp", "interp"}, 512)), "");
}

}  // namespace
}  // namespace darner::test
