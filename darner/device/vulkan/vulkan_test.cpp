// SPDX-License-Identifier: MIT
// The Vulkan device on whatever driver is present; on a machine without a GPU that is Mesa's CPU driver. A missing device
// fails these tests: a device that is not there proves nothing.
#include "darner/device/vulkan/vulkan.h"

#include "darner/base/files.h"
#include "darner/device/test_rings.h"
#include "darner/device/vulkan/instance.h"
#include "darner/device/vulkan/pipeline_cache.h"
#include "darner/emit/spirv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace darner {
namespace {

using testing::check_fresh_inputs;
using testing::check_inputs_ahead;
using testing::check_wrong_use_of_rings;
using testing::EveryItem;
using ::testing::HasSubstr;
using testing::ProgramMaker;
using testing::RingProgram;

// An environment variable for the duration of a scope.
class Environment {
public:
    Environment(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        setenv(name, value.c_str(), 1);
    }
    ~Environment() {
        if (old_)
            setenv(name_, old_->c_str(), 1);
        else
            unsetenv(name_);
    }

private:
    const char* name_;
    std::optional<std::string> old_;
};

std::unique_ptr<Device> device() {
    Result<std::unique_ptr<Device>> opened = open_vulkan("");
    EXPECT_TRUE(opened) << opened.error().text();
    return opened ? std::move(*opened) : nullptr;
}

Result<std::unique_ptr<Executable>> try_load(Device& device, Program program) {
    for (KernelCode& code : program.kernels) {
        TRY(code.spirv, emit_spirv(code.kir, device.caps()));
    }
    return device.load(std::make_shared<const Program>(std::move(program)));
}

std::unique_ptr<Executable> load(Device& device, const Program& program) {
    Result<std::unique_ptr<Executable>> loaded = try_load(device, program);
    EXPECT_TRUE(loaded) << loaded.error().text();
    return loaded ? std::move(*loaded) : nullptr;
}

void expect(const Result<void>& result) { EXPECT_TRUE(result) << result.error().text(); }
std::string failure(const Result<void>& result) { return result ? "no error" : result.error().text(); }

template <class T>
void write(Executable& e, TensorId tensor, const std::vector<T>& values) {
    expect(e.write(tensor, std::as_bytes(std::span(values))));
}

template <class T>
std::vector<T> read(Executable& e, TensorId tensor, size_t count) {
    std::vector<T> values(count);
    expect(e.read(tensor, std::as_writable_bytes(std::span(values))));
    return values;
}

void run_every_item() {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    const EveryItem p(d->caps());
    const std::unique_ptr<Executable> e = load(*d, p.program);
    ASSERT_TRUE(e);
    std::vector<float> x(EveryItem::n);
    for (uint32_t i = 0; i < x.size(); ++i) x[i] = float(i % 50);
    write(*e, p.x, x);
    expect(e->submit(0, 5));
    expect(e->submit(0, 0));
    expect(e->wait());
    EXPECT_EQ(read<uint32_t>(*e, p.counter, 1)[0], 35u);
    EXPECT_EQ(read<uint32_t>(*e, p.rounds, 1)[0], 30u);
    EXPECT_EQ(read<uint32_t>(*e, p.grown, 1)[0], 127u);
    const std::vector<float> y = read<float>(*e, p.y, x.size()), total = read<float>(*e, p.total, x.size());
    for (uint32_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(y[i], 15 * (2 * x[i] + 1)) << i;
        ASSERT_EQ(total[i], y[i]) << i;
    }
}

TEST(Vulkan, RunsEveryItem) { run_every_item(); }

TEST(Vulkan, RunsEveryItemThroughStaging) {
    const Environment staging("DARNER_STAGING", "1");
    run_every_item();
}

TEST(Vulkan, PoisonedScratchChangesNothing) {
    const Environment poison("DARNER_POISON", "1");
    run_every_item();
}

// y = scratch that nothing writes: zeros in a gap that stays zero, else poison.
TEST(Vulkan, GapsThatStayZeroAreNotPoisoned) {
    const Environment poison("DARNER_POISON", "1");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    constexpr uint32_t n = 64;
    for (const bool zeroed : {true, false}) {
        ProgramMaker make(d->caps());
        const SegmentId io = make.segment(SegmentKind::io, n * 4), scratch = make.segment(SegmentKind::scratch, n * 4, zeroed);
        if (zeroed) make.program.segments[scratch.value].kept_zero = {{0, n * 4}};
        const TensorId y = make.tensor("y", "f32", {n}, io, 0, n * 4);
        const KernelId same = make.kernel(testing::affine_kernel(n, 1, 0));
        Entry entry;
        entry.name = "step";
        entry.outputs = {y};
        entry.body.push_back(make.dispatch(same, 1, {{scratch, 0, n * 4}, {io, 0, n * 4}}, "copy"));
        make.program.entries.push_back(entry);
        const std::unique_ptr<Executable> e = load(*d, make.program);
        ASSERT_TRUE(e);
        expect(e->submit(0, 2));
        for (const float v : read<float>(*e, y, n)) EXPECT_EQ(std::isnan(v), !zeroed) << v;
    }
}

void run_rings(uint32_t steps) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    for (const uint32_t slots : {1u, 2u, 4u, 7u}) {
        const RingProgram p(d->caps(), slots, 8 - slots);
        const std::unique_ptr<Executable> e = load(*d, p.program);
        ASSERT_TRUE(e);
        check_fresh_inputs(*e, p, slots == 4 ? steps : 30);
        const std::unique_ptr<Executable> fresh = load(*d, p.program);
        check_inputs_ahead(*fresh, p, 5);
    }
}

