// SPDX-License-Identifier: MIT
// Memory of whole plans: near the bound that no placement beats, no larger and no slower than kernels run as early as they can,
// refused with reasons where it does not fit. Plans only; that they compute the right thing is shown where they run.
#include "darner/graph/text.h"
#include "darner/nn/training.h"
#include "darner/ops/ops.h"
#include "darner/runtime/session.h"
#include "darner/transform/vjp.h"
#include "tests/networks.h"
#include "tests/plan_cases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace darner::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TestNetwork wide_mlp(int64_t batch, std::vector<int64_t> hidden) {
    Builder b;
    const Value logits = mlp(b.input("x", f32({batch, 784})), hidden, 10);
    auto module = training_step(cross_entropy(logits, b.input("y", i32({batch}))), adamw({.learning_rate = 0.01}));
    return {fmt::format("mlp of {} layers, batch {}", hidden.size() + 1, batch), std::move(*module), 10};
}

TestNetwork decoder_network(DecoderConfig config, int64_t batch, int64_t length) {
    Builder b;
    const Value tokens = b.input("tokens", i32({batch, length}));
    auto module = training_step(next_token_loss(decoder(tokens, config), tokens), adamw({.learning_rate = 0.01}));
    return {fmt::format("decoder of {} layers, {} words", config.layers, config.vocabulary), std::move(*module),
            config.vocabulary};
}

std::vector<TestNetwork> networks() {
    std::vector<TestNetwork> all = test_networks();
    all.push_back(wide_mlp(128, {128}));
    all.push_back(wide_mlp(512, {512, 256, 128}));
    all.push_back(wide_mlp(256, std::vector<int64_t>(19, 64)));
    all.push_back(wide_mlp(8, std::vector<int64_t>(19, 100)));
    all.push_back(
        decoder_network({.vocabulary = 256, .hidden = 64, .intermediate = 128, .layers = 4, .heads = 4, .kv_heads = 2}, 4, 32));
    // Logits as large as all else.
    all.push_back(
        decoder_network({.vocabulary = 8192, .hidden = 64, .intermediate = 128, .layers = 3, .heads = 4, .kv_heads = 2}, 4, 64));
    return all;
}

Module rms_norm_gradients(int64_t rows, int64_t cols) {
    auto module = parse_module(fmt::format(R"(graph g {{
        x = input f32[{0},{1}]
        w = input f32[{1}]
        b = input f32[{1}]
        output y = rms_norm(x, w, b)
    }})",
                                           rows, cols),
                               "rms_norm");
    std::vector<std::string> wrt = {"x", "w", "b"};
    module->graphs[0] = *gradient_graph(module->graphs[0], "y", wrt);
    return std::move(*module);
}

Caps caps_aligned(uint32_t alignment) {
    Caps caps = interpreter_caps();
    caps.kind = DeviceKind::discrete_gpu;
    caps.offset_alignment = alignment;
    return caps;
}

struct NamedCaps {
    const char* name;
    Caps caps;
};
std::vector<NamedCaps> all_caps() {
    Caps small = interpreter_caps();
    small.max_segment_bytes = small.max_binding_bytes = 4 << 20;
    return {{"gpu", caps_aligned(256)}, {"gpu that aligns to 16", caps_aligned(16)}, {"small segments", small}};
}

const PlanReport& report_of(const Program& program, std::string_view entry) {
    for (const PlanReport& report : program.reports)
        if (report.entry == entry) return report;
    ADD_FAILURE() << "no entry " << entry;
    return program.reports[0];
}

TEST(Memory, PeakIsWithinTenPercentOfTheLowerBound) {
    std::vector<std::pair<std::string, Module>> modules;
    for (TestNetwork& network : networks()) modules.push_back({network.name, std::move(network.module)});
    for (const PlanCase& test : plan_cases) modules.push_back({test.name, *parse_module(test.text, test.name)});
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{64, 256}, {33, 100}, {2048, 2048}})
        modules.push_back({fmt::format("rms_norm {}x{}", rows, cols), rms_norm_gradients(rows, cols)});
    for (const auto& [name, module] : modules)
        for (const NamedCaps& on : all_caps()) {
            const bool larger = name == "rms_norm 2048x2048" || name == "decoder of 3 layers, 8192 words";
            if (larger && on.caps.max_segment_bytes < (16 << 20)) continue;  // a tensor is larger than a segment
            SCOPED_TRACE(name + " on " + on.name);
            const auto program = compile_program(module, on.caps);
            ASSERT_TRUE(program) << program.error().text();
            for (const PlanReport& report : program->reports) {
                EXPECT_GE(report.scratch_bytes, report.scratch_lower_bound) << report.entry;
                EXPECT_LE(double(report.scratch_bytes), 1.10 * double(report.scratch_lower_bound)) << report.entry;
                EXPECT_LE(report.scratch_lower_bound, report.scratch_sum) << report.entry;
            }
        }
}

