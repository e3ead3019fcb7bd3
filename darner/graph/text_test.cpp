// SPDX-License-Identifier: MIT
// Text round trips: what is printed for known graphs, every kind of node and attribute, random graphs, deep nesting.
#include "darner/graph/text.h"

#include "darner/graph/test_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace darner {
namespace {

using testing::expect_same;
using testing::ok;
using testing::parse;

void expect_round_trip(const Graph& graph) {
    const std::string text = to_text(graph);
    SCOPED_TRACE(text.substr(0, 4000));
    const Graph again = parse(text);
    expect_same(graph, again);
    EXPECT_EQ(to_text(again), text);
}

// Texts that are printed as they were written.
TEST(Text, PrintsWhatItReads) {
    const char* texts[] = {
        R"(graph step {
  x = input f32[64,784]
  y = input i32[64] per_step
  w = param f32[10,784]
  b = param f32[10]
  z = add(dot(x, w, contract=[[1],[1]]), broadcast(b, shape=[64,10], axes=[1]))
  loss = cross_entropy(z, y)
  n = param u32[] init=0 trainable=false role=counter
  output loss
  update n = add(n, 1)
}
)",
        R"(graph shapes {
  x = input f32[n,2*n+1]
  output y per_step = reshape(x, shape=[2*n*n+n])
  output x per_step
  output z = transpose(x, perm=[1,0])
}
)",
        R"(graph "weird name" {
  "x y" = input f32[2] @"a \"scope\"" "my file.cpp":3
  "%0" = input f32[2]
  layers.0.weight = param f32[2] @"" src/model.cpp:12
  "input" = input f32[2] @"layers.0"
  %4 = add("x y", "%0")
  output "true" = mul(%4, %4)
  output "%5x" = layers.0.weight
  output "input"
}
)",
        R"(graph constants {
  a = constant f32[3] {0.5, -0, inf}
  b = constant f16[2] {0.1, 65504}
  c = constant bf16[2,1] {1e-05, nan}
  d = constant f64[1000] {0.1}
  e = constant i64[2] {9223372036854775807, -9223372036854775808}
  f = constant bool[2] {true, false}
  g = constant u8[0] {}
  h = constant u32[2] {4294967295, 0}
  output a
  output b
  output c
  output d
  output e
  output f
  output g
  output h
}
)",
        R"(graph operands {
  x = input f32[4,8]
  beta = input f32[8]
  key = input u32[2]
  c = input bool[4,8]
  i = input i32[]
  output y = rms_norm(x, b=beta, eps=0.001)
  output m = select(c, 1, mul(x, 0.5))
  output k = select(c, exp(x), -inf)
  output u = random_bits(key, cast(i, dtype=u32), shape=[3], stream=5)
  output t = logical_and(c, true)
  output j = concat(x, neg(x), x, axis=1)
}
)",
    };
    for (const std::string text : texts) {
        const Graph graph = parse(text);
        EXPECT_EQ(to_text(graph), text);
        expect_round_trip(graph);
    }
}

TEST(Text, ReadsOtherSpellings) {
    const Graph graph = parse(R"(# a comment
graph g { x = input f32[ 2 , 3 ]   # behind
          per = input f32[3] per_step=true; s = param f32[] init=0x1p-1 role=statistic
  y = add(x,   # inside a call
          per)
  i = iota i32[2,3] axis=1
  z = cast(sum(y,
      axes=[1   # inside a list
           ], keep=true), dtype=f16)
  flat = constant f32[2,3] {
    1, 2, 3,
    4, 5, 6,
  }
  alias = y
  output alias ; output z; output i
  output both = mul(mul(flat, 2), maximum(0.5, x))
  update s = 1 })");
    ASSERT_EQ(graph.outputs.size(), 4u);
    EXPECT_EQ(to_string(graph.type(graph.find_output("alias")->node)), "f32[2,3]");
    EXPECT_EQ(to_string(graph.type(graph.find_output("z")->node)), "f16[2,1]");
    EXPECT_TRUE(graph.inputs[1].per_step);
    expect_round_trip(graph);
}

TEST(Text, SeveralGraphs) {
    const std::string text =
        "graph a {\n  w = param f32[2]\n  output w\n}\n\ngraph b {\n  w = param f32[2]\n  update w = neg(w)\n}\n";
    const Module module = ok(parse_module(text));
    ASSERT_EQ(module.graphs.size(), 2u);
    EXPECT_EQ(to_text(module), text);
    EXPECT_NE(module.find("b"), nullptr);
    EXPECT_EQ(module.find("c"), nullptr);
}

TEST(Text, ConstantsOfHostValues) {
    Builder b;
    b.output("a", b.constant(f32(), 0.1));
    b.output("b", b.constant(f32(), 16777217));
    b.output("c", b.constant(f16(), 1.0 / 3));
    b.output("d", b.constant(f64(), 1.0 / 3));
    b.output("e", b.constant(f32({3}), -0.0));
    b.output("f", b.constant(f32(), 0x1p-149));
    b.output("g", b.constant(bf16(), 0x1.8p-133));
    b.output("h", b.constant(Tensor::of(DType::f32, {2}, {std::nan(""), -INFINITY})));
    expect_round_trip(ok(b.finish()));
}

