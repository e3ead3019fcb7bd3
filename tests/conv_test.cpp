// SPDX-License-Identifier: MIT
// Convolutions as plans: what fuses, what is in memory, how long sums part, second derivatives, and whole gradients on devices.
#include "darner/graph/builder.h"
#include "darner/graph/text.h"
#include "darner/ops/ops.h"
#include "darner/plan/plan.h"
#include "darner/program/groups.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace darner::test {
namespace {

Graph parsed(const std::string& text) {
    const auto module = parse_module(text, "test");
    EXPECT_TRUE(module) << (module ? "" : module.error().text());
    return module ? module->graphs[0] : Graph{};
}

Graph gradients_of(const std::string& text, const std::vector<std::string>& wrt) {
    auto graph = gradient_graph(parsed(text), "y", wrt);
    EXPECT_TRUE(graph) << (graph ? "" : graph.error().text());
    return graph ? *graph : Graph{};
}

Program planned(const Graph& graph, const Caps& caps) {
    auto expanded = expand(graph);
    EXPECT_TRUE(expanded) << (expanded ? "" : expanded.error().text());
    if (expanded) expanded = cleanup(*expanded);
    auto program = plan_module({{expanded ? *expanded : Graph{}}}, caps);
    EXPECT_TRUE(program) << (program ? "" : program.error().text());
    return program ? *program : Program{};
}

std::vector<Dispatch> dispatches(const Program& program) {
    std::vector<Dispatch> all;
    const auto groups = barrier_groups(program.entries.at(0));
    EXPECT_TRUE(groups) << (groups ? "" : groups.error().text());
    if (!groups) return all;
    for (const BarrierGroup& group : *groups)
        for (const Member& member : group)
            if (member.dispatch) all.push_back(*member.dispatch);
    return all;
}

std::vector<std::string> labels(const Program& program) {
    std::vector<std::string> all;
    for (const Dispatch& dispatch : dispatches(program)) all.push_back(dispatch.label);
    return all;
}

constexpr const char* residual_block = R"(graph g {
    x = input f32[4,8,16,16]
    w = input f32[8,8,3,3]
    b = input f32[8]
    y = relu(add(conv(x, w, b, padding=[1,1,1,1]), x))
    output y
})";

TEST(ConvPlan, BiasResidualAndActivationAreOneKernel) {
    for (const Caps& caps : {interpreter_caps(), h200_caps(), webgpu_default_caps()}) {
        const Program program = planned(parsed(residual_block), caps);
        EXPECT_EQ(labels(program).size(), 1u);
        EXPECT_EQ(program.reports.at(0).scratch_bytes, 0u);
        EXPECT_EQ(program.reports.at(0).flops, 2u * 4 * 8 * 16 * 16 * 8 * 9);
    }
}

// The columns of a 3 x 3 kernel are nine times x. All scratch together is far below that, forward and backward.
TEST(ConvPlan, NoColumnMatrixIsInMemory) {
    const Graph graph = gradients_of(residual_block, {"x", "w", "b"});
    const uint64_t x_bytes = 4 * 8 * 16 * 16 * 4;
    for (Caps caps : {interpreter_caps(), h200_caps()}) {
        caps.compute_units = 4;
        const Program program = planned(graph, caps);
        EXPECT_LE(program.reports.at(0).scratch_sum, 2 * x_bytes);
    }
}

