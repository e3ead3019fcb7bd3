// SPDX-License-Identifier: MIT
#include "darner/kernels/contract.h"

#include "darner/base/check.h"
#include "darner/base/fault.h"

#include <algorithm>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;
using Values = Builder::Values;

namespace {

constexpr uint32_t shortest_inner = 4;     // a shorter loop costs more than it saves
constexpr uint32_t direct_rows = 4;        // at most, of the direct form
constexpr uint32_t direct_width = 64;      // invocations of its workgroups
constexpr uint64_t shortest_piece = 1024;  // of k: less is not worth a second dispatch

Expr multiply_add(Builder& b, Expr a, Expr c, Expr sum) {
    return a.type().scalar == kir::Scalar::f32 ? b.fma(a, c, sum) : a * c + sum;
}

// What both forms share: which outputs an invocation owns, and the guarded stores.
class ContractBuilder {
public:
    ContractBuilder(Builder& b, const ContractSpec& spec, const ContractShape& shape) : b_(b), spec_(spec), shape_(shape) {
        b.workgroup_size(shape.threads_n, shape.threads_m);
        const uint32_t tiles_m = static_cast<uint32_t>(ceil_div(spec.m, shape.tile_m()));
        const uint32_t tiles_n = static_cast<uint32_t>(ceil_div(spec.n, shape.tile_n()));
        const Expr workgroup = linear_workgroup(b, shape.grid);
        // A grid folded with a few workgroups too many: those repeat the last one's loads and store nothing.
        if (!shape.grid.exact()) real_ = workgroup < shape.grid.used;
        const Expr tile = b.min(workgroup, b.u32(shape.grid.used - 1));
        first_n_ = (tile % tiles_n) * shape.tile_n();
        first_m_ = (tile / tiles_n % tiles_m) * shape.tile_m();
        batch_ = tile / (tiles_n * tiles_m);
        thread_n_ = b.local_id(0);
        thread_m_ = b.local_id(1);
    }

    void build() {
        if (spec_.k == 0) return store(Values(shape_.rows * shape_.cols, zero()));
        store(shape_.tiled ? tiled() : registers());
    }

private:
    Expr zero() { return b_.constant({spec_.scalar}, 0); }
    // Rows of an invocation are neighbours, so that it reads them together; columns are a workgroup's width apart, so that
    // neighbouring invocations read and write neighbours.
    Expr row(uint32_t i) { return first_m_ + thread_m_ * shape_.rows + i; }
    Expr col(uint32_t j) { return first_n_ + thread_n_ + j * shape_.threads_n; }
    Expr clamp(Expr v, uint32_t limit) { return b_.min(v, b_.u32(limit - 1)); }

    Values accumulate(Values sums, const Values& a, const Values& c) {
        for (uint32_t i = 0; i < shape_.rows; ++i)
            for (uint32_t j = 0; j < shape_.cols; ++j)
                sums[i * shape_.cols + j] = multiply_add(b_, a[i], c[j], sums[i * shape_.cols + j]);
        return sums;
    }

    Values step(Values sums, Expr k) {
        Values a, c;
        for (uint32_t i = 0; i < shape_.rows; ++i) a.push_back(spec_.load_a(b_, batch_, clamp(row(i), spec_.m), k));
        for (uint32_t j = 0; j < shape_.cols; ++j) c.push_back(spec_.load_b(b_, batch_, k, clamp(col(j), spec_.n)));
        return accumulate(std::move(sums), a, c);
    }

    // Not unrolled over k: such drivers take seconds to compile long loop bodies, and loads, not loop control, set the pace.
    // An inner axis of its own: what does not depend on it stands before its loop.
    Values registers() {
        const Values none(shape_.rows * shape_.cols, zero());
        const uint32_t inner = spec_.k_inner, outer = inner == 0 ? 0 : spec_.k / inner;
        const bool nested = inner >= shortest_inner && outer > 1 &&
                            (shape_.max_rounds == 0 || uint64_t{outer} * (inner + 1) <= shape_.max_rounds);
        if (!nested)
            return long_loop(b_, 0, spec_.k, shape_.max_rounds, none,
                             [&](Expr k, const Values& carried) { return step(carried, k); });
        return b_.loop(b_.u32(0), b_.u32(outer), b_.u32(1), none, [&](Expr at, const Values& carried) {
            return b_.loop(b_.u32(0), b_.u32(inner), b_.u32(1), carried,
                           [&](Expr k, const Values& sums) { return step(sums, at * inner + k); });
        });
    }

