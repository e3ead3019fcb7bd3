// SPDX-License-Identifier: MIT
// The interpreter device runs right programs and catches wrong ones: each fault is one that a CPU driver would not show.
#include "darner/device/interp/interp.h"

#include "darner/device/test_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::EveryItem;
using ::testing::HasSubstr;
using testing::ProgramMaker;

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

TEST(Interp, ProfileNamesEachMember) {
    const EveryItem p(interpreter_caps());
    const std::unique_ptr<Executable> e = load(p.program);
    write(*e, p.x, std::vector<float>(EveryItem::n, 1.0f));
    const Result<std::vector<DispatchTime>> times = e->profile(0);
    ASSERT_TRUE(times) << times.error().text();
    ASSERT_EQ(times->size(), 7u);
    EXPECT_EQ((*times)[0].label, "twice");
    EXPECT_EQ((*times)[1].label, "copy");
}

}  // namespace
}  // namespace darner