TEST(Vulkan, ThousandStepsWithFreshInputs) { run_rings(1000); }

TEST(Vulkan, ThousandStepsWithFreshInputsThroughStaging) {
    const Environment staging("DARNER_STAGING", "1");
    run_rings(1000);
}

TEST(Vulkan, WrongUseOfRingsIsExplained) {
    for (const bool staged : {false, true}) {
        std::optional<Environment> staging;
        if (staged) staging.emplace("DARNER_STAGING", "1");
        const std::unique_ptr<Device> d = device();
        ASSERT_TRUE(d);
        const RingProgram p(d->caps());
        const std::unique_ptr<Executable> e = load(*d, p.program);
        ASSERT_TRUE(e);
        check_wrong_use_of_rings(*e, p);
    }
}

// Entry "step", slots 3: y = x + sum, slowly.
struct SlowProgram {
    static constexpr uint32_t n = 64 * 16, rounds = 8000, sum = testing::slow_sum(rounds);
    Program program;
    TensorId x, y;

    SlowProgram(const Caps& caps, uint32_t dispatches) {
        ProgramMaker make(caps);
        const SegmentId ring = make.segment(SegmentKind::io, 256 + n * 4, false, 3);
        x = make.tensor("x", "u32", {}, ring, 0, 4);
        y = make.tensor("y", "u32", {n}, ring, 256, n * 4);
        for (const TensorId id : {x, y}) make.program.tensors[id.value].per_step = true;
        Entry entry;
        entry.name = "step";
        entry.inputs = {x};
        entry.outputs = {y};
        const KernelId slow = make.kernel(testing::slow_kernel(n, rounds));
        for (uint32_t i = 0; i < dispatches; ++i) {
            entry.body.push_back(make.dispatch(slow, n / 64, {{ring, 0, 4}, {ring, 256, n * 4}}, "slow"));
            entry.body.push_back(Barrier{});
        }
        make.program.entries = {entry};
        program = std::move(make.program);
    }
    static std::vector<uint32_t> result(uint32_t x) { return std::vector<uint32_t>(n, x + sum); }
};