    // One tile of an operand into workgroup memory, laid out [k][outer] with a skew against bank conflicts.
    struct Stage {
        kir::ArrayRef array;
        uint32_t outer, stride;
        bool k_fastest;
    };

    void fill(const Stage& stage, Expr k0, const std::function<Expr(Expr outer, Expr k)>& load) {
        const uint32_t threads = shape_.threads_m * shape_.threads_n;
        const uint32_t elements = stage.outer * shape_.depth;
        const Expr thread = thread_m_ * shape_.threads_n + thread_n_;
        for (uint32_t first = 0; first < elements; first += threads) {
            const Expr e = thread + first;
            when_below(b_, e, elements, [&] {
                const Expr k = stage.k_fastest ? e % shape_.depth : e / stage.outer;
                const Expr outer = stage.k_fastest ? e / shape_.depth : e % stage.outer;
                Expr at = k0 + k;
                Expr value = {};
                if (fault(16)) {
                    value = load(outer, clamp(at, spec_.k));
                } else if (spec_.k % shape_.depth == 0) {
                    value = load(outer, b_.assume_max(at, spec_.k - 1));
                } else {
                    // Zero on both sides: a product with a value read twice must not bring in an infinity.
                    value = b_.select(at < spec_.k, load(outer, clamp(at, spec_.k)), zero());
                }
                b_.store(stage.array, k * stage.stride + outer, value);
            });
        }
    }

    Values tiled() {
        const Stage a{b_.workgroup_array("a_tile", {spec_.scalar}, shape_.depth * (shape_.tile_m() + 1)), shape_.tile_m(),
                      shape_.tile_m() + 1, spec_.a_k_contiguous};
        const Stage c{b_.workgroup_array("b_tile", {spec_.scalar}, shape_.depth * (shape_.tile_n() + 1)), shape_.tile_n(),
                      shape_.tile_n() + 1, !spec_.b_n_contiguous};
        const uint32_t steps = static_cast<uint32_t>(ceil_div(spec_.k, shape_.depth));
        return long_loop(
            b_, 0, steps, shape_.max_rounds, Values(shape_.rows * shape_.cols, zero()), [&](Expr step, const Values& carried) {
                const Expr k0 = step * shape_.depth;
                fill(a, k0, [&](Expr m, Expr k) { return spec_.load_a(b_, batch_, clamp(first_m_ + m, spec_.m), k); });
                fill(c, k0, [&](Expr n, Expr k) { return spec_.load_b(b_, batch_, k, clamp(first_n_ + n, spec_.n)); });
                b_.barrier();
                Values sums = carried;
                for (uint32_t k = 0; k < shape_.depth; ++k) {
                    Values left, right;
                    for (uint32_t i = 0; i < shape_.rows; ++i)
                        left.push_back(b_.load(a.array, thread_m_ * shape_.rows + (k * a.stride + i)));
                    for (uint32_t j = 0; j < shape_.cols; ++j)
                        right.push_back(b_.load(c.array, thread_n_ + (k * c.stride + j * shape_.threads_n)));
                    sums = accumulate(std::move(sums), left, right);
                }
                b_.barrier();
                return sums;
            });
    }

    void store(const Values& sums) {
        for (uint32_t i = 0; i < shape_.rows; ++i)
            for (uint32_t j = 0; j < shape_.cols; ++j) {
                const Expr m = row(i), n = col(j);
                Expr guard = real_;
                const auto also = [&](Expr test) { guard = guard.valid() ? (guard & test) : test; };
                if (b_.max_of(m) >= spec_.m) also(m < spec_.m);
                if (b_.max_of(n) >= spec_.n) also(n < spec_.n);
                const auto write = [&] {
                    spec_.store(b_, batch_, clamp(m, spec_.m), clamp(n, spec_.n), sums[i * shape_.cols + j]);
                };
                if (guard.valid())
                    b_.when(guard, write);
                else
                    write();
            }
    }

