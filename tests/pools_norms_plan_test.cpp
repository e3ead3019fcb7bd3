// SPDX-License-Identifier: MIT
// How pools and norms are planned: in how many kernels, and that no window of a pool is ever stored. And that norms are right
// where they are hard: rows of one element and of very many, means far from 0.
#include "darner/graph/text.h"
#include "darner/kernels/row.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace darner::test {
namespace {

Graph graph_of(std::string_view leaves, std::string_view call) {
    const auto module = parse_module(fmt::format("graph g {{ {}\n output y = {} }}", leaves, call), "test");
    if (!module) ADD_FAILURE() << module.error().text();
    return module->graphs[0];
}

Graph gradients_of(const Graph& graph) {
    std::vector<std::string> wrt;
    for (const GraphInput& input : graph.inputs) wrt.push_back(input.name);
    auto gradients = gradient_graph(graph, "y", wrt);
    if (!gradients) ADD_FAILURE() << gradients.error().text();
    return *gradients;
}

Program program_of(const Graph& graph) {
    Module module;
    module.graphs.push_back(graph);
    auto program = compile_program(module, interpreter_caps());
    if (!program) ADD_FAILURE() << program.error().text();
    return std::move(*program);
}

struct PlanCount {
    const char* leaves;
    const char* call;
    size_t forward, with_gradients;  // kernels of y, and of y and all gradients
};

constexpr const char* norm_leaves = "x = input f32[8,16,6,7]\n w = input f32[16]\n b = input f32[16]";

// Sums over rows take a second, small kernel; where they are over another grouping of the axes, one that reads x again.
constexpr PlanCount norms[] = {
    {"x = input f32[64,96]\n w = input f32[96]\n b = input f32[96]", "layer_norm(x, w, b)", 1, 2},
    {"x = input f32[64,96]", "layer_norm(x)", 1, 1},
    {"x = input f32[3,20000]", "layer_norm(x)", 1, 1},
    {norm_leaves, "group_norm(x, w, b, groups=4)", 1, 2},
    {norm_leaves, "instance_norm(x, w, b)", 1, 2},
    {norm_leaves, "batch_norm(x, w, b)", 1, 1},
    {norm_leaves, "batch_norm(x, w, b, mul(w, 0.5), mul(b, b))", 1, 1},
};

TEST(NormPlan, IsAsFewKernelsAsItsSumsAllow) {
    for (const PlanCount& c : norms) {
        SCOPED_TRACE(c.call);
        const Graph graph = graph_of(c.leaves, c.call);
        const Program forward = program_of(graph);
        EXPECT_EQ(forward.reports[0].dispatches, c.forward) << to_text(forward);
        const Program gradients = program_of(gradients_of(graph));
        EXPECT_EQ(gradients.reports[0].dispatches, c.with_gradients) << to_text(gradients);
    }
}

struct PoolPlan {
    const char* x;
    const char* call;
};
constexpr PoolPlan pools[] = {
    {"f32[4,8,16,16]", "max_pool(x, window=[2,2])"},
    {"f32[4,8,16,16]", "max_pool(x, window=[3,3], strides=[2,2], padding=[1,1,1,1])"},
    {"f32[4,8,16,16]", "max_pool(x, window=[3,3], strides=[1,1], dilation=[2,2], ceil_mode=true)"},
    {"f32[2,3,8,8,8]", "max_pool(x, window=[3,3,3], strides=[1,1,1])"},
    {"f32[4,8,16,16]", "avg_pool(x, window=[2,2])"},
    {"f32[4,8,16,16]", "avg_pool(x, window=[3,3], strides=[2,2], padding=[1,1,1,1], count_include_pad=false)"},
    {"f32[4,8,200]", "avg_pool(x, window=[60], strides=[1])"},
    {"f32[4,8,200]", "max_pool(x, window=[60], strides=[1])"},
    {"f32[4,8,10,11]", "adaptive_avg_pool(x, output_size=[7,7])"},
    {"f32[4,8,10,11]", "adaptive_max_pool(x, output_size=[4,3])"},
};

TEST(PoolPlan, IsOneKernelForwardAndOneBackwardAndStoresNoWindow) {
    for (const PoolPlan& c : pools) {
        SCOPED_TRACE(c.call);
        const Graph graph = graph_of(fmt::format("x = input {}", c.x), c.call);
        const uint64_t pooled = static_cast<uint64_t>(graph.type(graph.find_output("y")->node).count()) * 4;
        const bool largest = std::string_view(c.call).find("max") != std::string_view::npos;
        EXPECT_EQ(program_of(graph).reports[0].dispatches, 1u);
        const Program gradients = program_of(gradients_of(graph));
        // A maximum's gradient needs to know how many elements tie for it, which the forward kernel counts.
        EXPECT_EQ(gradients.reports[0].dispatches, 2u) << to_text(gradients);
        EXPECT_EQ(gradients.reports[0].barriers, largest ? 1u : 0u);
        EXPECT_LE(gradients.reports[0].scratch_sum, largest ? (pooled + 255) / 256 * 256 : 0) << to_text(gradients);
    }
}

TEST(PoolPlan, IsRightOnEveryDeviceAtOddShapes) {
    for (const PoolPlan& c : pools) {
        const Graph graph = gradients_of(graph_of(fmt::format("x = input {}", c.x), c.call));
        for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(graph, random_leaves(graph, 3), on), "") << c.call;
    }
}

