// SPDX-License-Identifier: MIT
#include "darner/kernels/row.h"

#include "darner/base/check.h"
#include "darner/base/fault.h"

#include <algorithm>
#include <map>
#include <span>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;

namespace {

constexpr uint32_t max_unrolled_items = 32;
constexpr uint32_t most_unrolled_loads = 128;
constexpr uint32_t shortest_shared_row = 16;
constexpr uint32_t most_parts = 32;  // of a row that one lane combines in one go
using Values = Builder::Values;

// Results of a reduction in flight: one value, and for argmax its index.
size_t width(RowOp op) { return op == RowOp::argmax ? 2 : 1; }

// A NaN on either side wins: devices promise nothing for NaN in min and max, so the test is on bits.
Expr or_nan(Builder& b, Expr left, Expr right, Expr otherwise) {
    if (left.type().scalar != kir::Scalar::f32) return otherwise;
    const auto is_nan = [&](Expr v) { return (b.bitcast(v, kir::Scalar::u32) & 0x7fffffff) > 0x7f800000; };
    return b.select(is_nan(left), left, b.select(is_nan(right), right, otherwise));
}

Values combine(Builder& b, RowOp op, const Values& left, const Values& right) {
    switch (op) {
        case RowOp::sum: return {left[0] + right[0]};
        case RowOp::max: return {or_nan(b, left[0], right[0], b.max(left[0], right[0]))};
        case RowOp::min: return {or_nan(b, left[0], right[0], b.min(left[0], right[0]))};
        case RowOp::argmax: {
            // The lowest index among equals.
            const Expr better = (right[0] > left[0]) | ((right[0] == left[0]) & (right[1] < left[1]));
            return {b.select(better, right[0], left[0]), b.select(better, right[1], left[1])};
        }
    }
    CHECK(false, "unknown reduction");
    return {};
}

class RowBuilder {
public:
    RowBuilder(Builder& b, const RowSpec& spec, const RowShape& shape, const Caps& caps)
        : b_(b), spec_(spec), shape_(shape), subgroup_(caps.known_subgroup_size()) {
        if (shape.lanes == 1) subgroup_ = 0;
        // Every stage loops over the items, and the final pass does.
        const uint32_t loops = (spec.reduces.empty() ? 0 : spec.reduces.back().stage + 1) + 2;
        if (caps.max_loop_rounds != 0) rounds_ = std::max(1u, caps.max_loop_rounds / loops);
        b.workgroup_size(shape.lanes * shape.slots);
        if (subgroup_ != 0 && caps.subgroup_size_control) b.require_subgroup_size(subgroup_);
        // Lanes of a row must be neighbours in a subgroup, which the local index alone does not promise.
        index_ = subgroup_ == 0 ? b.local_index()
                                : b.assume_max(b.subgroup_id() * subgroup_ + b.assume_max(b.lane_id(), subgroup_ - 1),
                                               shape.lanes * shape.slots - 1);
        lane_ = index_ % shape.lanes;
        slot_ = index_ / shape.lanes;
        block_ = linear_workgroup(b, shape.grid);
    }

    void build() {
        const uint32_t passes = static_cast<uint32_t>(ceil_div(shape_.rows_per_block, shape_.slots));
        Values sums;
        if (passes == 1) {
            sums = one_pass(b_.u32(0), {}, false);
        } else {
            Values init(spec_.column_sums * shape_.items, b_.f32(0));
            sums = b_.loop(b_.u32(0), b_.u32(passes), b_.u32(1), init,
                           [&](Expr pass, const Values& carried) { return one_pass(pass, carried, true); });
        }
        if (spec_.column_sums > 0) store_partials(sums);
    }

private:
    bool may_exceed(Expr v, uint32_t limit) const { return b_.max_of(v) >= limit; }
    // Column of an item; past the end it repeats the last one.
    Expr column(Expr item) { return lane_ + item * shape_.lanes; }
    Expr clamped(Expr v, uint32_t limit) { return b_.min(v, b_.u32(limit - 1)); }
    Expr in_row(Expr col) { return b_.max_of(col) < spec_.cols ? Expr{} : col < spec_.cols; }

