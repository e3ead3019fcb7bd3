// SPDX-License-Identifier: MIT
#include "darner/emit/kernel_zoo_test.h"

#include "darner/base/check.h"
#include "darner/kir/builder.h"
#include "darner/kir/half.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace darner {

using kir::Access;
using kir::ArrayRef;
using kir::BindingRef;
using kir::Builder;
using kir::Expr;
using kir::Opcode;
using kir::Scalar;
using kir::Type;

namespace {

constexpr uint32_t items = 64;  // of elementwise kernels

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

// Words that look random; the same everywhere.
std::vector<uint32_t> noise(size_t count, uint32_t seed) {
    std::vector<uint32_t> words(count);
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    for (uint32_t& w : words) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        w = uint32_t(state >> 33) * 2654435761u;
    }
    return words;
}

std::vector<uint32_t> floats_between(size_t count, uint32_t seed, float low, float high) {
    std::vector<uint32_t> words = noise(count, seed);
    for (uint32_t& w : words) w = bits(low + (high - low) * float(w >> 8) * 0x1p-24f);
    return words;
}

std::vector<uint32_t> zeros(size_t count) { return std::vector<uint32_t>(count, 0); }

// Numbers at which conversions go wrong.
std::vector<uint32_t> odd_floats() {
    std::vector<uint32_t> words = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
                                   0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x4effffff, 0x4f000000, 0x4f000001,
                                   0xcf000000, 0xcf000001, 0x4f7fffff, 0x4f800000, 0xbf800000, 0xbf7fffff, 0x3f7fffff, 0x3f000000,
                                   0x477fe000, 0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x38800000,
                                   0x387fffff, 0x3f801000, 0x3f803000, 0x3f801001};
    const std::vector<uint32_t> more = noise(items - words.size(), 7);
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// The builder writes a > b as b < a; emitters must take either, so some kernels are turned back.
void turn_comparisons(kir::Kernel& kernel) {
    for (kir::Instruction& inst : kernel.instructions) {
        if (inst.op != Opcode::lt && inst.op != Opcode::le) continue;
        inst.op = inst.op == Opcode::lt ? Opcode::gt : Opcode::ge;
        std::swap(kernel.operands[inst.first_operand], kernel.operands[inst.first_operand + 1]);
    }
}

// a and b in, `results` per item out: out[result * items + item].
ZooKernel elementwise(std::string name, Type type, std::vector<uint32_t> a, std::vector<uint32_t> b, bool exact,
                      const std::function<std::vector<Expr>(Builder&, Expr, Expr)>& formulas) {
    Builder k(name);
    k.workgroup_size(32);
    const BindingRef in_a = k.binding("a", type.scalar, type.lanes, Access::read, items),
                     in_b = k.binding("b", type.scalar, type.lanes, Access::read, items);
    const uint64_t capacity = 64 * items;
    const BindingRef out = k.binding("out", type.scalar, type.lanes, Access::write, capacity);
    const Expr i = k.workgroup_id(0) * 32 + k.local_id(0);
    const std::vector<Expr> results = formulas(k, k.load(in_a, i), k.load(in_b, i));
    for (uint32_t r = 0; r < results.size(); ++r) k.store(out, i + r * items, results[r]);
    ZooKernel zoo{k.finish()};
    if (type.lanes == 2) turn_comparisons(zoo.kernel);
    zoo.groups = {items / 32, 1, 1};
    zoo.exact = exact;
    zoo.buffers = {std::move(a), std::move(b), zeros(capacity * type.lanes * kir::byte_size(type.scalar) / 4)};
    return zoo;
}

