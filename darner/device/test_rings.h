// SPDX-License-Identifier: MIT
// What every device must do with rings, as checks on a loaded RingProgram: the devices' tests call them.
#pragma once

#include "darner/device/device.h"
#include "darner/device/test_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace darner::testing {

using Floats = std::vector<float>;

inline Result<void> write_floats(Executable& e, TensorId tensor, const Floats& values, uint32_t ahead = 0) {
    return e.write(tensor, std::as_bytes(std::span(values)), ahead);
}

inline Floats read_floats(Executable& e, TensorId tensor, uint32_t ago = 0) {
    Floats values(RingProgram::n);
    const Result<void> done = e.read(tensor, std::as_writable_bytes(std::span(values)), ago);
    EXPECT_TRUE(done) << done.error().text();
    return values;
}

// Exact in f32, and no two steps alike.
inline Floats ring_input(uint32_t step) {
    Floats values(RingProgram::n);
    for (uint32_t i = 0; i < RingProgram::n; ++i) values[i] = static_cast<float>(step % 1013 + i % 7);
    return values;
}
inline Floats ring_bias(uint32_t step) { return Floats(RingProgram::n, static_cast<float>(step % 5)); }
inline Floats ring_output(uint32_t step, const Floats& bias) {
    Floats values = ring_input(step);
    for (uint32_t i = 0; i < RingProgram::n; ++i) values[i] = 2 * values[i] + bias[i];
    return values;
}
inline void add(Floats& total, const Floats& more) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += more[i];
}

#define EXPECT_GOOD(call) \
    if (const auto& good_ = (call); !good_) ADD_FAILURE() << #call << ": " << good_.error().text()

// Each step has an input of its own and, now and then, a new bias; outputs are read late, sums at the end.
inline void check_fresh_inputs(Executable& e, const RingProgram& p, uint32_t steps) {
    const uint32_t slots = p.program.segments[0].slots;
    Floats bias = ring_bias(0), total(RingProgram::n);
    std::vector<Floats> expected;
    for (uint32_t step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
        if (step % 3 == 0) {
            bias = ring_bias(step);
            EXPECT_GOOD(write_floats(e, p.bias, bias));
        }
        if (step % 4 == 0) EXPECT_GOOD(write_floats(e, p.x, Floats(RingProgram::n, -1)));  // replaced before its run
        EXPECT_GOOD(write_floats(e, p.x, ring_input(step)));
        EXPECT_GOOD(e.submit(0, 1));
        expected.push_back(ring_output(step, bias));
        add(total, expected.back());
        if (step + 1 >= slots) {
            const uint32_t ago = step % slots;
            EXPECT_EQ(read_floats(e, p.y, ago), expected[step - ago]) << step;
        }
    }
    EXPECT_EQ(read_floats(e, p.total), total);
    EXPECT_EQ(read_floats(e, p.x), ring_input(steps - 1));
    const Result<uint64_t> finished = e.finished(0);
    ASSERT_TRUE(finished) << finished.error().text();
    EXPECT_EQ(*finished, steps);
}

// A full ring of inputs, in any order, then one submit of as many runs; another entry's runs between.
inline void check_inputs_ahead(Executable& e, const RingProgram& p, uint32_t rounds) {
    const uint32_t slots = p.program.segments[0].slots;
    const Floats bias(RingProgram::n, 1);
    EXPECT_GOOD(write_floats(e, p.bias, bias));
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint32_t first = round * slots;
        for (uint32_t ahead = slots; ahead-- > 0;) EXPECT_GOOD(write_floats(e, p.x, ring_input(first + ahead), ahead));
        EXPECT_GOOD(write_floats(e, p.u, ring_input(round)));
        EXPECT_GOOD(e.submit(1, 1));
        EXPECT_GOOD(e.submit(0, slots));
        EXPECT_EQ(read_floats(e, p.v), ring_output(round, bias));
        for (uint32_t ago = 0; ago < slots; ++ago)
            EXPECT_EQ(read_floats(e, p.y, ago), ring_output(first + slots - 1 - ago, bias)) << round << ", " << ago;
    }
}

// Freshly loaded.
inline void check_wrong_use_of_rings(Executable& e, const RingProgram& p) {
    using ::testing::HasSubstr;
    const auto text = [](const Result<void>& result) { return result ? "no error" : result.error().text(); };
    const Floats values = ring_input(0);
    Floats out(RingProgram::n);
    const auto read = [&](TensorId tensor, uint32_t ago) {
        return text(e.read(tensor, std::as_writable_bytes(std::span(out)), ago));
    };
    EXPECT_THAT(text(write_floats(e, p.x, values, 4)), HasSubstr("4 runs ahead, but its ring has 4 slots: at most 3 ahead"));
    EXPECT_THAT(text(write_floats(e, p.bias, values, 1)), HasSubstr("'bias' is not per step"));
    EXPECT_THAT(text(write_floats(e, p.y, values)), HasSubstr("'y' is a per-step output"));
    EXPECT_THAT(read(p.y, 0), HasSubstr("entry 'step' has run 0 times"));
    EXPECT_THAT(text(e.submit(0, 1)), HasSubstr("per-step input 'x' is written for 0 of 1 runs"));
    EXPECT_FALSE(e.profile(0));
    EXPECT_FALSE(e.finished(2));
    EXPECT_GOOD(write_floats(e, p.bias, values));
    EXPECT_GOOD(write_floats(e, p.x, values));
    EXPECT_GOOD(write_floats(e, p.x, values, 2));
    EXPECT_THAT(text(e.submit(0, 3)), HasSubstr("written for 1 of 3 runs"));
    EXPECT_GOOD(e.submit(0, 1));
    EXPECT_THAT(text(e.submit(0, 1)), HasSubstr("written for 0 of 1 runs"));  // a slot serves one run
    EXPECT_GOOD(write_floats(e, p.x, values));
    EXPECT_GOOD(e.submit(0, 2));
    EXPECT_EQ(read(p.y, 2), "no error");
    EXPECT_THAT(read(p.y, 3), HasSubstr("has run 3 times and its ring keeps 4"));
    EXPECT_THAT(read(p.total, 1), HasSubstr("'total' is not per step"));
    EXPECT_GOOD(e.submit(0, 0));
    EXPECT_THAT(text(e.submit(0, 0xffffffffu)), HasSubstr("written for 0 of 4294967295 runs"));
}

}  // namespace darner::testing
