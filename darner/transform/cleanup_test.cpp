// SPDX-License-Identifier: MIT
// Cleanup keeps what a graph computes, and shrinks what it should and nothing else.
#include "darner/ops/ops.h"
#include "darner/transform/test_support.h"
#include "darner/transform/transform.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

namespace darner::testing {
namespace {

struct Shrink {
    const char* name;
    Value (*build)(Builder&, Value x);  // x: f32[3,4]
    size_t ops;                         // left after cleanup
};

const Shrink shrinks[] = {
    {"add_zero", [](Builder&, Value x) { return 0.0 + (x + 0.0); }, 0},
    {"subtract_zero", [](Builder&, Value x) { return x - 0.0; }, 0},
    {"times_one", [](Builder&, Value x) { return 1.0 * (x * 1.0) / 1.0; }, 0},
    {"times_zero_stays", [](Builder&, Value x) { return x * 0.0; }, 1},
    {"zero_minus_stays", [](Builder&, Value x) { return 0.0 - x; }, 1},
    {"one_over_stays", [](Builder&, Value x) { return 1.0 / x; }, 1},
    {"negated_twice", [](Builder&, Value x) { return neg(neg(x)); }, 0},
    {"nothing_of_it_is_read",
     [](Builder&, Value x) {
         return pad(slice(tanh(x), {0, 0}, {0, 4}), {3, 0}, {0, 0});
     },
     1},
    {"transposed_twice",
     [](Builder&, Value x) {
         return transpose(transpose(x, {1, 0}), {1, 0});
     },
     0},
    {"transposes_compose",
     [](Builder&, Value x) {
         return transpose(transpose(reshape(x, {3, 2, 2}), {1, 2, 0}), {1, 2, 0});
     },
     2},
    {"reshapes_cancel",
     [](Builder&, Value x) {
         return reshape(reshape(reshape(x, {12}), {2, 6}), {3, 4});
     },
     0},
    {"reshapes_compose",
     [](Builder&, Value x) {
         return reshape(reshape(x, {12}), {2, 6});
     },
     1},
    {"broadcasts_compose",
     [](Builder&, Value x) {
         return broadcast(broadcast(x, {3, 2, 4}, {0, 2}), {5, 3, 2, 4}, {1, 2, 3});
     },
     1},
    {"whole_slice",
     [](Builder&, Value x) {
         return slice(x, {0, 0}, {3, 4});
     },
     0},
    {"part_slice_stays",
     [](Builder&, Value x) {
         return slice(x, {1, 0}, {3, 4});
     },
     1},
    {"square_transpose_stays",
     [](Builder&, Value x) {
         return transpose(slice(x, {0, 0}, {3, 3}), {1, 0});
     },
     2},
    {"cast_to_itself", [](Builder&, Value x) { return cast(x, DType::f32); }, 0},
    {"narrowing_and_back_stays", [](Builder&, Value x) { return cast(cast(x, DType::f16), DType::f32); }, 2},
    {"constant_condition",
     [](Builder& b, Value x) {
         return select(b.constant(boolean({3, 4}), 1), x, sin(x));
     },
     0},
    {"equal_branches", [](Builder&, Value x) { return select(gt(x, x * 2.0), x, x); }, 0},
    {"common_subexpression", [](Builder&, Value x) { return exp(sin(x)) * exp(sin(x)); }, 3},
    {"operand_order_of_commutative_ops",
     [](Builder&, Value x) {
         const Value a = sin(x), c = cos(x);
         return exp(a * c) + exp(c * a);
     },
     5},
    {"operand_order_of_others",
     [](Builder&, Value x) {
         const Value a = sin(x), c = cos(x);
         return (a - c) * (c - a);
     },
     5},
    {"attributes_differ", [](Builder&, Value x) { return sum(x, {0}, true) + sum(x, {1}, true); }, 7},
    {"constants_fold", [](Builder& b, Value x) { return x * (exp(b.constant(f32(), 1)) + 2.0); }, 1},
    {"constants_fold_through_views",
     [](Builder& b, Value x) {
         return x * transpose(broadcast(b.constant(f32({4}), 1), {4, 3}, {0}), {1, 0});
     },
     0},
    {"materialize_stays",
     [](Builder& b, Value x) {
         return x + materialize(b.constant(f32({3, 4}), 2));
     },
     2},
    {"materialize_is_not_merged", [](Builder&, Value x) { return materialize(x) * materialize(x); }, 3},
};

class CleanupShrinks : public ::testing::TestWithParam<Shrink> {};
TEST_P(CleanupShrinks, ToTheOpsThatCount) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f32({3, 4}));
        b.output("y", GetParam().build(b, x));
        (void)sin(x);  // not needed
    });
    const Graph clean = ok(cleanup(graph));
    EXPECT_EQ(count_ops(clean), GetParam().ops);
    EXPECT_TRUE(verify(clean));
    expect_same_results(clean, graph, random_leaves(graph), 1e-6);
    EXPECT_EQ(clean.nodes.size(), ok(cleanup(clean)).nodes.size()) << "a second run finds more";
}
INSTANTIATE_TEST_SUITE_P(All, CleanupShrinks, ::testing::ValuesIn(shrinks),
                         [](const auto& info) { return std::string(info.param.name); });

