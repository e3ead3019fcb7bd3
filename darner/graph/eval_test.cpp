// SPDX-License-Identifier: MIT
// The reference evaluator on small graphs with known values, its leaf errors, integers, expansions, deep graphs.
#include "darner/graph/eval.h"

#include "darner/graph/test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace darner {
namespace {

using ::testing::ElementsAre;
using testing::ok;
using testing::parse;

Tensor floats(std::vector<int64_t> dims, std::vector<double> values) {
    return Tensor::of(DType::f32, std::move(dims), std::move(values));
}

TEST(Eval, KnownValues) {
    const Graph graph = parse(R"(graph g {
  x = input f32[2,3]
  w = param f32[3]
  n = param u32[]
  output y = mul(add(x, w), 2)
  output s = sum(x, axes=[1])
  output p = softmax(mul(x, 0))
  output k = select(lt(x, 3), 0.5, x)
  output i = cast(mul(x, -1.5), dtype=i32)
  output h = cast(add(x, 0.0001), dtype=f16)
  output e = constant f32[0] {}
  output c = constant i8[3] {-7}
  update w = neg(w)
  update n = sub(n, 1)
})");
    const NamedTensors leaves = {
        {"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"w", floats({3}, {10, 20, 30})}, {"n", Tensor::scalar(DType::u32, 0)}};
    EvalResult result = ok(eval(graph, leaves));
    EXPECT_THAT(result.outputs["y"].real, ElementsAre(22, 44, 66, 28, 50, 72));
    EXPECT_THAT(result.outputs["s"].real, ElementsAre(6, 15));
    EXPECT_DOUBLE_EQ(result.outputs["p"].real[0], 1.0 / 3) << "not rounded to f32";
    EXPECT_THAT(result.outputs["k"].real, ElementsAre(0.5, 0.5, 3, 4, 5, 6));
    EXPECT_THAT(result.outputs["i"].integer, ElementsAre(-1, -3, -4, -6, -7, -9));
    EXPECT_EQ(result.outputs["h"].real[0], 1) << "cast rounds";
    EXPECT_EQ(result.outputs["e"].count(), 0);
    EXPECT_THAT(result.outputs["c"].integer, ElementsAre(-7, -7, -7));
    EXPECT_THAT(result.updates["w"].real, ElementsAre(-10, -20, -30));
    EXPECT_EQ(result.updates["n"].integer[0], 4294967295) << "wraps";
}

TEST(Eval, UpdatesReadOldValues) {
    const Graph graph = parse("graph g {\n a = param f32[]\n b = param f32[]\n update a = b\n update b = a\n}");
    EvalResult result = ok(eval(graph, {{"a", floats({}, {1})}, {"b", floats({}, {2})}}));
    EXPECT_EQ(result.updates["a"].real[0], 2);
    EXPECT_EQ(result.updates["b"].real[0], 1);
}

TEST(Eval, ListsAllLeafErrors) {
    const Graph graph = parse(
        "graph g {\n x = input f32[2]\n y = input i32[3]\n z = param f32[]\n unused = input f32[]\n output o = mul(x, z)\n "
        "output p = y\n}");
    const Result<EvalResult> result = eval(graph, {{"y", floats({3}, {1, 2, 3})}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "[eval] graph g: x f32[2] is missing; y: got f32[3], expected i32[3]; z f32[] is missing");
    EXPECT_FALSE(eval_nodes(graph, {{"x", floats({2}, {1, 2})}, {"y", Tensor::zeros(DType::i32, {3})}, {"z", floats({}, {1})}}))
        << "all nodes need all leaves";
    Tensor torn = floats({2}, {1, 2});
    torn.real.pop_back();
    EXPECT_EQ(eval(graph, {{"x", torn}, {"y", Tensor::zeros(DType::i32, {3})}, {"z", floats({}, {1})}}).error().message,
              "[eval] graph g: x: got 1 values for f32[2]");
}

TEST(Eval, NodesOfTheGraph) {
    const Graph graph = parse("graph g {\n x = input f32[2]\n h = exp(x)\n output y = log(h)\n}");
    const std::vector<Tensor> values = ok(eval_nodes(graph, {{"x", floats({2}, {0, 1})}}));
    ASSERT_EQ(values.size(), 3u);
    EXPECT_DOUBLE_EQ(values[1].real[1], std::exp(1.0));
    EXPECT_DOUBLE_EQ(values[2].real[1], 1);
}

TEST(Eval, SymbolsMustBeBound) {
    const Graph graph = parse("graph g {\n x = input f32[n]\n output y = constant f32[n] {1}\n}");
    EXPECT_THAT(eval(graph, {}).error().message, ::testing::HasSubstr("its symbols have no values; bind them first"));
}

TEST(Eval, DeepGraph) {
    Builder b;
    Value x = b.input("x", f32());
    for (int i = 0; i < 100000; ++i) x = b.call("neg", {x});
    b.output("y", x);
    const Graph graph = ok(b.finish());
    EXPECT_EQ(ok(eval(graph, {{"x", floats({}, {3})}})).outputs["y"].real[0], 3);
}

}  // namespace
}  // namespace darner
