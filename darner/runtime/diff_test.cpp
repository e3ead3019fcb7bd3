// SPDX-License-Identifier: MIT
// diff() finds nothing on devices that are right, and the node that is wrong on one that is not: the interpreter with an opcode
// of its kernels changed.
#include "darner/runtime/diff.h"

#include "darner/graph/text.h"
#include "darner/runtime/devices.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

Graph parse(std::string_view text) {
    Result<Module> module = parse_module(text, "model.dg");
    EXPECT_TRUE(module) << (module ? "" : module.error().text());
    return module ? module->graphs.at(0) : Graph{};
}

NamedTensors ramp_leaves(const Graph& graph) {
    NamedTensors leaves;
    double next = 0.25;
    const auto fill = [&](const std::string& name, const Type& type) {
        Tensor& t = leaves[name] = Tensor::zeros(type.dtype, type.shape());
        for (int64_t i = 0; i<t.count(); ++i, next = next> 2 ? 0.2 : next + 0.17)
            is_float(t.dtype) ? t.real[i] = round_to(t.dtype, i % 3 == 0 ? -next : next) : t.integer[i] = i % 2;
    };
    for (const GraphInput& input : graph.inputs) fill(input.name, graph.type(input.node));
    for (const GraphParam& param : graph.params) fill(param.name, graph.type(param.node));
    return leaves;
}

constexpr std::string_view model = R"(
graph step {
  x = input f32[5,7]
  w = param f32[3,7]
  h = param f16[5,3]
  k = input i32[5]
  z = dot(x, w, contract=[[1],[1]])  @"fc1" model.py:3
  a = sqrt(add(mul(z, z), 1))  @"fc1" model.py:4
  p = softmax(a)
  c = cast(mul(h, h), dtype=f32)
  q = mul(p, add(c, 1))
  t = transpose(q, perm=[1,0])
  m = max(t, axes=[1])
  i = argmax(a, axis=1)
  l = cross_entropy(q, k)
  output l
  output m
  output i
  update w = sub(w, mul(w, 0.125))
})";

// Kernels come to the wrapped device with one opcode in place of another.
class WrongDevice final : public Device {
public:
    WrongDevice(std::unique_ptr<Device> inner, kir::Opcode right, kir::Opcode wrong)
        : inner_(std::move(inner)), right_(right), wrong_(wrong) {}
    const DeviceInfo& info() const override { return inner_->info(); }
    Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program) override {
        auto changed = std::make_shared<Program>(*program);
        for (KernelCode& kernel : changed->kernels)
            for (kir::Instruction& instruction : kernel.kir.instructions)
                if (instruction.op == right_ && instruction.type == kir::f32_type) instruction.op = wrong_;
        return inner_->load(changed);
    }

private:
    std::unique_ptr<Device> inner_;
    kir::Opcode right_, wrong_;
};

DiffReport run(const Graph& graph, CompileOptions options) {
    const Result<DiffReport> report = diff(graph, ramp_leaves(graph), options);
    EXPECT_TRUE(report) << (report ? "" : report.error().text());
    return report ? *report : DiffReport{};
}

DiffReport run_wrong(const Graph& graph, kir::Opcode right, kir::Opcode wrong) {
    auto inner = open_device("interp");
    EXPECT_TRUE(inner);
    CompileOptions options;
    options.open = std::make_shared<WrongDevice>(std::move(*inner), right, wrong);
    return run(graph, options);
}

TEST(Diff, FindsNothingOnDevicesThatAreRight) {
    for (const char* device : {"interp", "interp:8", "vulkan"}) {
        CompileOptions options;
        options.device = device;
        const DiffReport report = run(parse(model), options);
        EXPECT_TRUE(report.ok()) << device << ": " << (report.outside.empty() ? "a result" : report.outside[0].what);
        EXPECT_GE(report.nodes, 20u);
        EXPECT_GT(report.worst_ratio, 0);
        EXPECT_LT(report.worst_ratio, 1);
    }
}

// The square root is wrong; everything behind it is right for what it reads, and is not named.
TEST(Diff, NamesTheNodeWhereTheErrorStarts) {
    const DiffReport report = run_wrong(parse(model), kir::Opcode::sqrt, kir::Opcode::rsqrt);
    ASSERT_EQ(report.outside.size(), 1u);
    const Difference& first = report.outside[0];
    EXPECT_EQ(first.what, "a = sqrt f32[5,3] (fc1 at model.py:4)");
    EXPECT_GT(first.outside, 10);
    EXPECT_EQ(first.count, 15);
    EXPECT_GT(std::abs(first.got - first.want), first.bound);
    ASSERT_EQ(first.operands.size(), 1u);
    EXPECT_EQ(first.operands[0].what, "x: add f32[5,3] (fc1 at model.py:4)");
    EXPECT_FALSE(report.results.empty());  // and it shows in the loss
}

TEST(Diff, HoldsSumsAndWhatIntegersComeFrom) {
    const DiffReport sum =
        run_wrong(parse("graph g { a = input f32[3,40]\n output y = sum(a, axes=[1]) }"), kir::Opcode::add, kir::Opcode::sub);
    ASSERT_FALSE(sum.ok());
    EXPECT_TRUE(sum.outside.at(0).what.find("sum f32[3]") != std::string::npos) << sum.outside[0].what;
    const DiffReport less = run_wrong(parse("graph g { a = input f32[9]\n b = input f32[9]\n"
                                            " output y = argmax(sub(a, b)) }"),
                                      kir::Opcode::sub, kir::Opcode::add);
    ASSERT_EQ(less.outside.size(), 1u);
    EXPECT_TRUE(less.outside[0].what.find("sub f32[9]") != std::string::npos) << less.outside[0].what;
}

TEST(Diff, BeyondTheRangeOfADtypeInfinityIsRight) {
    const Graph graph = parse("graph g { a = input f16[2]\n output y = mul(a, a) }");
    CompileOptions options;
    options.device = "interp";
    const auto report = diff(graph, {{"a", Tensor::of(DType::f16, {2}, {60000, 2})}}, options);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->ok());
}

}  // namespace
}  // namespace darner
