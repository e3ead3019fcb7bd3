// SPDX-License-Identifier: MIT
// What the inference functions of the op families share: which dtypes an op takes, equality of dims, axes, checked sizes.
// Every message says which op, which operand, what was found and what is expected. Nothing here may overflow or abort,
// whatever the attributes hold: they come from files.
#pragma once

#include "darner/graph/op_def.h"

#include <string>
#include <vector>

namespace darner::infer {

// The largest extent or offset that an attribute may state: sizes and their products then stay inside 64 bits.
inline constexpr int64_t max_extent = (int64_t{1} << 31) - 1;

enum class Accept : uint8_t { floats, integers, numbers, index, boolean, any };

Result<void> dtype(const Call& c, size_t operand, Accept accept);
std::string operand_name(const Call& c, size_t operand);
// "x f32[2,3]": for messages.
std::string describe(const Call& c, size_t operand);

// Equal dims; dims that differ only by symbols are an error that suggests `assume`.
Result<void> equal_dims(const Call& c, const Dims& got, const Dims& expected, const std::string& what);
Result<void> equal_dim(const Call& c, const Dim& got, const Dim& expected, const std::string& what);
Result<void> equal_dtypes(const Call& c, size_t a, size_t b);

// Operand's shape becomes `dims` by NumPy's rule.
Result<void> broadcasts(const Call& c, size_t operand, const Dims& dims);

// All operands have one type, which is the result's.
Result<Type> same_type(const Call& c, Accept accept);
template <Accept accept>
Result<Type> same_type(const Call& c) {
    return same_type(c, accept);
}

// No dim of a shape attribute is negative or above max_extent.
Result<void> shape(const Call& c, const Dims& dims);
Result<size_t> axis(const Call& c, int64_t axis, size_t rank);
// Normalised, in the order given; one that is out of range or named twice is an error.
Result<std::vector<size_t>> axes(const Call& c, const std::vector<int64_t>& axes, size_t rank);
// One entry an axis, from `low` to max_extent; empty means "the default on every axis" and passes.
Result<void> per_axis(const Call& c, std::string_view attr, size_t rank, int64_t low);
// The dims left over by a reduction of operand 0 with the attribute `keep`; an empty axis is an error unless it may be.
Result<Dims> reduced_dims(const Call& c, const std::vector<size_t>& axes, bool may_be_empty);
// Product of the dims; an overflow of concrete dims is an error.
Result<Dim> elements(const Call& c, const Dims& dims);

}  // namespace darner::infer

namespace darner {

// The axes a reduction works over, ascending; inference has checked them. Reads `axes` (empty: all) or `axis`.
std::vector<size_t> reduced_axes(const Call& c);
// The axes of 0 .. rank-1 that are not in `axes`.
std::vector<size_t> other_axes(size_t rank, const std::vector<size_t>& axes);
std::vector<int64_t> to_integers(const std::vector<size_t>& axes);

}  // namespace darner