std::vector<Expr> float_formulas(Builder& k, Expr x, Expr y) {
    std::vector<Expr> r = {x + y,       x - y,       x * y,      x / y,           k.binary(Opcode::rem, x, y),
                           k.min(x, y), k.max(x, y), -x,         k.abs(x),        k.fma(x, y, x),
                           k.floor(x),  k.ceil(x),   k.trunc(x), k.round_even(x), k.exp(x),
                           k.exp2(x),   k.log(y),    k.log2(y),  k.sqrt(y),       k.rsqrt(y),
                           k.sin(x),    k.cos(x),    k.tanh(x),  k.pow(y, x)};
    for (Expr c :
         {x == y, x != y, x<y, x <= y, x> y, x >= y, (x < y) & (x > -y), (x < y) | (x > y), (x < y) ^ (y > -x), !(x < y)})
        r.push_back(k.convert(c, x.type().scalar));
    r.push_back(k.select(x < y, x, y));
    return r;
}

std::vector<Expr> integer_formulas(Builder& k, Expr x, Expr y) {
    const Expr count = k.convert(y & 31, Scalar::u32);
    std::vector<Expr> r = {x + y,
                           x - y,
                           x * y,
                           k.min(x, y),
                           k.max(x, y),
                           -x,
                           k.abs(x),
                           k.fma(x, y, x),
                           x & y,
                           x | y,
                           x ^ y,
                           k.unary(Opcode::bit_not, x),
                           k.binary(Opcode::shl, x, count),
                           k.binary(Opcode::shr, x, count)};
    if (x.type().scalar == Scalar::u32) r.push_back(k.mul_high(x, y));
    const Expr divisor = k.select(y == 0, k.constant(y.type(), 7), y);
    r.push_back(x / divisor);
    r.push_back(x % divisor);
    r.push_back(x / 3);
    for (Expr c : {x == y, x != y, x<y, x <= y, x> y, x >= y}) r.push_back(k.convert(c, x.type().scalar));
    r.push_back(k.select(x < y, x, y));
    return r;
}

// Includes the quotient -2^31 / -1 and negative remainders.
std::vector<uint32_t> edge_integers(size_t count, uint32_t seed, bool divisors) {
    std::vector<uint32_t> words = noise(count, seed);
    const uint32_t edges[] = {0x80000000u, 0xfffffff9u, 7u, 0x7fffffffu, 0xffffffffu, 1u};
    const uint32_t by[] = {0xffffffffu, 2u, 0xfffffffeu, 0xffffffffu, 0xffffffffu, 0x80000000u};
    for (size_t i = 0; i < std::size(edges); ++i) words[i] = divisors ? by[i] : edges[i];
    return words;
}

ZooKernel conversions() {
    Builder k("conversions");
    k.workgroup_size(items);
    const BindingRef in = k.binding("in", Scalar::u32, 1, Access::read, items),
                     out = k.binding("out", Scalar::u32, 1, Access::write, 16 * items);
    const Expr i = k.local_index(), raw = k.load(in, i), x = k.bitcast(raw, Scalar::f32), n = k.bitcast(raw, Scalar::i32);
    const Expr pair = k.make_vector({x, x});
    const Expr results[] = {
        k.bitcast(k.convert(x, Scalar::i32), Scalar::u32),
        k.convert(x, Scalar::u32),
        k.convert(k.extract(k.convert(pair, Scalar::u32), 1), Scalar::u32),
        k.bitcast(k.extract(k.convert(pair, Scalar::i32), 0), Scalar::u32),
        k.bitcast(k.convert(n, Scalar::f32), Scalar::u32),
        k.bitcast(k.convert(raw, Scalar::f32), Scalar::u32),
        k.convert(k.convert(n, Scalar::boolean), Scalar::u32),
        k.bitcast(k.convert(k.convert(raw, Scalar::boolean), Scalar::f32), Scalar::u32),
        k.convert(n, Scalar::u32),
        k.bitcast(k.convert(k.convert(raw, Scalar::boolean), Scalar::i32), Scalar::u32),
    };
    for (uint32_t r = 0; r < std::size(results); ++r) k.store(out, i + r * items, results[r]);
    ZooKernel zoo{k.finish()};
    zoo.buffers = {odd_floats(), zeros(16 * items)};
    return zoo;
}

