// SPDX-License-Identifier: MIT
#include "darner/kernels/coop_gemm.h"

#include <algorithm>

namespace darner::kernels {

using kir::Access;
using kir::Builder;
using kir::CoopUse;
using kir::Expr;
using kir::Scalar;
using kir::Type;
using Values = Builder::Values;

namespace {

constexpr uint32_t edge = 16;  // rows, columns and depth of a cooperative matrix
constexpr uint32_t wide = 8;   // 16-bit elements of a 16-byte access
constexpr Type wide_type{Scalar::u32, 4};

class CoopGemm {
public:
    CoopGemm(Builder& b, const CoopGemmSpec& spec, const Caps& caps, const Grid& grid)
        : b_(b),
          spec_(spec),
          subgroup_size_(caps.subgroup_size),
          grid_(grid),
          aligned_(spec.k % wide == 0 && spec.n % wide == 0) {
        threads_ = spec.subgroups_m * spec.subgroups_n * subgroup_size_;
        b.workgroup_size(threads_);
        b.require_subgroup_size(subgroup_size_);
        const auto input = [&](const char* name, uint64_t elements) {
            return aligned_ ? b.binding(name, Scalar::u32, 4, Access::read, elements / wide)
                            : b.binding(name, spec.input, 1, Access::read, elements);
        };
        a_ = {input("a", uint64_t{spec.m} * spec.k), {}, spec.tile_m, spec.tile_k, spec.m, spec.k};
        c_ = {input("b", uint64_t{spec.k} * spec.n), {}, spec.tile_k, spec.tile_n, spec.k, spec.n};
        out_ = b.binding("c", Scalar::f32, 1, Access::write, uint64_t{spec.m} * spec.n);
        for (Operand* operand : {&a_, &c_})
            operand->tile =
                b.workgroup_array(operand == &a_ ? "a_tile" : "b_tile", wide_type, operand->tile_rows * operand->stride());
        tiles_m_ = spec.tile_m / spec.subgroups_m / edge;
        tiles_n_ = spec.tile_n / spec.subgroups_n / edge;
        sums_ = b.private_array("sums", matrix(CoopUse::accumulator), tiles_m_ * tiles_n_);
    }

    void build() {
        place_tile();
        for (uint32_t i = 0; i < tiles_m_ * tiles_n_; ++i)
            b_.store(sums_, b_.u32(i), b_.coop_fill(matrix(CoopUse::accumulator), b_.f32(0)));
        const uint32_t steps = static_cast<uint32_t>(ceil_div(spec_.k, spec_.tile_k));
        const Values first = spec_.prefetch ? load_step(b_.u32(0)) : Values{};
        b_.loop(b_.u32(0), b_.u32(steps), b_.u32(1), first, [&](Expr step, const Values& carried) {
            store_step(spec_.prefetch ? carried : load_step(step));
            b_.barrier();
            // In flight during the products; behind the last step it reads the last one again.
            const Values next = spec_.prefetch ? load_step(b_.min(step + 1, b_.u32(steps - 1))) : Values{};
            multiply();
            b_.barrier();
            return next;
        });
        store_result();
    }

private:
    // A row-major operand and its tile in workgroup memory, whose rows are skewed by 16 bytes against bank conflicts.
    struct Operand {
        kir::BindingRef binding;
        kir::ArrayRef tile;
        uint32_t tile_rows, tile_cols, rows, cols;
        uint32_t stride() const { return tile_cols / wide + 1; }  // of the tile, in 16-byte words
        uint32_t words() const { return tile_rows * tile_cols / wide; }
    };

    Type matrix(CoopUse use) const { return {use == CoopUse::accumulator ? Scalar::f32 : spec_.input, 1, edge, edge, use}; }

    // Workgroups go down a band of tile rows before the next column of tiles, so that the band's B columns are reused.
    void place_tile() {
        const uint32_t rows = static_cast<uint32_t>(ceil_div(spec_.m, spec_.tile_m));
        const uint32_t cols = static_cast<uint32_t>(ceil_div(spec_.n, spec_.tile_n));
        const Expr id = b_.min(linear_workgroup(b_, grid_), b_.u32(grid_.used - 1));
        const Expr band = id / (spec_.group_rows * cols);
        const Expr first_row = band * spec_.group_rows;
        const Expr height = b_.min(b_.u32(rows) - first_row, b_.u32(spec_.group_rows));
        const Expr within = id - first_row * cols;
        first_m_ = (first_row + within % height) * spec_.tile_m;
        first_n_ = (within / height) * spec_.tile_n;
        thread_ = b_.local_index();
        const Expr subgroup = b_.assume_max(b_.subgroup_id(), spec_.subgroups_m * spec_.subgroups_n - 1);
        subgroup_m_ = subgroup / spec_.subgroups_n;
        subgroup_n_ = subgroup % spec_.subgroups_n;
    }

