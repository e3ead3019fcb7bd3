// SPDX-License-Identifier: MIT
// The Builder's checks with their texts, broadcasting, scopes, step state, copying, and op entries as attributes see them.
#include "darner/graph/builder.h"

#include "darner/graph/attr.h"
#include "darner/graph/test_support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace darner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ok;

struct ErrorCase {
    const char* message;
    std::function<void(Builder&)> body;
    const char* hint = "";
};

TEST(Builder, ErrorTexts) {
    static Builder other;
    static const Value foreign = other.input("x", f32({3}));
    const ErrorCase cases[] = {
        {"[rellu] there is no op of this name", [](Builder& b) { b.call("rellu", {b.input("x", f32())}); },
         "did you mean \"relu\"?"},
        {"[sum] there is no attribute \"axis\"",
         [](Builder& b) {
             b.call("sum", {b.input("x", f32())}, {{"axis", int64_t{0}}});
         },
         "did you mean \"axes\"?"},
        {"[sum] wrong value of \"keep\": got 1, expected true or false",
         [](Builder& b) {
             b.call("sum", {b.input("x", f32())}, {{"keep", int64_t{1}}});
         }},
        {"[sum] the attribute \"keep\" is given twice",
         [](Builder& b) {
             b.call("sum", {b.input("x", f32())}, {{"keep", true}, {"keep", true}});
         }},
        {"[transpose] the attribute \"perm\" is missing: expected a list of integers like [0,1]",
         [](Builder& b) {
             b.call("transpose", {b.input("x", f32({2, 3}))});
         }},
        {"[add] the operand \"b\" is missing", [](Builder& b) { b.call("add", {b.input("x", f32())}); }},
        {"[relu] wrong number of operands: got 2, expected 1",
         [](Builder& b) {
             const Value x = b.input("x", f32());
             b.call("relu", {x, x});
         }},
        {"[add] the operand \"b\" belongs to another builder", [](Builder& b) { b.input("x", f32({3})) + foreign; }},
        {"[add] shapes do not broadcast: got [2,3] and [2], and 2 is not 3",
         [](Builder& b) {
             b.input("x", f32({2, 3})) + b.input("y", f32({2}));
         }},
        {"[add] shapes do not broadcast: got [n] and [m], and m is not n",
         [](Builder& b) { b.input("x", f32({Dim::symbol("n")})) + b.input("y", f32({Dim::symbol("m")})); },
         "assume m = n if they are meant to be equal"},
        {"[input] the name \"x\" is taken by another input or param",
         [](Builder& b) {
             b.input("x", f32());
             b.input("x", f32());
         }},
        {"[param] a name is needed: got an empty one", [](Builder& b) { b.param("", f32()); }},
        {"[input] \"x\": the dim -1 of f32[-1] is negative", [](Builder& b) { b.input("x", f32({-1})); }},
        {"[param] wrong type of the init of \"w\": got f32[], expected f32[2]",
         [](Builder& b) { b.param("w", f32({2}), {.init = b.constant(f32(), 0)}); }},
        {"[constant] 0.5 is not a value of i32", [](Builder& b) { b.input("n", i32()) + 0.5; }},
        {"[constant] 300 is not a value of u8", [](Builder& b) { b.constant(u8(), 300); }},
        {"[constant] 100000 overflows f16", [](Builder& b) { b.constant(f16(), 1e5); }},
        {"[constant] wrong number of values: got 2, expected 1 or those of f32[3]",
         [](Builder& b) {
             b.constant(f32({3}), Tensor::of(DType::f32, {2}, {1, 2}));
         }},
        {"[output] the name \"y\" is taken by another output",
         [](Builder& b) {
             const Value x = b.input("x", f32());
             b.output("y", x);
             b.output("y", x);
         }},
        {"[output] the value is missing", [](Builder& b) { b.output("y", {}); }},
        {"[update] only a param can be updated: got input x f32[]",
         [](Builder& b) {
             const Value x = b.input("x", f32());
             b.update(x, x, Where{});
         }},
        {"[update] the param \"w\" is updated twice",
         [](Builder& b) {
             const Value w = b.param("w", f32());
             b.update(w, w);
             b.update(w, w);
         }},
        {"[update] wrong type of the new value of \"w\": got i32[], expected f32[]",
         [](Builder& b) { b.update(b.param("w", f32()), b.constant(i32(), 0)); }},
        {"[reshape] shape: [65536,65536] has too many elements",
         [](Builder& b) {
             b.call("reshape", {b.input("x", f32())}, {{"shape", Dims{65536, 65536}}});
         }},
        {"[verify] graph main: there is neither an output nor an update", [](Builder& b) { b.input("x", f32()); }},
    };
    for (const ErrorCase& c : cases) {
        Builder builder;
        c.body(builder);
        const Result<Graph> graph = builder.finish();
        ASSERT_FALSE(graph) << c.message;
        EXPECT_THAT(graph.error().message, HasSubstr(c.message));
        EXPECT_EQ(graph.error().hint, c.hint) << c.message;
    }
}

