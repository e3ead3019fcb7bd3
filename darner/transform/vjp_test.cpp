// SPDX-License-Identifier: MIT
// Gradients against central differences in f64, always in the middle of a larger graph, and the engine's own duties: uses
// are summed, what is not reached is zero, what cannot be differentiated is named.
#include "darner/transform/vjp.h"

#include "darner/graph/text.h"
#include "darner/ops/ops.h"
#include "darner/transform/test_support.h"
#include "darner/transform/transform.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cmath>

namespace darner::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// d(output `loss`)/d(leaf) by central differences.
Tensor central_differences(const Graph& graph, NamedTensors leaves, const std::string& leaf) {
    Tensor result = leaves.at(leaf);
    for (int64_t i = 0; i < result.count(); ++i) {
        const double at = leaves.at(leaf).real[i], step = 1e-5 * std::max(1.0, std::abs(at));
        const auto loss = [&](double v) {
            leaves.at(leaf).real[i] = v;
            return ok(eval(graph, leaves)).outputs.at("loss").at(0);
        };
        const double above = loss(at + step), below = loss(at - step);
        leaves.at(leaf).real[i] = at;
        result.real[i] = (above - below) / (2 * step);
    }
    return result;
}

void check_gradients(const Graph& graph, double scale = 1) {
    const Graph with_gradients = ok(gradient_graph(graph, "loss", {}));
    const Graph clean = ok(cleanup(ok(expand(with_gradients))));
    const NamedTensors leaves = random_leaves(graph, 7, scale);
    const EvalResult result = ok(eval(with_gradients, leaves));
    const EvalResult clean_result = ok(eval(clean, leaves));
    size_t checked = 0;
    for (const auto& [name, value] : leaves) {
        if (!is_float(value.dtype)) continue;
        const Tensor want = central_differences(graph, leaves, name);
        expect_near(result.outputs.at("d_" + name), want, 1e-6, "d_" + name);
        expect_near(clean_result.outputs.at("d_" + name), want, 1e-6, "cleaned d_" + name);
        ++checked;
    }
    EXPECT_GT(checked, 0u);
}

struct Case {
    const char* name;
    void (*build)(Builder&);
};

const Case cases[] = {
    {"fan_out",
     [](Builder& b) {
         const Value x = b.input("x", f64({5}));
         const Value y = x * x + sin(x) * x + tanh(x);
         b.output("loss", sum(y * y));
     }},
    {"broadcast",
     [](Builder& b) {
         const Value x = b.input("x", f64({3, 1})), y = b.input("y", f64({4})), z = b.input("z", f64());
         b.output("loss", sum(sin(x * y + z) / (exp(z) + 1.0)));
     }},
    {"classifier",
     [](Builder& b) {
         const Value x = b.input("x", f64({3, 4})), labels = b.input("labels", i32({3}));
         const Value w1 = b.param("w1", f64({5, 4})), b1 = b.param("b1", f64({5})), w2 = b.param("w2", f64({2, 5}));
         b.output("loss", cross_entropy(linear(tanh(linear(x, w1, b1)), w2), labels));
     }},
    {"softmax_in_the_middle",
     [](Builder& b) {
         const Value x = b.input("x", f64({2, 5})), w = b.input("w", f64({2, 5}));
         b.output("loss", sum(sin(softmax(x * w)) * w));
     }},
    {"norm_in_the_middle",
     [](Builder& b) {
         const Value x = b.input("x", f64({3, 5})), w = b.param("w", f64({5})), beta = b.param("b", f64({5}));
         b.output("loss", sum(tanh(rms_norm(sin(x), w, beta)) * x));
     }},
    {"batched_products",
     [](Builder& b) {
         const Value x = b.input("x", f64({2, 3, 4})), y = b.input("y", f64({2, 5, 4}));
         const Value z = dot(sin(x), y, {{2}, {2}}, {{0}, {0}});
         b.output("loss", sum(tanh(z) * z));
     }},
    {"shapes",
     [](Builder& b) {
         const Value x = b.input("x", f64({4, 3})), y = b.input("y", f64({2, 3}));
         const Value parts[] = {sin(x), y};
         const Value z = transpose(concat(parts, 0), {1, 0});
         const Value cut = slice(z, {0, 1}, {3, 6}, {1, 2});
         const Value padded = pad(cut * cut, {1, 0}, {0, 2}, {0, 1}, 0.5);
         b.output("loss", mean(tanh(reshape(padded, {7 * 4, 1}))));
     }},
    {"choices",
     [](Builder& b) {
         const Value x = b.input("x", f64({6})), y = b.input("y", f64({6}));
         const Value z = select(gt(x, y), x * y, y - x) + maximum(x, y) * minimum(x * 2.0, y);
         b.output("loss", sum(relu(z) * abs(x)) + max(z * z));
     }},
    {"indexing",
     [](Builder& b) {
         const Value table = b.param("table", f64({3, 2})), at = b.input("at", i32({5}));
         const Value rows = gather(sin(table), at);
         b.output("loss", sum(rows * rows) + sum(tanh(scatter_add(at, rows, 3))));
     }},
    {"divisions_and_powers",
     [](Builder& b) {
         const Value x = b.input("x", f64({5})), y = b.input("y", f64({5}));
         const Value positive = exp(x) + 0.5;
         b.output("loss", sum(pow(positive, y) / positive + log(positive) * rsqrt(positive) + sqrt(positive) * sigmoid(y)));
     }},
};