// The one constant that a graph has become.
double folded(const std::function<Value(Builder&)>& body) {
    const Graph clean = ok(cleanup(build([&](Builder& b) { b.output("y", body(b)); })));
    EXPECT_EQ(count_ops(clean), 0u);
    return clean.constants.empty() ? NAN : clean.constants[0]->at(0);
}

TEST(CleanupFolds, RoundToTheDtype) {
    const float tenth = 0.1f;
    EXPECT_EQ(folded([](Builder& b) { return b.constant(f32({5}), 0.1) * 3.0; }), static_cast<double>(tenth * 3.0f));
    EXPECT_EQ(folded([](Builder& b) { return b.constant(f64(), 0.1) * 3.0; }), 0.1 * 3.0);
    EXPECT_EQ(folded([](Builder& b) { return b.constant(f16(), 1) + 0x1p-12; }), 1.0);
}

TEST(CleanupFolds, IntegersWrap) {
    EXPECT_EQ(folded([](Builder& b) { return b.constant(i32(), 2147483647) + 1.0; }), -2147483648.0);
    EXPECT_EQ(folded([](Builder& b) { return b.constant(u8({7}), 200) + 100.0; }), 44);
    EXPECT_EQ(folded([](Builder& b) { return b.constant(u32(), 0) - 1.0; }), 4294967295.0);
    EXPECT_EQ(folded([](Builder& b) { return lt(b.constant(i32(), 1), b.constant(i32(), 2)); }), 1);
}

TEST(CleanupFolds, WideIntegersKeepAllBits) {
    Tensor large = Tensor::zeros(DType::i64, {});
    large.integer[0] = (int64_t{1} << 62) + 1;
    const Graph clean = ok(cleanup(build([&](Builder& b) { b.output("y", b.constant(large) + 1.0); })));
    ASSERT_EQ(count_ops(clean), 0u);
    EXPECT_EQ(clean.constants[0]->integer[0], (int64_t{1} << 62) + 2);
}

TEST(CleanupFolds, NotToInfinityOrNan) {
    for (const double numerator : {1.0, 0.0}) {
        const Graph graph = build([&](Builder& b) { b.output("y", b.constant(f32(), numerator) / b.constant(f32(), 0)); });
        EXPECT_EQ(count_ops(ok(cleanup(graph))), 1u);
    }
    const Graph overflow = build([](Builder& b) { b.output("y", exp(b.constant(f32(), 100))); });
    EXPECT_EQ(count_ops(ok(cleanup(overflow))), 1u);
}

TEST(Cleanup, RandomStreamsStayApart) {
    const Graph graph = build([](Builder& b) {
        const Value counter = b.constant(u32(), 0.0);
        const Value a = uniform(b.seed(), counter, {64}), c = uniform(b.seed(), counter, {64});
        b.output("y", a - c);
    });
    const Graph clean = ok(cleanup(ok(expand(graph))));
    EXPECT_EQ(count_ops(clean, "random_bits"), 2u);
    const Tensor y = ok(eval(clean, random_leaves(clean))).outputs.at("y");
    EXPECT_TRUE(std::any_of(y.real.begin(), y.real.end(), [](double v) { return v != 0; }));
}

