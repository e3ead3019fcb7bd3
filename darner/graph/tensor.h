// SPDX-License-Identifier: MIT
// Tensor: host values of the reference evaluator and of constants. Floats of any width are held in double, integers and bools
// in int64 (u32 as its value); bytes are the packed device form. Elements are dense and row-major.
#pragma once

#include "darner/graph/type.h"

#include <cstddef>

namespace darner {

struct Tensor {
    DType dtype = DType::f32;
    std::vector<int64_t> dims;
    std::vector<double> real;      // used when is_float(dtype)
    std::vector<int64_t> integer;  // else

    static Tensor zeros(DType dtype, std::vector<int64_t> dims);
    static Tensor scalar(DType dtype, double value);
    static Tensor of(DType dtype, std::vector<int64_t> dims, std::vector<double> values);
    static Result<Tensor> from_bytes(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes);

    int64_t count() const { return is_float(dtype) ? static_cast<int64_t>(real.size()) : static_cast<int64_t>(integer.size()); }
    Type type() const;
    double at(int64_t i) const { return is_float(dtype) ? real[i] : static_cast<double>(integer[i]); }
    void set(int64_t i, double v);         // rounds nothing; integers truncate
    std::vector<std::byte> bytes() const;  // rounded to the dtype
    bool operator==(const Tensor&) const = default;
};

double round_to(DType dtype, double value);      // to the nearest value of a float dtype, ties to even
int64_t wrap_to(DType dtype, int64_t value);     // to an integer dtype, wrap-around; bool: value != 0
int64_t saturate_to(DType dtype, double value);  // float -> integer: truncates and saturates, NaN gives 0

// Row-major strides, and the walk over all indices of a shape.
std::vector<int64_t> row_major_strides(std::span<const int64_t> dims);
bool next_index(std::span<const int64_t> dims, std::vector<int64_t>& index);  // false after the last

}  // namespace darner
