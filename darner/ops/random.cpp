// SPDX-License-Identifier: MIT
// Random numbers as functions of a key, a counter and a stream: no state, the same bits on every device.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/philox.h"

#include "darner/kir/builder.h"

#include <fmt/format.h>

#include <limits>

namespace darner {
namespace {

using kir::Expr;

constexpr OperandDef key_counter[] = {{"key"}, {"counter"}};
constexpr OperandDef x_key_counter[] = {{"x"}, {"key"}, {"counter"}};
constexpr OperandDef p_key_counter[] = {{"p"}, {"key"}, {"counter"}};
constexpr AttrDef shape_attr = {"shape", AttrKind::dims, "", "the shape of the result"};
constexpr AttrDef stream_attr = {"stream", AttrKind::integer, "none",
                                 "which of the independent streams; the Builder numbers its calls"};
constexpr AttrDef bits_attrs[] = {shape_attr, stream_attr};
constexpr AttrDef uniform_attrs[] = {
    shape_attr, stream_attr, {"low", AttrKind::real, "0", "the smallest value"}, {"high", AttrKind::real, "1", "the upper end"}};
constexpr AttrDef bernoulli_attrs[] = {stream_attr};
constexpr AttrDef dropout_attrs[] = {{"p", AttrKind::real, "0.5", "the probability of an element to become 0"}, stream_attr};
constexpr AttrDef normal_attrs[] = {shape_attr,
                                    stream_attr,
                                    {"mean", AttrKind::real, "0", "the mean"},
                                    {"stddev", AttrKind::real, "1", "the standard deviation"}};

int64_t stream_of(const Call& c) { return c.given("stream") ? c.integer("stream") : 0; }

// Operands `first` and the next: key and counter.
Result<void> check_key(const Call& c, size_t first) {
    const auto expect = [&](size_t operand, const Type& type) -> Result<void> {
        if (c.type(operand) == type) return {};
        return c.error(fmt::format("wrong type of {}: got {}, expected {}", infer::operand_name(c, operand),
                                   to_string(c.type(operand)), to_string(type)));
    };
    TRY(expect(first, u32({2})));
    TRY(expect(first + 1, u32()));
    const int64_t stream = stream_of(c);
    if (stream < 0 || stream > std::numeric_limits<uint32_t>::max())
        return c.error(
            fmt::format("stream out of range: got {}, expected 0 to {}", stream, std::numeric_limits<uint32_t>::max()));
    return {};
}

template <DType dtype>
Result<Type> infer_random(const Call& c) {
    TRY(check_key(c, 0));
    TRY(infer::shape(c, c.dims("shape")));
    return Type{dtype, c.dims("shape")};
}

Result<Type> infer_bernoulli(const Call& c) {
    TRY(infer::dtype(c, 0, infer::Accept::floats));
    TRY(check_key(c, 1));
    return c.type(0);
}

Result<Type> infer_dropout(const Call& c) {
    if (!(c.real("p") >= 0 && c.real("p") <= 1)) return c.error(fmt::format("p must be in 0 to 1: got {}", c.real("p")));
    return infer_bernoulli(c);
}

Tensor eval_random_bits(const Call& c, std::span<const Tensor* const> operands) {
    Tensor y = Tensor::zeros(DType::u32, c.out->shape());
    const std::array<uint32_t, 2> key = {static_cast<uint32_t>(operands[0]->integer[0]),
                                         static_cast<uint32_t>(operands[0]->integer[1])};
    const auto counter = static_cast<uint32_t>(operands[1]->integer[0]), stream = static_cast<uint32_t>(stream_of(c));
    for (int64_t i = 0; i < y.count(); ++i) {
        const auto block = static_cast<uint64_t>(i / 4);
        const auto words = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream, counter}, key);
        y.integer[i] = words[static_cast<size_t>(i % 4)];
    }
    return y;
}

Expr emit_random_bits(const Call& c, kir::Builder& k, std::span<const Expr> out, const Fetch& fetch) {
    Expr element = k.u32(0);
    for (size_t i = 0; i < out.size(); ++i) element = element * static_cast<uint32_t>(c.out->dims[i].value()) + out[i];
    // A tensor has fewer than 2^32 elements, so the high word of the block number is 0.
    std::array<Expr, 4> x = {element / 4, k.u32(0), k.u32(static_cast<uint32_t>(stream_of(c))), fetch(1, {})};
    const Expr first = k.u32(0), second = k.u32(1);
    std::array<Expr, 2> key = {fetch(0, {&first, 1}), fetch(0, {&second, 1})};
    const Expr m0 = k.u32(philox_multiplier_0), m1 = k.u32(philox_multiplier_1);
    for (int round = 0; round < philox_rounds; ++round) {
        x = {k.mul_high(m1, x[2]) ^ x[1] ^ key[0], m1 * x[2], k.mul_high(m0, x[0]) ^ x[3] ^ key[1], m0 * x[0]};
        key = {key[0] + philox_key_step_0, key[1] + philox_key_step_1};
    }
    const Expr lane = element % 4;
    return k.select(lane < 2, k.select(lane == 0, x[0], x[1]), k.select(lane == 2, x[2], x[3]));
}