    Values one_pass(Expr pass, const Values& sums, bool looped) {
        const Expr within = pass * shape_.slots + slot_;
        const Expr row = block_ * shape_.rows_per_block + within;
        Expr valid = {};
        if (may_exceed(within, shape_.rows_per_block)) valid = within < shape_.rows_per_block;
        if (may_exceed(row, spec_.rows)) valid = valid.valid() ? (valid & (row < spec_.rows)) : row < spec_.rows;
        const Expr safe_row = clamped(row, spec_.rows);

        const uint32_t stages = spec_.reduces.empty() ? 0 : spec_.reduces.back().stage + 1;
        for (uint32_t stage = 0; stage < stages; ++stage) run_stage(stage, safe_row);

        Values next = sums;
        if (spec_.has_full_outputs || spec_.column_sums > 0) next = final_pass(safe_row, valid, sums);
        if (spec_.has_row_outputs) {
            Expr one = lane_ == 0;
            if (valid.valid()) one = one & valid;
            if (shape_.lanes == 1 && !valid.valid())
                spec_.store_row(b_, safe_row);
            else
                b_.when(one, [&] { spec_.store_row(b_, safe_row); });
        }
        // The next pass writes the arrays that this one has read.
        if (looped && uses_arrays_) b_.barrier();
        return next;
    }

    Values operand(size_t k, Expr row, Expr col) {
        const Expr safe = clamped(col, spec_.cols);
        const Expr value = spec_.operand(b_, k, row, safe);
        const RowOp op = spec_.reduces[k].op;
        if (op == RowOp::argmax) return {value, safe};
        if (op != RowOp::sum) return {value};  // a repeated last column changes no maximum
        const Expr inside = in_row(col);
        return {inside.valid() ? b_.select(inside, value, b_.constant(value.type(), 0)) : value};
    }

    void run_stage(uint32_t stage, Expr row) {
        std::vector<size_t> members;
        for (size_t k = 0; k < spec_.reduces.size(); ++k)
            if (spec_.reduces[k].stage == stage) members.push_back(k);

        std::vector<Values> partial(members.size());
        for (size_t m = 0; m < members.size(); ++m) partial[m] = operand(members[m], row, column(b_.u32(0)));
        if (shape_.unrolled) {
            for (uint32_t item = 1; item < shape_.items; ++item)
                for (size_t m = 0; m < members.size(); ++m)
                    partial[m] = combine(b_, op(members[m]), partial[m], operand(members[m], row, column(b_.u32(item))));
        } else {
            loop_items(members, partial, row);
        }
        if (shape_.lanes > 1) across_lanes(members, partial);
        for (size_t m = 0; m < members.size(); ++m) spec_.reduced(b_, members[m], partial[m].back());
    }

    void loop_items(const std::vector<size_t>& members, std::vector<Values>& partial, Expr row) {
        Values init;
        for (const Values& p : partial) init.insert(init.end(), p.begin(), p.end());
        const Values out = long_loop(b_, 1, shape_.items, rounds_, init, [&](Expr item, const Values& carried) {
            Values next;
            size_t at = 0;
            for (size_t m : members) {
                const size_t n = width(op(m));
                const Values so_far(carried.begin() + at, carried.begin() + at + n);
                const Values more = combine(b_, op(m), so_far, operand(m, row, column(item)));
                next.insert(next.end(), more.begin(), more.end());
                at += n;
            }
            return next;
        });
        size_t at = 0;
        for (Values& p : partial)
            for (Expr& e : p) e = out[at++];
    }

    RowOp op(size_t k) const { return spec_.reduces[k].op; }

    // Every lane of a row ends with the row's result, combined in a fixed order.
    void across_lanes(const std::vector<size_t>& members, std::vector<Values>& partial) {
        const uint32_t within = subgroup_ == 0 ? 1 : std::min(subgroup_, shape_.lanes);
        for (uint32_t mask = 1; mask < within; mask *= 2)
            for (size_t m = 0; m < members.size(); ++m) {
                Values other;
                for (Expr e : partial[m]) other.push_back(b_.subgroup_shuffle_xor(e, mask));
                // The ops commute, so both sides of an exchange agree to the bit.
                partial[m] = combine(b_, op(members[m]), partial[m], other);
            }
        if (within < shape_.lanes) through_arrays(members, partial, within);
    }

