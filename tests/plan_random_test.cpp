// SPDX-License-Identifier: MIT
// Random modules through the whole planner: params of equal and unequal sizes with updates that read each other, reductions,
// products, views and index ops, two steps, on the interpreter (whose checks find missing barriers and stale memory) and on
// Vulkan, against the reference evaluator with carried state.
#include "darner/graph/builder.h"
#include "darner/graph/text.h"
#include "darner/ops/ops.h"
#include "tests/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

namespace darner::test {
namespace {

constexpr int steps = 2;

class RandomGraph {
public:
    explicit RandomGraph(uint64_t seed) : random_(seed) {}

    Graph build() {
        rows_ = pick<int64_t>({1, 2, 3, 5, 8, 17});
        cols_ = pick<int64_t>({1, 2, 3, 7, 16, 33});
        const int params = 2 + below(4);
        for (int i = 0; i < params; ++i) {
            const Role role = below(2) == 0 ? Role::param : Role::moment;
            params_.push_back(
                builder_.param(fmt::format("p{}", i), f32(shape()), {.trainable = role == Role::param, .role = role}));
        }
        values_ = params_;
        values_.push_back(builder_.input("x", f32({rows_, cols_})));
        for (const char* name : {"s", "t"}) scales_.push_back(builder_.input(name, f32()));
        const int nodes = 4 + below(14);
        for (int i = 0; i < nodes; ++i) values_.push_back(node());
        for (const Value& param : params_)
            if (below(4) != 0) builder_.update(param, update_of(param));
        for (int i = 0; i < 1 + below(3); ++i) builder_.output(fmt::format("y{}", i), any());
        auto graph = builder_.finish();
        if (!graph) ADD_FAILURE() << graph.error().text();
        return *graph;
    }

private:
    int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
    template <class T>
    T pick(std::vector<T> choices) {
        return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
    }
    Dims shape() {
        switch (below(4)) {
            case 0: return {rows_};
            case 1: return {cols_};
            default: return {rows_, cols_};
        }
    }
    Value any() { return pick(values_); }
    Value any_of(const Dims& dims) {
        std::vector<Value> fitting;
        for (const Value& v : values_)
            if (v.dims() == dims) fitting.push_back(v);
        return fitting.empty() ? builder_.constant(f32(dims), 0.25) : pick(fitting);
    }

    // Values stay near one: every op here is bounded or averaged.
    Value node() {
        const Value v = any();
        const int64_t rank = static_cast<int64_t>(v.rank());
        switch (below(14)) {
            case 0: return tanh(v);
            case 1: return tanh(v + any_of(v.dims()));
            case 2: return tanh(v * any_of(v.dims())) * 0.5;
            case 3: return relu(v - any_of(v.dims()) * 0.5);
            case 4: return rank == 2 ? mean(v, {below(2)}, below(2) == 0) : v * 0.5;
            case 5: return rank == 2 ? max(v, {below(2)}) : sigmoid(v);
            case 6: return rank == 2 ? transpose(transpose(v, {1, 0}), {1, 0}) + 0.125 : sigmoid(v);
            case 7: return rank == 2 ? softmax(v, below(2)) : v;
            case 8: return rank == 2 ? matmul(v, transpose(any_of(v.dims()), {1, 0})) * 0.05 : mean(v) + v;
            case 9: return materialize(v * 0.75);
            case 10: return rank == 2 ? rms_norm(v) : tanh(v * 2.0);
            case 11: return part(v);
            case 12:
                return rank == 2 ? slice(concat(std::vector<Value>{v, any_of(v.dims())}, 0), {0, 0},
                                         {v.dims()[0].value(), v.dims()[1].value()})
                                 : v;
            default: return rank > 0 ? v + builder_.iota(f32(v.dims()), 0) * 0.01 : v;
        }
    }

    // A slice from the start, padded back: the positions of the whole, but not all of it.
    Value part(Value v) {
        if (v.rank() != 2) return v * 0.5;
        const int64_t rows = v.dims()[0].value(), cols = v.dims()[1].value();
        const int64_t kept = 1 + below(static_cast<int>(rows));
        values_.push_back(slice(v, {0, 0}, {kept, cols}));
        return tanh(pad(tanh(values_.back()), {0, 0}, {rows - kept, 0})) + v;
    }

    Value update_of(const Value& param) {
        const Value other = any_of(param.dims());
        switch (below(6)) {
            case 0: return param * 0.9 + other * 0.1;
            case 3: return param * pick(scales_);
            case 4: return param * pick(scales_) + other * pick(scales_);
            case 1: return param - materialize(tanh(other)) * 0.1;
            case 2: return other;
            default: return param * 0.5 + mean(any());
        }
    }

    std::mt19937_64 random_;
    Builder builder_{"g"};
    int64_t rows_ = 1, cols_ = 1;
    std::vector<Value> params_, values_, scales_;
};

std::string run_steps(const Graph& graph, NamedTensors leaves, const DeviceCase& on) {
    for (int step = 0; step < steps; ++step) {
        std::string differences = compare(graph, leaves, on, {.relative = 1e-4, .of_largest = 1e-5});
        if (!differences.empty()) return fmt::format("step {}: {}", step, differences);
        const auto next = eval(graph, leaves);
        for (const auto& [name, value] : next->updates) leaves[name] = value;
        for (auto& [name, value] : leaves)
            for (double& v : value.real) v = round_to(DType::f32, v);
    }
    return {};
}

TEST(RandomPlans, AgreeWithTheReference) {
    for (uint64_t seed = 0; seed < 120; ++seed) {
        const Graph graph = RandomGraph(seed).build();
        if (HasFailure()) return;
        for (const DeviceCase& on : seed % 8 == 0 ? device_cases() : main_device_cases()) {
            const std::string differences = run_steps(graph, random_leaves(graph, seed), on);
            ASSERT_EQ(differences, "") << "seed " << seed << "\n" << to_text(graph);
        }
    }
}

}  // namespace
}  // namespace darner::test