ZooKernel halves() {
    Builder k("halves");
    k.workgroup_size(items);
    const BindingRef in = k.binding("in", Scalar::u32, 1, Access::read, items),
                     out = k.binding("out", Scalar::u32, 1, Access::write, 3 * items);
    const Expr i = k.local_index(), raw = k.load(in, i), x = k.bitcast(raw, Scalar::f32);
    k.store(out, i, k.pack_half2(x, -x));
    const Expr wide = k.unpack_half2(raw & 0x3bff3bff);  // finite and normal, or zero
    k.store(out, i + items, k.bitcast(k.extract(wide, 0), Scalar::u32));
    k.store(out, i + 2 * items, k.bitcast(k.extract(wide, 1), Scalar::u32));
    ZooKernel zoo{k.finish()};
    // NaN payloads are free, and below f16's normal range an f32 subnormal may be flushed: both are left out.
    zoo.buffers = {odd_floats(), zeros(3 * items)};
    for (uint32_t& w : zoo.buffers[0])
        if ((w & 0x7fffffffu) > 0x7f800000u || (w & 0x7f800000u) == 0) w = 0x3f801000u;
    for (uint32_t& w : zoo.buffers[0])
        if ((w & 0x7c00u) == 0) w &= 0xffff8000u | 0x03ff0000u;  // the low half is not a subnormal
    return zoo;
}

ZooKernel constants() {
    Builder k("constants");
    k.workgroup_size(1);
    const BindingRef out = k.binding("out", Scalar::u32, 1, Access::write, 16);
    const uint32_t words[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x80000000,
                              0x7f7fffff, 0xff7fffff, 0x3dcccccd, 0x00800000};
    const Expr zero = k.convert(k.workgroup_id(0), Scalar::u32);
    for (uint32_t w = 0; w < std::size(words); ++w) {
        // The select keeps the builder from folding the constant's bits.
        const Expr c = k.select(zero == 0, k.f32(std::bit_cast<float>(words[w])), k.f32(2));
        k.store(out, k.u32(w), k.bitcast(c, Scalar::u32));
    }
    k.store(out, k.u32(9), k.bitcast(k.select(zero == 0, k.i32(INT32_MIN), k.i32(-5)), Scalar::u32));
    k.store(out, k.u32(10), k.select(zero == 0, k.u32(0xffffffffu), zero));
    ZooKernel zoo{k.finish()};
    zoo.buffers = {zeros(16)};
    return zoo;
}

ZooKernel ids() {
    Builder k("ids");
    k.workgroup_size(4, 2, 3);
    const BindingRef out = k.binding("out", Scalar::u32, 1, Access::write, 24 * 12);
    const Expr scale = k.param("scale"), offset = k.param("offset");
    const Expr group = (k.workgroup_id(2) * k.num_workgroups(1) + k.workgroup_id(1)) * k.num_workgroups(0) + k.workgroup_id(0);
    const Expr local = k.local_id(0) * 100 + k.local_id(1) * 10 + k.local_id(2);
    k.store(out, group * 24 + k.local_index(), local * scale + offset + group * 1000);
    ZooKernel zoo{k.finish()};
    zoo.groups = {2, 3, 2};
    zoo.params = {3, 17};
    zoo.buffers = {zeros(24 * 12)};
    return zoo;
}