uint64_t finished(Executable& e) {
    const Result<uint64_t> runs = e.finished(0);
    EXPECT_TRUE(runs) << runs.error().text();
    return runs ? *runs : 0;
}

// So many dispatches that a run takes the device tens of milliseconds.
uint32_t slow_dispatches(Device& d) {
    for (uint32_t dispatches = 1;; dispatches *= 2) {
        const SlowProgram p(d.caps(), dispatches);
        const std::unique_ptr<Executable> e = load(d, p.program);
        double seconds = 0;
        for (int run = 0; run < 2; ++run) {  // the first one warms up
            write(*e, p.x, std::vector<uint32_t>{1});
            const auto start = std::chrono::steady_clock::now();
            expect(e->submit(0, 1));
            expect(e->wait());
            seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        if (seconds > 0.03 || dispatches == 4096) return dispatches;
    }
}

// submit() returns before the work is done; a write into a full ring and a read wait for one run, not for all.
TEST(Vulkan, SubmitsAreInFlight) {
    for (const bool staged : {false, true}) {
        SCOPED_TRACE(staged);
        std::optional<Environment> staging;
        if (staged) staging.emplace("DARNER_STAGING", "1");
        const std::unique_ptr<Device> d = device();
        ASSERT_TRUE(d);
        const SlowProgram p(d->caps(), slow_dispatches(*d));
        bool submits_return = false, ring_waits_for_one = false, read_waits_for_one = false;
        // A busy machine may hold the host up until the device is done: then once more.
        for (int attempt = 0; attempt < 20 && !(submits_return && ring_waits_for_one && read_waits_for_one); ++attempt) {
            const std::unique_ptr<Executable> e = load(*d, p.program);
            ASSERT_TRUE(e);
            for (uint32_t i = 0; i < 3; ++i) {
                write(*e, p.x, std::vector<uint32_t>{i + 5});
                expect(e->submit(0, 1));
            }
            submits_return |= finished(*e) == 0;
            write(*e, p.x, std::vector<uint32_t>{8});  // into the slot of run 0
            const uint64_t after_write = finished(*e);
            EXPECT_GE(after_write, 1u);
            ring_waits_for_one |= after_write == 1;
            std::vector<uint32_t> y(SlowProgram::n);
            expect(e->read(p.y, std::as_writable_bytes(std::span(y)), 1));
            const uint64_t after_read = finished(*e);
            EXPECT_GE(after_read, 2u);
            read_waits_for_one |= after_read == 2;
            EXPECT_EQ(y, SlowProgram::result(6));
            expect(e->submit(0, 1));
            EXPECT_EQ(read<uint32_t>(*e, p.y, SlowProgram::n), SlowProgram::result(8));
            EXPECT_EQ(finished(*e), 4u);
        }
        EXPECT_TRUE(submits_return);
        EXPECT_TRUE(ring_waits_for_one);
        EXPECT_TRUE(read_waits_for_one);
    }
}

uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    uint64_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * 4096;
}

// Thousands of submits with uploads of 200 MB in all, none of which the host waits for.
TEST(Vulkan, MemoryDoesNotGrowWithWhatIsQueued) {
    const Environment staging("DARNER_STAGING", "1");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    ProgramMaker make(d->caps());
    constexpr uint32_t n = 256u << 10;
    const SegmentId io = make.segment(SegmentKind::io, n * 4), state = make.segment(SegmentKind::state, 256, true);
    const TensorId x = make.tensor("x", "u32", {n}, io, 0, n * 4), counter = make.tensor("counter", "u32", {}, state, 0, 4);
    Entry entry;
    entry.name = "step";
    entry.body.push_back(make.dispatch(make.kernel(testing::count_kernel()), 1, {{state, 0, 4}}, "count", {1}));
    make.program.entries = {entry};
    const std::unique_ptr<Executable> e = load(*d, make.program);
    ASSERT_TRUE(e);
    const std::vector<uint32_t> values(n, 3);
    uint64_t early = 0;
    for (uint32_t step = 0; step < 4000; ++step) {
        if (step % 8 == 0) write(*e, x, values);
        expect(e->submit(0, 1));
        if (step == 1000) early = resident_bytes();
    }
    EXPECT_LT(resident_bytes(), early + (24u << 20));
    EXPECT_EQ(read<uint32_t>(*e, counter, 1)[0], 4000u);
}

