// SPDX-License-Identifier: MIT
#include "darner/kernels/attention_shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::kernels {

namespace {

constexpr uint32_t most_sums = 64, most_register_sums = 32;  // accumulators an invocation: in registers; on CPU drivers, which
                                                             // take seconds to compile more
constexpr uint32_t most_length = 1 << 28;                    // so that positions, lengths and windows add up within an i32

uint32_t result_width(const AttentionSpec& spec) {
    switch (spec.pass) {
        case AttentionPass::forward: return spec.y ? spec.width : 1;
        case AttentionPass::query_gradient: return spec.depth;
        case AttentionPass::key_gradient: return std::max(spec.dk ? spec.depth : 1, spec.dv ? spec.width : 1);
    }
    return 1;
}

uint64_t tiles(const AttentionSpec& spec, const AttentionShape& shape) {
    return ceil_div(owned_count(spec), shape.owned()) * shape.chunks * spec.kv_heads * spec.batch;
}

void spread_columns(const AttentionSpec& spec, AttentionShape& shape) {
    const uint32_t width = result_width(spec), sums = shape.rows * std::max(1u, results_of(spec));
    const uint32_t across = shape.staged ? shape.threads_x : 1;
    shape.columns = std::clamp(static_cast<uint32_t>(ceil_div(width, across)), 1u,
                               std::max(1u, (shape.staged ? most_sums : most_register_sums) / sums));
    shape.chunks = static_cast<uint32_t>(ceil_div(width, shape.chunk_width()));
}

uint64_t workgroup_bytes(const AttentionSpec& spec, const AttentionShape& shape) {
    const uint32_t weights = std::max(1u, results_of(spec)) * shape.owned() * (shape.tile() + 1);
    const uint32_t maxima = spec.pass == AttentionPass::forward ? shape.owned() * shape.threads_x : 0;
    return 4 * (uint64_t{shape.stage_elements()} + weights + maxima);
}

// Halves what there is more of than work, then what does not fit.
AttentionShape staged_shape(const AttentionSpec& spec, const Caps& caps) {
    AttentionShape shape;
    const uint32_t owned = owned_count(spec), other = other_count(spec);
    const auto halve = [](uint32_t& v) { return v > 1 ? (v /= 2, true) : false; };
    while (shape.rows > 1 && owned <= shape.owned() / 2) shape.rows /= 2;
    while (shape.threads_y > 1 && owned <= shape.owned() / 2) {
        shape.threads_y /= 2;
        shape.threads_x = std::min(64u, shape.threads_x * 2);
    }
    while (shape.threads() > caps.max_invocations && (halve(shape.threads_y) || halve(shape.threads_x))) {}
    while (shape.threads_x > 1 && shape.threads_x > caps.max_workgroup_size[0]) shape.threads_x /= 2;
    while (shape.threads_y > 1 && shape.threads_y > caps.max_workgroup_size[1]) shape.threads_y /= 2;
    while (shape.cols > 1 && other <= shape.tile() / 2) shape.cols /= 2;
    while (shape.features > 4 && shape.features / 2 >= std::max(spec.depth, spec.width)) shape.features /= 2;
    spread_columns(spec, shape);
    while (shape.rows > 1 && (shape.chunks > 1 || tiles(spec, shape) < caps.compute_units)) {
        shape.rows /= 2;
        spread_columns(spec, shape);
    }
    const auto fits = [&] {
        shape.terms = std::min(16u, power_of_two_at_least(shape.tile()));
        while (shape.terms > 1 && (shape.terms * shape.chunk_width() > shape.features * (shape.owned() + shape.tile() + 2) ||
                                   shape.tile() % shape.terms != 0))
            shape.terms /= 2;
        return workgroup_bytes(spec, shape) <= caps.max_workgroup_bytes;
    };
    while (!fits()) {
        if (shape.cols >= shape.rows && halve(shape.cols)) continue;
        if (halve(shape.rows) || halve(shape.features) || halve(shape.threads_y) || halve(shape.threads_x)) {
            spread_columns(spec, shape);
            continue;
        }
        break;
    }
    return shape;
}

// Of one invocation, at most.
uint64_t loop_rounds(const AttentionSpec& spec, const AttentionShape& shape) {
    const uint64_t heads = spec.pass == AttentionPass::key_gradient ? spec.group : 1;
    const uint64_t rounds = heads * ceil_div(other_count(spec), shape.tile());
    const uint64_t products =
        ceil_div(spec.depth, shape.features) + (spec.pass == AttentionPass::forward ? 0 : ceil_div(spec.width, shape.features));
    const uint64_t sums = shape.staged ? results_of(spec) * (shape.tile() / shape.terms) : 0;
    return rounds * (1 + products + sums) + heads;
}

AttentionShape register_shape(const AttentionSpec& spec, const Caps& caps) {
    AttentionShape shape;
    shape.staged = false;
    shape.threads_x = 1;
    shape.threads_y = std::min(caps.subgroup_size != 0 ? caps.subgroup_size : 8, caps.max_invocations);
    shape.rows = 1;
    shape.cols = std::min(4u, power_of_two_at_least(other_count(spec)));
    shape.features = 8;
    // Several steps a round where rounds are few.
    while (caps.max_loop_rounds != 0 && loop_rounds(spec, shape) > caps.max_loop_rounds && shape.features < 64)
        shape.features *= 2;
    spread_columns(spec, shape);
    return shape;
}

}  // namespace

uint32_t AttentionShape::stage_elements() const { return std::max(features * (owned() + tile() + 2), terms * chunk_width()); }

uint32_t owned_count(const AttentionSpec& spec) {
    return spec.pass == AttentionPass::key_gradient ? spec.keys : spec.group * spec.queries;
}
uint32_t other_count(const AttentionSpec& spec) { return spec.pass == AttentionPass::key_gradient ? spec.queries : spec.keys; }
uint32_t results_of(const AttentionSpec& spec) {
    uint32_t results = 0;
    for (const AttentionSpec::Store* store : {&spec.y, &spec.dq, &spec.dk, &spec.dv}) results += *store ? 1 : 0;
    return results;
}

Result<AttentionShape> attention_shape(const AttentionSpec& spec, const Caps& caps) {
    if (spec.queries > most_length || spec.keys > most_length || uint64_t{spec.group} * spec.queries > most_length)
        return limit_error(fmt::format("[attention] sequences longer than {}: got {} x {} queries and {} keys", most_length,
                                       spec.group, spec.queries, spec.keys));
    AttentionShape shape = caps.barriers_are_dear() ? register_shape(spec, caps) : staged_shape(spec, caps);
    if (shape.staged && workgroup_bytes(spec, shape) > caps.max_workgroup_bytes)
        return limit_error(fmt::format("[attention] even the smallest tile needs {} bytes of workgroup memory, the device has {}",
                                       workgroup_bytes(spec, shape), caps.max_workgroup_bytes));
    if (caps.max_loop_rounds != 0 && loop_rounds(spec, shape) > caps.max_loop_rounds)
        return limit_error(fmt::format("[attention] {} queries and {} keys of {} features take {} rounds of loops, the device {}",
                                       spec.queries, spec.keys, spec.depth, loop_rounds(spec, shape), caps.max_loop_rounds));
    const auto grid = fold(tiles(spec, shape), caps);
    if (!grid) return limit_error("[attention] more workgroups than the device takes");
    shape.grid = *grid;
    return shape;
}

}  // namespace darner::kernels