TEST(Cleanup, LeavesAndNamesStay) {
    const Graph graph = build([](Builder& b) {
        const Value x = b.input("x", f32({2})), w = b.param("w", f32({2}));
        b.input_per_step("unused", i32());
        const Value h = sin(x) + 0.0;
        b.set_name(h, "h");
        b.output("y", h);
        b.update(w, w * 1.0);
    });
    const Graph clean = ok(cleanup(graph));
    ASSERT_EQ(clean.inputs.size(), 2u);
    EXPECT_TRUE(clean.find_input("unused")->per_step);
    EXPECT_THAT(clean.names, ::testing::Contains("h"));
    ASSERT_EQ(clean.updates.size(), 1u);
    EXPECT_EQ(clean.updates[0].param, clean.updates[0].value);
}

TEST(Cleanup, SignedZerosAreTwoConstants) {
    const Graph graph = build([](Builder& b) {
        b.output("a", b.constant(f32(), 0.0));
        b.output("b", b.constant(f32(), -0.0));
        b.output("c", b.constant(f32(), 0.0));
        b.output("d", b.constant(f32({2}), 0.0));
    });
    EXPECT_EQ(ok(cleanup(graph)).nodes.size(), 3u);
}

// Random graphs of elementwise ops, reductions, views and constants that invite every rule.
Graph random_graph(uint32_t seed) {
    return build([seed](Builder& b) {
        std::mt19937 random(seed);
        std::vector<Value> values = {b.input("x", f64({3, 4})), b.input("y", f64({3, 4})), b.constant(f64({3, 4}), 1),
                                     b.constant(f64({3, 4}), 0), b.constant(f64({3, 4}), 0.3)};
        const auto any = [&] { return values[random() % values.size()]; };
        for (int i = 0; i < 40; ++i) {
            const Value v = any(), w = any();
            switch (random() % 13) {
                case 0: values.push_back(v + w); break;
                case 1: values.push_back(v * w); break;
                case 2: values.push_back(v - w); break;
                case 3: values.push_back(v / w); break;
                case 4: values.push_back(sin(v)); break;
                case 5: values.push_back(neg(v)); break;
                case 6: values.push_back(transpose(reshape(transpose(v, {1, 0}), {4, 3}), {1, 0})); break;
                case 7: values.push_back(broadcast(sum(v, {1}), {3, 4}, {0})); break;
                case 8: values.push_back(select(gt(v, w), v, w)); break;
                case 9: values.push_back(reshape(slice(reshape(v, {12, 1}), {0, 0}, {12, 1}), {3, 4})); break;
                case 10: values.push_back(maximum(v, w)); break;
                case 11: values.push_back(softmax(v)); break;
                case 12: values.push_back(tanh(mean(v) + w)); break;
            }
        }
        for (int i = 0; i < 4; ++i) b.output("o" + std::to_string(i), values[values.size() - 1 - i]);
    });
}

void expect_equal_or_both_nan(const Tensor& got, const Tensor& want, uint32_t seed) {
    ASSERT_EQ(got.dims, want.dims);
    for (int64_t i = 0; i < want.count(); ++i) {
        const double a = got.at(i), b = want.at(i);
        if (std::isnan(b) || std::isinf(b))
            ASSERT_TRUE(std::isnan(b) ? std::isnan(a) : a == b) << "seed " << seed << ": " << a << ", expected " << b;
        else
            ASSERT_NEAR(a, b, 1e-9 * std::max(1.0, std::abs(b))) << "seed " << seed;
    }
}

TEST(Cleanup, KeepsWhatRandomGraphsCompute) {
    size_t before = 0, after = 0;
    for (uint32_t seed = 0; seed < 300; ++seed) {
        const Graph graph = random_graph(seed);
        const Graph expanded = ok(expand(graph));
        const Graph clean = ok(cleanup(expanded));
        ASSERT_TRUE(verify(clean));
        before += count_ops(expanded);
        after += count_ops(clean);
        const NamedTensors leaves = random_leaves(graph, seed);
        const EvalResult want = ok(eval(graph, leaves)), got = ok(eval(clean, leaves));
        for (const auto& [name, tensor] : want.outputs) expect_equal_or_both_nan(got.outputs.at(name), tensor, seed);
        if (HasFatalFailure()) return;
    }
    EXPECT_LT(after, before);
}

}  // namespace
}  // namespace darner::testing