TEST(Vulkan, RingsAreCleanUnderValidation) {
    for (const char* mode : {"core", "sync"}) {
        const Environment validation("DARNER_VALIDATION", mode);
        run_rings(50);
        const Environment staging("DARNER_STAGING", "1"), poison("DARNER_POISON", "1");
        run_rings(50);
    }
}

TEST(Vulkan, CoreValidationIsClean) {
    const Environment validation("DARNER_VALIDATION", "core");
    run_every_item();
    const Environment staging("DARNER_STAGING", "1"), poison("DARNER_POISON", "1");
    run_every_item();
}

TEST(Vulkan, SyncValidationIsClean) {
    const Environment validation("DARNER_VALIDATION", "sync");
    run_every_item();
    const Environment staging("DARNER_STAGING", "1"), poison("DARNER_POISON", "1");
    run_every_item();
}

TEST(Vulkan, BreadcrumbsChangeNothing) {
    const Environment breadcrumbs("DARNER_BREADCRUMBS", "1");
    for (const char* mode : {"core", "sync"}) {
        const Environment validation("DARNER_VALIDATION", mode);
        run_every_item();
    }
}

TEST(Vulkan, SyncValidationCatchesADroppedBarrier) {
    const Environment validation("DARNER_VALIDATION", "sync");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    EveryItem p(d->caps());
    std::vector<Item>& body = p.program.entries[0].body;
    ASSERT_TRUE(std::holds_alternative<Barrier>(body[1]));
    body.erase(body.begin() + 1);
    const Result<std::unique_ptr<Executable>> loaded = try_load(*d, p.program);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("READ_AFTER_WRITE"));
}

// The counts of an indirect dispatch are read before its kernel starts: a barrier for kernels alone would not do.
TEST(Vulkan, SyncValidationCatchesADroppedBarrierBeforeAnIndirectDispatch) {
    const Environment validation("DARNER_VALIDATION", "sync");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    EveryItem p(d->caps());
    Repeat* loop = std::get_if<Repeat>(&p.program.entries[0].body.back());
    ASSERT_TRUE(loop && std::holds_alternative<Barrier>(loop->body[0]));
    loop->body.erase(loop->body.begin());
    const Result<std::unique_ptr<Executable>> loaded = try_load(*d, p.program);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("READ_AFTER_WRITE"));
    EXPECT_THAT(loaded.error().message, HasSubstr("INDIRECT"));
}

TEST(Vulkan, CoreValidationMessagesAreErrors) {
    const Environment validation("DARNER_VALIDATION", "core");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    EveryItem p(d->caps());
    for (KernelCode& code : p.program.kernels) code.spirv = {1, 2, 3, 4, 5};
    const Result<std::unique_ptr<Executable>> loaded = d->load(std::make_shared<const Program>(p.program));
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("the validation layer reports"));
    EXPECT_TRUE(load(*d, EveryItem(d->caps()).program)) << "the next load hears of it";
}

// Writes between submits that are still in flight reach the right step.
TEST(Vulkan, WritesAreOrderedWithSubmits) {
    for (const bool staged : {false, true}) {
        std::optional<Environment> staging;
        if (staged) staging.emplace("DARNER_STAGING", "1");
        const std::unique_ptr<Device> d = device();
        ASSERT_TRUE(d);
        const EveryItem p(d->caps());
        const std::unique_ptr<Executable> e = load(*d, p.program);
        ASSERT_TRUE(e);
        float expected = 0;
        for (int round = 0; round < 50; ++round) {
            write(*e, p.x, std::vector<float>(EveryItem::n, -1.0f));  // replaced before anything reads it
            write(*e, p.x, std::vector<float>(EveryItem::n, float(round)));
            expect(e->submit(0, 2));
            expected += 6 * (2 * float(round) + 1);
        }
        const std::vector<float> total = read<float>(*e, p.total, EveryItem::n);
        for (float t : total) ASSERT_EQ(t, expected);
    }
}