class VjpCases : public ::testing::TestWithParam<Case> {};
TEST_P(VjpCases, AgreesWithCentralDifferences) {
    const Graph graph = build(GetParam().build);
    check_gradients(graph);
    check_gradients(graph, 1e-2);
}
INSTANTIATE_TEST_SUITE_P(All, VjpCases, ::testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Vjp, SecondDerivative) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64({4}));
        const Value first = gradients(sum(x * x * x), std::array{x})[0];
        b.output("first", first);
        b.output("second", gradients(sum(first), std::array{x})[0]);
    });
    const NamedTensors leaves = random_leaves(graph);
    const EvalResult result = ok(eval(graph, leaves));
    for (int64_t i = 0; i < 4; ++i) {
        const double x = leaves.at("x").at(i);
        EXPECT_NEAR(result.outputs.at("first").at(i), 3 * x * x, 1e-12);
        EXPECT_NEAR(result.outputs.at("second").at(i), 6 * x, 1e-12);
    }
}

TEST(Vjp, GradientsOfGradientsThroughComposites) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64({2, 3})), w = b.input("w", f64({2, 3}));
        const Value first = gradients(sum(softmax(sin(x)) * w), std::array{x})[0];
        b.output("loss", sum(first * first * w));
    });
    check_gradients(graph);
}

TEST(Vjp, UnreachedIsZero) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64({2})), y = b.input("y", f64({3})), n = b.input("n", i32({2}));
        const Value through_integers = cast(cast(x, DType::i32), DType::f64);
        const std::vector<Value> found = gradients(sum(through_integers), std::array{x, y, n});
        b.output("x", found[0]);
        b.output("y", found[1]);
        b.output("n", found[2]);
    });
    const EvalResult result = ok(eval(graph, random_leaves(graph)));
    EXPECT_EQ(result.outputs.at("x"), Tensor::zeros(DType::f64, {2}));
    EXPECT_EQ(result.outputs.at("y"), Tensor::zeros(DType::f64, {3}));
    EXPECT_EQ(result.outputs.at("n"), Tensor::zeros(DType::i32, {2}));
}

TEST(Vjp, OfItselfIsTheCotangent) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64()), dy = b.input("dy", f64());
        b.output("d", gradients(x, std::array{x}, dy)[0]);
        b.output("one", gradients(x, std::array{x})[0]);
    });
    const EvalResult result = ok(eval(graph, random_leaves(graph)));
    EXPECT_EQ(result.outputs.at("one").at(0), 1);
    EXPECT_EQ(result.outputs.at("d"), random_leaves(graph).at("dy"));
}

TEST(Vjp, IntermediateValueAndItsSource) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64());
        const Value y = x * x;
        const std::vector<Value> found = gradients(y * y, std::array{y, x});
        b.output("dy", found[0]);
        b.output("dx", found[1]);
    });
    const EvalResult result = ok(eval(graph, {{"x", Tensor::scalar(DType::f64, 3)}}));
    EXPECT_DOUBLE_EQ(result.outputs.at("dy").at(0), 18);
    EXPECT_DOUBLE_EQ(result.outputs.at("dx").at(0), 108);
}

