// SPDX-License-Identifier: MIT
// How commands show the values that a node was computed from, as text and as JSON.
#pragma once

#include "cli/command.h"
#include "darner/runtime/node_values.h"

#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>

namespace darner::cli {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinities: they are strings.
inline Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

inline void print_ranges(const std::vector<ValueRange>& operands) {
    for (const ValueRange& range : operands) fmt::print("    {}\n", printable(to_text(range)));
}

inline Json ranges(const std::vector<ValueRange>& operands) {
    Json out = Json::array();
    for (const ValueRange& range : operands)
        out.push_back({{"operand", range.what},
                       {"min", number(range.min)},
                       {"max", number(range.max)},
                       {"count", range.count},
                       {"nans", range.nans},
                       {"infinities", range.infinities}});
    return out;
}

}  // namespace darner::cli
