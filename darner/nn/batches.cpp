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

Value loss_sum(Builder& b) { return zero_state(b, "loss_sum", f32()); }

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

Value zero_state(Builder& b, std::string_view name, Type type, Role role) {
    const Value zeros = b.constant(type, 0.0);
    return b.param(name, std::move(type), {.init = zeros, .trainable = false, .role = role});
}

void accumulate(Builder& b, Value sum, Value value, Value count) {
    if (!b.failed()) b.update(sum, select(eq(count, b.constant(count.type(), 0.0)), value, sum + value));
}

void accumulate_loss(Builder& b, Value loss, Value round_step, Where where) {
    const Builder::Place place = b.place(where);
    if (!b.failed()) accumulate(b, loss_sum(b), loss, round_step);
}

int64_t evaluation_steps(const ResidentSet& set, int64_t batch) { return (set.count + batch - 1) / batch; }

Result<Graph> loss_report_graph(Where where) {
    Builder b("report");
    const Builder::Place place = b.place(where);
    b.output_per_step("loss_sum_so_far", loss_sum(b));
    return b.finish();
}

Result<Graph> evaluation_graph(const ResidentSet& set, int64_t batch, int64_t classes, const std::function<Value(Value)>& logits,
                               Where where) {
    Builder b("eval");
    std::optional<Builder::Place> place(std::in_place, b, where);
    // Counts within one batch are summed in f32, which is exact up to 2^24.
    if (!check_batch(b, set, batch, int64_t{1} << 24)) return b.error();
    const auto name = [&](const char* what) { return fmt::format("{}.{}", set.prefix, what); };
    const Value run = zero_state(b, name("batch"), u32(), Role::counter);
    const Value correct = zero_state(b, name("correct"), u32({classes})), total_loss = zero_state(b, name("loss_sum"), f32());
    const Value position = positions(b, run, batch);
    LabelledBatch examples;
    examples.epoch_step = run;
    examples.valid = lt(position, b.constant(u32(), static_cast<double>(set.count)));
    fill(examples, b, set, position);  // positions past the end read the last example and do not count
    place.reset();                     // the network is the caller's
    const Value scores = logits(examples.inputs);
    place.emplace(b, where);
    const Value right = logical_and(eq(argmax(scores), examples.labels), examples.valid);
    const Value of_class = eq(reshape(examples.labels, {batch, 1}), b.iota(i32({1, classes}), 1));
    const Value count = cast(sum(cast(logical_and(of_class, reshape(right, {batch, 1})), DType::f32), {0}), DType::u32);
    const Value losses = cross_entropy(scores, examples.labels, "none");
    const Value loss = sum(select(examples.valid, losses, b.constant(f32({batch}), 0.0)));
    accumulate(b, correct, count, run);
    accumulate(b, total_loss, loss, run);
    b.update(run, rem(run + 1.0, b.constant(u32(), static_cast<double>(evaluation_steps(set, batch)))));
    return b.finish();
}

}  // namespace darner