TEST(Builder, KeepsTheFirstErrorWithItsPlace) {
    Builder b;
    const Value x = b.input("x", f32({2, 3}));
    const Value wrong = x + b.input("y", f32({4}));
    const int line = __LINE__ - 1;
    const Value later = wrong * wrong + 2.0 - b.call("nonsense", {wrong});
    EXPECT_FALSE(later.valid());
    b.output("z", later);
    const Result<Graph> graph = b.finish();
    ASSERT_FALSE(graph);
    EXPECT_THAT(graph.error().message, HasSubstr("[add]"));
    EXPECT_THAT(graph.error().where, ::testing::EndsWith(fmt::format("builder_test.cpp:{}", line)));
    EXPECT_FALSE((Value{} + Value{}).valid());
    EXPECT_FALSE((-Value{}).valid());
}

TEST(Builder, IsSpentAfterFinish) {
    Builder b;
    b.output("y", b.input("x", f32()));
    EXPECT_TRUE(b.finish());
    b.input("z", f32());
    EXPECT_EQ(b.finish().error().message, "[builder] used after finish()");
}

TEST(Builder, BroadcastsLikeNumpy) {
    const auto shape = [](Dims a, Dims b) {
        Builder builder;
        const Value sum = builder.input("a", f32(std::move(a))) + builder.input("b", f32(std::move(b)));
        builder.output("y", sum);
        const Graph graph = ok(builder.finish());
        return graph.outputs.empty() ? "" : to_string(graph.type(graph.outputs[0].node));
    };
    const Dim n = Dim::symbol("n");
    EXPECT_EQ(shape({2, 3}, {3}), "f32[2,3]");
    EXPECT_EQ(shape({2, 1}, {1, 3}), "f32[2,3]");
    EXPECT_EQ(shape({}, {4, 5}), "f32[4,5]");
    EXPECT_EQ(shape({1}, {1, 1, 1}), "f32[1,1,1]");
    EXPECT_EQ(shape({5, 1, 4}, {3, 1}), "f32[5,3,4]");
    EXPECT_EQ(shape({n, 1}, {1, 7}), "f32[n,7]");
    EXPECT_EQ(shape({0, 1}, {1, 3}), "f32[0,3]");
}

TEST(Builder, TypesStayWhereTheyAre) {
    Builder b;
    const Value x = b.input("x", f32({7}));
    const Dims& dims = x.dims();
    for (int i = 0; i < 1000; ++i) b.constant(f32(), i);
    EXPECT_EQ(&dims, &x.dims());
    EXPECT_EQ(dims[0], Dim(7));
}

