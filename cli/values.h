// SPDX-License-Identifier: MIT
// Values that go in and out of graphs: .npy files matched to types, generated fillings, file names, and the short form in
// which values are shown.
#pragma once

#include "darner/graph/type.h"
#include "darner/io/array.h"

#include <optional>
#include <string>
#include <string_view>

namespace darner::cli {

// How --fill makes values. Random: standard normal floats; 0 or 1 for integers and bools. The values of a leaf depend on the
// seed, its name and its type alone.
struct Fill {
    enum class Kind { random, zeros, ones };
    Kind kind = Kind::zeros;
    uint64_t seed = 0;
};
Result<Fill> parse_fill(std::string_view text);  // "random:SEED", "random", "zeros", "ones"
Result<Array> fill(const Fill& how, std::string_view name, const Type& type);

// The file's array as a value of `type`. Types must be equal, but for bf16, which .npy lacks: it is read from f32 values
// that bf16 holds exactly.
Result<Array> read_value(const std::string& path, std::string_view name, const Type& type);

// bf16 goes out as f32, which holds it exactly.
Result<void> write_value(const std::string& path, const Array& value);

// "NAME.npy", with every byte that is no letter, digit, '_', '-' or inner '.' as %XX: distinct names give distinct files, none
// outside the folder.
std::string file_name(std::string_view name);

struct Summary {
    std::vector<double> first;  // at most 6
    int64_t count = 0, not_finite = 0;
    double min = 0, max = 0, mean = 0;  // over the finite ones; NaN where there are none
};
Result<Summary> summarize(const Array& value);
// "0.25 -1 3.5" or "0.25 -1 … (min -1, max 4, mean 0.2)".
std::string to_text(const Summary& summary);

}  // namespace darner::cli
