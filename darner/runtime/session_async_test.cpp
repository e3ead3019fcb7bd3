// SPDX-License-Identifier: MIT
// Sessions with several runs in flight: each run has its own per-step inputs and outputs, on every device.
#include "darner/graph/text.h"
#include "darner/runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using ::testing::HasSubstr;

void expect(const Result<void>& result) { EXPECT_TRUE(result) << result.error().text(); }
std::string failure(const Result<void>& result) { return result ? "no error" : result.error().text(); }

class SessionAsync : public ::testing::TestWithParam<const char*> {
protected:
    static constexpr uint32_t slots = 3;

    Session session() {
        const Result<Module> module = parse_module(R"(
            graph step {
                x = input i32[3] per_step
                b = input i32[3]
                w = param i32[3] init=1
                output y per_step = add(mul(x, w), b)
                output z = add(x, b)
                update w = add(w, x)
            }
            graph other {
                x = input i32[2] per_step
                w = param i32[3] init=1
                output y = add(x, x)
            })");
        EXPECT_TRUE(module) << module.error().text();
        Result<Session> compiled = compile(*module, {.device = GetParam(), .plan = {.ring_slots = slots}});
        EXPECT_TRUE(compiled) << compiled.error().text();
        return std::move(*compiled);
    }
    static Array triple(int32_t a) { return make_array<int32_t>({3}, {a, a + 1, a + 2}); }
    static Array pair(int32_t a) { return make_array<int32_t>({2}, {a, -a}); }
    static Array read(Session& s, std::string_view name, uint32_t ago = 0) {
        Result<Array> value = s.read(name, ago);
        EXPECT_TRUE(value) << value.error().text();
        return value ? std::move(*value) : Array{};
    }
};

INSTANTIATE_TEST_SUITE_P(Devices, SessionAsync, ::testing::Values("interp", "vulkan"));

// What `step` computes, on the host.
struct Host {
    std::array<int32_t, 3> w = {1, 1, 1};
    Array step(int32_t x, int32_t b) {
        std::vector<int32_t> y;
        for (int32_t i = 0; i < 3; ++i) {
            y.push_back((x + i) * w[i] + b + i);
            w[i] += x + i;
        }
        return make_array<int32_t>({3}, std::span<const int32_t>(y));
    }
};

TEST_P(SessionAsync, RunsHaveTheirOwnInputsAndOutputs) {
    Session s = session();
    Host host;
    std::vector<Array> expected;
    for (int32_t step = 0; step < 100; ++step) {
        NamedArrays inputs{{"x", triple(step % 9)}};
        if (step % 5 == 0) inputs["b"] = triple(step);
        expect(s.run_async("step", inputs));
        expected.push_back(host.step(step % 9, step - step % 5));
        if (step % 7 == 0) expect(s.run_async("other", {{"x", pair(step)}}));
        // The name means the graph that ran last.
        if (step % 7 == 0) EXPECT_EQ(read(s, "y"), make_array<int32_t>({2}, {2 * step, -2 * step}));
        if (step % 7 != 0 && step >= 2) EXPECT_EQ(read(s, "y", 2), expected[step - 2]) << step;
    }
    expect(s.wait());
    EXPECT_EQ(*s.finished("step"), 100u);
    EXPECT_EQ(*s.finished("other"), 15u);
    EXPECT_EQ(read(s, "w"), make_array<int32_t>({3}, std::span<const int32_t>(host.w)));
}

TEST_P(SessionAsync, InputsAheadAndRunsThatWait) {
    Session s = session();
    Host host;
    EXPECT_EQ(*s.ring_slots("step"), slots);
    expect(s.write("b", triple(10)));
    for (uint32_t ahead = 0; ahead < slots; ++ahead) expect(s.write_ahead("step", "x", triple(20 + ahead), ahead));
    expect(s.submit("step", slots));
    for (uint32_t i = 0; i < slots; ++i) {
        const Array y = host.step(20 + i, 10);
        EXPECT_EQ(read(s, "y", slots - 1 - i), y);
    }
    const Result<NamedArrays> out = s.run("step", {{"x", triple(4)}, {"b", triple(5)}});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->at("y"), host.step(4, 5));
    EXPECT_EQ(out->at("z"), make_array<int32_t>({3}, {9, 11, 13}));
    expect(s.write("x", triple(6)));
    expect(s.run_async("step"));
    EXPECT_EQ(read(s, "y"), host.step(6, 5));
}

TEST_P(SessionAsync, WrongUseIsExplained) {
    Session s = session();
    EXPECT_THAT(failure(s.run_async("step", {{"b", triple(1)}})), HasSubstr("per-step input 'x' is written for 0 of 1 runs"));
    EXPECT_THAT(failure(s.run_async("step", {{"x", pair(1)}})), HasSubstr("got i32[2], expected i32[3]"));
    EXPECT_THAT(failure(s.run_async("steps")), HasSubstr("no graph named steps"));
    EXPECT_THAT(failure(s.run_async("step", {{"q", pair(1)}})), HasSubstr("no input of step named q"));
    EXPECT_THAT(failure(s.write_ahead("step", "x", triple(1), slots)), HasSubstr("at most 2 ahead"));
    EXPECT_THAT(failure(s.write_ahead("step", "b", triple(1), 1)), HasSubstr("not per step"));
    EXPECT_THAT(failure(s.write_ahead("step", "w", triple(1), 1)), HasSubstr("no input of step named w"));
    EXPECT_THAT(failure(s.write_ahead("other", "x", triple(1), 0)), HasSubstr("got i32[3], expected i32[2]"));
    EXPECT_THAT(s.read("y", 1).error().text(), HasSubstr("has run 0 times"));
    EXPECT_FALSE(s.finished("none"));
    expect(s.run_async("step", {{"x", triple(1)}, {"b", triple(1)}}));
    expect(s.wait());
}

}  // namespace
}  // namespace darner