// Carried values that change places, loops in loops, bounds from params, results in nested branches.
ZooKernel control() {
    Builder k("control");
    k.workgroup_size(32);
    const BindingRef in = k.binding("in", Scalar::u32, 1, Access::read, 64),
                     out = k.binding("out", Scalar::u32, 1, Access::write, 128);
    const Expr n = k.param("n"), i = k.workgroup_id(0) * 32 + k.local_id(0), seed = k.load(in, i);
    const Builder::Values loop =
        k.loop(k.u32(0), n, k.u32(1), {seed, k.u32(1), k.u32(0)}, [&](Expr step, const Builder::Values& c) {
            const Builder::Values inner = k.loop(step, k.u32(7), k.u32(3), {c[2]}, [&](Expr j, const Builder::Values& d) {
                return Builder::Values{d[0] * 3 + j * c[0]};
            });
            return Builder::Values{c[1], c[0], inner[0] + c[1]};
        });
    const Builder::Values chosen = k.branch((seed & 1) == 0,
                                            [&] {
                                                return k.branch((seed & 2) == 0,
                                                                [&] {
                                                                    return Builder::Values{loop[0] + loop[2], k.f32(1.5f)};
                                                                },
                                                                [&] {
                                                                    return Builder::Values{loop[1], k.f32(2.5f)};
                                                                });
                                            },
                                            [&] {
                                                return Builder::Values{loop[2] ^ seed, k.convert(seed & 255, Scalar::f32)};
                                            });
    k.store(out, i, chosen[0]);
    k.store(out, i + 64, k.bitcast(chosen[1], Scalar::u32));
    k.when(i < 5,
           [&] { k.loop(k.u32(0), i, k.u32(2), [&](Expr) { k.when((seed & 4) != 0, [&] { k.store(out, i + 64, seed); }); }); });
    ZooKernel zoo{k.finish()};
    zoo.groups = {2, 1, 1};
    zoo.params = {9};
    zoo.buffers = {noise(64, 3), zeros(128)};
    return zoo;
}

// Integers in f32, so that any order of summation gives the same bits.
std::vector<uint32_t> small_whole_floats(size_t count, uint32_t seed) {
    std::vector<uint32_t> words = noise(count, seed);
    for (uint32_t& w : words) w = bits(float(int(w >> 28) - 8));
    return words;
}

// The same in 16 bits, two to a word.
std::vector<uint32_t> small_whole_halves(size_t count, uint32_t seed, Scalar scalar) {
    const std::vector<uint32_t> wide = small_whole_floats(count, seed);
    std::vector<uint32_t> words(count / 2);
    for (size_t i = 0; i < count; ++i) {
        const float number = std::bit_cast<float>(wide[i]);
        words[i / 2] |= (scalar == Scalar::f16 ? kir::f32_to_f16(number) : kir::f32_to_bf16(number)) << (i % 2 * 16);
    }
    return words;
}

ZooKernel workgroup_sum() {
    Builder k("workgroup_sum");
    k.workgroup_size(64);
    const BindingRef in = k.binding("in", Scalar::f32, 1, Access::read, 256),
                     out = k.binding("out", Scalar::f32, 1, Access::write, 8);
    const ArrayRef sums = k.workgroup_array("sums", kir::f32_type, 64), flags = k.workgroup_array("flags", kir::boolean_type, 64);
    const Expr local = k.local_id(0), group = k.workgroup_id(0);
    const Expr mine = k.load(in, group * 64 + local);
    k.store(sums, local, mine);
    k.store(flags, local, mine > 0.0f);
    k.barrier();
    k.loop(k.u32(0), k.u32(6), k.u32(1), [&](Expr step) {
        const Expr half = k.binary(Opcode::shr, k.u32(32), step);
        k.when(local < half, [&] { k.store(sums, local, k.load(sums, local) + k.load(sums, local + half)); });
        k.barrier();
    });
    k.when(local == 0, [&] {
        k.store(out, group * 2, k.load(sums, k.u32(0)));
        k.store(out, group * 2 + 1, k.select(k.load(flags, k.u32(63)), k.f32(1), k.f32(0)));
    });
    ZooKernel zoo{k.finish()};
    zoo.groups = {4, 1, 1};
    zoo.buffers = {small_whole_floats(256, 11), zeros(8)};
    return zoo;
}