// Duplicate names of nodes are hints: the first keeps its name, the graph stays the same.
TEST(Text, NamesThatClash) {
    Builder b;
    const Value x = b.input("x", f32({2}));
    const Value first = b.call("neg", {x}), second = b.call("exp", {first});
    b.set_name(first, "h");
    b.set_name(second, "h");
    const Value third = b.call("log", {second});
    b.set_name(third, "x");
    b.output("x", third);
    const Graph graph = ok(b.finish());
    EXPECT_EQ(to_text(graph), "graph main {\n  x = input f32[2]" + std::string(" @\"\" ") + graph.provenance(x.id).file + ":" +
                                  std::to_string(graph.provenance(x.id).line) +
                                  to_text(graph).substr(to_text(graph).find("\n  h = ")));
    const Graph again = parse(to_text(graph));
    EXPECT_EQ(again.nodes.size(), graph.nodes.size());
    EXPECT_EQ(to_text(again), to_text(graph));
}

// A random graph of elementwise ops, reductions and views, with names, scopes, unused nodes and shared operands.
Graph random_graph(uint32_t seed) {
    std::mt19937 random(seed);
    Builder b("g");
    std::vector<Value> values = {b.input("x", f32({2, 3}), Where{}),
                                 b.param("p", f32({2, 3}), {.init = b.constant(f32({2, 3}), 0.5, Where{})}, Where{})};
    const auto pick = [&] {
        const size_t recent = std::min<size_t>(values.size(), random() % 3 ? 2 : 100);
        return values[values.size() - 1 - random() % recent];
    };
    for (int i = 0; i < 40; ++i) {
        const uint32_t scope = random() % 12;
        if (random() % 3 == 0)
            b.set_provenance(scope < 3 ? b.add_provenance({fmt::format("s{}", scope), "f.cpp", static_cast<int>(scope)}) : 0);
        Value v = pick();
        switch (random() % 8) {
            case 0: v = b.call("exp", {v}, {}, Where{}); break;
            case 1: v = b.call("add", {v, pick()}, {}, Where{}); break;
            case 2: v = b.call("mul", {v, b.constant(v.type(), 0.1 * i, Where{})}, {}, Where{}); break;
            case 3: v = b.call("sub", {b.constant(v.type(), i, Where{}), v}, {}, Where{}); break;
            case 4:
                v = b.call("select", {b.call("lt", {v, pick()}, {}, Where{}), pick(), b.constant(v.type(), 1, Where{})}, {},
                           Where{});
                break;
            case 5:
                v = b.call("broadcast", {b.call("sum", {v}, {}, Where{})},
                           {{"shape", Dims{2, 3}}, {"axes", std::vector<int64_t>{}}}, Where{});
                break;
            case 6: v = b.call("rms_norm", {v, Value{}, b.constant(f32({3}), i, Where{})}, {}, Where{}); break;
            case 7: v = b.constant(f32({2, 3}), i, Where{}); break;
        }
        if (random() % 5 == 0) b.set_name(v, fmt::format("n{}", i));
        values.push_back(v);
    }
    b.output("y", pick(), Where{});
    b.output("z", pick(), Where{});
    b.update(values[1], pick(), Where{});
    return ok(b.finish());
}

TEST(Text, RandomGraphs) {
    for (uint32_t seed = 0; seed < 200 && !::testing::Test::HasFailure(); ++seed) expect_round_trip(random_graph(seed));
}

TEST(Text, DeepGraph) {
    Builder b;
    Value x = b.input("x", f32());
    for (int i = 0; i < 100000; ++i) x = b.call("neg", {x});
    b.output("y", x);
    const Graph graph = ok(b.finish());
    const std::string text = to_text(graph);
    EXPECT_EQ(to_text(parse(text)), text);
}

TEST(Text, DeepNesting) {
    std::string text = "graph g {\n  x = input f32[]\n  output y = ";
    for (int i = 0; i < 100000; ++i) text += "neg(";
    text += "x" + std::string(100000, ')') + "\n}\n";
    EXPECT_EQ(parse(text).nodes.size(), 100001u);
    EXPECT_FALSE(parse_module(text.substr(0, 300000)));
}

TEST(Text, ManyOperands) {
    Builder b;
    std::vector<Value> parts;
    const Value x = b.input("x", f32({1}), Where{});
    for (int i = 0; i < 5000; ++i) parts.push_back(b.call("neg", {x}, {}, Where{}));
    b.output("y", b.call("concat", parts, {}, Where{}), Where{});
    expect_round_trip(ok(b.finish()));
}

}  // namespace
}  // namespace darner
