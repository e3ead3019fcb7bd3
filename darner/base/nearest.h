// SPDX-License-Identifier: MIT
// "Did you mean": the known name nearest to one that is not known, for error messages.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

// Insertions, deletions, replacements and swaps of neighbours that turn one name into the other; letter case is free.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `wanted`, the first among equals; empty when none is near enough to be a slip (about one change
// in three letters).
std::string_view nearest_name(std::string_view wanted, std::span<const std::string_view> candidates);

// `did you mean "softmax"?`, or an empty string: what goes into Error::hint. Takes any range of strings.
std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> candidates);

template <class Names>
std::string did_you_mean(std::string_view wanted, const Names& names) {
    std::vector<std::string_view> views(std::begin(names), std::end(names));
    return did_you_mean(wanted, std::span<const std::string_view>(views));
}

}  // namespace darner
