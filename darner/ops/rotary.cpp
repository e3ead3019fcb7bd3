// SPDX-License-Identifier: MIT
// Rotary position embedding: pairs of features are turned by angles that grow with the position.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace darner {
namespace {

constexpr OperandDef operands[] = {{"x"}, {"position", true}};
constexpr AttrDef attrs[] = {
    {"theta", AttrKind::real, "10000", "pair j of n turns by theta^(-j/n) a position"},
    {"layout", AttrKind::choice, "halves", "which features pair up: j with n + j, or 2 j with 2 j + 1", "halves|interleaved"},
    {"dims", AttrKind::integer, "none", "how many features, from the first, are turned; left out: all"},
    {"offset", AttrKind::integer, "0", "added to all positions"}};

constexpr int64_t end = std::numeric_limits<int64_t>::max();  // of an axis, to slice()

Result<Type> infer_rotary(const Call& c) {
    TRY(infer::dtype(c, 0, infer::Accept::floats));
    const Dims& x = c.type(0).dims;
    if (x.size() < 2) return c.error(fmt::format("{} needs the axes [.., length, features]", infer::describe(c, 0)));
    if (!x.back().is_constant()) return c.error(fmt::format("the features of {} must be known", infer::describe(c, 0)));
    const int64_t features = x.back().value(), dims = c.given("dims") ? c.integer("dims") : features;
    if (dims < 0 || dims > features || dims % 2 != 0)
        return c.error(fmt::format("the features that are turned must be an even number, at most {}: got {}", features, dims));
    if (!(c.real("theta") > 0) || std::isinf(c.real("theta")))
        return c.error(fmt::format("theta must be positive: got {}", c.real("theta")));
    if (std::abs(c.integer("offset")) > infer::max_extent)
        return c.error(fmt::format("offset out of range: got {}", c.integer("offset")));
    if (!c.has(1)) return c.type(0);
    TRY(infer::dtype(c, 1, infer::Accept::index));
    const Dims& position = c.type(1).dims;
    if (position.size() > 2)
        return c.error(fmt::format("{} must be a scalar, [batch] or [batch, length]", infer::describe(c, 1)));
    if (position.empty()) return c.type(0);
    if (x.size() < 3) return c.error(fmt::format("{} has no batch axis for {}", infer::describe(c, 0), infer::describe(c, 1)));
    Dims expected = {x[0]};
    if (position.size() == 2) expected = {position[0] == Dim(1) ? Dim(1) : x[0], x[x.size() - 2]};
    TRY(infer::equal_dims(c, position, expected, "shape of position"));
    return c.type(0);
}

// The position of each element, f32 and broadcastable to [.., length, 1].
Value positions(const BuildCall& c) {
    const Dims& x = c.type(0).dims;
    const Dim length = x[x.size() - 2];
    const Value given = c.operand(1);
    Value at;
    Dims shape(x.size(), Dim(1));
    shape[x.size() - 2] = length;
    if (given.valid()) at = cast(given, DType::i32);
    if (given.valid() && given.rank() > 0) {
        Dims own(x.size(), Dim(1));
        own[0] = given.dims()[0];
        if (given.rank() == 2) own[x.size() - 2] = length;
        at = reshape(at, own);
    }
    if (!given.valid() || given.rank() < 2) {
        const Value steps = c.builder->iota(i32(shape), static_cast<int64_t>(x.size()) - 2);
        at = at.valid() ? add(at, steps) : steps;
    }
    return cast(at, DType::f32) + static_cast<double>(c.integer("offset"));
}

Value expand_rotary(const BuildCall& c) {
    const Value x = widen(c.operand(0));
    const size_t rank = x.rank();
    const int64_t features = x.dims().back().value(), dims = c.given("dims") ? c.integer("dims") : features, pairs = dims / 2;
    if (pairs == 0) return c.operand(0);
    Tensor frequencies = Tensor::zeros(DType::f32, {pairs});
    for (int64_t i = 0; i < pairs; ++i)
        frequencies.real[static_cast<size_t>(i)] =
            std::pow(c.real("theta"), -static_cast<double>(i) / static_cast<double>(pairs));
    const Value angle = mul(positions(c), c.builder->constant(f32({pairs}), std::move(frequencies)));
    const auto part = [&](Value of, int64_t from, int64_t to) {
        std::vector<int64_t> start(of.rank(), 0), stop(of.rank(), end);
        start.back() = from;
        stop.back() = to;
        return slice(of, start, stop);
    };
    const bool interleaved = c.choice("layout") == "interleaved";
    Dims paired(x.dims().begin(), x.dims().end() - 1), turned_dims = paired;
    paired.insert(paired.end(), {Dim(pairs), Dim(2)});
    turned_dims.push_back(dims);
    Dims half_dims = turned_dims;
    half_dims.back() = pairs;
    const Value both = interleaved ? reshape(part(x, 0, dims), paired) : Value{};
    const Value first = interleaved ? reshape(part(both, 0, 1), half_dims) : part(x, 0, pairs);
    const Value second = interleaved ? reshape(part(both, 1, 2), half_dims) : part(x, pairs, dims);
    const Value cosine = c.builder->broadcast_to(cos(angle), half_dims), sine = c.builder->broadcast_to(sin(angle), half_dims);
    const std::array<Value, 2> turned = {sub(mul(first, cosine), mul(second, sine)), add(mul(second, cosine), mul(first, sine))};
    const auto last = static_cast<int64_t>(rank) - 1;
    Value y = interleaved ? reshape(stack(turned, last + 1), turned_dims) : concat(turned, last);
    if (dims < features) {
        const std::array<Value, 2> all = {y, part(x, dims, features)};
        y = concat(all, last);
    }
    return narrow(y, c.out->dtype);
}

constexpr OpDef defs[] = {
    {.name = "rotary",
     .doc =
         "y = x [.., length, features] with each pair of features (a, b) turned to (a cos - b sin, b cos + a sin) of the angle "
         "position * theta^(-j/n). Position i stands at i; with the operand position at position + i (a scalar, or one for each "
         "of the batch, axis 0), or where position [batch, length] says.",
     .operands = operands,
     .attrs = attrs,
     .infer = infer_rotary,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_rotary},
     .onnx = "RotaryEmbedding"},
};

}  // namespace

std::span<const OpDef> rotary_ops() { return defs; }

}  // namespace darner