    void through_arrays(const std::vector<size_t>& members, std::vector<Values>& partial, uint32_t within) {
        if (uses_arrays_ && !fault(20)) b_.barrier();  // what the stage before has read is written again
        uses_arrays_ = true;
        const uint32_t parts = shape_.lanes / within;
        std::vector<std::vector<kir::ArrayRef>> arrays(members.size());
        size_t next_float = 0, next_integer = 0;
        const Expr part = lane_ / within;
        const auto write = [&] {
            for (size_t m = 0; m < members.size(); ++m)
                for (size_t i = 0; i < partial[m].size(); ++i) b_.store(arrays[m][i], slot_ * parts + part, partial[m][i]);
        };
        for (size_t m = 0; m < members.size(); ++m)
            for (Expr e : partial[m])
                arrays[m].push_back(array_of(e.type(), parts, e.type() == kir::f32_type ? next_float : next_integer));
        if (within == 1)
            write();
        else
            b_.when(lane_ % within == 0, write);
        b_.barrier();
        // Without subgroups a row has a part for each lane. When they are many, each lane combines some neighbours first, so that
        // a kernel is about the square root of them long.
        uint32_t left = parts;
        if (parts > most_parts) {
            uint32_t fan = 1;
            while (fan * fan < parts) fan *= 2;
            left = parts / fan;
            combine_parts(members, arrays, partial, fan, slot_ * parts + (lane_ % left) * fan);
            b_.barrier();
            b_.when(lane_ < left, [&] {
                for (size_t m = 0; m < members.size(); ++m)
                    for (size_t i = 0; i < partial[m].size(); ++i) b_.store(arrays[m][i], slot_ * left + lane_, partial[m][i]);
            });
            b_.barrier();
        }
        combine_parts(members, arrays, partial, left, slot_ * left);
    }

    // `count` neighbours in the arrays of partial results, by a tree of fixed shape: short chains and small error.
    void combine_parts(const std::vector<size_t>& members, const std::vector<std::vector<kir::ArrayRef>>& arrays,
                       std::vector<Values>& partial, uint32_t count, Expr first) {
        for (size_t m = 0; m < members.size(); ++m) {
            std::vector<Values> all(count);
            for (uint32_t p = 0; p < count; ++p)
                for (auto array : arrays[m]) all[p].push_back(b_.load(array, first + p));
            for (size_t gap = 1; gap < all.size(); gap *= 2)
                for (size_t p = 0; p + gap < all.size(); p += 2 * gap) all[p] = combine(b_, op(members[m]), all[p], all[p + gap]);
            partial[m] = all[0];
        }
    }

    // Arrays are shared by the stages: the i-th of a type. Floats are counted apart from integers of either sign.
    kir::ArrayRef array_of(kir::Type type, uint32_t parts, size_t& next) {
        auto& pool = arrays_[{type.scalar, next++}];
        if (!pool)
            pool = b_.workgroup_array(std::string("partial_") + to_string(type.scalar) + std::to_string(next), type,
                                      parts * shape_.slots);
        return *pool;
    }

    Values final_pass(Expr row, Expr valid, const Values& sums) {
        Values next;
        if (!shape_.unrolled) {
            long_loop(b_, 0, shape_.items, rounds_, {}, [&](Expr item, const Values&) {
                store_full(row, column(item), valid);
                return Values{};
            });
            return next;
        }
        for (uint32_t item = 0; item < shape_.items; ++item) {
            const Expr col = column(b_.u32(item));
            for (size_t s = 0; s < spec_.column_sums; ++s) {
                Expr value = spec_.column_operand(b_, s, row, clamped(col, spec_.cols));
                if (valid.valid() && !fault(19)) value = b_.select(valid, value, b_.f32(0));
                next.push_back(sums.empty() ? value : sums[next.size()] + value);
            }
            if (spec_.has_full_outputs) store_full(row, col, valid);
        }
        return next;
    }

