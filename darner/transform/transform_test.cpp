// SPDX-License-Identifier: MIT
// expand, extract_init and bind_symbols.
#include "darner/transform/transform.h"

#include "darner/ops/ops.h"
#include "darner/transform/test_support.h"

#include <gmock/gmock.h>

#include <array>

namespace darner::testing {
namespace {

using ::testing::HasSubstr;

TEST(Expand, LeavesPrimitivesOnly) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f64({3, 5})), w = b.param("w", f64({5})), labels = b.input("labels", i32({3}));
        const Value h = rms_norm(x, w);
        b.output("p", softmax(h));
        b.output("loss", cross_entropy(h, labels) + mse(x, h));
        b.update(w, mean(matmul(transpose(x, {1, 0}), x), {0}));
    });
    const Graph expanded = ok(expand(graph));
    for (const Node& node : expanded.nodes) EXPECT_FALSE(is_composite(node)) << node.op->name;
    expect_same_results(expanded, graph, random_leaves(graph), 1e-12);
}

TEST(Expand, KeepsNameAndProvenance) {
    const Graph graph = build([](Builder& b) {
        const Builder::Scope scope = b.scope("head");
        const Value y = softmax(b.input("x", f32({3})), -1, {"model.cpp", 7});
        b.set_name(y, "probabilities");
        b.output("y", y);
    });
    const Graph expanded = ok(expand(graph));
    const NodeId y = expanded.find_output("y")->node;
    EXPECT_EQ(expanded.names[y.value], "probabilities");
    for (size_t i = 0; i < expanded.nodes.size(); ++i) {
        if (expanded.nodes[i].kind == NodeKind::op) EXPECT_EQ(expanded.provenance(NodeId(i)).text(), "head at model.cpp:7");
    }
}

TEST(ExtractInit, OneUpdateAParam) {
    Module module;
    module.graphs.push_back(build(
        [](Builder& b) {
            const Value w = b.param("w", f32({8}), {.init = uniform(b.seed(), b.constant(u32(), 0.0), {8})});
            const Value shadow = b.param("shadow", f32({8}), {.init = w * 2.0, .trainable = false, .role = Role::statistic});
            const Value host = b.param("host", f32({8}));
            b.output("y", w + shadow + host);
        },
        "step"));
    const Module result = ok(extract_init(module));
    ASSERT_EQ(result.graphs.size(), 2u);
    const Graph& init = *result.find("init");
    ASSERT_EQ(init.updates.size(), 2u);
    EXPECT_EQ(init.find_param("host"), nullptr);
    EXPECT_EQ(init.find_param("shadow")->role, Role::statistic);
    for (const Graph& graph : result.graphs)
        for (const GraphParam& param : graph.params) EXPECT_FALSE(param.init.valid());
    EXPECT_EQ(count_ops(*result.find("step"), "uniform"), 0u);
    EXPECT_TRUE(verify(result));

    NamedTensors leaves = random_leaves(init);
    const EvalResult first = ok(eval(init, leaves));
    const Tensor &w = first.updates.at("w"), &shadow = first.updates.at("shadow");
    for (int64_t i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(shadow.at(i), 2 * w.at(i)) << "reads the new value of w";
    // What the params hold before does not count.
    leaves["w"] = Tensor::of(DType::f32, {8}, std::vector<double>(8, 17));
    EXPECT_EQ(ok(eval(init, leaves)).updates.at("shadow"), shadow);
}

TEST(ExtractInit, ParamsOfSeveralGraphs) {
    const auto graph = [](const char* name, const char* own) {
        return build(
            [&](Builder& b) {
                const auto random = [&] { return uniform(b.seed(), b.constant(u32(), 0.0), {64}); };
                const Value shared = b.param("shared", f32({64}), {.init = random()});
                b.output("y", shared + b.param(own, f32({64}), {.init = random()}));
            },
            name);
    };
    Module module;
    module.graphs = {graph("a", "first"), graph("b", "second")};
    const Module result = ok(extract_init(module));
    const Graph& init = *result.find("init");
    ASSERT_EQ(init.updates.size(), 3u);
    const EvalResult values = ok(eval(init, random_leaves(init)));
    EXPECT_NE(values.updates.at("first"), values.updates.at("second")) << "streams of two graphs fell together";
    EXPECT_NE(values.updates.at("first"), values.updates.at("shared"));
}

TEST(ExtractInit, NothingToDo) {
    Module module;
    module.graphs.push_back(build([](Builder& b) { b.output("y", b.param("w", f32())); }));
    EXPECT_EQ(ok(extract_init(module)).graphs.size(), 1u);
}

TEST(ExtractInit, Errors) {
    const auto module_of = [](const char* name, Value (*init)(Builder&)) {
        Module module;
        module.graphs.push_back(build([&](Builder& b) { b.output("w", b.param("w", f32(), {.init = init(b)})); }, name));
        return module;
    };
    const Module reads_input = module_of("step", [](Builder& b) { return sin(b.input("x", f32())); });
    EXPECT_THAT(extract_init(reads_input).error().text(), HasSubstr("reads input x"));
    const Module has_init = module_of("init", [](Builder& b) { return b.constant(f32(), 1); });
    EXPECT_THAT(extract_init(has_init).error().text(), HasSubstr("has a graph init"));
}

TEST(BindSymbols, TypesAndAttributesFollow) {
    const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
    const Graph graph = build([&](Builder& b) {
        const Value x = b.input("x", f32({n, 2})),
                    w = b.param("w", f32({2, m * 2 + 1}), {.init = b.constant(f32({2, m * 2 + 1}), 3)});
        const Value y = dot(x, w, {{1}, {0}});
        b.output("y", y + broadcast(b.input("bias", f32({n})), {n, m * 2 + 1}, {0}));
    });
    const Graph bound = ok(bind_symbols(graph, {{"n", 4}, {"m", 3}, {"other", 1}}));
    EXPECT_EQ(bound.type(bound.find_output("y")->node), f32({4, 7}));
    EXPECT_EQ(bound.type(bound.find_param("w")->node), f32({2, 7}));
    EXPECT_TRUE(bound.find_param("w")->init.valid());
    EXPECT_TRUE(verify(bound));
    EXPECT_TRUE(eval(bound, random_leaves(bound)));
}

TEST(BindSymbols, Errors) {
    const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
    const Graph graph = build([&](Builder& b) { b.output("y", sin(b.input("x", f32({n, m - 5})))); });
    EXPECT_THAT(bind_symbols(graph, {{"m", 9}}).error().text(), HasSubstr("n"));
    EXPECT_THAT(bind_symbols(graph, {{"n", 1}, {"m", 2}}).error().text(), HasSubstr("is -3: a dim cannot be negative"));
}

}  // namespace
}  // namespace darner::testing
