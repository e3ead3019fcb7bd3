// SPDX-License-Identifier: MIT
// Optimal string alignment distance (Levenshtein with swaps of neighbours), three rows at a time.
#include "darner/base/nearest.h"

#include <algorithm>
#include <utility>

namespace darner {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// How far apart two names may be and still be a slip. By the shorter one, so that "x" does not suggest "exp" and a very
// long input costs nothing.
size_t tolerance(std::string_view a, std::string_view b) { return (std::min(a.size(), b.size()) + 1) / 3; }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        std::swap(before_last, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

std::string_view nearest_name(std::string_view wanted, std::span<const std::string_view> candidates) {
    std::string_view best;
    size_t best_distance = 0;
    for (std::string_view candidate : candidates) {
        const size_t allowed = tolerance(wanted, candidate);
        const size_t longer = std::max(wanted.size(), candidate.size()), shorter = std::min(wanted.size(), candidate.size());
        if (longer - shorter > allowed) continue;
        const size_t distance = edit_distance(wanted, candidate);
        if (distance > allowed || (!best.empty() && distance >= best_distance)) continue;
        best = candidate;
        best_distance = distance;
    }
    return best;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> candidates) {
    const std::string_view name = nearest_name(wanted, candidates);
    return name.empty() ? std::string() : "did you mean \"" + std::string(name) + "\"?";
}

}  // namespace darner
