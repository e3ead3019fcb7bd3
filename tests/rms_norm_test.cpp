// SPDX-License-Identifier: MIT
// RMSNorm's gradients: right at every scale of the rows and at odd shapes, in one main kernel that reads each input once and
// an ordered partial-sum kernel. The formula that a well-known implementation got wrong by a factor of the inverse RMS.
#include "darner/graph/text.h"
#include "darner/kir/interpret.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace darner::test {
namespace {

struct Shape {
    int64_t rows, cols;
};
constexpr Shape shapes[] = {{1, 1}, {3, 5}, {17, 257}, {2, 4099}, {129, 64}};

Graph gradients_of(Shape shape, std::string_view op) {
    const auto module = parse_module(fmt::format(R"(graph g {{
        x = input f32[{0},{1}]
        w = input f32[{1}]
        b = input f32[{1}]
        output y = {2}
    }})",
                                                 shape.rows, shape.cols, op),
                                     "test");
    const std::vector<std::string> wrt = {"x", "w", "b"};
    auto graph = gradient_graph(module->graphs[0], "y", wrt);
    if (!graph) ADD_FAILURE() << graph.error().text();
    return *graph;
}

NamedTensors scaled(const Graph& graph, double rms) {
    NamedTensors leaves = random_leaves(graph, 7);
    Tensor& x = leaves["x"];
    double square = 0;
    for (double v : x.real) square += v * v;
    const double factor = rms / std::sqrt(square / static_cast<double>(x.count()));
    for (double& v : x.real) v = round_to(DType::f32, v * factor);
    return leaves;
}

// The textbook formulas, written out in f64: r = rsqrt(mean x^2 + eps), dx = r (w dy) - r^3 x mean(w dy x).
NamedTensors closed_form(const NamedTensors& leaves, Shape shape) {
    const Tensor &x = leaves.at("x"), &w = leaves.at("w"), &dy = leaves.at("d_y");
    NamedTensors out{
        {"d_x", x}, {"d_w", Tensor::zeros(DType::f32, {shape.cols})}, {"d_b", Tensor::zeros(DType::f32, {shape.cols})}};
    for (int64_t r = 0; r < shape.rows; ++r) {
        double square = 0, along = 0;
        for (int64_t c = 0; c < shape.cols; ++c) {
            const double v = x.real[r * shape.cols + c];
            square += v * v;
            along += v * w.real[c] * dy.real[r * shape.cols + c];
        }
        const double n = static_cast<double>(shape.cols), inverse = 1 / std::sqrt(square / n + double{1e-5f});
        for (int64_t c = 0; c < shape.cols; ++c) {
            const int64_t i = r * shape.cols + c;
            out["d_x"].real[i] = inverse * w.real[c] * dy.real[i] - inverse * inverse * inverse * x.real[i] * along / n;
            out["d_w"].real[c] += dy.real[i] * x.real[i] * inverse;
            out["d_b"].real[c] += dy.real[i];
        }
    }
    return out;
}

// The size of dx's first term: its two terms cancel in part, wholly for rows of one element.
double largest_term(const NamedTensors& leaves, Shape shape) {
    const Tensor &x = leaves.at("x"), &w = leaves.at("w"), &dy = leaves.at("d_y");
    double largest = 0;
    for (int64_t r = 0; r < shape.rows; ++r) {
        double square = 0, product = 0;
        for (int64_t c = 0; c < shape.cols; ++c) {
            square += x.real[r * shape.cols + c] * x.real[r * shape.cols + c];
            product = std::max(product, std::abs(w.real[c] * dy.real[r * shape.cols + c]));
        }
        largest = std::max(largest, product / std::sqrt(square / static_cast<double>(shape.cols) + 1e-5));
    }
    return largest;
}

TEST(RmsNormGradient, IsRightAtEveryScaleAndShapeOnEveryDevice) {
    for (const Shape shape : shapes) {
        const Graph graph = gradients_of(shape, "rms_norm(x, w, b)");
        for (double rms : {0.01, 0.1, 1.0, 3.0, 100.0}) {
            const NamedTensors leaves = scaled(graph, rms);
            const auto evaluated = eval(graph, leaves);
            ASSERT_TRUE(evaluated.has_value()) << evaluated.error().text();
            for (const auto& [name, want] : closed_form(leaves, shape))
                for (int64_t i = 0; i < want.count(); ++i)
                    ASSERT_NEAR(evaluated->outputs.at(name).real[i], want.real[i], 1e-9 * (1 + std::abs(want.real[i])))
                        << name << " at RMS " << rms;
            for (const DeviceCase& on : main_device_cases())
                EXPECT_EQ(compare(graph, leaves, on, {.largest = {{"d_x", largest_term(leaves, shape)}}}), "")
                    << shape.rows << "x" << shape.cols << " at RMS " << rms;
        }
    }
}

