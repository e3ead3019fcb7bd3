// SPDX-License-Identifier: MIT
// The interpreter device runs right programs and catches wrong ones: each fault is one that a CPU driver would not show.
#include "darner/device/interp/interp.h"

#include "darner/device/test_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::check_fresh_inputs;
using testing::check_inputs_ahead;
using testing::check_wrong_use_of_rings;
using testing::EveryItem;
using ::testing::HasSubstr;
using testing::ProgramMaker;
using testing::RingProgram;
using testing::write_floats;

std::unique_ptr<Device> device(std::string_view id = "interp") {
    Result<std::unique_ptr<Device>> opened = open_interp(id);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
}

std::unique_ptr<Executable> load(const Program& program, std::string_view id = "interp") {
    Result<std::unique_ptr<Executable>> loaded = device(id)->load(std::make_shared<const Program>(program));
    EXPECT_TRUE(loaded) << loaded.error().text();
    return std::move(*loaded);
}

template <class T>
void write(Executable& e, TensorId tensor, const std::vector<T>& values) {
    const Result<void> written = e.write(tensor, std::as_bytes(std::span(values)));
    ASSERT_TRUE(written) << written.error().text();
}

template <class T>
std::vector<T> read(Executable& e, TensorId tensor, size_t count) {
    std::vector<T> values(count);
    const Result<void> done = e.read(tensor, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(done) << done.error().text();
    return values;
}

std::string failure(const Result<void>& result) { return result ? "no error" : result.error().text(); }

TEST(Interp, RunsEveryItem) {
    for (const char* id : {"interp", "interp:8"}) {
        const EveryItem p(device(id)->caps());
        const std::unique_ptr<Executable> e = load(p.program, id);
        std::vector<float> x(EveryItem::n);
        for (uint32_t i = 0; i < x.size(); ++i) x[i] = float(i);
        write(*e, p.x, x);
        ASSERT_TRUE(e->submit(0, 2));
        const Result<void> done = e->wait();
        ASSERT_TRUE(done) << done.error().text();
        const std::vector<float> y = read<float>(*e, p.y, x.size());
        for (uint32_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 6 * (2 * x[i] + 1)) << i;
        EXPECT_EQ(read<uint32_t>(*e, p.counter, 1)[0], 14u);
        EXPECT_EQ(read<uint32_t>(*e, p.rounds, 1)[0], 12u);
        EXPECT_EQ(read<uint32_t>(*e, p.grown, 1)[0], 127u);
    }
}

TEST(Interp, UnwrittenInputIsCaught) {
    const EveryItem p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    ASSERT_TRUE(e->submit(0, 1));
    EXPECT_THAT(failure(e->wait()), HasSubstr("entry 'step', step 0 of the submit, 'twice'"));
}

// Drops the barrier with the given number and says what comes out.
std::string without_barrier(size_t which) {
    EveryItem p(interpreter_caps());
    std::vector<Item>& body = p.program.entries[0].body;
    size_t seen = 0;
    for (size_t i = 0; i < body.size(); ++i) {
        if (!std::holds_alternative<Barrier>(body[i]) || seen++ != which) continue;
        body.erase(body.begin() + static_cast<ptrdiff_t>(i));
        break;
    }
    const std::unique_ptr<Executable> e = load(p.program);
    write(*e, p.x, std::vector<float>(EveryItem::n, 1.0f));
    // In some orders the reader comes first; whatever the order, it is an error.
    EXPECT_TRUE(e->submit(0, 1));
    return failure(e->wait());
}

TEST(Interp, MissingBarrierIsCaught) {
    EXPECT_THAT(without_barrier(0), HasSubstr("barrier group has 2 members"));
    EXPECT_THAT(without_barrier(1), HasSubstr("barrier group has 2 members"));
}

TEST(Interp, MissingBarrierBetweenRoundsIsCaught) {
    EveryItem p(interpreter_caps());
    for (Item& item : p.program.entries[0].body)
        if (Repeat* r = std::get_if<Repeat>(&item)) r->body.pop_back();
    const std::unique_ptr<Executable> e = load(p.program);
    write(*e, p.x, std::vector<float>(EveryItem::n, 1.0f));
    ASSERT_TRUE(e->submit(0, 1));
    EXPECT_NE(failure(e->wait()), "no error");
}

// Two dispatches of one group write scratch ranges; `apart` says how far.
std::string run_neighbours(uint64_t apart) {
    constexpr uint32_t n = 64;
    ProgramMaker make(interpreter_caps());
    const SegmentId io = make.segment(SegmentKind::io, 256), scratch = make.segment(SegmentKind::scratch, 1024);
    const TensorId x = make.tensor("x", "f32", {n}, io, 0, 4 * n);
    const KernelId a = make.kernel(testing::affine_kernel(n, 2, 1)), b = make.kernel(testing::affine_kernel(n, 3, 1));
    Entry entry;
    entry.name = "step";
    entry.body.push_back(make.dispatch(a, 1, {{io, 0, 256}, {scratch, 0, 256}}, "first"));
    entry.body.push_back(make.dispatch(b, 1, {{io, 0, 256}, {scratch, apart, 256}}, "second"));
    make.program.entries.push_back(entry);
    const std::unique_ptr<Executable> e = load(make.program);
    write(*e, x, std::vector<float>(n, 1.0f));
    EXPECT_TRUE(e->submit(0, 1));
    return failure(e->wait());
}

TEST(Interp, AliasedMembersOfAGroupAreCaught) {
    EXPECT_EQ(run_neighbours(512), "no error");
    EXPECT_EQ(run_neighbours(256), "no error");
    EXPECT_THAT(run_neighbours(0), HasSubstr("'first', 'second'"));
}

// Reads scratch that the step before wrote, but this one did not.
TEST(Interp, StaleScratchIsCaught) {
    constexpr uint32_t n = 64;
    ProgramMaker make(interpreter_caps());
    const SegmentId io = make.segment(SegmentKind::io, 512), scratch = make.segment(SegmentKind::scratch, 256);
    const TensorId x = make.tensor("x", "f32", {n}, io, 0, 4 * n);
    const KernelId k = make.kernel(testing::affine_kernel(n, 2, 1));
    Entry fill, use;
    fill.name = "fill";
    fill.body.push_back(make.dispatch(k, 1, {{io, 0, 256}, {scratch, 0, 256}}, "fill"));
    use.name = "use";
    use.body.push_back(make.dispatch(k, 1, {{scratch, 0, 256}, {io, 256, 256}}, "use"));
    make.program.entries = {fill, use};
    const std::unique_ptr<Executable> e = load(make.program);
    write(*e, x, std::vector<float>(n, 1.0f));
    ASSERT_TRUE(e->submit(0, 1));
    ASSERT_TRUE(e->wait());
    ASSERT_TRUE(e->submit(1, 1));
    EXPECT_THAT(failure(e->wait()), HasSubstr("entry 'use'"));
    // The failure stays: the memory is not to be trusted.
    EXPECT_FALSE(e->wait());
}

// A kernel that runs over the gap behind a param of 10 elements.
TEST(Interp, GapsBetweenParamsStayZero) {
    const auto run = [](float scale, float offset) {
        ProgramMaker make(interpreter_caps());
        const SegmentId state = make.segment(SegmentKind::state, 512, true);
        for (const char* name : {"a", "b"}) {
            const TensorId param = make.tensor(name, "f32", {10}, state, name[0] == 'a' ? 0 : 256, 40);
            make.program.tensors[param.value].role = "param";
        }
        const KernelId k = make.kernel(testing::affine_kernel(16, scale, offset));
        Entry step;
        step.name = "step";
        step.body.push_back(make.dispatch(k, 1, {{state, 256, 64}, {state, 0, 64}}, "step"));
        make.program.entries = {step};
        const std::unique_ptr<Executable> e = load(make.program);
        EXPECT_TRUE(e->submit(0, 1));
        const Result<void> done = e->wait();
        return done ? "no error" : done.error().text();
    };
    EXPECT_EQ(run(2, 0), "no error");
    EXPECT_EQ(run(-2, 0), "no error");
    EXPECT_THAT(run(2, 1), HasSubstr("bytes [40, +216) of segment 0 lie between tensors and were to stay zero"));
}

TEST(Interp, CopyOfUnwrittenBytesIsCaught) {
    ProgramMaker make(interpreter_caps());
    const SegmentId scratch = make.segment(SegmentKind::scratch, 512);
    Entry entry;
    entry.name = "step";
    entry.body.push_back(Copy{{scratch, 0, 16}, {scratch, 256, 16}});
    make.program.entries.push_back(entry);
    const std::unique_ptr<Executable> e = load(make.program);
    ASSERT_TRUE(e->submit(0, 1));
    EXPECT_THAT(failure(e->wait()), HasSubstr("not all of which were written"));
}

TEST(Interp, ReadingAnUnwrittenTensorIsAnError) {
    const EveryItem p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    std::vector<float> y(EveryItem::n);
    EXPECT_THAT(failure(e->read(p.y, std::as_writable_bytes(std::span(y)))), HasSubstr("tensor 'y'"));
}

TEST(Interp, WrongUseIsExplained) {
    const EveryItem p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    EXPECT_THAT(failure(e->write(p.x, {})), HasSubstr("tensor 'x': got 0 bytes, expected 4000"));
    EXPECT_THAT(failure(e->write(TensorId(99), {})), HasSubstr("no tensor 99"));
    EXPECT_THAT(failure(e->submit(5, 1)), HasSubstr("no entry 5"));
    for (const char* id : {"interp:", "interp:7", "interp:256", "interp:8x", "interpreter"}) EXPECT_FALSE(open_interp(id)) << id;
}

TEST(Interp, RingsOfEverySize) {
    for (const uint32_t slots : {1u, 2u, 3u, 4u, 7u}) {
        const RingProgram p(interpreter_caps(), slots, 8 - slots);
        check_fresh_inputs(*load(p.program), p, 40);
        check_inputs_ahead(*load(p.program), p, 3);
    }
}

TEST(Interp, ThousandStepsWithFreshInputs) {
    const RingProgram p(interpreter_caps());
    check_fresh_inputs(*load(p.program), p, 1000);
}

TEST(Interp, WrongUseOfRingsIsExplained) {
    const RingProgram p(interpreter_caps());
    check_wrong_use_of_rings(*load(p.program), p);
}

TEST(Interp, RingsBelongToOneEntry) {
    const auto refusal = [](const Program& program) {
        const auto loaded = device()->load(std::make_shared<const Program>(program));
        return loaded ? "no error" : loaded.error().text();
    };
    RingProgram shared(interpreter_caps(), 1, 1);
    shared.program.entries[1].inputs.push_back(shared.x);
    EXPECT_THAT(refusal(shared.program), HasSubstr("per-step tensor 'x' of entry 'other' is an input or output already"));
    RingProgram loose(interpreter_caps());
    loose.program.entries[1].outputs.clear();
    EXPECT_THAT(refusal(loose.program), HasSubstr("tensor 'v' is per step, but no entry has it"));
    RingProgram unequal(interpreter_caps());
    const uint32_t segment = unequal.program.tensor(unequal.u).segment.value;
    ProgramMaker make(interpreter_caps());
    make.program = unequal.program;
    const SegmentId third = make.segment(SegmentKind::io, 256, false, 3);
    const TensorId w = make.tensor("w", "f32", {64}, third, 0, 256);
    make.program.tensors[w.value].per_step = true;
    make.program.entries[1].inputs.push_back(w);
    ASSERT_EQ(make.program.segments[segment].slots, 2u);
    EXPECT_THAT(refusal(make.program), HasSubstr("'w' of entry 'other' has a ring of 3 slots, others 2"));
}

// y is written only while `go` says so: reading what a run has not written is an error, though an earlier run wrote the slot.
TEST(Interp, OutputsOfARunAreItsOwn) {
    for (const uint32_t slots : {1u, 2u}) {
        ProgramMaker make(interpreter_caps());
        const SegmentId ring = make.segment(SegmentKind::io, 256, false, slots), io = make.segment(SegmentKind::io, 256);
        const SegmentId state = make.segment(SegmentKind::state, 256, true);
        const TensorId y = make.tensor("y", "f32", {64}, ring, 0, 256), go = make.tensor("go", "u32", {3}, io, 0, 12);
        make.program.tensors[y.value].per_step = true;
        Entry entry;
        entry.name = "step";
        entry.inputs = {go};
        entry.outputs = {y};
        Dispatch d = make.dispatch(make.kernel(testing::affine_kernel(64, 1, 5)), 1, {{state, 0, 256}, {ring, 0, 256}}, "fill");
        d.groups_from = BindingWindow{io, 0, 12};
        entry.body = {d};
        make.program.entries = {entry};
        const std::unique_ptr<Executable> e = load(make.program);
        write(*e, go, std::vector<uint32_t>{1, 1, 1});
        ASSERT_TRUE(e->submit(0, slots));
        EXPECT_EQ(read<float>(*e, y, 64), std::vector<float>(64, 5));
        write(*e, go, std::vector<uint32_t>{0, 1, 1});
        ASSERT_TRUE(e->submit(0, 1));
        std::vector<float> values(64);
        EXPECT_THAT(failure(e->read(y, std::as_writable_bytes(std::span(values)))), HasSubstr("not all of it was ever written"));
        write(*e, go, std::vector<uint32_t>{1, 1, 2});  // planned is one workgroup
        ASSERT_TRUE(e->submit(0, 1));
        EXPECT_THAT(failure(e->wait()), HasSubstr("'fill': finds 2 workgroups on axis 2, planned are at most 1"));
    }
}

// What a run of an indirect dispatch says when the barrier between it and its counts is missing, or the counts.
TEST(Interp, WorkgroupCountsAreReadLikeAnyBytes) {
    const auto run = [](bool written, bool barrier) {
        ProgramMaker make(interpreter_caps());
        const SegmentId state = make.segment(SegmentKind::state, 256, true), scratch = make.segment(SegmentKind::scratch, 256);
        const BindingWindow value{state, 0, 4}, groups{scratch, 0, 12};
        Entry entry;
        entry.name = "step";
        if (written) entry.body.push_back(make.dispatch(make.kernel(testing::below_kernel(9)), 1, {value, groups}, "test"));
        if (barrier) entry.body.push_back(Barrier{});
        Dispatch grow = make.dispatch(make.kernel(testing::count_kernel()), 1, {{state, 128, 4}}, "grow", {1});
        grow.bindings[0].offset = 0;
        grow.groups_from = groups;
        if (!barrier) grow.bindings[0].segment = make.segment(SegmentKind::state, 256, true);  // only the counts are shared
        entry.body.push_back(grow);
        make.program.entries = {entry};
        const std::unique_ptr<Executable> e = load(make.program);
        EXPECT_TRUE(e->submit(0, 1));
        return failure(e->wait());
    };
    EXPECT_EQ(run(true, true), "no error");
    EXPECT_THAT(run(true, false), ::testing::AnyOf(HasSubstr("workgroup counts"), HasSubstr("'test'")));
    EXPECT_THAT(run(false, true), HasSubstr("workgroup counts from bytes [0, +12) of segment 1, not all of which were written"));
}

// Whatever the host queues behind a failure does not run, and the first failure stays.
TEST(Interp, NothingRunsBehindAFailure) {
    const RingProgram p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    EXPECT_GOOD(write_floats(*e, p.x, testing::ring_input(0)));
    EXPECT_GOOD(e->submit(0, 1));  // without the bias
    const std::string first = failure(e->wait());
    EXPECT_THAT(first, HasSubstr("'bias'"));
    EXPECT_GOOD(write_floats(*e, p.bias, testing::ring_bias(0)));
    for (uint32_t step = 1; step < 9; ++step) {
        EXPECT_GOOD(write_floats(*e, p.x, testing::ring_input(step)));
        EXPECT_GOOD(e->submit(0, 1));
    }
    EXPECT_EQ(failure(e->wait()), first);
    EXPECT_EQ(*e->finished(0), 0u);
}

TEST(Interp, ProfileNamesEachMember) {
    const EveryItem p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    write(*e, p.x, std::vector<float>(EveryItem::n, 1.0f));
    const Result<std::vector<DispatchTime>> times = e->profile(0);
    ASSERT_TRUE(times) << times.error().text();
    ASSERT_EQ(times->size(), EveryItem::members);
    EXPECT_EQ((*times)[0].label, "twice");
    EXPECT_EQ((*times)[1].label, "copy");
}

}  // namespace
}  // namespace darner
