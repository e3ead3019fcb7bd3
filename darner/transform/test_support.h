// SPDX-License-Identifier: MIT
// For tests of transforms: graphs from a lambda, random leaves, evaluation, counts of ops.
#pragma once

#include "darner/graph/builder.h"
#include "darner/graph/eval.h"
#include "darner/graph/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <string_view>

namespace darner::testing {

inline Graph build(const std::function<void(Builder&)>& body, std::string name = "main") {
    Builder builder(std::move(name));
    body(builder);
    Result<Graph> graph = builder.finish();
    EXPECT_TRUE(graph) << (graph ? "" : graph.error().text());
    return graph ? std::move(*graph) : Graph{};
}

template <class T>
T ok(Result<T> result) {
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return result ? std::move(*result) : T{};
}

inline Tensor random_tensor(const Type& type, std::mt19937& random, double scale = 1) {
    Tensor tensor = Tensor::zeros(type.dtype, type.shape());
    std::normal_distribution<double> normal(0, scale);
    for (double& v : tensor.real) v = normal(random);
    for (int64_t& v : tensor.integer) v = static_cast<int64_t>(random() % 2);
    return tensor;
}

// Values for all inputs and params.
inline NamedTensors random_leaves(const Graph& graph, uint32_t seed = 1, double scale = 1) {
    std::mt19937 random(seed);
    NamedTensors leaves;
    for (const GraphInput& input : graph.inputs) leaves[input.name] = random_tensor(graph.type(input.node), random, scale);
    for (const GraphParam& param : graph.params) leaves[param.name] = random_tensor(graph.type(param.node), random, scale);
    return leaves;
}

inline size_t count_ops(const Graph& graph, std::string_view op) {
    size_t count = 0;
    for (const Node& node : graph.nodes) count += node.kind == NodeKind::op && node.op->name == op;
    return count;
}

inline size_t count_ops(const Graph& graph) {
    size_t count = 0;
    for (const Node& node : graph.nodes) count += node.kind == NodeKind::op;
    return count;
}

inline void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
    ASSERT_EQ(got.dtype, want.dtype) << what;
    ASSERT_EQ(got.dims, want.dims) << what;
    for (int64_t i = 0; i < want.count(); ++i)
        ASSERT_NEAR(got.at(i), want.at(i), tolerance * std::max(1.0, std::abs(want.at(i)))) << what << " at " << i;
}

// Outputs and updates of two graphs are equal within a relative tolerance.
inline void expect_same_results(const Graph& got, const Graph& want, const NamedTensors& leaves, double tolerance) {
    const EvalResult a = ok(eval(got, leaves)), b = ok(eval(want, leaves));
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    ASSERT_EQ(a.updates.size(), b.updates.size());
    for (const auto& [name, tensor] : b.outputs) expect_near(a.outputs.at(name), tensor, tolerance, name);
    for (const auto& [name, tensor] : b.updates) expect_near(a.updates.at(name), tensor, tolerance, name);
}

}  // namespace darner::testing