    Values load_step(Expr step) {
        Values words;
        load_tile(a_, first_m_, step * spec_.tile_k, words);
        load_tile(c_, step * spec_.tile_k, first_n_, words);
        return words;
    }

    void load_tile(const Operand& operand, Expr row0, Expr col0, Values& words) {
        const uint32_t per_row = operand.tile_cols / wide;
        for (uint32_t first = 0; first < operand.words(); first += threads_) {
            const Expr word = thread_ + first;
            words.push_back(load_wide(operand, row0 + word / per_row, col0 + (word % per_row) * wide));
        }
    }

    // Eight neighbouring elements of a row; zero where they are past the edge.
    Expr load_wide(const Operand& operand, Expr row, Expr col) {
        const Expr safe_row = b_.min(row, b_.u32(operand.rows - 1));
        if (aligned_) {
            const Expr safe_col = b_.min(col, b_.u32(operand.cols - wide));
            const Expr word = b_.load(operand.binding, safe_row * (operand.cols / wide) + safe_col / wide);
            const bool inside = operand.rows % operand.tile_rows == 0 && operand.cols % operand.tile_cols == 0;
            return inside ? word : zero_unless((row < operand.rows) & (col < operand.cols), word);
        }
        std::array<Expr, wide> elements;
        for (uint32_t i = 0; i < wide; ++i) {
            const Expr at = col + i;
            const Expr value = b_.load(operand.binding, safe_row * operand.cols + b_.min(at, b_.u32(operand.cols - 1)));
            elements[i] = b_.select((row < operand.rows) & (at < operand.cols), b_.convert(value, Scalar::f32), b_.f32(0));
        }
        std::array<Expr, 4> words;
        for (uint32_t i = 0; i < 4; ++i) words[i] = pack(elements[2 * i], elements[2 * i + 1]);
        return b_.make_vector(words);
    }

    Expr pack(Expr low, Expr high) {
        if (spec_.input == Scalar::f16) return b_.pack_half2(low, high);
        // The values are bf16 already: their upper halves are exact.
        return (b_.bitcast(low, Scalar::u32) >> 16) | (b_.bitcast(high, Scalar::u32) & 0xffff0000u);
    }

    Expr zero_unless(Expr condition, Expr word) {
        std::array<Expr, 4> parts;
        for (uint32_t i = 0; i < 4; ++i) parts[i] = b_.select(condition, b_.extract(word, i), b_.u32(0));
        return b_.make_vector(parts);
    }

    void store_step(const Values& words) {
        size_t next = 0;
        for (const Operand* operand : {&a_, &c_}) {
            const uint32_t per_row = operand->tile_cols / wide;
            for (uint32_t first = 0; first < operand->words(); first += threads_) {
                const Expr word = thread_ + first;
                b_.store(operand->tile, (word / per_row) * operand->stride() + word % per_row, words[next++]);
            }
        }
    }

    void multiply() {
        for (uint32_t k = 0; k < spec_.tile_k; k += edge) {
            Values left;
            for (uint32_t i = 0; i < tiles_m_; ++i) {
                const Expr row = subgroup_m_ * (tiles_m_ * edge) + i * edge;
                left.push_back(b_.coop_load(matrix(CoopUse::a), a_.tile, row * a_.stride() + k / wide, b_.u32(a_.stride())));
            }
            for (uint32_t j = 0; j < tiles_n_; ++j) {
                const Expr col = subgroup_n_ * (tiles_n_ * edge / wide) + j * (edge / wide);
                const Expr right = b_.coop_load(matrix(CoopUse::b), c_.tile, col + k * c_.stride(), b_.u32(c_.stride()));
                for (uint32_t i = 0; i < tiles_m_; ++i) {
                    const Expr at = b_.u32(i * tiles_n_ + j);
                    b_.store(sums_, at, b_.coop_mul_add(left[i], right, b_.load(sums_, at)));
                }
            }
        }
    }

