// SPDX-License-Identifier: MIT
// Host tensors, rounding to the float dtypes, wrap-around and saturation of the integer ones, and the packed device form.
#include "darner/graph/tensor.h"

#include "darner/base/bytes.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace darner {

namespace {

// A binary float format: bits of the significand (with the hidden one), exponent of the smallest normal, largest value.
struct FloatFormat {
    int precision, min_exponent, mantissa_bits, exponent_bits;
    double largest;
};
constexpr FloatFormat f32_format = {24, -126, 23, 8, 0x1.fffffep127};
constexpr FloatFormat f16_format = {11, -14, 10, 5, 0x1.ffcp15};
constexpr FloatFormat bf16_format = {8, -126, 7, 8, 0x1.fep127};

const FloatFormat& format_of(DType dtype) {
    switch (dtype) {
        case DType::f16: return f16_format;
        case DType::bf16: return bf16_format;
        default: return f32_format;
    }
}

// The value is scaled so that the format's last place is 1; then rounding to an integer, ties to even, is exact, and both
// scalings are exact too. Below the normal range the last place stays that of the smallest normal.
double round_to_format(const FloatFormat& format, double value) {
    if (value == 0 || !std::isfinite(value)) return value;
    const int last_place = std::max(std::ilogb(value), format.min_exponent) - (format.precision - 1);
    const double rounded = std::scalbn(std::nearbyint(std::scalbn(value, -last_place)), last_place);
    if (std::abs(rounded) > format.largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
    return rounded;
}

// Bits of a value that the format holds exactly. NaN becomes the quiet NaN without payload.
uint16_t encode(const FloatFormat& format, double value) {
    const uint32_t sign = std::signbit(value) ? 0x8000u : 0;
    const uint32_t exponent_mask = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    if (std::isnan(value)) return static_cast<uint16_t>(exponent_mask | (1u << (format.mantissa_bits - 1)));
    if (std::isinf(value)) return static_cast<uint16_t>(sign | exponent_mask);
    if (value == 0) return static_cast<uint16_t>(sign);
    // In units of the last place a normal number is 2^mantissa_bits or more, which adds 1 to the exponent field by itself.
    const int exponent = std::max(std::ilogb(value), format.min_exponent);
    const auto significand = static_cast<uint32_t>(std::abs(std::scalbn(value, format.mantissa_bits - exponent)));
    const auto field = static_cast<uint32_t>(exponent - format.min_exponent);
    return static_cast<uint16_t>(sign | ((field << format.mantissa_bits) + significand));
}

double decode(const FloatFormat& format, uint16_t bits) {
    const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
    const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
    double value;
    if (exponent == (1 << format.exponent_bits) - 1) {
        value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    } else {
        const int hidden = exponent ? 1 << format.mantissa_bits : 0;
        value = std::scalbn(mantissa + hidden, std::max(exponent, 1) - 1 + format.min_exponent - format.mantissa_bits);
    }
    return bits & 0x8000 ? -value : value;
}

template <class T>
int64_t saturate(double value) {
    // The upper bound plus one is a power of two, so exact in double even for int64.
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (std::isnan(value)) return 0;
    if (value >= end) return std::numeric_limits<T>::max();
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<int64_t>(value);
}

int64_t product(std::span<const int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims) {
        CHECK(dim >= 0 && !__builtin_mul_overflow(count, dim, &count), "dims of a tensor");
    }
    return count;
}

}  // namespace

double round_to(DType dtype, double value) {
    return is_float(dtype) && dtype != DType::f64 ? round_to_format(format_of(dtype), value) : value;
}

int64_t wrap_to(DType dtype, int64_t value) {
    switch (dtype) {
        case DType::i8: return static_cast<int8_t>(value);
        case DType::u8: return static_cast<uint8_t>(value);
        case DType::i32: return static_cast<int32_t>(value);
        case DType::u32: return static_cast<uint32_t>(value);
        case DType::boolean: return value != 0;
        default: return value;
    }
}

int64_t saturate_to(DType dtype, double value) {
    switch (dtype) {
        case DType::i8: return saturate<int8_t>(value);
        case DType::u8: return saturate<uint8_t>(value);
        case DType::i32: return saturate<int32_t>(value);
        case DType::u32: return saturate<uint32_t>(value);
        case DType::boolean: return value != 0;
        default: return saturate<int64_t>(value);
    }
}