    void store_full(Expr row, Expr col, Expr valid) {
        Expr inside = in_row(col);
        if (valid.valid()) inside = inside.valid() ? (inside & valid) : valid;
        // What the stages have read already is in registers here too: the test is inside their scope.
        const Expr safe = clamped(col, spec_.cols);
        if (!inside.valid()) return spec_.store_full(b_, row, safe);
        b_.when(inside, [&] { spec_.store_full(b_, row, safe); });
    }

    // Column sums of the slots of a workgroup are added in slot order, then stored by slot 0.
    void store_partials(const Values& sums) {
        std::vector<kir::ArrayRef> arrays;
        const uint32_t per_slot = shape_.lanes * shape_.items;
        if (shape_.slots > 1) {
            const auto array = b_.workgroup_array("columns", kir::f32_type, per_slot * shape_.slots);
            for (size_t s = 0; s < spec_.column_sums; ++s) {
                if (s > 0) b_.barrier();
                for (uint32_t item = 0; item < shape_.items; ++item)
                    b_.store(array, slot_ * per_slot + item * shape_.lanes + lane_, sums[item * spec_.column_sums + s]);
                b_.barrier();
                b_.when(slot_ == 0, [&] {
                    const auto of_slot = [&](Expr slot) {
                        Values row;
                        for (uint32_t item = 0; item < shape_.items; ++item)
                            row.push_back(b_.load(array, slot * per_slot + (lane_ + item * shape_.lanes)));
                        return row;
                    };
                    const auto add = [&](Expr slot, const Values& so_far) {
                        Values totals = of_slot(slot);
                        for (uint32_t item = 0; item < shape_.items; ++item) totals[item] = so_far[item] + totals[item];
                        return totals;
                    };
                    Values totals = of_slot(b_.u32(0));
                    if (shape_.slots * shape_.items <= most_unrolled_loads)
                        for (uint32_t slot = 1; slot < shape_.slots; ++slot) totals = add(b_.u32(slot), totals);
                    else
                        totals = long_loop(b_, 1, shape_.slots, rounds_, totals, add);
                    for (uint32_t item = 0; item < shape_.items; ++item) store_partial(s, item, totals[item]);
                });
            }
            return;
        }
        for (size_t s = 0; s < spec_.column_sums; ++s)
            for (uint32_t item = 0; item < shape_.items; ++item) store_partial(s, item, sums[item * spec_.column_sums + s]);
    }

    void store_partial(size_t s, uint32_t item, Expr value) {
        const Expr col = column(b_.u32(item));
        const Expr inside = in_row(col);
        Expr guard = inside;
        if (!shape_.grid.exact()) guard = guard.valid() ? (guard & (block_ < shape_.blocks)) : block_ < shape_.blocks;
        const auto store = [&] {
            spec_.store_partial(b_, s, b_.assume_max(block_, shape_.blocks - 1), clamped(col, spec_.cols), value);
        };
        if (guard.valid())
            b_.when(guard, store);
        else
            store();
    }

    Builder& b_;
    const RowSpec& spec_;
    const RowShape& shape_;
    uint32_t subgroup_;
    Expr index_, lane_, slot_, block_;
    uint32_t rounds_ = 0;
    bool uses_arrays_ = false;
    std::map<std::pair<kir::Scalar, size_t>, std::optional<kir::ArrayRef>> arrays_;
};

}  // namespace

namespace {

// Words of partial results that a workgroup holds for one lane or subgroup of a row: the widest stage's. Floats and integers
// have arrays of their own, so stages of different kinds may need both.
uint32_t reduction_words(std::span<const RowReduce> reduces) {
    uint32_t widest = 0, words = 0;
    for (size_t k = 0; k < reduces.size(); ++k) {
        if (k > 0 && reduces[k].stage != reduces[k - 1].stage) words = 0;
        words += static_cast<uint32_t>(width(reduces[k].op));
        widest = std::max(widest, words);
    }
    return 3 * widest;
}

}  // namespace