TEST(Builder, ScopesPrefixParamsAndProvenance) {
    Builder b;
    Value w, y;
    {
        const auto layers = b.scope("layers");
        const auto zero = b.scope("0");
        w = b.param("weight", f32({2}));
        y = b.call("relu", {w}, {}, Where{"/home/me/model.cpp", 12});
    }
    EXPECT_EQ(b.current_scope(), "");
    b.output("y", y);
    const Graph graph = ok(b.finish());
    EXPECT_NE(graph.find_param("layers.0.weight"), nullptr);
    EXPECT_EQ(graph.describe(y.id), "relu f32[2] (layers.0 at model.cpp:12)");
    EXPECT_EQ(graph.describe(w.id).substr(0, 35), "param layers.0.weight f32[2] (layer");
}

TEST(Builder, StepStateIsMadeOnceAndOutsideScopes) {
    Builder b;
    const auto scope = b.scope("dropout");
    const Value seed = b.seed(), step = b.step();
    EXPECT_EQ(b.seed().id, seed.id);
    EXPECT_EQ(b.step().id, step.id);
    b.output("s", step);
    const Graph graph = ok(b.finish());
    const GraphParam* counter = graph.find_param("step");
    ASSERT_NE(counter, nullptr);
    EXPECT_EQ(counter->role, Role::counter);
    EXPECT_FALSE(counter->trainable);
    EXPECT_TRUE(counter->init.valid());
    EXPECT_EQ(to_string(graph.type(graph.find_param("seed")->node)), "u32[2]");
}

TEST(Builder, StateNamesAreReserved) {
    Builder b;
    b.input("seed", f32());
    b.seed();
    EXPECT_EQ(b.error().message,
              "[seed] \"seed\" is kept for the module's own param of type u32[2]: got " + b.graph().describe(NodeId(0)));
}

TEST(Builder, StreamsAreUnique) {
    Builder b;
    const Value key = b.seed(), counter = b.constant(u32(), 0);
    const auto stream = [&](Value v) {
        const Node& node = b.graph().node(v.id);
        return std::get<int64_t>(node.attrs[static_cast<size_t>(node.op->find_attr("stream") - node.op->attrs.data())]);
    };
    const NamedAttr shape = {"shape", Dims{4}};
    const Value first = b.call("random_bits", {key, counter}, {shape});
    const Value given = b.call("random_bits", {key, counter}, {shape, {"stream", int64_t{7}}});
    const Value third = b.call("random_bits", {key, counter}, {shape});
    EXPECT_EQ(stream(first), 0);
    EXPECT_EQ(stream(given), 7);
    EXPECT_EQ(stream(third), 8);
}

TEST(Builder, ConstantsAreRoundedToTheirType) {
    Builder b;
    const Value c = b.constant(f32(), 0.1);
    EXPECT_EQ(b.graph().constant(b.graph().node(c.id)).real[0], static_cast<double>(0.1f));
    EXPECT_TRUE(b.constant(f32(), -INFINITY).valid());
    EXPECT_TRUE(b.constant(f32({Dim::symbol("n")}), 1).valid());
    EXPECT_FALSE(b.failed());
}

TEST(Copier, KeepsEverything) {
    Builder b("step");
    const Value x = b.input_per_step("x", f32({3}));
    const Value w = b.param("w", f32({3}), {.init = b.constant(f32({3}), 0.5), .trainable = false, .role = Role::statistic});
    const Value y = b.call("mul", {x, w}, {}, Where{"a.cpp", 3});
    b.set_name(y, "product");
    b.output("y", y);
    b.update(w, y + 1.0);
    const Graph graph = ok(b.finish());
    Builder target("step");
    GraphCopier copier(graph, target);
    for (size_t i = 0; i < graph.nodes.size(); ++i) copier.copy(NodeId(i));
    copier.copy_outputs();
    copier.copy_updates();
    testing::expect_same(graph, ok(target.finish()));
}