ZooKernel tiled_matmul() {
    constexpr uint32_t size = 32, tile = 16, per_thread = 4;
    Builder k("tiled_matmul");
    k.workgroup_size(tile, tile / per_thread);
    const BindingRef a = k.binding("a", Scalar::f32, 4, Access::read, size * size / 4),
                     b = k.binding("b", Scalar::f32, 1, Access::read, size * size);
    const BindingRef c = k.binding("c", Scalar::f32, 1, Access::write, size * size);
    const ArrayRef tile_a = k.workgroup_array("tile_a", kir::f32_type, tile * tile),
                   tile_b = k.workgroup_array("tile_b", kir::f32_type, tile * tile);
    const ArrayRef sums = k.private_array("sums", kir::f32_type, per_thread);
    const Expr column = k.local_id(0), first_row = k.local_id(1) * per_thread;
    const Expr row0 = k.workgroup_id(1) * tile, column0 = k.workgroup_id(0) * tile;
    for (uint32_t r = 0; r < per_thread; ++r) k.store(sums, k.u32(r), k.f32(0));
    k.loop(k.u32(0), k.u32(size), k.u32(tile), [&](Expr inner) {
        for (uint32_t r = 0; r < per_thread; ++r) {
            const Expr row = first_row + r;
            k.store(tile_a, row * tile + column, k.load_scalar(a, (row0 + row) * size + inner + column));
            k.store(tile_b, row * tile + column, k.load(b, (inner + row) * size + column0 + column));
        }
        k.barrier();
        k.loop(k.u32(0), k.u32(tile), k.u32(1), [&](Expr e) {
            const Expr right = k.load(tile_b, e * tile + column);
            for (uint32_t r = 0; r < per_thread; ++r)
                k.store(sums, k.u32(r), k.fma(k.load(tile_a, (first_row + r) * tile + e), right, k.load(sums, k.u32(r))));
        });
        k.barrier();
    });
    for (uint32_t r = 0; r < per_thread; ++r)
        k.store(c, (row0 + first_row + r) * size + column0 + column, k.load(sums, k.u32(r)));
    ZooKernel zoo{k.finish()};
    zoo.groups = {size / tile, size / tile, 1};
    zoo.buffers = {small_whole_floats(size * size, 21), small_whole_floats(size * size, 22), zeros(size * size)};
    return zoo;
}

ZooKernel vectors() {
    Builder k("vectors");
    k.workgroup_size(16);
    const BindingRef in = k.binding("in", Scalar::u32, 4, Access::read, 16),
                     pairs = k.binding("pairs", Scalar::u32, 2, Access::inout, 16);
    const ArrayRef shared = k.workgroup_array("shared", Type{Scalar::u32, 4}, 16);
    const Expr i = k.local_id(0), v = k.load(in, i);
    k.store(shared, i, k.make_vector({k.extract(v, 3), k.extract(v, 2), k.extract(v, 1), k.load_scalar(in, i * 4)}));
    k.barrier();
    const Expr other = k.load(shared, 15 - i), old = k.load(pairs, i);
    k.store(pairs, i, k.make_vector({k.extract(other, 0) + k.extract(old, 1), k.extract(other, 3)}) + old);
    ZooKernel zoo{k.finish()};
    zoo.buffers = {noise(64, 5), noise(32, 6)};
    return zoo;
}

// Invocations exchange values through an inout binding.
ZooKernel exchange() {
    Builder k("exchange");
    k.workgroup_size(32);
    const BindingRef data = k.binding("data", Scalar::i32, 1, Access::inout, 32);
    const Expr i = k.local_id(0), mine = k.load(data, i);
    k.barrier();
    k.store(data, 31 - i, mine);
    k.barrier();
    const Expr next = k.load(data, (i + 1) % 32);
    k.barrier();
    k.store(data, i, next - 1);
    ZooKernel zoo{k.finish()};
    zoo.buffers = {noise(32, 8)};
    return zoo;
}

ZooKernel atomics() {
    Builder k("atomics");
    k.workgroup_size(32);
    const BindingRef in = k.binding("in", Scalar::u32, 1, Access::read, 64),
                     words = k.binding("words", Scalar::u32, 1, Access::inout, 8);
    const BindingRef numbers = k.binding("numbers", Scalar::i32, 1, Access::inout, 4);
    const Expr v = k.load(in, k.workgroup_id(0) * 32 + k.local_id(0)), n = k.bitcast(v, Scalar::i32);
    k.atomic(kir::AtomicKind::add, words, v & 3, v);
    k.atomic(kir::AtomicKind::min, words, k.u32(4), v);
    k.atomic(kir::AtomicKind::max, words, k.u32(5), v);
    k.atomic(kir::AtomicKind::bit_or, words, k.u32(6), v & 0xff00ff);
    k.atomic(kir::AtomicKind::exchange, words, k.u32(7), k.u32(42));
    k.atomic(kir::AtomicKind::add, numbers, k.u32(0), n);
    k.atomic(kir::AtomicKind::min, numbers, k.u32(1), n);
    k.atomic(kir::AtomicKind::max, numbers, k.u32(2), n);
    ZooKernel zoo{k.finish()};
    zoo.groups = {2, 1, 1};
    zoo.buffers = {noise(64, 9), {0, 0, 0, 0, 0xffffffffu, 0, 0, 0}, {0, 0, 0, 0}};
    return zoo;
}

