// SPDX-License-Identifier: MIT
// The loader: order, errors, ends, memory and destruction with one worker and several; and a training run that it feeds, which
// must equal the run on resident data bit for bit.
#include "darner/nn/loader.h"

#include "darner/nn/batches.h"
#include "darner/nn/data.h"
#include "darner/nn/models.h"
#include "darner/nn/test_support.h"
#include "darner/nn/training.h"
#include "darner/ops/ops.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace darner {
namespace {

using ::testing::HasSubstr;
using testing::ok;

NamedArrays numbered(uint64_t number) {
    return {{"n", make_array<uint32_t>({2}, {static_cast<uint32_t>(number), static_cast<uint32_t>(number * number)})}};
}

// Later batches are filled faster, so that several workers finish out of order.
Result<void> fill_numbered(uint64_t number, NamedArrays& batch) {
    std::this_thread::sleep_for(std::chrono::microseconds(number % 7 == 0 ? 300 : 20));
    batch = numbered(number);
    return {};
}

TEST(Loader, GivesBatchesInOrder) {
    for (const LoaderOptions& options : {LoaderOptions{.depth = 1}, LoaderOptions{.depth = 3, .workers = 3},
                                         LoaderOptions{.depth = 2, .workers = 5, .first = 17}}) {
        LoaderOptions bounded = options;
        bounded.count = 200;
        Loader loader = ok(Loader::start(fill_numbered, bounded));
        for (uint64_t number = options.first; number < options.first + 200; ++number) {
            const NamedArrays* batch = ok(loader.next());
            ASSERT_NE(batch, nullptr) << number;
            ASSERT_EQ(*batch, numbered(number));
        }
        EXPECT_EQ(ok(loader.next()), nullptr);
        EXPECT_EQ(ok(loader.next()), nullptr);
    }
}

TEST(Loader, NoBatchesAtAll) {
    Loader loader = ok(Loader::start(fill_numbered, {.count = 0}));
    EXPECT_EQ(ok(loader.next()), nullptr);
}

TEST(Loader, TheLastNumbersDoNotWrapAround) {
    Loader loader = ok(Loader::start(fill_numbered, {.first = UINT64_MAX - 2, .count = 9}));
    for (int i = 0; i < 2; ++i) ASSERT_NE(ok(loader.next()), nullptr);
    EXPECT_EQ(ok(loader.next()), nullptr);
}

// A batch stays as it is while the caller has it, and no more than `depth` others are filled meanwhile.
TEST(Loader, FillsAheadByItsDepth) {
    std::atomic<uint64_t> calls = 0;
    const auto fill = [&](uint64_t number, NamedArrays& batch) {
        ++calls;
        return fill_numbered(number, batch);
    };
    Loader loader = ok(Loader::start(fill, {.depth = 3, .workers = 2}));
    for (uint64_t number = 0; number < 20; ++number) {
        const NamedArrays* batch = ok(loader.next());
        for (int wait = 0; wait < 2000 && calls < number + 4; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        EXPECT_EQ(calls, number + 4);
        EXPECT_EQ(*batch, numbered(number));
    }
}

// The memory of earlier batches comes back: no more than depth + 1 are ever made.
TEST(Loader, UsesMemoryAgain) {
    std::mutex mutex;
    std::set<const std::byte*> blocks;
    const auto fill = [&](uint64_t number, NamedArrays& batch) -> Result<void> {
        if (batch.empty()) batch = numbered(0);
        const NamedArrays values = numbered(number);
        std::copy(values.at("n").data.begin(), values.at("n").data.end(), batch.at("n").data.begin());
        const std::lock_guard lock(mutex);
        blocks.insert(batch.at("n").data.data());
        return {};
    };
    Loader loader = ok(Loader::start(fill, {.depth = 2, .workers = 2}));
    for (uint64_t number = 0; number < 100; ++number) ASSERT_EQ(*ok(loader.next()), numbered(number));
    const std::lock_guard lock(mutex);
    EXPECT_LE(blocks.size(), 3u);
}

TEST(Loader, AnErrorComesOutInItsPlaceAndStays) {
    for (const uint32_t workers : {1u, 4u}) {
        const auto fill = [](uint64_t number, NamedArrays& batch) -> Result<void> {
            if (number == 5 || number == 6) return io_error("batch " + std::to_string(number) + " is damaged");
            return fill_numbered(number, batch);
        };
        Loader loader = ok(Loader::start(fill, {.depth = 4, .workers = workers}));
        for (uint64_t number = 0; number < 5; ++number) ASSERT_EQ(*ok(loader.next()), numbered(number));
        for (int again = 0; again < 3; ++again) {
            const Result<const NamedArrays*> failed = loader.next();
            ASSERT_FALSE(failed);
            EXPECT_EQ(failed.error().message, "batch 5 is damaged");
        }
    }
}

TEST(Loader, MayEndAtAnyTime) {
    for (const uint32_t taken : {0u, 1u, 9u})
        for (const uint32_t workers : {1u, 3u}) {
            Loader loader = ok(Loader::start(fill_numbered, {.depth = 4, .workers = workers}));
            for (uint32_t i = 0; i < taken; ++i) ASSERT_NE(ok(loader.next()), nullptr);
            Loader moved = std::move(loader);
            ASSERT_EQ(*ok(moved.next()), numbered(taken));
        }
}

TEST(Loader, WrongOptionsAreExplained) {
    EXPECT_THAT(Loader::start({}).error().message, HasSubstr("no function"));
    EXPECT_THAT(Loader::start(fill_numbered, {.depth = 0}).error().message, HasSubstr("depth is 0"));
    EXPECT_THAT(Loader::start(fill_numbered, {.workers = 0}).error().message, HasSubstr("workers is 0"));
}

TEST(RunSteps, EndsWithTheBatchesAndWithTheFirstError) {
    Builder b("g");
    b.output_per_step("y", b.input_per_step("n", u32({2})) + 1.0);
    Session session = ok(compile(ok(make_module({ok(b.finish())})), {.device = "interp"}));
    Loader loader = ok(Loader::start(fill_numbered, {.count = 7}));
    EXPECT_EQ(ok(run_steps(session, "g", loader, 3)), 3u);
    EXPECT_EQ(ok(run_steps(session, "g", loader, 100)), 4u);
    EXPECT_EQ(ok(run_steps(session, "g", loader, 100)), 0u);
    EXPECT_EQ(ok(session.finished("g")), 7u);
    EXPECT_EQ(ok(session.read("y", 2)), make_array<uint32_t>({2}, {5, 17}));

    Loader again = ok(Loader::start(fill_numbered));
    const auto third = [](uint64_t run) -> Result<void> { return run < 2 ? Result<void>() : invalid("enough"); };
    EXPECT_EQ(run_steps(session, "g", again, 100, third).error().message, "enough");
    Loader misfits = ok(Loader::start([](uint64_t, NamedArrays& batch) -> Result<void> {
        batch = {{"n", make_array<uint32_t>({1}, {1})}};
        return {};
    }));
    EXPECT_THAT(run_steps(session, "g", misfits, 1).error().message, HasSubstr("got u32[1], expected u32[2]"));
}

constexpr ResidentSet set{.count = 40, .features = 12, .mean = 0.3, .deviation = 0.4};
constexpr int64_t batch_size = 8;
constexpr uint32_t epochs = 3, steps_per_epoch = set.count / batch_size;
constexpr uint64_t seed = 11;

Array image_bytes() {
    std::vector<uint8_t> bytes(set.count * set.features);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    return make_array<uint8_t>({set.count, set.features}, std::span<const uint8_t>(bytes));
}
Array label_bytes() {
    std::vector<uint8_t> bytes(set.count);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 % 5);
    return make_array<uint8_t>({set.count}, std::span<const uint8_t>(bytes));
}

Module resident_module() {
    Builder b("step");
    const std::array<int64_t, 1> hidden{16};
    const LabelledBatch batch = training_batch(b, set, batch_size);
    return ok(training_step(cross_entropy(mlp(batch.inputs, hidden, 5), batch.labels), adam()));
}

Module fed_module() {
    Builder b("step");
    const std::array<int64_t, 1> hidden{16};
    const Value images = b.input_per_step("images", u8({batch_size, set.features}));
    const Value labels = b.input_per_step("labels", u8({batch_size}));
    const Value inputs = cast(images, DType::f32) * (1 / (255 * set.deviation)) - set.mean / set.deviation;
    const Value loss = cross_entropy(mlp(inputs, hidden, 5), cast(labels, DType::i32));
    return ok(training_step(loss, adam()));
}

// The same examples as the resident run's, in the same order.
Result<void> fill_batch(uint64_t number, NamedArrays& batch) {
    const std::vector<int32_t> order = epoch_order(seed, static_cast<uint32_t>(number / steps_per_epoch), set.count);
    const Array all_images = image_bytes(), all_labels = label_bytes();
    std::vector<uint8_t> images, labels;
    for (int64_t i = 0; i < batch_size; ++i) {
        const auto example = static_cast<size_t>(order[number % steps_per_epoch * batch_size + i]);
        const auto row = values_of<uint8_t>(all_images).subspan(example * set.features, set.features);
        images.insert(images.end(), row.begin(), row.end());
        labels.push_back(values_of<uint8_t>(all_labels)[example]);
    }
    batch["images"] = make_array<uint8_t>({batch_size, set.features}, std::span<const uint8_t>(images));
    batch["labels"] = make_array<uint8_t>({batch_size}, std::span<const uint8_t>(labels));
    return {};
}

TEST(RunSteps, TrainsToTheBitsOfResidentData) {
    for (const char* device : {"interp", "vulkan"}) {
        SCOPED_TRACE(device);
        Session resident = ok(compile(resident_module(), {.device = device, .seed = seed}));
        Session fed = ok(compile(fed_module(), {.device = device, .seed = seed}));
        ASSERT_TRUE(resident.write("data.images", image_bytes()));
        ASSERT_TRUE(resident.write("data.labels", label_bytes()));
        const Array first = ok(resident.read("0.weight"));
        for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
            const std::vector<int32_t> order = epoch_order(seed, epoch, set.count);
            ASSERT_TRUE(resident.write("data.order", make_array<int32_t>({set.count}, std::span<const int32_t>(order))));
            ASSERT_TRUE(resident.submit("step", steps_per_epoch));
        }
        Loader loader = ok(Loader::start(fill_batch, {.workers = 2, .count = epochs * steps_per_epoch}));
        EXPECT_EQ(ok(run_steps(fed, "step", loader, 1000)), epochs * steps_per_epoch);
        size_t compared = 0;
        for (const ProgramTensor& tensor : fed.program().tensors) {
            if (tensor.role.empty()) continue;
            EXPECT_EQ(ok(fed.read(tensor.name)), ok(resident.read(tensor.name))) << tensor.name;
            ++compared;
        }
        EXPECT_GT(compared, 10u);
        EXPECT_NE(ok(fed.read("0.weight")), first);
    }
}

}  // namespace
}  // namespace darner