Tensor Tensor::zeros(DType dtype, std::vector<int64_t> dims) {
    Tensor tensor;
    tensor.dtype = dtype;
    const auto count = static_cast<size_t>(product(dims));
    tensor.dims = std::move(dims);
    if (is_float(dtype)) {
        tensor.real.resize(count);
    } else {
        tensor.integer.resize(count);
    }
    return tensor;
}

Tensor Tensor::scalar(DType dtype, double value) {
    Tensor tensor = zeros(dtype, {});
    tensor.set(0, value);
    return tensor;
}

Tensor Tensor::of(DType dtype, std::vector<int64_t> dims, std::vector<double> values) {
    Tensor tensor = zeros(dtype, std::move(dims));
    CHECK(static_cast<size_t>(tensor.count()) == values.size(),
          fmt::format("{} values for {}", values.size(), to_string(tensor.type())));
    if (is_float(dtype)) {
        tensor.real = std::move(values);
    } else {
        for (size_t i = 0; i < values.size(); ++i) tensor.integer[i] = saturate_to(dtype, values[i]);
    }
    return tensor;
}

Type Tensor::type() const { return {dtype, Dims(dims.begin(), dims.end())}; }

void Tensor::set(int64_t i, double v) {
    if (is_float(dtype)) {
        real[static_cast<size_t>(i)] = v;
    } else {
        integer[static_cast<size_t>(i)] = saturate_to(dtype, v);
    }
}

std::vector<std::byte> Tensor::bytes() const {
    std::vector<std::byte> out;
    out.reserve(static_cast<size_t>(count()) * byte_size(dtype));
    switch (dtype) {
        case DType::f64:
            for (double v : real) append_le(out, std::bit_cast<uint64_t>(v));
            break;
        case DType::f32:
            for (double v : real) append_le(out, std::bit_cast<uint32_t>(static_cast<float>(v)));
            break;
        case DType::f16:
        case DType::bf16:
            for (double v : real) append_le(out, encode(format_of(dtype), round_to(dtype, v)));
            break;
        case DType::i64:
            for (int64_t v : integer) append_le(out, v);
            break;
        case DType::i32:
        case DType::u32:
            for (int64_t v : integer) append_le(out, static_cast<uint32_t>(v));
            break;
        case DType::boolean:
            for (int64_t v : integer) append_le(out, static_cast<uint8_t>(v != 0));
            break;
        case DType::i8:
        case DType::u8:
            for (int64_t v : integer) append_le(out, static_cast<uint8_t>(v));
            break;
    }
    return out;
}

Result<Tensor> Tensor::from_bytes(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes) {
    TRY(check_type(Type{dtype, Dims(dims.begin(), dims.end())}));
    const int64_t count = product(dims);
    const size_t width = byte_size(dtype);
    if (bytes.size() != static_cast<size_t>(count) * width) {
        const Type type{dtype, Dims(dims.begin(), dims.end())};
        return invalid(fmt::format("wrong size of {}: got {} bytes, expected {}", to_string(type), bytes.size(),
                                   static_cast<size_t>(count) * width));
    }
    Tensor tensor = zeros(dtype, std::move(dims));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const std::byte* at = bytes.data() + i * width;
        switch (dtype) {
            case DType::f64: tensor.real[i] = std::bit_cast<double>(load_le<uint64_t>(at)); break;
            case DType::f32: tensor.real[i] = std::bit_cast<float>(load_le<uint32_t>(at)); break;
            case DType::f16:
            case DType::bf16: tensor.real[i] = decode(format_of(dtype), load_le<uint16_t>(at)); break;
            case DType::i64: tensor.integer[i] = load_le<int64_t>(at); break;
            case DType::i32: tensor.integer[i] = load_le<int32_t>(at); break;
            case DType::u32: tensor.integer[i] = load_le<uint32_t>(at); break;
            case DType::i8: tensor.integer[i] = load_le<int8_t>(at); break;
            case DType::u8: tensor.integer[i] = load_le<uint8_t>(at); break;
            case DType::boolean: tensor.integer[i] = load_le<uint8_t>(at) != 0; break;
        }
    }
    return tensor;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
    return strides;
}

bool next_index(std::span<const int64_t> dims, std::vector<int64_t>& index) {
    for (size_t axis = dims.size(); axis-- > 0;) {
        if (++index[axis] < dims[axis]) return true;
        index[axis] = 0;
    }
    return false;
}

}  // namespace darner