TEST(Copier, DeepGraphs) {
    Builder b;
    Value x = b.input("x", f32());
    for (int i = 0; i < 100000; ++i) x = b.call("neg", {x});
    b.output("y", x);
    const Graph graph = ok(b.finish());
    Builder target;
    GraphCopier copier(graph, target);
    copier.copy_outputs();
    EXPECT_EQ(ok(target.finish()).nodes.size(), 100001u);
}

TEST(Copier, SharesLeavesThatAreThere) {
    Builder b;
    b.output("s", b.step() + b.input("x", u32()));
    const Graph graph = ok(b.finish());
    Builder target;
    const Value step = target.step();
    GraphCopier copier(graph, target);
    copier.copy_outputs();
    EXPECT_EQ(copier[graph.find_param("step")->node].id, step.id);
    GraphCopier again(graph, target);
    EXPECT_EQ(again.copy_deep(graph.inputs[0].node).id, copier[graph.inputs[0].node].id);
}

TEST(Attr, TextRoundTrip) {
    const auto trip = [](AttrKind kind, std::string_view text, std::string_view default_text = "",
                         std::string_view choices = "") {
        const AttrDef def{"a", kind, default_text, "", choices};
        const Result<AttrValue> value = parse_attr(def, text);
        return value ? to_text(*value) : "error: " + value.error().message;
    };
    EXPECT_EQ(trip(AttrKind::integer, " -1 "), "-1");
    EXPECT_EQ(trip(AttrKind::real, "1e-5"), "1e-05");
    EXPECT_EQ(trip(AttrKind::real, "0.1"), "0.1");
    EXPECT_EQ(trip(AttrKind::real, "0x1p-1"), "0.5");
    EXPECT_EQ(trip(AttrKind::real, "-inf"), "-inf");
    EXPECT_EQ(trip(AttrKind::boolean, "true"), "true");
    EXPECT_EQ(trip(AttrKind::integers, "[ 0, -1 ]"), "[0,-1]");
    EXPECT_EQ(trip(AttrKind::integers, "[]"), "[]");
    EXPECT_EQ(trip(AttrKind::integer_lists, "[[1],[0,2],[]]"), "[[1],[0,2],[]]");
    EXPECT_EQ(trip(AttrKind::dtype, "bf16"), "bf16");
    EXPECT_EQ(trip(AttrKind::dims, "[n, 1+2*n]"), "[n,2*n+1]");
    EXPECT_EQ(trip(AttrKind::choice, "none", "none", "none|tanh"), "none");
    EXPECT_EQ(trip(AttrKind::integer, "none", "none"), "none");
    EXPECT_EQ(trip(AttrKind::integer, "none"), "error: wrong value of \"a\": got none, expected an integer");
    EXPECT_EQ(trip(AttrKind::choice, "sigmoid", "none", "none|tanh"),
              "error: wrong value of \"a\": got sigmoid, expected one of none|tanh");
    EXPECT_EQ(trip(AttrKind::integer, "", "none"), "error: wrong value of \"a\": got nothing, expected an integer, or none");
    for (const char* wrong : {"1e999", "0x", "--1", "infinity", "+1", "1.5.2", "nan(1)", "0x-1"})
        EXPECT_EQ(parse_real(wrong), std::nullopt) << wrong;
    for (const char* wrong : {"[0", "0]", "[[0]]", "[0,]", "[0]]", "[1.5]", "[99999999999999999999]"})
        EXPECT_THAT(trip(AttrKind::integers, wrong), HasSubstr("error")) << wrong;
}

TEST(Registry, FindsAndSuggests) {
    const OpRegistry& registry = op_registry();
    ASSERT_NE(registry.find("add"), nullptr);
    EXPECT_EQ(registry.find("ad"), nullptr);
    EXPECT_EQ(registry.nearest("sofmax"), "softmax");
    for (const OpDef* op : registry.all()) EXPECT_EQ(registry.defaults(*op).size(), op->attrs.size());
}

}  // namespace
}  // namespace darner