TEST(Memory, TrainingReusesMostOfItsMemory) {
    for (const TestNetwork& network : networks()) {
        // Small batches need little but gradients, which are alive together.
        if (network.step().type(network.step().inputs[0].node).count() < 100000 &&
            network.name.find("decoder") == std::string::npos)
            continue;
        const auto program = compile_program(network.module, caps_aligned(16));
        ASSERT_TRUE(program) << program.error().text();
        const PlanReport& report = report_of(*program, "step");
        EXPECT_LT(report.scratch_bytes, report.scratch_sum * 7 / 10) << network.name;
    }
}

TEST(Memory, ShorterLivesCostNoBarriersAndSaveBytes) {
    size_t smaller = 0;
    for (const TestNetwork& network : networks()) {
        SCOPED_TRACE(network.name);
        const auto early = compile_program(network.module, caps_aligned(256), {.shorten_lives = false});
        const auto best = compile_program(network.module, caps_aligned(256));
        ASSERT_TRUE(early && best);
        const PlanReport &before = report_of(*early, "step"), &after = report_of(*best, "step");
        EXPECT_LE(after.barriers, before.barriers);
        EXPECT_LE(after.scratch_bytes, before.scratch_bytes);
        smaller += after.scratch_bytes < before.scratch_bytes;
        RecordProperty(fmt::format("{}.bytes", network.name),
                       fmt::format("{} -> {}, bound {}, sum {}", before.scratch_bytes, after.scratch_bytes,
                                   after.scratch_lower_bound, after.scratch_sum));
    }
    EXPECT_GE(smaller, 4u);
}

// --- hazards by buffer --------------------------------------------------------------------------------------------------

using BufferUses = std::map<uint32_t, bool>;  // by segment: whether it is written

// How each item uses each buffer, from the plan's items.
std::vector<BufferUses> uses_of(const Entry& entry) {
    std::vector<BufferUses> all;
    for (const Item& item : entry.body) {
        if (std::holds_alternative<Barrier>(item)) continue;
        BufferUses& uses = all.emplace_back();
        if (const auto* dispatch = std::get_if<Dispatch>(&item))
            for (const BindingWindow& w : dispatch->bindings) uses[w.segment.value] |= w.access != kir::Access::read;
        if (const auto* copy = std::get_if<Copy>(&item)) {
            uses[copy->source.segment.value] |= false;
            uses[copy->target.segment.value] = true;
        }
    }
    return all;
}

// An item waits when one since the last barrier uses a buffer of its own and one of the two writes it.
uint32_t waits_of(const Entry& entry) {
    const std::vector<BufferUses> items = uses_of(entry);
    uint32_t waits = 0;
    size_t start = 0;
    for (size_t i = 0; i < items.size(); ++i)
        for (size_t before = start; before < i; ++before) {
            const bool conflict = std::any_of(items[i].begin(), items[i].end(), [&](const auto& use) {
                const auto other = items[before].find(use.first);
                return other != items[before].end() && (use.second || other->second);
            });
            if (!conflict) continue;
            ++waits;
            start = i;
            break;
        }
    return waits;
}

TEST(BufferHazards, PredictedAsADeviceWouldCountThemAndFewerWhereScratchIsSpread) {
    for (const TestNetwork& network : networks()) {
        SCOPED_TRACE(network.name);
        const auto together = compile_program(network.module, webgpu_default_caps(), {.spread_scratch = false});
        const auto spread = compile_program(network.module, webgpu_default_caps());
        ASSERT_TRUE(together && spread) << (spread ? together : spread).error().text();
        for (const Program* program : {&*together, &*spread})
            for (const Entry& entry : program->entries)
                EXPECT_EQ(report_of(*program, entry.name).buffer_barriers, waits_of(entry)) << entry.name;
        const PlanReport &before = report_of(*together, "step"), &after = report_of(*spread, "step");
        EXPECT_LT(after.buffer_barriers, before.buffer_barriers);
        EXPECT_GE(after.buffer_barriers, after.barriers) << "what bytes need, buffers need too";
        RecordProperty(network.name + ".barriers",
                       fmt::format("{} by bytes, {} in one buffer, {} spread, {} dispatches", after.barriers,
                                   before.buffer_barriers, after.buffer_barriers, after.dispatches));
        std::set<uint32_t> buffers;
        for (const Item& item : spread->find_entry("step")->body)
            if (const auto* dispatch = std::get_if<Dispatch>(&item))
                for (const BindingWindow& w : dispatch->bindings)
                    if (spread->segment(w.segment).kind == SegmentKind::scratch) buffers.insert(w.segment.value);
        EXPECT_GT(buffers.size(), 1u);
        EXPECT_LE(buffers.size(), 4u);
    }
}

