// SPDX-License-Identifier: MIT
// Building blocks of gradient rules and expansions; see compose.h.
#include "darner/ops/compose.h"

#include <fmt/format.h>

#include <numeric>

namespace darner {

Value splat(Value like, double value) { return like.valid() ? like.builder->constant(like.type(), value) : Value{}; }

Value spread(Value reduced, const Dims& dims, const std::vector<size_t>& axes, bool keep) {
    if (axes.empty()) return reduced;
    std::vector<size_t> kept = other_axes(dims.size(), axes);
    if (keep) {
        kept.resize(dims.size());
        std::iota(kept.begin(), kept.end(), size_t{0});
    }
    return broadcast(reduced, dims, to_integers(kept));
}

Value sum_spread(Value x, size_t axis) { return spread(sum(x, {static_cast<int64_t>(axis)}), x.dims(), {axis}, false); }
Value max_spread(Value x, size_t axis) { return spread(max(x, {static_cast<int64_t>(axis)}), x.dims(), {axis}, false); }

Value widen(Value x) { return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? cast(x, DType::f32) : x; }
Value narrow(Value x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Moments moments(Value x, const std::vector<size_t>& axes, int64_t count) {
    const auto integers = to_integers(axes);
    const auto total = [&](Value v) { return sum(v, integers); };
    const auto spread_out = [&](Value v) { return spread(v, x.dims(), axes, false); };
    const auto n = static_cast<double>(count);
    const Value near = sub(x, spread_out(total(x) / n)), left = total(near), rest = left / n;
    const Value squares = sub(total(mul(near, near)), mul(left, rest));
    return {sub(near, spread_out(rest)), maximum(squares, splat(squares, 0))};
}

Value clamp_indices(Value indices, int64_t size) {
    if (size == 0) return indices;
    const Value most = minimum(indices, splat(indices, static_cast<double>(size - 1)));
    return most.dtype() == DType::i32 ? maximum(most, splat(most, 0)) : most;
}

std::optional<int64_t> concrete_count(const BuildCall& c, const Dims& dims, const std::vector<size_t>& axes) {
    int64_t count = 1;
    for (const size_t a : axes) {
        if (!dims[a].is_constant()) {
            Error error =
                unsupported(c.error(fmt::format("the extent {} must be known: got {}", dims[a].text(), to_string(dims))).message);
            error.hint = "bind the symbols first";
            c.builder->fail(std::move(error));
            return std::nullopt;
        }
        if (__builtin_mul_overflow(count, dims[a].value(), &count)) {
            c.builder->fail(c.error(fmt::format("too many elements in {}", to_string(dims))));
            return std::nullopt;
        }
    }
    return count;
}

}  // namespace darner
