// SPDX-License-Identifier: MIT
// Attention as devices run it: plans without a tensor of queries x keys, results of one kernel together, and values and gradients
// of long, wide and odd shapes on devices of all kinds, within WebGPU's limits and within bindings that hold one head.
#include "darner/nn/test_support.h"
#include "darner/ops/ops.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner::test {
namespace {

using ::testing::HasSubstr;
using testing::ok;

struct Shape {
    int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, depth = 1, width = 1;
};

// Output y and the gradients of all operands.
Graph attention_graph(const Shape& s, AttentionOptions options, bool additive = false, bool dropout = false) {
    Builder b;
    const Value q = b.input("q", f32({s.batch, s.heads, s.queries, s.depth})),
                k = b.input("k", f32({s.batch, s.kv_heads, s.keys, s.depth})),
                v = b.input("v", f32({s.batch, s.kv_heads, s.keys, s.width}));
    std::vector<Value> wrt = {q, k, v};
    if (additive) wrt.push_back(options.mask = b.input("mask", f32({s.heads, 1, s.keys})));
    if (dropout) {
        options.dropout = 0.25;
        options.key = b.input("key", u32({2}));
        options.counter = b.input("counter", u32());
    }
    const Value y = attention(q, k, v, options);
    b.output("y", y);
    const std::vector<Value> d = gradients(y, wrt, b.input("dy", y.type()));
    for (size_t i = 0; i < d.size(); ++i) b.output("d_" + std::to_string(i), d[i]);
    return ok(b.finish());
}

Program program_of(Graph graph, const Caps& caps) {
    Module module;
    module.graphs.push_back(std::move(graph));
    return ok(compile_program(module, caps));
}

std::vector<std::string> labels(const Program& program) {
    std::vector<std::string> all;
    for (const Item& item : program.entries[0].body)
        if (const auto* dispatch = std::get_if<Dispatch>(&item)) all.push_back(dispatch->label);
    return all;
}

TEST(Attention, PlansNoTensorOfQueriesByKeys) {
    // 8 MiB of scores a head; all other tensors together are a third of one.
    const Shape s{1, 4, 2, 1024, 2048, 16, 16};
    const uint64_t scores = 4u * 1024 * 2048;
    for (const Caps& caps : {h200_caps(), webgpu_default_caps(), vulkan_minimum_caps()})
        for (const bool dropout : {false, true}) {
            const Program program = program_of(attention_graph(s, {.causal = true}, false, dropout), caps);
            EXPECT_LT(program.reports[0].scratch_sum, scores / 2);
        }
}

TEST(Attention, ResultsOfOneKernelAreComputedTogether) {
    const Program program = program_of(attention_graph({2, 4, 2, 40, 50, 8, 8}, {}), h200_caps());
    EXPECT_THAT(labels(program), ::testing::UnorderedElementsAre(
                                     HasSubstr("attention_forward+attention_rows"), HasSubstr("mul+sum"), HasSubstr("concat"),
                                     HasSubstr("attention_dq"), HasSubstr("attention_dk+attention_dv")));
}

struct Case {
    const char* name;
    Shape shape;
    AttentionOptions options = {};
    bool additive = false, dropout = false;
};

void compare_on_devices(const Case& c, const std::vector<DeviceCase>& devices) {
    const Graph graph = attention_graph(c.shape, c.options, c.additive, c.dropout);
    // Gradients are differences of sums over all keys.
    const Tolerance tolerance{.relative = 1e-4, .of_largest = 1e-5};
    for (const DeviceCase& on : devices) EXPECT_EQ(compare(graph, random_leaves(graph, 1), on, tolerance), "") << c.name;
}

TEST(Attention, DevicesAgreeWithTheReference) {
    for (const Case& c :
         {Case{"tiles", {1, 2, 1, 67, 70, 9, 5}, {.causal = true}},
          Case{"window", {1, 1, 1, 70, 90, 4, 4}, {.causal = true, .window = 13}}, Case{"wide", {1, 1, 1, 3, 5, 256, 256}},
          Case{"narrow", {1, 2, 2, 5, 3, 1, 1}, {.soft_cap = 2}}, Case{"many heads", {2, 6, 1, 5, 9, 3, 4}, {.window = 3}},
          Case{"mask and dropout", {2, 4, 2, 9, 18, 8, 3}, {}, true, true}})
        compare_on_devices(c, device_cases());
}

TEST(Attention, IsSplitWithinSmallBindings) {
    for (const DeviceCase& on : main_device_cases())
        for (const Case& c : {Case{"heads", {1, 4, 2, 20, 40, 8, 8}, {.causal = true}},
                              Case{"mask and dropout", {2, 2, 1, 9, 20, 4, 4}, {}, true, true},
                              Case{"one head", {1, 1, 1, 40, 44, 8, 5}, {.causal = true, .window = 15}},
                              Case{"shared keys, one head", {1, 2, 1, 20, 40, 7, 7}, {}, true, true}})
            compare_on_devices(c, {with_bindings(on, 1024)});
}

TEST(Attention, RefusesWhatNoSplitMakesFit) {
    Module module;
    module.graphs.push_back(attention_graph({1, 1, 1, 1, 1, 256, 256}, {}));
    Caps caps = webgpu_default_caps();
    caps.max_binding_bytes = 256;
    const auto program = compile_program(module, caps);
    ASSERT_FALSE(program);
    EXPECT_THAT(program.error().text(), HasSubstr("8 bindings of 256 bytes reach"));
}

}  // namespace
}  // namespace darner::test