// A dispatch that cannot but read and write in one buffer says so, and one that need not does not.
TEST(BufferHazards, ReadsInWrittenBuffersAreDeclared) {
    for (const TestNetwork& network : networks()) {
        const auto program = compile_program(network.module, webgpu_default_caps());
        ASSERT_TRUE(program);
        std::vector<bool> used(program->kernels.size(), false);
        for (const Entry& entry : program->entries)
            for (const Item& item : entry.body)
                if (const auto* dispatch = std::get_if<Dispatch>(&item)) {
                    used[dispatch->kernel.value] = true;
                    const auto& bindings = program->kernel(dispatch->kernel).kir.bindings;
                    for (size_t i = 0; i < bindings.size(); ++i) {
                        const BindingWindow& w = dispatch->bindings[i];
                        bool written = false;
                        for (const BindingWindow& other : dispatch->bindings)
                            written |= other.segment == w.segment && other.access != kir::Access::read;
                        EXPECT_EQ(bindings[i].in_written_buffer, written && w.access == kir::Access::read) << dispatch->label;
                    }
                }
        EXPECT_EQ(std::count(used.begin(), used.end(), false), 0) << "kernels that nobody runs";
    }
}

// --- refusal ------------------------------------------------------------------------------------------------------------

uint64_t all_bytes(const Program& program) {
    uint64_t total = 0;
    for (const Segment& segment : program.segments) total += segment.bytes * segment.slots;
    return total;
}

TEST(Memory, WhatDoesNotFitIsRefusedWithTheLargestTensors) {
    const TestNetwork network = wide_mlp(512, {512, 256, 128});
    Caps caps = caps_aligned(256);
    const auto fits = compile_program(network.module, caps);
    ASSERT_TRUE(fits);
    caps.memory_bytes = all_bytes(*fits);
    EXPECT_TRUE(compile_program(network.module, caps)) << "exactly what it needs";
    caps.memory_bytes = 1 << 20;
    const auto refused = compile_program(network.module, caps);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::limit);
    EXPECT_THAT(refused.error().text(),
                AllOf(HasSubstr("the device has 1048576"), HasSubstr("state "), HasSubstr("scratch "),
                      HasSubstr("largest tensors: "), HasSubstr("input or output x f32[512,784] (1605632 bytes)"),
                      HasSubstr("param 0.weight f32[512,784]"), HasSubstr("moment adamw.m.0.weight"), HasSubstr("smaller ones")));
    EXPECT_THAT(refused.error().hint, HasSubstr("smaller model"));
}

TEST(Memory, TheRefusalNamesScratchWithItsPlace) {
    const auto module = parse_module(R"(graph g {
        x = input f32[64]
        a = materialize(broadcast(x, shape=[512,64], axes=[1]))  @"layers.0" net.py:7
        output y = sum(mul(a, softmax(a, axis=0)), axes=[0])
    })",
                                     "g");
    ASSERT_TRUE(module) << module.error().text();
    Caps caps = interpreter_caps();
    caps.memory_bytes = 4096;
    const auto refused = compile_program(*module, caps);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(), AllOf(HasSubstr("scratch of g: "), HasSubstr("net.py:7")));
    EXPECT_THAT(refused.error().hint, HasSubstr("smaller batch"));
}

// Four branches side by side take four large values; one after another they take one, at the price of barriers.
TEST(Memory, ALongerScheduleFitsWhereTheShortestDoesNot) {
    const auto module = parse_module(R"(graph g {
        x = input f32[64,256]
        output a = sum(materialize(mul(x, 2.0)), axes=[0])
        output b = sum(materialize(mul(x, 3.0)), axes=[0])
        output c = sum(materialize(mul(x, 5.0)), axes=[0])
        output d = sum(materialize(mul(x, 7.0)), axes=[0])
    })",
                                     "g");
    ASSERT_TRUE(module) << module.error().text();
    Caps caps = caps_aligned(256);
    const auto shortest = compile_program(*module, caps);
    ASSERT_TRUE(shortest);
    const PlanReport& before = report_of(*shortest, "g");
    ASSERT_GE(before.scratch_bytes, 4u * 64 * 256 * 4);
    caps.memory_bytes = all_bytes(*shortest) - 2 * 64 * 256 * 4;
    const auto longer = compile_program(*module, caps);
    ASSERT_TRUE(longer) << longer.error().text();
    EXPECT_LE(all_bytes(*longer), caps.memory_bytes);
    EXPECT_GT(report_of(*longer, "g").barriers, before.barriers);
}

TEST(Memory, ATensorLargerThanABufferIsRefused) {
    const auto module = parse_module("graph g { x = input f32[4096]\n output y = add(x, 1.0) }", "g");
    Caps caps = interpreter_caps();
    caps.max_segment_bytes = 8192;
    const auto refused = compile_program(*module, caps);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(), AllOf(HasSubstr("16384 bytes"), HasSubstr("8192 bytes")));
}

}  // namespace
}  // namespace darner::test
