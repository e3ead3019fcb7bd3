// SPDX-License-Identifier: MIT
// DType, Dim and Type: what an edge of the graph carries. A Dim is an integer polynomial of named symbols; a constant costs
// one word. Programs are planned for concrete dims; symbols are bound before (bind_symbols).
#pragma once

#include "darner/base/result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

enum class DType : uint8_t { f32, f16, bf16, f64, i8, u8, i32, u32, i64, boolean };
inline constexpr int dtype_count = 10;

const char* to_string(DType dtype);  // "f32", ..., "bool"
std::optional<DType> parse_dtype(std::string_view text);
uint32_t byte_size(DType dtype);  // of one packed element
constexpr bool is_float(DType d) { return d <= DType::f64; }
constexpr bool is_integer(DType d) { return d >= DType::i8 && d <= DType::i64; }
constexpr bool is_signed_integer(DType d) { return d == DType::i8 || d == DType::i32 || d == DType::i64; }

// Values of the symbols in dims.
using SymbolBindings = std::map<std::string, int64_t, std::less<>>;

// A sum of terms, each a coefficient times a product of symbols. Arithmetic is exact. Where 64 bits do not hold a result the
// dim has overflowed: it stays so through all arithmetic, equals nothing, and no type may have it (check_type).
class Dim {
public:
    Dim(int64_t constant = 0) : constant_(constant) {}
    static Dim symbol(std::string_view name);

    bool is_constant() const { return terms_ == nullptr && !overflowed_; }
    bool overflowed() const { return overflowed_; }
    int64_t value() const;  // CHECKs is_constant()
    Dim operator+(const Dim& other) const;
    Dim operator-(const Dim& other) const;
    Dim operator*(const Dim& other) const;
    // The quotient where the division leaves no remainder for every value of the symbols, else nothing.
    std::optional<Dim> exact_div(const Dim& divisor) const;
    // Equal as polynomials. Two dims that differ as polynomials may still agree for some binding: that is "undecided", and an
    // error that suggests `assume` where equality is needed.
    bool operator==(const Dim& other) const;
    Result<int64_t> bind(const SymbolBindings& bindings) const;
    std::string text() const;  // "784", "2*n+1"

private:
    using Terms = std::map<std::vector<std::string>, int64_t>;  // sorted symbols (with repeats) -> coefficient
    static Dim from_terms(Terms terms);
    static Dim overflow();
    static bool add_term(Terms& terms, const Terms::key_type& key, int64_t coefficient);  // false on overflow
    Terms terms() const;
    int64_t constant_ = 0;
    bool overflowed_ = false;
    std::shared_ptr<const Terms> terms_;  // null: constant_ is all
};
Result<Dim> parse_dim(std::string_view text);  // "784", "2*n+1"

using Dims = std::vector<Dim>;
Result<Dims> parse_dims(std::string_view text);  // "[64,n]"

struct Type {
    DType dtype = DType::f32;
    Dims dims;

    size_t rank() const { return dims.size(); }
    Dim elements() const;  // product of the dims
    bool is_concrete() const;
    std::vector<int64_t> shape() const;  // concrete dims
    int64_t count() const;               // concrete number of elements
    Type with(DType d) const { return {d, dims}; }
    Type with(Dims d) const { return {dtype, std::move(d)}; }
    bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);  // "f32[64,784]"
std::string to_string(const Dims& dims);  // "[64,784]"

// What a type must fulfil: no constant dim below 0, no dim that overflowed, and at most 2^31-1 elements (counting empty
// dims as 1, so that strides fit as well). Dims with symbols are checked when they are bound.
Result<void> check_type(const Type& type);
Result<void> check_dims(const Dims& dims);
inline constexpr int64_t max_elements = (int64_t{1} << 31) - 1;

inline Type f32(Dims dims = {}) { return {DType::f32, std::move(dims)}; }
inline Type f16(Dims dims = {}) { return {DType::f16, std::move(dims)}; }
inline Type bf16(Dims dims = {}) { return {DType::bf16, std::move(dims)}; }
inline Type f64(Dims dims = {}) { return {DType::f64, std::move(dims)}; }
inline Type i8(Dims dims = {}) { return {DType::i8, std::move(dims)}; }
inline Type u8(Dims dims = {}) { return {DType::u8, std::move(dims)}; }
inline Type i32(Dims dims = {}) { return {DType::i32, std::move(dims)}; }
inline Type u32(Dims dims = {}) { return {DType::u32, std::move(dims)}; }
inline Type i64(Dims dims = {}) { return {DType::i64, std::move(dims)}; }
inline Type boolean(Dims dims = {}) { return {DType::boolean, std::move(dims)}; }

// An axis attribute counted from the end when negative; nothing when out of range.
std::optional<size_t> normalize_axis(int64_t axis, size_t rank);

}  // namespace darner