// Windows of 9 elements have a lane each where they fill the device; a few rows share their lanes still.
TEST(PoolPlan, ShortRowsHaveALaneEachWhereThereAreMany) {
    constexpr kernels::RowReduce largest[] = {{kernels::RowOp::max, 0}};
    const Caps caps = h200_caps();
    EXPECT_EQ(kernels::row_shape(1 << 20, 9, largest, 0, caps)->lanes, 1u);
    EXPECT_EQ(kernels::row_shape(100, 9, largest, 0, caps)->lanes, 16u);
    EXPECT_GT(kernels::row_shape(1 << 20, 100, largest, 0, caps)->lanes, 1u);
}

// Ties: each of the n elements of a window that have its maximum gets an n-th of its gradient, where windows overlap too.
TEST(MaxPool, SharesTheGradientAmongTies) {
    const Graph graph = gradients_of(graph_of("x = input f32[1,6]", "max_pool(x, window=[3], strides=[2], padding=[1,0])"));
    const NamedTensors leaves = {{"x", Tensor::of(DType::f32, {1, 6}, {2, 2, 1, 2, 2, 2})},
                                 {"d_y", Tensor::of(DType::f32, {1, 3}, {6, 60, 600})}};
    // Windows: (-, 2, 2), (2, 1, 2), (2, 2, 2).
    const std::vector<double> expected = {3, 3 + 30, 0, 30 + 200, 200, 200};
    const auto result = eval(graph, leaves);
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->outputs.at("d_x").real, expected);
    for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(graph, leaves, on), "");
}

struct NormCase {
    const char* leaves;
    const char* call;
};
constexpr NormCase hard_norms[] = {
    {"x = input f32[1,1]\n w = input f32[1]\n b = input f32[1]", "layer_norm(x, w, b)"},
    {"x = input f32[3,5]\n w = input f32[5]\n b = input f32[5]", "layer_norm(x, w, b)"},
    {"x = input f32[17,257]\n w = input f32[257]\n b = input f32[257]", "layer_norm(x, w, b)"},
    {"x = input f32[2,4099]\n w = input f32[4099]\n b = input f32[4099]", "layer_norm(x, w, b)"},
    {"x = input f32[2,100003]\n w = input f32[100003]\n b = input f32[100003]", "layer_norm(x, w, b)"},
    {"x = input f32[129,64]\n w = input f32[64]\n b = input f32[64]", "layer_norm(x, w, b)"},
    {"x = input f32[3,6,5,7]\n w = input f32[6]\n b = input f32[6]", "group_norm(x, w, b, groups=2)"},
    {"x = input f32[2,4,150,151]\n w = input f32[4]\n b = input f32[4]", "group_norm(x, w, b, groups=1)"},
    {"x = input f32[2,3,1,1]\n w = input f32[3]\n b = input f32[3]", "instance_norm(x, w, b)"},
    {"x = input f32[3,2,5,7]\n w = input f32[2]\n b = input f32[2]", "instance_norm(x, w, b)"},
    {"x = input f32[1,3]\n w = input f32[3]\n b = input f32[3]", "batch_norm(x, w, b)"},
    {"x = input f32[33,3]\n w = input f32[3]\n b = input f32[3]", "batch_norm(x, w, b)"},
    {"x = input f32[5,3,40,41]\n w = input f32[3]\n b = input f32[3]", "batch_norm(x, w, b)"},
};

// Elements offset + scale * normal. A variance as mean(x^2) - mean(x)^2 has no digit left at 1000 and 1.
TEST(Norms, AreRightAtEveryScaleFarFromZeroAndForRowsOfAnyLength) {
    struct Values {
        double scale, offset;
    };
    for (const NormCase& c : hard_norms) {
        const Graph graph = gradients_of(graph_of(c.leaves, c.call));
        for (const Values v :
             {Values{1, 0}, Values{0.01, 0}, Values{100, 0}, Values{1e6, 0}, Values{1, 1000}, Values{0.01, -10}}) {
            SCOPED_TRACE(fmt::format("{}\n{} at {} + {} normal", c.leaves, c.call, v.offset, v.scale));
            NamedTensors leaves = random_leaves(graph, 5);
            for (double& x : leaves["x"].real) x = round_to(DType::f32, v.offset + v.scale * x);
            // dx is what is left of terms of this size; dw and db are sums whose terms cancel as those of a random walk do.
            double largest_dy = 0, largest_scale = 0;
            for (const double d : leaves["d_y"].real) largest_dy = std::max(largest_dy, std::abs(d));
            for (const double w : leaves["w"].real) largest_scale = std::max(largest_scale, std::abs(w));
            const bool single = graph.type(graph.find_input("x")->node).count() <= 6;
            const double inverse = single ? 1 / std::sqrt(1e-5) : 1 / std::sqrt(v.scale * v.scale + 1e-5);
            const double walk = 4 * largest_dy * std::sqrt(static_cast<double>(leaves["x"].count()));
            const Tolerance tolerance{.largest = {{"d_x", largest_dy * largest_scale * inverse}, {"d_w", walk}, {"d_b", walk}}};
            for (const DeviceCase& on : main_device_cases()) EXPECT_EQ(compare(graph, leaves, on, tolerance), "");
        }
    }
}

// A row of equal elements has no variance: what rounding leaves of its mean must not be blown up to a signal.
TEST(Norms, OfEqualElementsAreZero) {
    const Graph graph = graph_of("x = input f32[2,1000]", "layer_norm(x)");
    NamedTensors leaves = {{"x", Tensor::zeros(DType::f32, {2, 1000})}};
    for (double& x : leaves["x"].real) x = round_to(DType::f32, 12345.678);
    for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(graph, leaves, on, {.largest = {{"y", 1}}}), "");
}

}  // namespace
}  // namespace darner::test