    void store_result() {
        const bool whole = spec_.m % spec_.tile_m == 0 && spec_.n % spec_.tile_n == 0;
        kir::ArrayRef staging{};
        if (!whole) staging = b_.workgroup_array("staging", kir::f32_type, spec_.subgroups_m * spec_.subgroups_n * edge * edge);
        for (uint32_t i = 0; i < tiles_m_; ++i)
            for (uint32_t j = 0; j < tiles_n_; ++j) {
                const Expr row = first_m_ + subgroup_m_ * (tiles_m_ * edge) + i * edge;
                const Expr col = first_n_ + subgroup_n_ * (tiles_n_ * edge) + j * edge;
                const Expr sum = b_.load(sums_, b_.u32(i * tiles_n_ + j));
                if (whole)
                    b_.coop_store(out_, row * spec_.n + col, b_.u32(spec_.n), sum);
                else
                    store_edge(staging, row, col, sum);
            }
    }

    // Through workgroup memory, element by element within bounds.
    void store_edge(kir::ArrayRef staging, Expr row, Expr col, Expr sum) {
        const Expr base = (subgroup_m_ * spec_.subgroups_n + subgroup_n_) * (edge * edge);
        const Expr lane = b_.assume_max(b_.lane_id(), subgroup_size_ - 1);
        b_.coop_store(staging, base, b_.u32(edge), sum);
        b_.barrier();
        for (uint32_t first = 0; first < edge * edge; first += subgroup_size_) {
            const Expr at = lane + first;
            const Expr r = row + at / edge, c = col + at % edge;
            b_.when((r < spec_.m) & (c < spec_.n), [&] { b_.store(out_, r * spec_.n + c, b_.load(staging, base + at)); });
        }
        b_.barrier();
    }

    Builder& b_;
    const CoopGemmSpec& spec_;
    uint32_t subgroup_size_, threads_ = 0, tiles_m_ = 0, tiles_n_ = 0;
    const Grid& grid_;
    bool aligned_;
    Operand a_, c_;
    kir::BindingRef out_;
    kir::ArrayRef sums_;
    Expr first_m_, first_n_, thread_, subgroup_m_, subgroup_n_;
};

Result<void> check(const CoopGemmSpec& spec, const Caps& caps) {
    const CoopShape shape{spec.input, Scalar::f32, edge, edge, edge};
    if (std::find(caps.coop_shapes.begin(), caps.coop_shapes.end(), shape) == caps.coop_shapes.end())
        return unsupported("[coop_gemm] the device has no 16x16x16 cooperative matrices of " +
                           std::string(to_string(spec.input)) + " with f32 sums");
    const uint32_t threads = spec.subgroups_m * spec.subgroups_n * caps.subgroup_size;
    const bool divides = spec.tile_m % (spec.subgroups_m * edge) == 0 && spec.tile_n % (spec.subgroups_n * edge) == 0 &&
                         spec.tile_k % edge == 0 && spec.tile_m * spec.tile_k % (threads * wide) == 0 &&
                         spec.tile_n * spec.tile_k % (threads * wide) == 0;
    if (!divides) return invalid("[coop_gemm] the tile does not divide among the workgroup's subgroups and invocations");
    if (uint64_t{spec.m} * spec.k >> 32 || uint64_t{spec.k} * spec.n >> 32 || uint64_t{spec.m} * spec.n >> 32)
        return limit_error("[coop_gemm] an operand has 2^32 elements or more");
    return {};
}

}  // namespace

Result<Grid> build_coop_gemm(Builder& b, const CoopGemmSpec& spec, const Caps& caps) {
    TRY(check(spec, caps));
    const auto grid = fold(ceil_div(spec.m, spec.tile_m) * ceil_div(spec.n, spec.tile_n), caps);
    if (!grid) return limit_error("[coop_gemm] more workgroups than the device takes");
    // A folded grid's surplus workgroups would store the last tile twice.
    if (!grid->exact()) return limit_error("[coop_gemm] the tiles do not fill a folded grid");
    CoopGemm(b, spec, caps, *grid).build();
    return *grid;
}

}  // namespace darner::kernels
