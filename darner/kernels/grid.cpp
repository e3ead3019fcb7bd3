// SPDX-License-Identifier: MIT
#include "darner/kernels/grid.h"

#include <cmath>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;

std::optional<Grid> fold(uint64_t workgroups, const Caps& caps) {
    if (workgroups == 0) workgroups = 1;
    if (workgroups > 0xffffffffull) return std::nullopt;
    const uint64_t limit_x = caps.max_groups[0], limit_y = caps.max_groups[1], limit_z = caps.max_groups[2];
    Grid grid;
    grid.used = static_cast<uint32_t>(workgroups);
    if (workgroups <= limit_x) {
        grid.groups = {grid.used, 1, 1};
        return grid;
    }
    uint64_t x = static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(workgroups))));
    if (x > limit_x) x = limit_x;
    uint64_t y = ceil_div(workgroups, x), z = 1;
    if (y > limit_y) {
        z = ceil_div(y, limit_y);
        y = ceil_div(y, z);
    }
    if (z > limit_z) return std::nullopt;
    grid.groups = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
    return grid;
}

Expr linear_workgroup(Builder& b, const Grid& grid) {
    Expr id = b.assume_max(b.workgroup_id(0), grid.groups[0] - 1);
    if (grid.groups[1] > 1 || grid.groups[2] > 1) id = id + b.assume_max(b.workgroup_id(1), grid.groups[1] - 1) * grid.groups[0];
    if (grid.groups[2] > 1) id = id + b.assume_max(b.workgroup_id(2), grid.groups[2] - 1) * (grid.groups[0] * grid.groups[1]);
    return id;
}

void when_below(Builder& b, Expr id, uint32_t limit, const std::function<void()>& body) {
    if (b.max_of(id) < limit) return body();
    b.when(id < limit, body);
}

Builder::Values long_loop(Builder& b, uint32_t first, uint32_t end, uint32_t most, Builder::Values init,
                          const std::function<Builder::Values(Expr, const Builder::Values&)>& body) {
    if (most == 0 || end <= first || end - first <= most)
        return b.loop(b.u32(first), b.u32(end), b.u32(1), std::move(init), body);
    const uint32_t steps = static_cast<uint32_t>(ceil_div(end - first, most)), rounds = (end - first) / steps;
    Builder::Values values =
        b.loop(b.u32(0), b.u32(rounds), b.u32(1), std::move(init), [&](Expr round, const Builder::Values& carried) {
            Builder::Values next = carried;
            for (uint32_t s = 0; s < steps; ++s) next = body(b.assume_max(round * steps + (first + s), end - 1), next);
            return next;
        });
    for (uint32_t i = first + rounds * steps; i < end; ++i) values = body(b.u32(i), values);
    return values;
}

uint32_t power_of_two_at_least(uint32_t v) {
    uint32_t p = 1;
    while (p < v) p *= 2;
    return p;
}

Expr linearize(Builder& b, std::span<const Expr> index, std::span<const int64_t> dims) {
    if (index.empty()) return b.u32(0);
    Expr linear = index[0];
    for (size_t i = 1; i < index.size(); ++i) linear = linear * static_cast<uint32_t>(dims[i]) + index[i];
    return linear;
}

std::vector<Expr> delinearize(Builder&, Expr linear, std::span<const int64_t> dims) {
    // From the last axis, dividing what is left each time: the form that the builder simplifies best.
    std::vector<Expr> index(dims.size());
    Expr rest = linear;
    for (size_t i = dims.size(); i-- > 0;) {
        const uint32_t extent = static_cast<uint32_t>(dims[i] > 0 ? dims[i] : 1);
        if (i == 0) {
            index[i] = rest;
        } else {
            index[i] = rest % extent;
            rest = rest / extent;
        }
    }
    return index;
}

}  // namespace darner::kernels
