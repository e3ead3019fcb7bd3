// SPDX-License-Identifier: MIT
// Shared checks of type inference; see infer.h.
#include "darner/ops/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner::infer {
namespace {

bool accepts(Accept accept, DType d) {
    switch (accept) {
        case Accept::floats: return is_float(d);
        case Accept::integers: return is_integer(d);
        case Accept::numbers: return is_float(d) || is_integer(d);
        case Accept::index: return d == DType::i32 || d == DType::u32;
        case Accept::boolean: return d == DType::boolean;
        case Accept::any: return true;
    }
    return false;
}

const char* describe(Accept accept) {
    switch (accept) {
        case Accept::floats: return "a float dtype (f32, f16, bf16 or f64)";
        case Accept::integers: return "an integer dtype";
        case Accept::numbers: return "a number (any dtype but bool)";
        case Accept::index: return "i32 or u32";
        case Accept::boolean: return "bool";
        case Accept::any: return "any dtype";
    }
    return "";
}

Error with_assume_hint(Error error, const Dim& a, const Dim& b) {
    if (!a.is_constant() || !b.is_constant())
        error.hint =
            fmt::format("whether {} equals {} depends on the symbols: bind them, or state it with assume", a.text(), b.text());
    return error;
}

}  // namespace

std::string operand_name(const Call& c, size_t operand) {
    const auto defs = c.op->operands;
    if (operand < defs.size() && !defs[operand].variadic) return std::string(defs[operand].name);
    const size_t first = defs.size() - 1;
    return fmt::format("{}[{}]", defs[first].name, operand - first);
}

std::string describe(const Call& c, size_t operand) { return operand_name(c, operand) + " " + to_string(c.type(operand)); }

Result<void> dtype(const Call& c, size_t operand, Accept accept) {
    if (accepts(accept, c.type(operand).dtype)) return {};
    return c.error(fmt::format("wrong dtype of {}: got {}, expected {}", operand_name(c, operand), to_string(c.type(operand)),
                               describe(accept)));
}

Result<void> equal_dim(const Call& c, const Dim& got, const Dim& expected, const std::string& what) {
    if (got == expected) return {};
    return with_assume_hint(c.error(fmt::format("{}: got {}, expected {}", what, got.text(), expected.text())), got, expected);
}

Result<void> equal_dims(const Call& c, const Dims& got, const Dims& expected, const std::string& what) {
    const auto mismatch = [&] {
        return c.error(fmt::format("{}: got {}, expected {}", what, to_string(got), to_string(expected)));
    };
    if (got.size() != expected.size()) return mismatch();
    for (size_t i = 0; i < got.size(); ++i)
        if (!(got[i] == expected[i])) return with_assume_hint(mismatch(), got[i], expected[i]);
    return {};
}

Result<void> equal_dtypes(const Call& c, size_t a, size_t b) {
    if (c.type(a).dtype == c.type(b).dtype) return {};
    return c.error(fmt::format("dtypes of {} and {} differ: got {} and {}, expected one dtype (cast one of them)",
                               operand_name(c, a), operand_name(c, b), to_string(c.type(a).dtype), to_string(c.type(b).dtype)));
}

Result<void> broadcasts(const Call& c, size_t operand, const Dims& dims) {
    const Dims& own = c.type(operand).dims;
    bool fits = own.size() <= dims.size();
    for (size_t i = 0; fits && i < own.size(); ++i) fits = own[i] == Dim(1) || own[i] == dims[dims.size() - own.size() + i];
    if (fits) return {};
    return c.error(fmt::format("{} does not broadcast to {}", describe(c, operand), to_string(dims)));
}

Result<Type> same_type(const Call& c, Accept accept) {
    for (size_t i = 0; i < c.operand_count(); ++i) {
        TRY(dtype(c, i, accept));
        TRY(equal_dtypes(c, 0, i));
        TRY(equal_dims(c, c.type(i).dims, c.type(0).dims, "shape of " + operand_name(c, i)));
    }
    return c.type(0);
}