// Of the key and counter that are the last two operands.
Value bits(const BuildCall& c, Dims shape) {
    const size_t key = c.operand_count() - 2;
    return c.builder->call("random_bits", {c.operand(key), c.operand(key + 1)},
                           {{"shape", std::move(shape)}, {"stream", stream_of(c)}});
}

// 24 bits, the width of f32's significand, as a number in [0, 2^24): exact.
Value top_bits(Value words) { return cast(div(words, splat(words, 256)), DType::f32); }

Value expand_uniform(const BuildCall& c) {
    const double low = c.real("low"), range = c.real("high") - low;
    Value u = top_bits(bits(c, c.dims("shape"))) * 0x1p-24;
    if (range != 1) u = u * range;
    return low == 0 ? u : u + low;
}

// Box-Muller: elements 2j and 2j+1 are sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v) with u and v from words 2j and
// 2j+1. The sine is the cosine a quarter turn earlier; whole turns are taken off first, where that is exact.
Value expand_normal(const BuildCall& c) {
    const Dims& shape = c.dims("shape");
    std::vector<size_t> all(shape.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const auto count = concrete_count(c, shape, all);
    if (!count) return {};
    const int64_t pairs = *count / 2 + *count % 2;
    const Dims pair_shape = {pairs, 2};
    const Value words = top_bits(bits(c, pair_shape));
    const auto word = [&](int64_t which) { return reshape(slice(words, {0, which}, {pairs, which + 1}), {pairs}); };
    const Value u = (word(0) + 1.0) * 0x1p-24;  // in (0, 1]: its logarithm is finite
    const Value radius = sqrt(log(u) * -2.0);
    const Value turn = broadcast(word(1) * 0x1p-24, pair_shape, {0}) - c.builder->iota(f32(pair_shape), 1) * 0.25;
    const Value angle = (turn - floor(turn + 0.5)) * 6.283185307179586477;
    Value z = reshape(mul(broadcast(radius, pair_shape, {0}), cos(angle)), {pairs * 2});
    if (*count % 2 != 0) z = slice(z, {0}, {*count});
    z = reshape(z, shape);
    if (c.real("stddev") != 1) z = z * c.real("stddev");
    return c.real("mean") == 0 ? z : z + c.real("mean");
}

// Uniform numbers in [0, 1) of the first operand's shape.
Value chances(const BuildCall& c) { return top_bits(bits(c, c.type(0).dims)) * 0x1p-24; }

Value expand_bernoulli(const BuildCall& c) { return cast(lt(chances(c), narrow(c.operand(0), DType::f32)), c.out->dtype); }

// The gradient passes where the element did: the same bits decide.
Value expand_dropout(const BuildCall& c) {
    const double p = c.real("p");
    const Value x = widen(c.operand(0)), u = chances(c);
    if (p == 1) return splat(c.operand(0), 0);
    return narrow(select(ge(u, splat(u, p)), x * (1 / (1 - p)), splat(x, 0)), c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "random_bits",
     .doc = "y = random 32-bit words: element i is word i mod 4 of Philox4x32-10 at counter (lo(i/4), hi(i/4), stream, counter) "
            "under key.",
     .operands = key_counter,
     .attrs = bits_attrs,
     .infer = infer_random<DType::u32>,
     .ref = TensorRef{eval_random_bits},
     .batch = Batch::shift_axes,
     .lower = IndexLower{emit_random_bits, true},
     .has_side_stream = true},
    {.name = "uniform",
     .doc = "y = low + (high - low) * u with u = the top 24 bits of random_bits * 2^-24, in [0, 1).",
     .operands = key_counter,
     .attrs = uniform_attrs,
     .infer = infer_random<DType::f32>,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_uniform},
     .has_side_stream = true},
    {.name = "normal",
     .doc = "y = mean + stddev * z with normal z by Box-Muller on pairs of random_bits.",
     .operands = key_counter,
     .attrs = normal_attrs,
     .infer = infer_random<DType::f32>,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_normal},
     .has_side_stream = true},
    {.name = "bernoulli",
     .doc = "y = 1 with probability p, else 0, element by element.",
     .operands = p_key_counter,
     .attrs = bernoulli_attrs,
     .infer = infer_bernoulli,
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_bernoulli},
     .has_side_stream = true},
    {.name = "dropout",
     .doc = "y = 0 with probability p, else x / (1 - p), element by element.",
     .operands = x_key_counter,
     .attrs = dropout_attrs,
     .infer = infer_dropout,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_dropout},
     .has_side_stream = true},
};

}  // namespace

std::span<const OpDef> random_ops() { return defs; }

}  // namespace darner