    Builder& b_;
    const ContractSpec& spec_;
    const ContractShape& shape_;
    Expr first_m_, first_n_, batch_, thread_m_, thread_n_, real_;
};

}  // namespace

namespace {

// Columns an invocation takes of those that a row of invocations has: up to eight, a divisor where there is a large one, so
// that stores need no tests.
uint32_t register_columns(uint32_t columns) {
    for (uint32_t c = 8; c >= 5; --c)
        if (columns % c == 0) return c;
    return std::min(8u, columns);
}

}  // namespace

std::optional<ContractShape> contract_shape(const ContractSpec& spec, const Caps& caps) {
    const uint32_t batch = spec.batch, m = spec.m, n = spec.n, k = spec.k;
    ContractShape shape;
    shape.max_rounds = caps.max_loop_rounds;
    if (caps.barriers_are_dear()) {
        shape.tiled = false;
        shape.threads_m = 1;
        shape.threads_n = caps.subgroup_size != 0 ? caps.subgroup_size : 8;
        shape.rows = std::min(16u, power_of_two_at_least(m));
        shape.cols = register_columns(static_cast<uint32_t>(ceil_div(n, shape.threads_n)));
        // Several steps a round where rounds are few: a smaller tile keeps the body small.
        const uint64_t steps_a_round = shape.max_rounds == 0 ? 1 : ceil_div(k, shape.max_rounds);
        if (steps_a_round > 4) shape.rows = shape.cols = 1;
        if (steps_a_round > 256) return std::nullopt;
    } else if (m <= direct_rows && spec.b_n_contiguous && n >= direct_width) {
        shape.tiled = false;
        shape.threads_m = 1;
        shape.threads_n = std::min(direct_width, caps.max_invocations);
        shape.rows = power_of_two_at_least(m);
        shape.cols = 1;
    } else {
        // Halve the tile until there are enough of them to fill the device, or the output fills no more of it.
        const auto tiles = [&] { return batch * ceil_div(m, shape.tile_m()) * ceil_div(n, shape.tile_n()); };
        while (shape.rows > 1 && (m <= shape.tile_m() / 2 || tiles() < caps.compute_units)) shape.rows /= 2;
        while (shape.cols > 1 && (n <= shape.tile_n() / 2 || tiles() < caps.compute_units)) shape.cols /= 2;
        while (shape.threads_m > 1 && shape.threads_m * shape.threads_n > caps.max_invocations) shape.threads_m /= 2;
        while (shape.threads_n > 1 && shape.threads_m * shape.threads_n > caps.max_invocations) shape.threads_n /= 2;
        while (shape.depth > 1 && (shape.tile_m() + shape.tile_n() + 2) * shape.depth * 4 > caps.max_workgroup_bytes)
            shape.depth /= 2;
    }
    const auto grid = fold(batch * ceil_div(m, shape.tile_m()) * ceil_div(n, shape.tile_n()), caps);
    if (!grid) return std::nullopt;
    shape.grid = *grid;
    return shape;
}

uint64_t contract_pieces(uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const Caps& caps) {
    const uint64_t rounds = caps.max_loop_rounds == 0 ? 1 : ceil_div(k, caps.max_loop_rounds);
    const uint64_t tile = caps.barriers_are_dear() ? 16 : 64, units = std::max(1u, caps.compute_units);
    const uint64_t tiles = std::max<uint64_t>(1, batch * ceil_div(m, tile) * ceil_div(n, 64));
    const uint64_t idle = units / tiles;
    return std::max({uint64_t{1}, std::min(idle, k / shortest_piece), rounds});
}

void build_contract(Builder& b, const ContractSpec& spec, const ContractShape& shape) { ContractBuilder(b, spec, shape).build(); }

}  // namespace darner::kernels
