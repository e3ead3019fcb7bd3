// SPDX-License-Identifier: MIT
// The archetypes on the checking interpreter, for caps of different kinds, against plain loops.
#include "darner/kernels/contract.h"
#include "darner/kernels/coop_gemm.h"
#include "darner/kernels/map.h"
#include "darner/kernels/row.h"
#include "darner/kernels/scatter.h"
#include "darner/kir/half.h"
#include "darner/kir/interpret.h"
#include "darner/kir/verify.h"

#include <gtest/gtest.h>
#include <cmath>
#include <random>

namespace darner::kernels {
namespace {

using kir::Access;
using kir::Builder;
using kir::Expr;
using kir::Scalar;

std::vector<float> random_floats(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values) v = normal(random);
    return values;
}

template <class T>
kir::Buffer buffer_of(std::vector<T>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

Caps cpu_caps() {
    Caps caps = interpreter_caps(8);
    caps.kind = DeviceKind::cpu;
    caps.compute_units = 2;
    return caps;
}

std::vector<Caps> all_caps() { return {interpreter_caps(32), interpreter_caps(8), cpu_caps(), webgpu_default_caps()}; }

void run(const kir::Kernel& kernel, const Grid& grid, std::vector<kir::Buffer> buffers, const Caps& caps,
         kir::InterpretStats* stats = nullptr) {
    const auto verified = kir::verify(kernel);
    ASSERT_TRUE(verified.has_value()) << verified.error().text();
    kir::InterpretOptions options;
    options.subgroup_size = caps.subgroup_size == 0 ? 32 : caps.subgroup_size;
    options.stats = stats;
    const auto ran = kir::interpret(kernel, grid.groups, buffers, {}, options);
    ASSERT_TRUE(ran.has_value()) << ran.error().text();
}

TEST(Grid, FoldsNearSquareAndCoversEveryWorkgroupOnce) {
    Caps caps = webgpu_default_caps();
    for (uint64_t k : {1ull, 2ull, 3ull, 1000ull})
        for (int64_t d : {-1, 0, 1}) {
            const uint64_t count = 65535 * k + static_cast<uint64_t>(d);
            const auto grid = fold(count, caps);
            ASSERT_TRUE(grid.has_value());
            const uint64_t launched = uint64_t{grid->groups[0]} * grid->groups[1] * grid->groups[2];
            EXPECT_GE(launched, count);
            EXPECT_LT(launched - count, uint64_t{grid->groups[0]} * grid->groups[2] + grid->groups[0]);
            for (size_t axis = 0; axis < 3; ++axis) EXPECT_LE(grid->groups[axis], caps.max_groups[axis]);
        }
    caps.max_groups = {4, 3, 2};
    EXPECT_TRUE(fold(24, caps).has_value());
    EXPECT_FALSE(fold(25, caps).has_value());
}

TEST(Map, FoldedGridsWriteEachElementOnce) {
    Caps caps = interpreter_caps();
    caps.max_groups = {3, 3, 3};
    std::vector<uint32_t> out(128 * 7 + 5, 99);
    Builder b("map");
    const auto binding = b.binding("y", Scalar::u32, 1, Access::write, out.size());
    MapSpec spec;
    spec.count = static_cast<uint32_t>(out.size());
    spec.outputs = {{binding, Storage::u32}};
    spec.body = [](Builder&, Expr i) { return std::vector<Expr>{i * 3}; };
    const auto grid = build_map(b, spec, caps);
    ASSERT_TRUE(grid.has_value());
    EXPECT_GT(grid->groups[1], 1u);
    run(b.finish(), *grid, {buffer_of(out)}, caps);
    for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i * 3);
}

TEST(Map, PacksSmallDtypesWithOneOwnerAWord) {
    for (uint32_t count : {1u, 2u, 3u, 5u, 17u, 259u}) {
        std::vector<uint32_t> bytes((count + 3) / 4), halves((count + 1) / 2);
        Builder b("map");
        const auto narrow = b.binding("n", Scalar::u32, 1, Access::write, bytes.size());
        const auto half = b.binding("h", Scalar::u32, 1, Access::write, halves.size());
        MapSpec spec;
        spec.count = count;
        spec.outputs = {{narrow, Storage::i8}, {half, Storage::f16}};
        spec.body = [](Builder& k, Expr i) {
            return std::vector<Expr>{k.convert(i, Scalar::i32) - 100, k.convert(i, Scalar::f32) * 0.5};
        };
        const auto grid = build_map(b, spec, interpreter_caps());
        run(b.finish(), *grid, {buffer_of(bytes), buffer_of(halves)}, interpreter_caps());
        for (uint32_t i = 0; i < count; ++i) {
            EXPECT_EQ(reinterpret_cast<int8_t*>(bytes.data())[i], static_cast<int8_t>(static_cast<int>(i) - 100));
            EXPECT_EQ(kir::f16_to_f32(reinterpret_cast<uint16_t*>(halves.data())[i]), 0.5f * static_cast<float>(i));
        }
    }
}

constexpr RowReduce softmax_reduces[] = {{RowOp::max, 0}, {RowOp::argmax, 0}, {RowOp::sum, 1}};

// Softmax with the row maximum's index beside it and the column sums of its result: two stages, full and row outputs.
struct RowResult {
    std::vector<float> y, partial;
    std::vector<uint32_t> arg;
    RowShape shape;
    kir::InterpretStats stats;
};

RowResult run_softmax(uint32_t rows, uint32_t cols, bool columns, const Caps& caps, std::vector<float>& x) {
    RowResult out;
    out.y.resize(x.size());
    out.arg.resize(rows);
    out.shape = *row_shape(rows, cols, softmax_reduces, columns ? 1 : 0, caps);
    out.partial.resize(size_t{out.shape.blocks} * cols);
    Builder b("row");
    const auto in = b.binding("x", Scalar::f32, 1, Access::read, x.size());
    const auto full = b.binding("y", Scalar::f32, 1, Access::write, x.size());
    const auto arg = b.binding("arg", Scalar::u32, 1, Access::write, rows);
    const auto partial = b.binding("partial", Scalar::f32, 1, Access::write, out.partial.size());
    std::array<Expr, 3> known;
    RowSpec spec;
    spec.rows = rows;
    spec.cols = cols;
    spec.reduces.assign(std::begin(softmax_reduces), std::end(softmax_reduces));
    spec.has_full_outputs = spec.has_row_outputs = true;
    spec.column_sums = columns ? 1 : 0;
    const auto load = [&](Expr r, Expr c) { return b.load(in, r * cols + c); };
    const auto value = [&](Expr r, Expr c) { return b.exp(load(r, c) - known[0]); };
    spec.operand = [&](Builder&, size_t k, Expr r, Expr c) { return k < 2 ? load(r, c) : value(r, c); };
    spec.reduced = [&](Builder&, size_t k, Expr v) { known[k] = v; };
    spec.store_full = [&](Builder&, Expr r, Expr c) { b.store(full, r * cols + c, value(r, c) / known[2]); };
    spec.store_row = [&](Builder&, Expr r) { b.store(arg, r, known[1]); };
    spec.column_operand = [&](Builder&, size_t, Expr r, Expr c) { return value(r, c) / known[2]; };
    spec.store_partial = [&](Builder&, size_t, Expr block, Expr c, Expr v) { b.store(partial, block * cols + c, v); };
    build_row(b, spec, out.shape, caps);
    out.stats.loads.resize(4);
    out.stats.stores.resize(4);
    run(b.finish(), out.shape.grid, {buffer_of(x), buffer_of(out.y), buffer_of(out.arg), buffer_of(out.partial)}, caps,
        &out.stats);
    return out;
}

TEST(Row, StagesOutputsAndColumnSumsOnEveryShape) {
    for (const Caps& caps : all_caps())
        for (auto [rows, cols] :
             {std::pair{1u, 1u}, {3u, 5u}, {17u, 257u}, {2u, 4099u}, {129u, 64u}, {1000u, 3u}, {5u, 1u}, {70u, 31u}}) {
            std::vector<float> x = random_floats(size_t{rows} * cols, rows * 7 + cols);
            const bool columns = row_shape(rows, cols, softmax_reduces, 1, caps).has_value();
            const RowResult got = run_softmax(rows, cols, columns, caps, x);
            if (HasFatalFailure()) return;
            std::vector<double> column(cols, 0);
            for (uint32_t r = 0; r < rows; ++r) {
                const auto begin = x.begin() + r * cols;
                const auto best = std::max_element(begin, begin + cols);
                EXPECT_EQ(got.arg[r], static_cast<uint32_t>(best - begin));
                double sum = 0;
                for (uint32_t c = 0; c < cols; ++c) sum += std::exp(double{x[r * cols + c]} - *best);
                for (uint32_t c = 0; c < cols; ++c) {
                    const double want = std::exp(double{x[r * cols + c]} - *best) / sum;
                    ASSERT_NEAR(got.y[r * cols + c], want, 1e-5 * want + 1e-9) << rows << "x" << cols;
                    column[c] += want;
                }
            }
            if (!columns) continue;
            for (uint32_t c = 0; c < cols; ++c) {
                double sum = 0;
                for (uint32_t block = 0; block < got.shape.blocks; ++block) sum += got.partial[block * cols + c];
                ASSERT_NEAR(sum, column[c], 1e-5 * column[c] + 1e-7);
            }
        }
}

TEST(Row, UnrolledRowsReadEachInputOnceAndLongRowsStillWork) {
    const Caps caps = interpreter_caps();
    for (auto [rows, cols] : {std::pair{1u, 1u}, {3u, 5u}, {17u, 257u}, {2u, 4099u}, {129u, 64u}}) {
        std::vector<float> x = random_floats(size_t{rows} * cols, 3);
        const RowResult got = run_softmax(rows, cols, true, caps, x);
        EXPECT_TRUE(got.shape.unrolled);
        // Lanes past the end of a row, and slots past the last row, repeat an element rather than branch.
        const uint64_t lanes = uint64_t{got.shape.lanes} * got.shape.items * got.shape.blocks *
                               ceil_div(got.shape.rows_per_block, got.shape.slots) * got.shape.slots;
        EXPECT_EQ(got.stats.loads[0], lanes);
        EXPECT_EQ(got.stats.stores[1], uint64_t{rows} * cols);
    }
    const uint32_t cols = 100000;
    EXPECT_FALSE(row_shape(2, cols, softmax_reduces, 1, caps).has_value());
    std::vector<float> x = random_floats(2 * cols, 5);
    EXPECT_FALSE(run_softmax(2, cols, false, caps, x).shape.unrolled);
}

void check_contract(uint32_t batch, uint32_t m, uint32_t n, uint32_t k, const Caps& caps) {
    std::vector<float> a = random_floats(size_t{batch} * m * k + 1, 1), c = random_floats(size_t{batch} * k * n + 1, 2),
                       y(size_t{batch} * m * n);
    Builder b("contract");
    const auto in_a = b.binding("a", Scalar::f32, 1, Access::read, a.size());
    const auto in_b = b.binding("b", Scalar::f32, 1, Access::read, c.size());
    const auto out = b.binding("y", Scalar::f32, 1, Access::write, y.size());
    ContractSpec spec;
    spec.batch = batch;
    spec.m = m;
    spec.n = n;
    spec.k = k;
    spec.load_a = [&](Builder&, Expr i, Expr r, Expr d) { return b.load(in_a, (i * m + r) * k + d); };
    spec.load_b = [&](Builder&, Expr i, Expr d, Expr s) { return b.load(in_b, (i * k + d) * n + s); };
    spec.store = [&](Builder&, Expr i, Expr r, Expr s, Expr sum) { b.store(out, (i * m + r) * n + s, sum); };
    const auto shape = contract_shape(spec, caps);
    ASSERT_TRUE(shape.has_value());
    build_contract(b, spec, *shape);
    run(b.finish(), shape->grid, {buffer_of(a), buffer_of(c), buffer_of(y)}, caps);
    for (uint32_t i = 0; i < batch; ++i)
        for (uint32_t r = 0; r < m; ++r)
            for (uint32_t s = 0; s < n; ++s) {
                double want = 0, size = 0;
                for (uint32_t d = 0; d < k; ++d) {
                    const double product = double{a[(i * m + r) * k + d]} * c[(i * k + d) * n + s];
                    want += product;
                    size += std::abs(product);
                }
                ASSERT_NEAR(y[(i * m + r) * n + s], want, 4 * 0x1p-24 * std::sqrt(k) * size + 1e-30) << m << "x" << n << "x" << k;
            }
}

TEST(Contract, BothFormsAtTileEdges) {
    for (const Caps& caps : all_caps())
        for (auto [batch, m, n, k] : {std::tuple{1u, 1u, 1u, 1u},
                                      {1u, 65u, 63u, 17u},
                                      {3u, 5u, 7u, 16u},
                                      {1u, 64u, 128u, 33u},
                                      {2u, 9u, 130u, 31u},
                                      {1u, 8u, 32u, 4u},
                                      {1u, 2u, 3u, 0u}}) {
            check_contract(batch, m, n, k, caps);
            if (HasFatalFailure()) return;
        }
}

TEST(Scatter, AddsInOrderAndDropsWhatIsOutOfRange) {
    std::vector<int32_t> index = {2, 0, 2, -1, 5, 2};
    std::vector<float> update = random_floats(2 * 6 * 3, 4), y(2 * 5 * 3);
    Builder b("scatter");
    const auto in = b.binding("i", Scalar::i32, 1, Access::read, 6);
    const auto up = b.binding("u", Scalar::f32, 1, Access::read, update.size());
    const auto out = b.binding("y", Scalar::f32, 1, Access::write, y.size());
    ScatterSpec spec;
    spec.outer = 2;
    spec.size = 5;
    spec.inner = 3;
    spec.indices = 6;
    spec.index = [&](Builder&, Expr w) { return b.load(in, w); };
    spec.update = [&](Builder&, Expr o, Expr w, Expr i) { return b.load(up, (o * 6 + w) * 3 + i); };
    spec.store = [&](Builder&, Expr at, Expr sum) { b.store(out, at, sum); };
    const auto grid = build_scatter(b, spec, interpreter_caps());
    run(b.finish(), *grid, {buffer_of(index), buffer_of(update), buffer_of(y)}, interpreter_caps());
    for (int o = 0; o < 2; ++o)
        for (int p = 0; p < 5; ++p)
            for (int i = 0; i < 3; ++i) {
                float want = 0;
                for (int w = 0; w < 6; ++w)
                    if (index[w] == p) want += update[(o * 6 + w) * 3 + i];
                EXPECT_EQ(y[(o * 5 + p) * 3 + i], want);
            }
}

void check_coop(uint32_t m, uint32_t n, uint32_t k, Scalar input, bool prefetch) {
    Caps caps = interpreter_caps(32);
    caps.coop_shapes = {{input, Scalar::f32, 16, 16, 16}};
    const auto narrow = [&](float v) {
        if (input == Scalar::bf16) return static_cast<uint16_t>(kir::f32_to_bf16(v));
        return static_cast<uint16_t>(kir::f32_to_f16(v));
    };
    const auto wide_value = [&](uint16_t v) { return input == Scalar::bf16 ? kir::bf16_to_f32(v) : kir::f16_to_f32(v); };
    std::vector<uint16_t> a, c;
    for (float v : random_floats(size_t{m} * k, 1)) a.push_back(narrow(v));
    for (float v : random_floats(size_t{k} * n, 2)) c.push_back(narrow(v));
    std::vector<float> y(size_t{m} * n);
    Builder b("coop_gemm");
    const CoopGemmSpec spec{.m = m, .n = n, .k = k, .input = input, .tile_m = 64, .tile_n = 64, .prefetch = prefetch};
    const auto grid = build_coop_gemm(b, spec, caps);
    ASSERT_TRUE(grid.has_value()) << grid.error().text();
    run(b.finish(), *grid, {buffer_of(a), buffer_of(c), buffer_of(y)}, caps);
    for (uint32_t r = 0; r < m; ++r)
        for (uint32_t s = 0; s < n; ++s) {
            double want = 0, size = 0;
            for (uint32_t d = 0; d < k; ++d) {
                const double product = double{wide_value(a[r * k + d])} * wide_value(c[d * n + s]);
                want += product;
                size += std::abs(product);
            }
            ASSERT_NEAR(y[r * n + s], want, 4 * 0x1p-24 * std::sqrt(k) * size + 1e-30) << m << "x" << n << "x" << k;
        }
}

TEST(CoopGemm, AnyShapeInBothInputTypes) {
    for (Scalar input : {Scalar::f16, Scalar::bf16})
        for (auto [m, n, k] : {std::tuple{64u, 64u, 64u}, {65u, 63u, 45u}, {130u, 72u, 40u}, {1u, 1u, 1u}, {64u, 128u, 8u}}) {
            check_coop(m, n, k, input, true);
            if (HasFatalFailure()) return;
        }
    check_coop(70, 70, 70, Scalar::f16, false);
}

TEST(CoopGemm, RefusesWithAReason) {
    Builder b("coop_gemm");
    const auto grid = build_coop_gemm(b, {}, webgpu_default_caps());
    ASSERT_FALSE(grid.has_value());
    EXPECT_NE(grid.error().message.find("cooperative matrices"), std::string::npos);
}

}  // namespace
}  // namespace darner::kernels