// The forward expansion and the one on the tape merge.
TEST(Vjp, CompositesAreComputedOnce) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f32({4, 8})), w = b.input("w", f32({8})), labels = b.input("labels", i32({4}));
        b.output("loss", cross_entropy(rms_norm(softmax(x), w), labels));
    });
    const Graph forward = ok(cleanup(ok(expand(graph))));
    const Graph both = ok(cleanup(ok(expand(ok(gradient_graph(graph, "", {}))))));
    for (const char* op : {"exp", "max", "log", "rsqrt"}) {
        EXPECT_GT(count_ops(forward, op), 0u) << op;
        EXPECT_EQ(count_ops(both, op), count_ops(forward, op)) << op;
    }
}

TEST(Vjp, DeterministicOrder) {
    const auto make = [] { return ok(gradient_graph(build(cases[0].build), "loss", {})); };
    const Graph a = make(), b = make();
    ASSERT_EQ(a.nodes.size(), b.nodes.size());
    for (size_t i = 0; i < a.nodes.size(); ++i) EXPECT_EQ(a.nodes[i].operands, b.nodes[i].operands);
}

Result<Type> infer_same(const Call& call) { return call.type(0); }
constexpr OperandDef one_operand[] = {{"x"}};

TEST(Vjp, MissingRuleNamesTheNode) {
    static const OpDef opaque{.name = "opaque", .doc = "", .operands = one_operand, .infer = infer_same, .grad = CustomGrad{}};
    static const OpDef bent{.name = "bent", .doc = "", .operands = one_operand, .infer = infer_same, .grad = Deriv{}};
    Builder b;
    const Value x = b.input("x", f32());
    Value y;
    {
        const Builder::Scope scope = b.scope("layers.3");
        y = b.call_exact(opaque, std::array{sin(x, {"model.cpp", 12})}, {}, {"model.cpp", 13});
        y = b.call_exact(bent, std::array{y}, {}, {"model.cpp", 14});
    }
    EXPECT_FALSE(gradients(y, std::array{x})[0].valid());
    ASSERT_TRUE(b.failed());
    EXPECT_EQ(b.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(b.error().text(), HasSubstr("opaque"));
    EXPECT_THAT(b.error().text(), HasSubstr("bent"));
    EXPECT_THAT(b.error().text(), HasSubstr("layers.3 at model.cpp:13"));
}

TEST(Vjp, WrongUse) {
    {
        Builder b;
        const Value x = b.input("x", f32({2}));
        gradients(x, std::array{x});
        EXPECT_THAT(b.error().text(), HasSubstr("is no scalar"));
    }
    {
        Builder b;
        const Value x = b.input("x", f32({2}));
        gradients(x, std::array{x}, b.input("dy", f32({3})));
        EXPECT_THAT(b.error().text(), HasSubstr("got f32[3], expected f32[2]"));
    }
    {
        Builder b, other;
        const Value x = b.input("x", f32());
        gradients(x, std::array{other.input("x", f32())});
        EXPECT_THAT(b.error().text(), HasSubstr("not of this graph"));
    }
}

TEST(GradientGraph, KeepsOutputsUpdatesAndNames) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f32({3})), w = b.param("w", f32({3})), n = b.param("n", u32(), {.role = Role::counter});
        const Value h = x * w;
        b.set_name(h, "hidden");
        b.output("h", h);
        b.output("total", sum(h));
        b.update(n, n + 1.0);
    });
    const Graph result = ok(gradient_graph(graph, "", {}));
    std::vector<std::string> outputs;
    for (const GraphOutput& output : result.outputs) outputs.push_back(output.name);
    EXPECT_THAT(outputs, ::testing::ElementsAre("h", "total", "d_x", "d_w"));
    EXPECT_EQ(result.updates.size(), 1u);
    EXPECT_THAT(result.names, ::testing::Contains("hidden"));
    EXPECT_TRUE(verify(result));
}

