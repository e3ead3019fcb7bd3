// SPDX-License-Identifier: MIT
// Data sets that live on the device: the examples are params of role data, written once; a step gathers its batch by the
// position that follows from the step counter, so nothing comes from the host between epochs.
#pragma once

#include "darner/graph/builder.h"

#include <functional>
#include <string>
#include <string_view>

namespace darner {

// Labelled bytes on the device: params PREFIX.images u8[count, features] and PREFIX.labels u8[count].
struct ResidentSet {
    std::string prefix = "data";
    int64_t count = 0, features = 0;
    double mean = 0, deviation = 1;  // of the bytes over 255: inputs are (byte / 255 - mean) / deviation
};

struct LabelledBatch {
    Value inputs;      // f32[batch, features]
    Value labels;      // i32[batch]
    Value epoch_step;  // u32[]: counts the batches of an epoch from 0
    Value valid;       // bool[batch]: false for the padding of an evaluation's last batch; invalid in training
};

// The batch of the module's `step`, in the order of the param PREFIX.order i32[count], which the host writes before each
// epoch. An epoch has count / batch steps; the examples left over are dropped.
LabelledBatch training_batch(Builder& builder, const ResidentSet& set, int64_t batch, Where where = Where::here());

// A param that starts as zeros.
Value zero_state(Builder& builder, std::string_view name, Type type, Role role = Role::statistic);

// `sum`, a param, becomes `value` where `count` is 0, and else grows by it.
void accumulate(Builder& builder, Value sum, Value value, Value count);

// Sums `loss` over a round of steps: adds a param `loss_sum` f32[] that starts anew where `round_step` u32[] is 0.
void accumulate_loss(Builder& builder, Value loss, Value round_step, Where where = Where::here());

// The graph `report`: an output `loss_sum_so_far` per step, so that the sum after one submit can be read while the next one
// runs.
Result<Graph> loss_report_graph(Where where = Where::here());

// The graph `eval`, which takes a batch of the set at each run: PREFIX.correct u32[classes] counts the right answers of each
// class, PREFIX.loss_sum f32[] sums the cross entropies, PREFIX.batch u32[] counts the runs. After evaluation_steps() of them
// it is 0 again, and the next run starts new sums.
Result<Graph> evaluation_graph(const ResidentSet& set, int64_t batch, int64_t classes,
                               const std::function<Value(Value inputs)>& logits, Where where = Where::here());
int64_t evaluation_steps(const ResidentSet& set, int64_t batch);

}  // namespace darner