std::optional<RowShape> row_shape(uint32_t rows, uint32_t cols, std::span<const RowReduce> reduces, size_t column_sums,
                                  const Caps& caps) {
    RowShape shape;
    const uint32_t limit = std::min(caps.max_invocations, caps.max_workgroup_size[0]);
    // Where barriers are dear a row stays within a subgroup while its items fit in registers; elsewhere a lane has about four.
    const uint32_t preferred_items = caps.barriers_are_dear() ? max_unrolled_items : 4;
    uint32_t lanes = power_of_two_at_least(static_cast<uint32_t>(ceil_div(cols, preferred_items)));
    const uint32_t subgroup = caps.known_subgroup_size();
    // Short rows, windows of a pool above all, have a lane each when there are enough of them to fill the device: neighbouring
    // lanes then read neighbouring elements, and no lane is idle where the length is no power of two.
    const bool short_rows = cols <= shortest_shared_row && column_sums == 0 && rows / 64 >= std::max(1u, caps.compute_units);
    if (short_rows)
        lanes = 1;
    else if (!reduces.empty() && subgroup > 1 && cols > 1)
        lanes = std::max(lanes, std::min(subgroup, power_of_two_at_least(cols)));
    // Without row reductions lanes never talk: neighbouring columns go to neighbouring lanes.
    if (reduces.empty()) lanes = std::max(lanes, std::min(power_of_two_at_least(cols), std::min(limit, 64u)));
    lanes = std::min(lanes, std::min(limit, 1024u));
    while (lanes > limit) lanes /= 2;
    // CPU drivers run a workgroup on one core, so more lanes than a subgroup gain nothing. They would lose: Mesa's (22.3) has
    // given wrong values of what is computed before a barrier and stored behind it (asinh over 288 columns).
    if (caps.barriers_are_dear() && subgroup > 1 && column_sums == 0 && !reduces.empty()) lanes = std::min(lanes, subgroup);
    shape.lanes = lanes;
    shape.items = static_cast<uint32_t>(ceil_div(cols, lanes));
    shape.unrolled = shape.items <= max_unrolled_items;
    if (!shape.unrolled && column_sums > 0) return std::nullopt;

    const uint32_t target = std::min(limit, 128u);
    shape.slots = std::max(1u, std::min(target / lanes, power_of_two_at_least(rows)));
    if (subgroup > 1 && lanes > 1) {
        // Whole subgroups only.
        while (shape.lanes * shape.slots < subgroup && shape.lanes * shape.slots * 2 <= limit) shape.slots *= 2;
    }
    // Workgroup memory: partial results of a stage (a word a subgroup, or a lane where there are none) and the columns of all
    // slots.
    const uint32_t parts = subgroup > 1 ? std::max(1u, lanes / subgroup) : lanes;
    const auto bytes = [&] {
        const uint64_t partial = parts > 1 ? uint64_t{reduction_words(reduces)} * parts * shape.slots * 4 : 0;
        const uint64_t columns = column_sums > 0 && shape.slots > 1 ? uint64_t{shape.slots} * lanes * shape.items * 4 : 0;
        return partial + columns;
    };
    while (shape.slots > 1 && lanes * shape.slots > std::max(1u, subgroup) && bytes() > caps.max_workgroup_bytes)
        shape.slots /= 2;
    if (bytes() > caps.max_workgroup_bytes) return std::nullopt;
    if (column_sums > 0) {
        // Partials cost blocks x cols; a few blocks a compute unit keep the device busy.
        const uint32_t workgroups = std::max(1u, caps.compute_units * 2);
        constexpr uint32_t most_passes = 4096;  // short sums are exact sums, and drivers bound loops
        const uint32_t rounds = static_cast<uint32_t>(ceil_div(rows, shape.slots));
        shape.blocks = std::min(std::max(workgroups, rounds / most_passes), rounds);
    } else {
        shape.blocks = static_cast<uint32_t>(ceil_div(rows, shape.slots));
    }
    // Whole rounds of the slots: fewer rows that are there only to fill a round.
    shape.rows_per_block = static_cast<uint32_t>(ceil_div(ceil_div(rows, shape.blocks), shape.slots) * shape.slots);
    shape.blocks = static_cast<uint32_t>(ceil_div(rows, shape.rows_per_block));
    const auto grid = fold(shape.blocks, caps);
    if (!grid) return std::nullopt;
    shape.grid = *grid;
    return shape;
}

void build_row(Builder& b, const RowSpec& spec, const RowShape& shape, const Caps& caps) {
    RowBuilder(b, spec, shape, caps).build();
}

}  // namespace darner::kernels