// Runs one dispatch of a program on the interpreter with counters.
kir::InterpretStats count_accesses(const Program& program, const Dispatch& dispatch, const NamedTensors& leaves) {
    std::vector<std::vector<uint32_t>> memory;
    for (const Segment& segment : program.segments) memory.emplace_back((segment.bytes + 3) / 4);
    for (TensorId id : program.entries[0].inputs) {
        const ProgramTensor& tensor = program.tensor(id);
        const auto bytes = leaves.at(tensor.name).bytes();
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(memory[tensor.segment.value].data()) + tensor.offset);
    }
    std::vector<kir::Buffer> buffers;
    for (const BindingWindow& window : dispatch.bindings)
        buffers.push_back({reinterpret_cast<std::byte*>(memory[window.segment.value].data()) + window.offset, window.bytes});
    kir::InterpretStats stats{std::vector<uint64_t>(buffers.size()), std::vector<uint64_t>(buffers.size())};
    kir::InterpretOptions options;
    options.stats = &stats;
    const auto ran = kir::interpret(program.kernel(dispatch.kernel).kir, dispatch.groups, buffers, dispatch.params, options);
    EXPECT_TRUE(ran.has_value()) << ran.error().text();
    return stats;
}

TEST(RmsNormGradient, IsOneMainKernelThatReadsEachInputOnceAndAPartialSumKernel) {
    for (const Shape shape : shapes) {
        const Graph graph = gradients_of(shape, "rms_norm(x, w, b)");
        Module module;
        module.graphs.push_back(graph);
        const auto program = compile_program(module, interpreter_caps());
        ASSERT_TRUE(program.has_value()) << program.error().text();
        // One row needs no sum over rows.
        EXPECT_EQ(program->reports[0].dispatches, shape.rows == 1 ? 1u : 2u) << to_text(*program);
        EXPECT_EQ(program->reports[0].barriers, shape.rows == 1 ? 0u : 1u);
        const auto& main = std::get<Dispatch>(program->entries[0].body[0]);
        const kir::Kernel& kernel = program->kernel(main.kernel).kir;
        const kir::InterpretStats stats = count_accesses(*program, main, scaled(graph, 1));
        for (size_t i = 0; i < main.bindings.size(); ++i) {
            const uint64_t elements = kernel.bindings[i].elements;
            if (elements != static_cast<uint64_t>(shape.rows * shape.cols)) continue;
            if (kernel.bindings[i].access == kir::Access::write) {
                EXPECT_EQ(stats.stores[i], elements);
                continue;
            }
            // Each lane and slot of a workgroup reads its element once; those past the edge repeat one.
            const uint64_t invocations = uint64_t{kernel.invocations()} * main.groups[0];
            EXPECT_LT(stats.loads[i], elements + elements / 2 + 16 * invocations);
            EXPECT_GE(stats.loads[i], elements);
        }
    }
}

TEST(RmsNormGradient, ReadsNothingTwiceWhenRowsFillTheirLanes) {
    const Shape shape{128, 64};
    const Graph graph = gradients_of(shape, "rms_norm(x, w, b)");
    Module module;
    module.graphs.push_back(graph);
    const auto program = compile_program(module, interpreter_caps());
    ASSERT_TRUE(program.has_value());
    const auto& main = std::get<Dispatch>(program->entries[0].body[0]);
    const kir::InterpretStats stats = count_accesses(*program, main, scaled(graph, 1));
    const kir::Kernel& kernel = program->kernel(main.kernel).kir;
    int inputs = 0;
    for (size_t i = 0; i < main.bindings.size(); ++i)
        if (kernel.bindings[i].access == kir::Access::read && kernel.bindings[i].elements == 128 * 64) {
            EXPECT_EQ(stats.loads[i], 128u * 64u);
            ++inputs;
        }
    EXPECT_EQ(inputs, 2);  // x and dy
}

}  // namespace
}  // namespace darner::test
