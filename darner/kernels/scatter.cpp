// SPDX-License-Identifier: MIT
#include "darner/kernels/scatter.h"

#include <algorithm>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;

Result<Grid> build_scatter(Builder& b, const ScatterSpec& spec, const Caps& caps) {
    const uint32_t count = spec.outer * spec.size * spec.inner;
    if (caps.max_loop_rounds != 0 && spec.indices / caps.max_loop_rounds > 256)
        return limit_error("[scatter_add] more indices than the device's loops take: " + std::to_string(spec.indices));
    const uint32_t size = std::min(caps.max_invocations, 64u);
    const auto grid = fold(ceil_div(count, size), caps);
    if (!grid) return limit_error("[scatter_add] more workgroups than the device takes: " + std::to_string(count) + " elements");
    b.workgroup_size(size);
    const Expr id = linear_workgroup(b, *grid) * size + b.local_id(0);
    when_below(b, id, count, [&] {
        const Expr linear = b.assume_max(id, count - 1);
        const Expr inner = linear % spec.inner;
        const Expr place = linear / spec.inner % spec.size;
        const Expr outer = linear / (spec.inner * spec.size);
        const Expr zero = b.constant({spec.scalar}, 0);
        const auto sum =
            long_loop(b, 0, spec.indices, caps.max_loop_rounds, {zero}, [&](Expr which, const Builder::Values& carried) {
                const Expr index = spec.index(b, which);
                const Expr mine = b.bitcast(index, kir::Scalar::u32) == place;
                return b.branch(
                    mine, [&] { return Builder::Values{carried[0] + spec.update(b, outer, which, inner)}; },
                    [&] { return Builder::Values{carried[0]}; });
            });
        spec.store(b, linear, sum[0]);
    });
    return *grid;
}

}  // namespace darner::kernels