// What does not depend on the subgroup's size is stored.
ZooKernel subgroups() {
    Builder k("subgroups");
    k.workgroup_size(64);
    const BindingRef in = k.binding("in", Scalar::u32, 1, Access::read, 64),
                     out = k.binding("out", Scalar::u32, 1, Access::write, 64 * 12);
    const Expr i = k.local_index(), v = k.load(in, i), x = k.convert(v & 15, Scalar::f32), n = k.bitcast(v, Scalar::i32);
    // Lane 0 of each subgroup adds 1: the broadcast makes all agree. Results are compared within the subgroup.
    auto same = [&](Expr e) { return k.convert(e == k.subgroup_broadcast(e, 0), Scalar::u32); };
    std::vector<Expr> r;
    for (kir::ReduceKind kind : {kir::ReduceKind::add, kir::ReduceKind::min, kir::ReduceKind::max, kir::ReduceKind::mul}) {
        r.push_back(same(k.subgroup_reduce(kind, x)));
        r.push_back(same(k.subgroup_reduce(kind, n)) + same(k.subgroup_reduce(kind, v)));
    }
    r.push_back(same(k.subgroup_reduce(kir::ReduceKind::bit_and, v)) + same(k.subgroup_reduce(kir::ReduceKind::bit_or, v)));
    r.push_back(k.convert(k.subgroup_reduce(kir::ReduceKind::bit_or, v == v), Scalar::u32) +
                k.convert(k.subgroup_reduce(kir::ReduceKind::bit_and, v != v), Scalar::u32));
    r.push_back(k.subgroup_shuffle_xor(v, 1));
    r.push_back(
        k.convert((k.lane_id() < k.subgroup_size()) & (k.subgroup_id() * k.subgroup_size() + k.lane_id() < 64), Scalar::u32));
    for (uint32_t e = 0; e < r.size(); ++e) k.store(out, i + e * 64, r[e]);
    ZooKernel zoo{k.finish()};
    zoo.buffers = {noise(64, 10), zeros(64 * 12)};
    zoo.subgroup = true;
    return zoo;
}

// Names that are keywords, no identifiers, or the same.
ZooKernel names() {
    Builder k("names");
    k.workgroup_size(8);
    const BindingRef a = k.binding("var", Scalar::f32, 1, Access::read, 8), b = k.binding("v0", Scalar::f32, 1, Access::read, 8);
    const BindingRef c = k.binding("1 gamma'", Scalar::f32, 1, Access::read, 8),
                     d = k.binding("array", Scalar::f32, 1, Access::write, 8);
    const ArrayRef e = k.workgroup_array("var", kir::f32_type, 8);
    const Expr p = k.param("fn"), i = k.local_id(0);
    k.store(e, i, k.load(a, i) * k.load(b, i));
    k.barrier();
    k.store(d, i, k.load(e, i) * k.load(c, i) + k.convert(p, Scalar::f32));
    ZooKernel zoo{k.finish()};
    zoo.params = {5};
    zoo.buffers = {small_whole_floats(8, 1), small_whole_floats(8, 2), small_whole_floats(8, 3), zeros(8)};
    return zoo;
}