Result<void> shape(const Call& c, const Dims& dims) {
    for (const Dim& d : dims)
        if (d.is_constant() && (d.value() < 0 || d.value() > max_extent))
            return c.error(fmt::format("a dim of shape={} is out of range: got {}, expected 0 to {}", to_string(dims), d.value(),
                                       max_extent));
    return {};
}

Result<size_t> axis(const Call& c, int64_t axis, size_t rank) {
    if (const auto normal = normalize_axis(axis, rank)) return *normal;
    if (rank == 0) return c.error(fmt::format("axis {} is out of range: a scalar has no axes", axis));
    return c.error(fmt::format("axis out of range: got {}, expected {} to {} for rank {}", axis, -static_cast<int64_t>(rank),
                               rank - 1, rank));
}

Result<std::vector<size_t>> axes(const Call& c, const std::vector<int64_t>& axes, size_t rank) {
    std::vector<size_t> result;
    std::vector<bool> seen(rank, false);
    for (const int64_t a : axes) {
        TRY(const size_t normal, axis(c, a, rank));
        if (seen[normal]) return c.error(fmt::format("axis {} is named twice", normal));
        seen[normal] = true;
        result.push_back(normal);
    }
    return result;
}

Result<void> per_axis(const Call& c, std::string_view attr, size_t rank, int64_t low) {
    const auto& values = c.integers(attr);
    if (values.empty()) return {};
    if (values.size() != rank)
        return c.error(fmt::format("{} needs one entry an axis: got {}, expected {}", attr, values.size(), rank));
    for (const int64_t v : values)
        if (v < low || v > max_extent)
            return c.error(fmt::format("entry of {} out of range: got {}, expected {} to {}", attr, v, low, max_extent));
    return {};
}

Result<Dim> elements(const Call& c, const Dims& dims) {
    int64_t constant = 1;
    Dim symbolic = 1;
    for (const Dim& d : dims) {
        if (!d.is_constant())
            symbolic = symbolic * d;
        else if (__builtin_mul_overflow(constant, d.value(), &constant))
            return c.error(fmt::format("too many elements: the product of {} does not fit in 64 bits", to_string(dims)));
    }
    return symbolic * Dim(constant);
}

Result<Dims> reduced_dims(const Call& c, const std::vector<size_t>& axes, bool may_be_empty) {
    const Dims& from = c.type(0).dims;
    Dims dims;
    for (size_t i = 0; i < from.size(); ++i) {
        const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
        if (reduced && !may_be_empty && from[i] == Dim(0))
            return c.error(fmt::format("nothing to reduce: axis {} of {} is empty", i, describe(c, 0)));
        if (!reduced)
            dims.push_back(from[i]);
        else if (c.boolean("keep"))
            dims.push_back(1);
    }
    return dims;
}

}  // namespace darner::infer

namespace darner {

std::vector<size_t> reduced_axes(const Call& c) {
    const size_t rank = c.type(0).rank();
    if (c.op->find_attr("axis")) return {c.axis("axis", rank)};
    std::vector<size_t> axes;
    for (const int64_t a : c.integers("axes")) axes.push_back(*normalize_axis(a, rank));
    if (axes.empty()) {
        axes.resize(rank);
        std::iota(axes.begin(), axes.end(), size_t{0});
    }
    std::sort(axes.begin(), axes.end());
    return axes;
}

std::vector<size_t> other_axes(size_t rank, const std::vector<size_t>& axes) {
    std::vector<size_t> others;
    for (size_t i = 0; i < rank; ++i)
        if (std::find(axes.begin(), axes.end(), i) == axes.end()) others.push_back(i);
    return others;
}

std::vector<int64_t> to_integers(const std::vector<size_t>& axes) { return {axes.begin(), axes.end()}; }

}  // namespace darner
