// SPDX-License-Identifier: MIT
// Tests of the ops: a graph of constants and what its one output is.
#pragma once

#include "darner/graph/eval.h"
#include "darner/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace darner {

inline constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// A graph of constants and the value of its one output.
class Ops : public testing::Test {
protected:
    Value real(std::vector<int64_t> dims, std::vector<double> values) { return b.constant(Tensor::of(DType::f32, dims, values)); }
    Value real(std::vector<double> values) {
        const auto count = static_cast<int64_t>(values.size());
        return real({count}, std::move(values));
    }
    Value whole(DType dtype, std::vector<int64_t> dims, std::vector<double> values) {
        return b.constant(Tensor::of(dtype, dims, values));
    }
    Value whole(DType dtype, std::vector<double> values) {
        const auto count = static_cast<int64_t>(values.size());
        return whole(dtype, {count}, std::move(values));
    }
    Tensor value(Value v) {
        b.output("y", v);
        Result<Graph> graph = b.finish();
        EXPECT_TRUE(graph) << (graph ? "" : graph.error().text());
        if (!graph) return {};
        Result<EvalResult> result = eval(*graph, {});
        EXPECT_TRUE(result) << (result ? "" : result.error().text());
        return result ? result->outputs.at("y") : Tensor{};
    }
    std::vector<double> reals(Value v) { return value(v).real; }
    std::vector<int64_t> integers(Value v) { return value(v).integer; }
    std::string error() { return b.failed() ? b.error().text() : ""; }

    Builder b;
};

inline auto near(std::vector<double> expected) { return testing::Pointwise(testing::DoubleNear(1e-6), expected); }

}  // namespace darner