ZooKernel half_storage() {
    Builder k("half_storage");
    k.workgroup_size(32);
    const BindingRef in = k.binding("in", Scalar::f16, 2, Access::read, 32),
                     out = k.binding("out", Scalar::f16, 2, Access::write, 32);
    const Expr i = k.local_id(0);
    k.store(out, i, k.convert(k.convert(k.load(in, i), Scalar::f32) * 1.5f, Scalar::f16));
    ZooKernel zoo{k.finish()};
    zoo.buffers = {noise(32, 12), zeros(32)};
    for (uint32_t& w : zoo.buffers[0]) w = (w & 0x83ff83ffu) | 0x38003800u;  // 0.5 to 1 in magnitude
    zoo.f16 = true;
    return zoo;
}

ZooKernel half_arithmetic() {
    std::vector<uint32_t> a = noise(items, 13), b = noise(items, 14);
    for (uint32_t& w : a) w = (w & 0x83ff83ffu) | 0x3c003c00u;
    for (uint32_t& w : b) w = (w & 0x03ff03ffu) | 0x3c003c00u;
    ZooKernel zoo = elementwise("half_arithmetic", {Scalar::f16, 2}, a, b, false, [](Builder& k, Expr x, Expr y) {
        std::vector<Expr> r = float_formulas(k, x, y);
        r.push_back(k.convert(k.convert(x, Scalar::i32), Scalar::f16));
        r.push_back(k.convert(k.convert(y, Scalar::u32), Scalar::f16));
        r.push_back(x * 6e-8f + 0.1f);
        return r;
    });
    zoo.f16 = true;
    return zoo;
}

// 32x32 times 32x32 by 16x16 matrices of one subgroup, accumulators in a private array, operands staged in workgroup memory.
ZooKernel coop_matmul(Scalar scalar) {
    constexpr uint32_t size = 32, tile = 16;
    Builder k(std::string("coop_matmul_") + kir::to_string(scalar));
    k.workgroup_size(32);
    k.require_subgroup_size(32);
    const BindingRef a = k.binding("a", scalar, 4, Access::read, size * size / 4),
                     b = k.binding("b", scalar, 4, Access::read, size * size / 4);
    const BindingRef c = k.binding("c", Scalar::f32, 1, Access::write, size * size);
    const Type type_a{scalar, 1, tile, tile, kir::CoopUse::a}, type_b{scalar, 1, tile, tile, kir::CoopUse::b};
    const Type sum{Scalar::f32, 1, tile, tile, kir::CoopUse::accumulator};
    const ArrayRef staged = k.workgroup_array("staged", {scalar, 4}, size * tile / 4), sums = k.private_array("sums", sum, 4);
    for (uint32_t t = 0; t < 4; ++t) k.store(sums, k.u32(t), k.coop_fill(sum, k.f32(0)));
    k.loop(k.u32(0), k.u32(size), k.u32(tile), [&](Expr inner) {
        k.loop(k.local_index(), k.u32(size * tile / 4), k.u32(32),
               [&](Expr e) { k.store(staged, e, k.load(a, (e / 4) * (size / 4) + inner / 4 + e % 4)); });
        k.barrier();
        for (uint32_t t = 0; t < 4; ++t) {
            const Expr left = k.coop_load(type_a, staged, k.u32(t / 2 * tile * tile / 4), k.u32(tile / 4));
            const Expr right = k.coop_load(type_b, b, inner * (size / 4) + t % 2 * (tile / 4), k.u32(size / 4));
            k.store(sums, k.u32(t), k.coop_mul_add(left, right, k.load(sums, k.u32(t))));
        }
        k.barrier();
    });
    for (uint32_t t = 0; t < 4; ++t) {
        Expr matrix = k.coop_map(Opcode::mul, k.load(sums, k.u32(t)), k.f32(0.5f));
        matrix = k.coop_map(Opcode::max, k.coop_map(Opcode::add, matrix, k.f32(1)), k.f32(0));
        k.coop_store(c, k.u32(t / 2 * tile * size + t % 2 * tile), k.u32(size), matrix);
    }
    ZooKernel zoo{k.finish()};
    zoo.buffers = {small_whole_halves(size * size, 31, scalar), small_whole_halves(size * size, 32, scalar), zeros(size * size)};
    zoo.coop = true;
    zoo.bf16 = scalar == Scalar::bf16;
    return zoo;
}