TEST(Vulkan, ManyStepsInOneSubmit) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    ProgramMaker make(d->caps());
    const SegmentId state = make.segment(SegmentKind::state, 256, true);
    const TensorId counter = make.tensor("counter", "u32", {}, state, 0, 4);
    const KernelId count = make.kernel(testing::count_kernel());
    Entry entry;
    entry.name = "count";
    entry.body.push_back(make.dispatch(count, 1, {{state, 0, 4}}, "count", {1}));
    make.program.entries.push_back(entry);
    const std::unique_ptr<Executable> e = load(*d, make.program);
    ASSERT_TRUE(e);
    expect(e->submit(0, 5000));
    expect(e->submit(0, 3));
    EXPECT_EQ(read<uint32_t>(*e, counter, 1)[0], 5003u);
    write(*e, counter, std::vector<uint32_t>{10});
    expect(e->submit(0, 5));
    EXPECT_EQ(read<uint32_t>(*e, counter, 1)[0], 15u);
}

TEST(Vulkan, LargeTransfersGoInPieces) {
    const Environment staging("DARNER_STAGING", "1");
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    ProgramMaker make(d->caps());
    constexpr uint64_t words = 40u << 20;  // more than one piece of staging
    const SegmentId data = make.segment(SegmentKind::io, words * 4);
    const TensorId tensor = make.tensor("data", "u32", {int64_t(words)}, data, 0, words * 4);
    const std::unique_ptr<Executable> e = load(*d, make.program);
    ASSERT_TRUE(e);
    std::vector<uint32_t> values(words);
    for (uint64_t i = 0; i < words; ++i) values[i] = uint32_t(i * 2654435761u);
    write(*e, tensor, values);
    EXPECT_TRUE(read<uint32_t>(*e, tensor, words) == values);
}

TEST(Vulkan, OddSizesLeaveZerosBehindThem) {
    for (const bool staged : {false, true}) {
        std::optional<Environment> staging;
        if (staged) staging.emplace("DARNER_STAGING", "1");
        const std::unique_ptr<Device> d = device();
        ASSERT_TRUE(d);
        ProgramMaker make(d->caps());
        const SegmentId io = make.segment(SegmentKind::io, 16);
        const TensorId all = make.tensor("all", "u8", {16}, io, 0, 16), odd = make.tensor("odd", "u8", {5}, io, 0, 5);
        const TensorId none = make.tensor("none", "f32", {0}, io, 0, 0);
        const std::unique_ptr<Executable> e = load(*d, make.program);
        ASSERT_TRUE(e);
        write(*e, all, std::vector<uint8_t>(16, 9));
        write(*e, odd, std::vector<uint8_t>{1, 2, 3, 4, 5});
        write(*e, none, std::vector<float>{});
        EXPECT_EQ(read<float>(*e, none, 0).size(), 0u);
        EXPECT_EQ(read<uint8_t>(*e, all, 16), (std::vector<uint8_t>{1, 2, 3, 4, 5, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9}));
    }
}

