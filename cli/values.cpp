// SPDX-License-Identifier: MIT
#include "cli/values.h"

#include "darner/base/hash.h"
#include "darner/graph/tensor.h"
#include "darner/io/npy.h"

#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

namespace darner::cli {
namespace {

// std::normal_distribution differs between standard libraries; mt19937_64 does not.
class Normal {
public:
    explicit Normal(uint64_t seed) : bits_(seed) {}
    double next() {
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        const double radius = std::sqrt(-2 * std::log(1 - unit()));  // 1 - unit() is never 0
        const double angle = 2 * std::numbers::pi * unit();
        spare_ = radius * std::sin(angle);
        has_spare_ = true;
        return radius * std::cos(angle);
    }
    bool coin() { return (bits_() >> 63) != 0; }

private:
    double unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
    std::mt19937_64 bits_;
    double spare_ = 0;
    bool has_spare_ = false;
};

Result<Tensor> to_tensor(const Array& value) {
    const std::optional<DType> dtype = parse_dtype(value.dtype);
    CHECK(dtype.has_value(), "an array of dtype " + value.dtype);
    return Tensor::from_bytes(*dtype, value.dims, value.data);
}

Array to_array(const Tensor& tensor) { return {to_string(tensor.dtype), tensor.dims, tensor.bytes()}; }

}  // namespace

Result<Fill> parse_fill(std::string_view text) {
    if (text == "zeros") return Fill{Fill::Kind::zeros, 0};
    if (text == "ones") return Fill{Fill::Kind::ones, 0};
    Fill random{Fill::Kind::random, 0};
    if (text == "random") return random;
    if (text.starts_with("random:")) {
        const std::string_view seed = text.substr(7);
        const auto [stop, code] = std::from_chars(seed.data(), seed.data() + seed.size(), random.seed);
        if (code == std::errc() && stop == seed.data() + seed.size()) return random;
    }
    return invalid(fmt::format("[--fill] expected random:SEED, zeros or ones, got \"{}\"", text));
}

Result<Array> fill(const Fill& how, std::string_view name, const Type& type) {
    Tensor tensor = Tensor::zeros(type.dtype, type.shape());
    const int64_t count = tensor.count();
    if (how.kind == Fill::Kind::ones)
        for (int64_t i = 0; i < count; ++i) tensor.set(i, 1);
    if (how.kind == Fill::Kind::random) {
        Hasher key;
        key.add(how.seed);
        key.add(name);
        Normal random(key.value());
        for (int64_t i = 0; i < count; ++i) tensor.set(i, is_float(type.dtype) ? random.next() : random.coin());
    }
    return to_array(tensor);
}

Result<Array> read_value(const std::string& path, std::string_view name, const Type& type) {
    TRY(Array array, read_npy(path));
    if (type.dtype == DType::bf16 && array.dtype == "f32") {
        TRY(Tensor tensor, to_tensor(array));
        for (const double value : tensor.real)
            if (!std::isnan(value) && round_to(DType::bf16, value) != value)
                return invalid(fmt::format("\"{}\" is {}, and the file holds {}, which bf16 cannot hold exactly", name,
                                           to_string(type), value),
                               path);
        tensor.dtype = DType::bf16;
        array = to_array(tensor);
    }
    if (array.dtype == to_string(type.dtype) && array.dims == type.shape()) return array;
    return invalid(fmt::format("\"{}\" has the wrong type: got {}, expected {}", name, type_text(array), to_string(type)), path);
}

Result<void> write_value(const std::string& path, const Array& value) {
    if (value.dtype != "bf16") return write_npy(path, value);
    TRY(Tensor tensor, to_tensor(value));
    tensor.dtype = DType::f32;
    return write_npy(path, to_array(tensor));
}

std::string file_name(std::string_view name) {
    std::string out;
    for (const char c : name) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const bool plain = letter || c == '_' || c == '-' || (c == '.' && !out.empty());
        if (plain)
            out += c;
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out + ".npy";
}

Result<Summary> summarize(const Array& value) {
    TRY(const Tensor tensor, to_tensor(value));
    Summary summary;
    summary.count = tensor.count();
    int64_t finite = 0;
    double sum = 0;
    for (int64_t i = 0; i < summary.count; ++i) {
        const double v = tensor.at(i);
        if (summary.first.size() < 6) summary.first.push_back(v);
        if (!std::isfinite(v)) continue;
        summary.min = finite == 0 ? v : std::min(summary.min, v);
        summary.max = finite == 0 ? v : std::max(summary.max, v);
        sum += v;
        ++finite;
    }
    summary.not_finite = summary.count - finite;
    summary.mean = sum / static_cast<double>(finite);
    if (finite == 0) summary.min = summary.max = summary.mean = std::numeric_limits<double>::quiet_NaN();
    return summary;
}

std::string to_text(const Summary& summary) {
    if (summary.count == 0) return "no elements";
    std::string out;
    for (const double v : summary.first) out += fmt::format("{}{:.6g}", out.empty() ? "" : " ", v);
    if (summary.count <= static_cast<int64_t>(summary.first.size())) return out;
    if (summary.not_finite == summary.count) return out + " … (none is finite)";
    out += fmt::format(" … (min {:.6g}, max {:.6g}, mean {:.6g}", summary.min, summary.max, summary.mean);
    if (summary.not_finite > 0) out += fmt::format(", {} not finite", summary.not_finite);
    return out + ")";
}

}  // namespace darner::cli