ZooKernel coop_convert() {
    Builder k("coop_convert");
    k.workgroup_size(32);
    k.require_subgroup_size(32);
    const Type sum{Scalar::f32, 1, 16, 16, kir::CoopUse::accumulator};
    const BindingRef in = k.binding("in", Scalar::f32, 1, Access::read, 256),
                     out = k.binding("out", Scalar::f16, 1, Access::write, 256);
    const Expr factor = k.convert(k.param("factor"), Scalar::f32);
    Expr matrix = k.coop_load(sum, in, k.u32(0), k.u32(16), true);
    for (Opcode op : {Opcode::add, Opcode::sub, Opcode::div, Opcode::min}) matrix = k.coop_map(op, matrix, factor);
    k.coop_store(out, k.u32(0), k.u32(16), k.coop_convert(matrix, Scalar::f16), true);
    ZooKernel zoo{k.finish()};
    zoo.params = {2};
    zoo.buffers = {small_whole_floats(256, 33), zeros(128)};
    zoo.coop = true;
    return zoo;
}

ZooKernel bf16_storage() {
    Builder k("bf16_storage");
    k.workgroup_size(32);
    const BindingRef in = k.binding("in", Scalar::bf16, 2, Access::read, 32),
                     out = k.binding("out", Scalar::bf16, 2, Access::write, 32);
    const Expr i = k.local_id(0);
    k.store(out, i, k.convert(k.convert(k.load(in, i), Scalar::f32) * 1.5f, Scalar::bf16));
    ZooKernel zoo{k.finish()};
    zoo.buffers = {small_whole_halves(64, 34, Scalar::bf16), zeros(32)};
    zoo.bf16 = true;
    return zoo;
}

std::vector<ZooKernel> make_zoo() {
    std::vector<ZooKernel> zoo;
    for (uint8_t lanes : {1, 2, 4}) {
        const size_t words = size_t(items) * lanes;
        const std::string suffix = "_x" + std::to_string(lanes);
        zoo.push_back(elementwise("f32" + suffix, {Scalar::f32, lanes}, floats_between(words, 1, -6, 6),
                                  floats_between(words, 2, 0.25f, 5), false, float_formulas));
        zoo.push_back(elementwise("i32" + suffix, {Scalar::i32, lanes}, edge_integers(words, 3, false),
                                  edge_integers(words, 4, true), true, integer_formulas));
        zoo.push_back(elementwise("u32" + suffix, {Scalar::u32, lanes}, edge_integers(words, 5, false),
                                  edge_integers(words, 6, true), true, integer_formulas));
    }
    for (auto make : {conversions, halves, constants, ids, control, workgroup_sum, tiled_matmul, vectors, exchange, atomics,
                      subgroups, names, half_storage, half_arithmetic, coop_convert, bf16_storage})
        zoo.push_back(make());
    zoo.push_back(coop_matmul(Scalar::f16));
    zoo.push_back(coop_matmul(Scalar::bf16));
    return zoo;
}

}  // namespace

Caps zoo_caps() {
    Caps caps;
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = 32;
    caps.f16_storage = caps.f16_arithmetic = caps.bf16_coop = caps.vulkan_memory_model = caps.preserves_nan = true;
    caps.coop_shapes = {{Scalar::f16, Scalar::f32, 16, 16, 16}, {Scalar::bf16, Scalar::f32, 16, 16, 16}};
    return caps;
}

const std::vector<ZooKernel>& kernel_zoo() {
    static const std::vector<ZooKernel> zoo = make_zoo();
    return zoo;
}

const ZooKernel& zoo_kernel(std::string_view name) {
    const std::vector<ZooKernel>& zoo = kernel_zoo();
    const auto it = std::find_if(zoo.begin(), zoo.end(), [&](const ZooKernel& z) { return z.kernel.name == name; });
    CHECK(it != zoo.end(), "no such kernel in the zoo: " + std::string(name));
    return *it;
}

}  // namespace darner
