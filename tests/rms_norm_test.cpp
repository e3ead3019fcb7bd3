// SPDX-License-Identifier: MIT
// RMSNorm's gradients: right at every scale of the rows and at odd shapes, in one main kernel that reads each input once and
// an ordered partial-sum kernel. The formula that a well-known implementation got wrong by a factor of the inverse RMS.
#include "darner/graph/text.h"
#include "darner/kernels/row.h"
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

// The main kernel's loads of an input [rows, cols] when each invocation reads each of its elements once. Lanes and slots
// past the edge of the rows and columns repeat the last element.
uint64_t loads_of_one_read(Shape shape, const Dispatch& main) {
    // The reductions are the mean of x^2 and that of w x dy; one row needs no sums over rows.
    constexpr kernels::RowReduce means[] = {{kernels::RowOp::sum, 0}, {kernels::RowOp::sum, 0}};
    const auto layout = kernels::row_shape(static_cast<uint32_t>(shape.rows), static_cast<uint32_t>(shape.cols), means,
                                           shape.rows == 1 ? 0 : 2, interpreter_caps());
    if (!layout || !layout->unrolled) {
        ADD_FAILURE() << "rows of " << shape.cols << " are not unrolled: they are read more than once";
        return 0;
    }
    const uint64_t workgroups = uint64_t{main.groups[0]} * main.groups[1] * main.groups[2];
    const uint64_t padded_rows = workgroups * layout->rows_per_block, padded_cols = uint64_t{layout->lanes} * layout->items;
    EXPECT_EQ(layout->rows_per_block % layout->slots, 0u);
    EXPECT_GE(padded_rows, static_cast<uint64_t>(shape.rows));
    EXPECT_GE(padded_cols, static_cast<uint64_t>(shape.cols));
    return padded_rows * padded_cols;
}

// The binding of an input or output of the program.
size_t binding_of(const Program& program, const Dispatch& dispatch, std::string_view name) {
    const Entry& entry = program.entries[0];
    for (const auto* ids : {&entry.inputs, &entry.outputs})
        for (TensorId id : *ids) {
            const ProgramTensor& tensor = program.tensor(id);
            if (tensor.name != name) continue;
            for (size_t i = 0; i < dispatch.bindings.size(); ++i)
                if (dispatch.bindings[i].segment == tensor.segment && dispatch.bindings[i].offset == tensor.offset) return i;
        }
    ADD_FAILURE() << "the kernel does not bind " << name;
    return 0;
}

TEST(RmsNormGradient, IsOneMainKernelThatReadsEachInputOnceAndAPartialSumKernel) {
    std::vector<Shape> all(std::begin(shapes), std::end(shapes));
    all.push_back({128, 64});  // nothing is padded
    for (const Shape shape : all) {
        SCOPED_TRACE(fmt::format("{}x{}", shape.rows, shape.cols));
        Module module;
        module.graphs.push_back(gradients_of(shape, "rms_norm(x, w, b)"));
        const auto program = compile_program(module, interpreter_caps());
        ASSERT_TRUE(program.has_value()) << program.error().text();
        // One row needs no sum over rows.
        EXPECT_EQ(program->reports[0].dispatches, shape.rows == 1 ? 1u : 2u) << to_text(*program);
        EXPECT_EQ(program->reports[0].barriers, shape.rows == 1 ? 0u : 1u);
        const auto& main = std::get<Dispatch>(program->entries[0].body[0]);
        const kir::InterpretStats stats = count_accesses(*program, main, scaled(module.graphs[0], 1));
        const uint64_t loads = loads_of_one_read(shape, main), elements = static_cast<uint64_t>(shape.rows * shape.cols);
        if (shape.rows == 128) EXPECT_EQ(loads, elements);
        for (const char* input : {"x", "d_y"}) EXPECT_EQ(stats.loads[binding_of(*program, main, input)], loads) << input;
        for (const char* output : {"y", "d_x"}) EXPECT_EQ(stats.stores[binding_of(*program, main, output)], elements) << output;
    }
}

}  // namespace
}  // namespace darner::test
