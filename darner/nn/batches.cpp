// SPDX-License-Identifier: MIT
// Batches of resident data sets.
#include "darner/nn/batches.h"

#include "darner/ops/ops.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace darner {
namespace {

bool check_batch(Builder& b, const ResidentSet& set, int64_t batch, int64_t most) {
    if (set.count < 1 || set.features < 1 || set.count > 0x7fffffff)
        b.fail(invalid(fmt::format("[batch] the set {} has {} examples of {} values: it needs one of each, and at most 2^31 - 1",
                                   set.prefix, set.count, set.features)));
    else if (!(set.deviation > 0))
        b.fail(invalid(fmt::format("[batch] the deviation of the set {} is {}, expected above 0", set.prefix, set.deviation)));
    else if (batch < 1 || batch > most)
        b.fail(invalid(fmt::format("[batch] the batch size is {}, expected 1 to {}", batch, most)));
    return !b.failed();
}

Value data_param(Builder& b, const ResidentSet& set, std::string_view name, Type type) {
    return b.param(fmt::format("{}.{}", set.prefix, name), std::move(type), {.trainable = false, .role = Role::data});
}

Value counter(Builder& b, const ResidentSet& set, std::string_view name) {
    return b.param(fmt::format("{}.{}", set.prefix, name), u32(),
                   {.init = b.constant(u32(), 0.0), .trainable = false, .role = Role::counter});
}

// Positions of the batch's examples among the epoch's.
Value positions(Builder& b, Value epoch_step, int64_t batch) {
    return b.iota(u32({batch})) + epoch_step * static_cast<double>(batch);
}

void fill(LabelledBatch& batch, Builder& b, const ResidentSet& set, Value indices) {
    const Value images = data_param(b, set, "images", u8({set.count, set.features}));
    const Value labels = data_param(b, set, "labels", u8({set.count}));
    batch.inputs = cast(gather(images, indices), DType::f32) * (1 / (255 * set.deviation));
    if (set.mean != 0) batch.inputs = batch.inputs - set.mean / set.deviation;
    batch.labels = cast(gather(labels, indices), DType::i32);
}

}  // namespace

LabelledBatch training_batch(Builder& b, const ResidentSet& set, int64_t batch, Where where) {
    const Builder::Place place = b.place(where);
    if (!check_batch(b, set, batch, set.count)) return {};
    LabelledBatch result;
    result.epoch_step = rem(b.step(), b.constant(u32(), static_cast<double>(set.count / batch)));
    const Value order = data_param(b, set, "order", i32({set.count}));
    fill(result, b, set, gather(order, positions(b, result.epoch_step, batch)));
    return result;
}

void accumulate_loss(Builder& b, Value loss, const LabelledBatch& batch, Where where) {
    const Builder::Place place = b.place(where);
    if (b.failed()) return;
    const Value sum = b.param("loss_sum", f32(), {.init = b.constant(f32(), 0.0), .trainable = false, .role = Role::statistic});
    const Value first = eq(batch.epoch_step, b.constant(u32(), 0.0));
    b.update(sum, select(first, loss, sum + loss));
}

int64_t evaluation_steps(const ResidentSet& set, int64_t batch) { return (set.count + batch - 1) / batch; }

Result<Graph> accuracy_graph(const ResidentSet& set, int64_t batch, const std::function<Value(Value)>& logits, Where where) {
    Builder b("eval");
    std::optional<Builder::Place> place(std::in_place, b, where);
    // Counts within one batch are summed in f32, which is exact up to 2^24.
    if (!check_batch(b, set, batch, int64_t{1} << 24)) return b.error();
    const Value run = counter(b, set, "batch"), correct = counter(b, set, "correct");
    const Value position = positions(b, run, batch);
    LabelledBatch examples;
    examples.epoch_step = run;
    examples.valid = lt(position, b.constant(u32(), static_cast<double>(set.count)));
    fill(examples, b, set, position);  // positions past the end read the last example and do not count
    place.reset();                     // the network is the caller's
    const Value scores = logits(examples.inputs);
    place.emplace(b, where);
    const Value right = logical_and(eq(argmax(scores), examples.labels), examples.valid);
    const Value count = cast(sum(cast(right, DType::f32)), DType::u32);
    const Value first = eq(run, b.constant(u32(), 0.0));
    b.update(correct, select(first, count, correct + count));
    b.update(run, rem(run + 1.0, b.constant(u32(), static_cast<double>(evaluation_steps(set, batch)))));
    return b.finish();
}

}  // namespace darner