TEST(GradientGraph, CotangentInput) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64({3}));
        b.output("y", sin(x));
    });
    const std::vector<std::string> wrt = {"x"};
    const Graph result = ok(gradient_graph(graph, "y", wrt));
    const NamedTensors leaves = random_leaves(result);
    const Tensor d = ok(eval(result, leaves)).outputs.at("d_x");
    for (int64_t i = 0; i < 3; ++i) EXPECT_NEAR(d.at(i), std::cos(leaves.at("x").at(i)) * leaves.at("d_y").at(i), 1e-12);
}

TEST(GradientGraph, Errors) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f32());
        b.output("a", x * 2.0);
        b.output("b", x * 3.0);
    });
    const std::vector<std::string> unknown = {"y", "z"};
    EXPECT_THAT(gradient_graph(graph, "", {}).error().text(), HasSubstr("2 scalar float outputs (a, b)"));
    EXPECT_THAT(gradient_graph(graph, "c", {}).error().text(), HasSubstr("no output c: it has a, b"));
    EXPECT_THAT(gradient_graph(graph, "a", unknown).error().text(), HasSubstr("no input or param y, z: it has x"));
}

// What the engine, its rules and expansions add has the place of what it belongs to, never one of darner's own sources.
TEST(GradientGraph, NodesHaveThePlacesOfTheGraphOrNone) {
    const Module module = ok(parse_module(R"(graph g {
        x = input f32[4,6] @"" net.dg:1
        labels = input i32[4] @"" net.dg:2
        w = param f32[6] init=0.5
        h = maximum(softmax(rms_norm(x, w)), abs(tanh(x))) @"head" net.dg:3
        output h = h
        output loss = add(add(cross_entropy(h, labels), mse(pow(h, 2.0), relu(x))), max(mean(x, axes=[0]))) @"" net.dg:4
    })"));
    const std::vector<std::string> wrt = {"x", "labels", "w"};
    for (const std::string of : {"h", "loss"}) {
        const Graph gradients = ok(gradient_graph(module.graphs[0], of, wrt));
        const Graph expanded = ok(expand(gradients));
        EXPECT_EQ(gradients.provenance(gradients.find_output("d_labels")->node).line, 2);
        for (const Graph& graph : {gradients, expanded, ok(cleanup(expanded))})
            for (const Provenance& place : graph.provenances)
                EXPECT_THAT(place.file, AnyOf("", "net.dg")) << of << ": " << place.text();
    }
    const Graph gradients = ok(gradient_graph(module.graphs[0], "h", wrt));
    EXPECT_EQ(gradients.provenance(gradients.inputs.back().node).text(), "head at net.dg:3");
    for (const Graph& graph : ok(extract_init(module)).graphs)
        for (const Provenance& place : graph.provenances) EXPECT_THAT(place.file, AnyOf("", "net.dg"));
}

TEST(GradientGraph, ErrorsNameNoPlaceInDarner) {
    const Module module = ok(parse_module("graph g { x = input f32[]; output d_x = mul(x, x) }"));
    const Result<Graph> graph = gradient_graph(module.graphs[0], "", {});
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().where, "") << graph.error().text();
}

TEST(Vjp, DeepChain) {
    constexpr int depth = 20000;
    const Graph graph = build([](Builder& b) {
        Value x = b.input("x", f64({2}));
        for (int i = 0; i < depth; ++i) x = i % 2 ? sin(x) : x * 1.0001;
        b.output("loss", sum(x));
    });
    const auto start = std::chrono::steady_clock::now();
    const Graph clean = ok(cleanup(ok(expand(ok(gradient_graph(graph, "", {}))))));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 20);
    const NamedTensors leaves{{"x", Tensor::of(DType::f64, {2}, {0.5, -1})}};
    const Tensor d = ok(eval(clean, leaves)).outputs.at("d_x");
    for (int64_t i = 0; i < 2; ++i) {
        double x = leaves.at("x").at(i), slope = 1;
        for (int k = 0; k < depth; ++k) {
            slope *= k % 2 ? std::cos(x) : 1.0001;
            x = k % 2 ? std::sin(x) : x * 1.0001;
        }
        EXPECT_NEAR(d.at(i), slope, 1e-9 * std::abs(slope));
    }
}

}  // namespace
}  // namespace darner::testing