TEST(Vulkan, ConstantsAreThereFromTheStart) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    ProgramMaker make(d->caps());
    const SegmentId constants = make.segment(SegmentKind::constant, 512), io = make.segment(SegmentKind::io, 256);
    const std::vector<float> values(64, 2.5f);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    make.program.constants.push_back({constants, 256, {bytes.begin(), bytes.end()}});
    const TensorId y = make.tensor("y", "f32", {64}, io, 0, 256);
    const KernelId k = make.kernel(testing::affine_kernel(64, 2, 1));
    Entry entry;
    entry.name = "step";
    entry.body.push_back(make.dispatch(k, 1, {{constants, 256, 256}, {io, 0, 256}}, "affine"));
    make.program.entries.push_back(entry);
    const std::unique_ptr<Executable> e = load(*d, make.program);
    ASSERT_TRUE(e);
    EXPECT_EQ(read<float>(*e, y, 64), std::vector<float>(64, 0.0f));
    expect(e->submit(0, 1));
    EXPECT_EQ(read<float>(*e, y, 64), std::vector<float>(64, 6.0f));
}

TEST(Vulkan, ProfileTimesEachMember) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    const EveryItem p(d->caps());
    const std::unique_ptr<Executable> e = load(*d, p.program);
    ASSERT_TRUE(e);
    const Result<std::vector<DispatchTime>> times = e->profile(0);
    ASSERT_TRUE(times) << times.error().text();
    ASSERT_EQ(times->size(), EveryItem::members);
    EXPECT_EQ((*times)[0].label, "twice");
    EXPECT_EQ((*times)[1].label, "copy");
    EXPECT_EQ((*times)[6].label, "output");
    double sum = 0;
    for (const DispatchTime& time : *times) {
        EXPECT_GE(time.seconds, 0);
        sum += time.seconds;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, 10);
    EXPECT_EQ(read<uint32_t>(*e, p.counter, 1)[0], 7u);  // it is a run like any other
}

TEST(Vulkan, ExecutableOutlivesItsDevice) {
    std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    const EveryItem p(d->caps());
    const std::unique_ptr<Executable> e = load(*d, p.program);
    d.reset();
    expect(e->submit(0, 1));
    EXPECT_EQ(read<uint32_t>(*e, p.counter, 1)[0], 7u);
}

TEST(Vulkan, WrongUseIsExplained) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    const EveryItem p(d->caps());
    const std::unique_ptr<Executable> e = load(*d, p.program);
    EXPECT_THAT(failure(e->write(p.x, {})), HasSubstr("tensor 'x': got 0 bytes, expected 4000"));
    EXPECT_THAT(failure(e->read(TensorId(), {})), HasSubstr("no tensor"));
    EXPECT_THAT(failure(e->submit(5, 1)), HasSubstr("no entry 5"));
    EXPECT_FALSE(e->profile(5));
    const Result<std::unique_ptr<Executable>> without_code = d->load(std::make_shared<const Program>(p.program));
    ASSERT_FALSE(without_code);
    EXPECT_THAT(without_code.error().message, HasSubstr("has no SPIR-V"));
}

TEST(Vulkan, ProgramsThatDoNotFitAreRefusedBeforeAnythingIsAllocated) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    ProgramMaker make(d->caps());
    const uint64_t each = d->caps().max_segment_bytes / 16 * 16;
    for (uint64_t total = 0; total <= d->caps().memory_bytes; total += each) make.segment(SegmentKind::state, each);
    make.segment(SegmentKind::state, each);
    const Result<std::unique_ptr<Executable>> loaded = try_load(*d, make.program);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, ErrorKind::limit);
    EXPECT_THAT(loaded.error().message, HasSubstr("bytes of device memory"));
}

TEST(Vulkan, UnknownDevicesAreExplained) {
    const Result<std::vector<DeviceInfo>> devices = vulkan_devices();
    ASSERT_TRUE(devices) << devices.error().text();
    ASSERT_FALSE(devices->empty());
    EXPECT_EQ(devices->front().id, "vulkan");
    for (const char* id : {"vulkan:99", "vulkan:", "vulkan:x", "vulkan:-1", "no such board"}) {
        const Result<std::unique_ptr<Device>> opened = open_vulkan(id);
        ASSERT_FALSE(opened) << id;
        EXPECT_THAT(opened.error().message, HasSubstr(id));
        EXPECT_THAT(opened.error().message, HasSubstr(devices->front().name));
    }
    EXPECT_TRUE(open_vulkan("vulkan:0"));
    const Result<std::unique_ptr<Device>> by_name = open_vulkan(devices->front().name.substr(0, 6));
    ASSERT_TRUE(by_name) << by_name.error().text();
    EXPECT_EQ((*by_name)->info().name, devices->front().name);
    const Environment validation("DARNER_VALIDATION", "everything");
    EXPECT_THAT(failure(open_vulkan("") ? Result<void>() : Result<void>(open_vulkan("").error())),
                HasSubstr("expected core or sync"));
}