// One convolution for the gradient by x where the stride is one, and no work for gaps where it is larger: each tap meets each
// window once, whatever the stride.
TEST(ConvPlan, DataGradientsMultiplyNoGaps) {
    for (const int64_t stride : {1, 2, 3}) {
        const std::string text = fmt::format(R"(graph g {{
            x = input f32[2,4,{0},{0}]
            w = input f32[6,4,3,3]
            output y = conv(x, w, strides=[{1},{1}])
        }})",
                                             3 + 11 * stride, stride);
        const Program program = planned(gradients_of(text, {"x"}), interpreter_caps());
        const uint64_t useful = 2u * 2 * 4 * 6 * 9 * 12 * 12;
        uint64_t contractions = 0, flops = 0;
        for (const Dispatch& dispatch : dispatches(program)) {
            if (!dispatch.label.starts_with("contract[")) continue;
            ++contractions;
            flops += dispatch.flops;
        }
        EXPECT_EQ(contractions, stride == 1 ? 1u : stride == 2 ? 4u : 1u) << "stride " << stride;
        // At the edges phases are as long as the longest.
        EXPECT_LE(flops, useful * 14 * 14 / (12 * 12)) << "stride " << stride;
        EXPECT_GE(flops, useful) << "stride " << stride;
    }
}

TEST(ConvPlan, DepthwiseNeedsNoWorkgroupMemory) {
    const Program program = planned(parsed(R"(graph g {
        x = input f32[2,16,20,20]
        w = input f32[16,1,3,3]
        output y = conv(x, w, groups=16, padding=[1,1,1,1])
    })"),
                                    h200_caps());
    ASSERT_EQ(program.kernels.size(), 1u);
    EXPECT_TRUE(program.kernels[0].kir.arrays.empty());
}

// Without padding a 1 x 1 kernel is a product of matrices: no test for the edge, no clamp.
TEST(ConvPlan, OneByOneHasNoEdgeTests) {
    const Program program = planned(parsed(R"(graph g {
        x = input f32[2,64,16,16]
        w = input f32[64,64,1,1]
        output y = conv(x, w)
    })"),
                                    h200_caps());
    for (const kir::Instruction& inst : program.kernels.at(0).kir.instructions) {
        EXPECT_NE(inst.op, kir::Opcode::select);
        EXPECT_NE(inst.op, kir::Opcode::min);
        EXPECT_NE(inst.op, kir::Opcode::max);
    }
}

// --- long sums ------------------------------------------------------------------------------------------------------

constexpr const char* long_sums = R"(graph g {
    a = input f32[3,9001]
    b = input f32[9001,2]
    x = input f32[2,9,40,40]
    dy = input f32[3,9,40,40]
    z = input f32[2,1,5000]
    k = input f32[1,1,4900]
    v = input f32[2,22,30,30]
    u = input f32[4,11,30,30]
    output d = dot(a, b, contract=[[1],[0]])
    output c = conv(x, dy, padding=[1,1,1,1])
    output t = conv(z, k)
    output g = conv(v, u, groups=2, padding=[1,1,0,0])
})";

TEST(ConvPlan, LongSumsPartSoThatTheDeviceIsFull) {
    Caps caps = interpreter_caps();
    caps.compute_units = 1;
    EXPECT_EQ(labels(planned(parsed(long_sums), caps)).size(), 4u);
    caps.compute_units = 7;
    const auto parted = labels(planned(parsed(long_sums), caps));
    EXPECT_GT(parted.size(), 8u);
    // Decided from shapes and caps alone.
    EXPECT_EQ(labels(planned(parsed(long_sums), caps)), parted);
}

TEST(ConvPlan, LongSumsInPiecesAgreeWithTheReference) {
    const Graph graph = parsed(long_sums);
    for (DeviceCase on : main_device_cases())
        for (const uint32_t units : {2, 7, 64}) {
            on.restrict_caps = [=](Caps caps) {
                caps.compute_units = units;
                return caps;
            };
            EXPECT_EQ(compare(graph, random_leaves(graph, 3), on, {.of_largest = 3e-6}), "") << units;
        }
}

// --- gradients ------------------------------------------------------------------------------------------------------

