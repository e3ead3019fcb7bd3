// SPDX-License-Identifier: MIT
// The one place where a long row of workgroups folds into a grid that the device takes (65,535 a dimension on many). The
// folded grid may hold a few workgroups too many; kernels compare their linear id with the true count.
#pragma once

#include "darner/kir/builder.h"
#include "darner/program/caps.h"

#include <array>
#include <optional>

namespace darner::kernels {

struct Grid {
    std::array<uint32_t, 3> groups = {1, 1, 1};
    uint32_t used = 1;  // linear ids below this are real
    bool exact() const { return uint64_t{groups[0]} * groups[1] * groups[2] == used; }
};

// Near-square in x and y when one dimension is not enough; nothing when even three dimensions are not.
std::optional<Grid> fold(uint64_t workgroups, const Caps& caps);

// The linear workgroup id in a folded grid (may be >= used when the fold is not exact).
kir::Expr linear_workgroup(kir::Builder& b, const Grid& grid);

// Runs body under `id < limit`, without the test when the bounds decide it.
void when_below(kir::Builder& b, kir::Expr id, uint32_t limit, const std::function<void()>& body);

// A loop over [first, end) in steps of one that takes at most `most` rounds (0: any number): longer ones do several steps a
// round. See Caps::max_loop_rounds.
kir::Builder::Values long_loop(kir::Builder& b, uint32_t first, uint32_t end, uint32_t most, kir::Builder::Values init,
                               const std::function<kir::Builder::Values(kir::Expr, const kir::Builder::Values&)>& body);

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
uint32_t power_of_two_at_least(uint32_t v);

// Row-major position of an index and back.
kir::Expr linearize(kir::Builder& b, std::span<const kir::Expr> index, std::span<const int64_t> dims);
std::vector<kir::Expr> delinearize(kir::Builder& b, kir::Expr linear, std::span<const int64_t> dims);

}  // namespace darner::kernels