TEST(Vulkan, NoDriverIsOneReadableLine) {
    const Environment drivers("VK_ICD_FILENAMES", "/nonexistent.json"), newer("VK_DRIVER_FILES", "/nonexistent.json");
    // Drivers are looked for once an instance; that of open_vulkan() has found them already.
    const Result<std::shared_ptr<vulkan::Instance>> instance = vulkan::Instance::create(vulkan::Validation::off);
    ASSERT_FALSE(instance);
    EXPECT_EQ(instance.error().kind, ErrorKind::device);
    EXPECT_THAT(instance.error().message, HasSubstr("no Vulkan driver"));
}

TEST(Vulkan, CapsAreUsable) {
    const std::unique_ptr<Device> d = device();
    ASSERT_TRUE(d);
    const Caps& caps = d->caps();
    EXPECT_EQ(caps.code, CodeKind::spirv);
    EXPECT_GE(caps.max_storage_bindings, 4u);
    EXPECT_GE(caps.max_binding_bytes, 1u << 27);
    EXPECT_GE(caps.max_invocations, 128u);
    EXPECT_EQ(caps.offset_alignment & (caps.offset_alignment - 1), 0u);
    EXPECT_EQ(caps.max_param_bytes, 64u);
    EXPECT_GT(caps.compute_units, 0u);
    EXPECT_GT(caps.memory_bytes, 0u);
    EXPECT_LE(caps.subgroup_min, caps.subgroup_size);
    EXPECT_LE(caps.subgroup_size, caps.subgroup_max);
    for (const CoopShape& shape : caps.coop_shapes) EXPECT_GT(shape.m * shape.n * shape.k, 0u);
}

TEST(PipelineCache, FileSurvivesOnlyUnchanged) {
    VkPhysicalDeviceProperties properties{};
    properties.vendorID = 1;
    properties.deviceID = 2;
    properties.driverVersion = 3;
    const std::vector<std::byte> data(100, std::byte{42});
    const std::vector<std::byte> file = vulkan::encode_cache_file(properties, data);
    const std::span<const std::byte> back = vulkan::decode_cache_file(properties, file);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin(), data.end()));
    for (size_t i = 0; i < file.size(); ++i) {
        std::vector<std::byte> damaged = file;
        damaged[i] ^= std::byte{4};
        EXPECT_TRUE(vulkan::decode_cache_file(properties, damaged).empty()) << i;
        EXPECT_TRUE(vulkan::decode_cache_file(properties, std::span(file).first(i)).empty()) << i;
    }
    properties.driverVersion = 4;
    EXPECT_TRUE(vulkan::decode_cache_file(properties, file).empty());
}

TEST(PipelineCache, IsWrittenAndDamageIsHarmless) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "darner_cache_test";
    std::filesystem::remove_all(folder);
    const Environment cache("XDG_CACHE_HOME", folder.string());
    run_every_item();
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "darner")) files.push_back(entry.path());
    ASSERT_EQ(files.size(), 1u);
    run_every_item();  // with the cache
    const std::string junk(1000, 'x');
    ASSERT_TRUE(write_text_file(files[0].string(), junk));
    run_every_item();
    EXPECT_NE(*read_text_file(files[0].string()), junk);
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(write_text_file(folder.string(), "a file where the folder should be"));
    run_every_item();
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace darner