constexpr const char* geometries[] = {
    "x = input f32[2,3,9]\n w = input f32[4,3,3]\n output y = conv(x, w, strides=[2], padding=[1,2])",
    "x = input f32[1,4,8]\n w = input f32[6,2,2]\n output y = conv(x, w, strides=[3], dilation=[2], padding=[-1,2], groups=2)",
    "x = input f32[2,2,7,6]\n w = input f32[3,2,3,3]\n output y = conv(x, w, strides=[2,1], padding=[1,1,1,1])",
    "x = input f32[2,3,5,5]\n w = input f32[3,1,3,3]\n output y = conv(x, w, groups=3, padding=[1,1,1,1])",
    "x = input f32[2,3,3,4]\n w = input f32[3,2,3,2]\n output y = conv_transpose(x, w, strides=[2,3], padding=[1,0,0,1])",
};

// s = the sum of sin(gradient of the sum of tanh(y) by x) and of the same by w; the outputs are s and its gradients.
Graph second_derivatives(const char* geometry) {
    Builder b;
    const Graph first = parsed(fmt::format("graph g {{\n {}\n}}", geometry));
    GraphCopier copier(first, b);
    for (uint32_t i = 0; i < first.nodes.size(); ++i) copier.copy(NodeId(i));
    const Value wrt[] = {copier[first.find_input("x")->node], copier[first.find_input("w")->node]};
    const auto slopes = gradients(sum(tanh(copier[first.find_output("y")->node])), wrt);
    const Value s = add(sum(sin(slopes[0])), sum(sin(slopes[1])));
    const auto second = gradients(s, wrt);
    b.output("s", s);
    b.output("d_x", second[0]);
    b.output("d_w", second[1]);
    auto graph = b.finish();
    EXPECT_TRUE(graph) << (graph ? "" : graph.error().text());
    return graph ? *graph : Graph{};
}

TEST(ConvGradient, OfAGradientMeetsCentralDifferences) {
    for (const char* geometry : geometries) {
        const Graph graph = second_derivatives(geometry);
        NamedTensors leaves = random_leaves(graph, 5, 0.5);
        const auto at = eval(graph, leaves);
        ASSERT_TRUE(at) << at.error().text();
        for (const std::string name : {"x", "w"}) {
            Tensor& leaf = leaves.at(name);
            const Tensor& slope = at->outputs.at("d_" + name);
            const int64_t step = std::max<int64_t>(1, leaf.count() / 7);
            for (int64_t i = 0; i < leaf.count(); i += step) {
                const double value = leaf.real[i], move = 1e-5;
                const auto moved = [&](double by) {
                    leaf.real[i] = value + by;
                    return eval(graph, leaves)->outputs.at("s").real[0];
                };
                const double difference = (moved(move) - moved(-move)) / (2 * move);
                leaf.real[i] = value;
                EXPECT_NEAR(slope.real[i], difference, 1e-7 + 1e-6 * std::fabs(difference)) << geometry << " " << name << i;
            }
        }
    }
}

TEST(ConvGradient, OfAGradientAgreesOnDevices) {
    for (const char* geometry : geometries) {
        const Graph graph = second_derivatives(geometry);
        for (const DeviceCase& on : device_cases())
            EXPECT_EQ(compare(graph, random_leaves(graph, 5, 0.5), on, {.relative = 2e-5, .of_largest = 4e-6}), "") << geometry;
    }
}

// Two convolutions, bias, activation and a dense layer, with everything a step computes.
TEST(ConvGradient, OfANetworkAgreesOnDevices) {
    const Graph graph = gradients_of(R"(graph g {
        x = input f32[3,1,12,12]
        w1 = param f32[4,1,3,3]
        b1 = param f32[4]
        w2 = param f32[5,4,3,3]
        b2 = param f32[5]
        w3 = param f32[3,45]
        k = input i32[3]
        h = relu(conv(x, w1, b1, strides=[2,2], padding=[1,1,1,1]))
        g = relu(conv(h, w2, b2, strides=[2,2], padding=[1,1,1,1]))
        y = cross_entropy(linear(reshape(g, shape=[3,45]), w3), k)
        output y
    })",
                                     {"w1", "b1", "w2", "b2", "w3"});
    for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(graph, random_leaves(graph, 2, 0.5), on), "") << on.name;
}

}  // namespace
}  // namespace darner::test
