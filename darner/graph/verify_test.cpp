// SPDX-License-Identifier: MIT
// Every violation that the verifier names, made by damaging a sound graph, and several at once.
#include "darner/graph/verify.h"

#include "darner/graph/test_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace darner {
namespace {

using ::testing::HasSubstr;
using testing::parse;

// Nodes: 0 x, 1 constant, 2 w, 3 exp, 4 sum, 5 neg.
Graph sound() {
    return parse(R"(graph g {
  x = input f32[2,3]
  w = param f32[] init=1
  h = exp(x)
  s = sum(h, axes=[1])
  output s
  update w = neg(w)
})");
}

TEST(Verify, AcceptsSoundGraphs) { EXPECT_TRUE(verify(sound())); }

TEST(Verify, NamesEachViolation) {
    struct Damage {
        const char* message;
        std::function<void(Graph&)> make;
    };
    const Damage damages[] = {
        {"5 names for 6 nodes", [](Graph& g) { g.names.pop_back(); }},
        {"node 3: no provenance 9", [](Graph& g) { g.nodes[3].provenance = 9; }},
        {"node 3: no op", [](Graph& g) { g.nodes[3].op = nullptr; }},
        {"node 3 (exp): got 0 operands, expected 1", [](Graph& g) { g.nodes[3].operands.clear(); }},
        {"is missing", [](Graph& g) { g.nodes[3].operands[0] = {}; }},
        {"is node 4, which does not come before it", [](Graph& g) { g.nodes[3].operands[0] = NodeId(4); }},
        {"is node 99, which does not come before it", [](Graph& g) { g.nodes[3].operands[0] = NodeId(99); }},
        {"node 4 (sum): got 0 attributes, expected 2", [](Graph& g) { g.nodes[4].attrs.clear(); }},
        {"node 4 (sum): wrong value of \"axes\": got true, expected a list of integers like [0,1]",
         [](Graph& g) { g.nodes[4].attrs[0] = true; }},
        {"node 4: [sum] ", [](Graph& g) { g.nodes[4].attrs[0] = std::vector<int64_t>{7}; }},
        {"h = exp f32[7]: wrong type: inference gives f32[2,3]", [](Graph& g) { g.nodes[3].type = f32({7}); }},
        {"node 0: the dim -1 of f32[-1] is negative", [](Graph& g) { g.nodes[0].type = f32({-1}); }},
        {"node 0: not in the table of its kind", [](Graph& g) { g.nodes[0].leaf = 1; }},
        {"node 1: no constant 3", [](Graph& g) { g.nodes[1].leaf = 3; }},
        {"its values are i32", [](Graph& g) { g.constants[0] = std::make_shared<Tensor>(Tensor::scalar(DType::i32, 1)); }},
        {"it has 2 values", [](Graph& g) { g.constants[0] = std::make_shared<Tensor>(Tensor::zeros(DType::f32, {2})); }},
        {"two leaves are called \"x\"", [](Graph& g) { g.params[0].name = "x"; }},
        {"a leaf without a name", [](Graph& g) { g.inputs[0].name.clear(); }},
        {"the leaf \"x\" has no node of its own", [](Graph& g) { g.inputs[0].node = NodeId(1); }},
        {"the init of \"w\" does not come before it", [](Graph& g) { g.params[0].init = NodeId(5); }},
        {"the init of \"w\" is f32[2,3] but the param f32[]", [](Graph& g) { g.params[0].init = NodeId(0); }},
        {"there is neither an output nor an update",
         [](Graph& g) {
             g.outputs.clear();
             g.updates.clear();
         }},
        {"two outputs are called \"s\"", [](Graph& g) { g.outputs.push_back(g.outputs[0]); }},
        {"the output \"s\" has no node", [](Graph& g) { g.outputs[0].node = {}; }},
        {"an update needs a param and a value", [](Graph& g) { g.updates[0].param = NodeId(0); }},
        {"\"w\" is updated twice", [](Graph& g) { g.updates.push_back(g.updates[0]); }},
        {"the new value of \"w\" is f32[2,3] but the param f32[]", [](Graph& g) { g.updates[0].value = NodeId(0); }},
    };
    for (const Damage& damage : damages) {
        Graph graph = sound();
        damage.make(graph);
        const Result<void> result = verify(graph);
        ASSERT_FALSE(result) << damage.message;
        EXPECT_THAT(result.error().message, HasSubstr(damage.message));
    }
}

TEST(Verify, ListsAllViolations) {
    Graph graph = sound();
    graph.nodes[3].type = f32({7});
    graph.outputs[0].node = {};
    graph.params[0].name = "x";
    const std::string message = verify(graph).error().message;
    EXPECT_THAT(message, HasSubstr("wrong type"));
    EXPECT_THAT(message, HasSubstr("the output \"s\" has no node"));
    EXPECT_THAT(message, HasSubstr("two leaves"));
}

// A name is state in all graphs of a module or in none: runs and checkpoints go by name.
TEST(Verify, ANameIsNotStateInOneGraphAndAnInputInAnother) {
    const auto module_of = [](const char* second) {
        const Result<Module> module =
            parse_module(std::string("graph step {\n  x = param f32[2]\n  output y = neg(x)\n}\n") + second);
        return module ? verify(*module) : Result<void>(module.error());
    };
    EXPECT_TRUE(module_of("graph eval {\n  x = param f32[2]\n  output y = neg(x)\n}\n"));
    const Result<void> mixed = module_of("graph eval {\n  x = input f32[2]\n  output y = neg(x)\n}\n");
    ASSERT_FALSE(mixed);
    EXPECT_THAT(mixed.error().message, HasSubstr("\"x\" is an input of graph eval but a param of graph step"));
}

}  // namespace
}  // namespace darner
