// SPDX-License-Identifier: MIT
// The two kernels whose emitted text is kept as golden files.
#pragma once

#include "darner/kir/builder.h"

namespace darner {

// y = a x + y with a guard.
inline kir::Kernel golden_axpy() {
    kir::Builder k("axpy");
    k.workgroup_size(64);
    const auto x = k.binding("x", kir::Scalar::f32, 1, kir::Access::read, 1000),
               y = k.binding("y", kir::Scalar::f32, 1, kir::Access::inout, 1000);
    const kir::Expr i = k.workgroup_id(0) * 64 + k.local_id(0), a = k.convert(k.param("a"), kir::Scalar::f32);
    k.when(i < 1000, [&] { k.store(y, i, k.fma(a, k.load(x, i), k.load(y, i))); });
    return k.finish();
}

// One sum per workgroup: a loop with a carried value, workgroup memory, a barrier, a conversion that saturates.
inline kir::Kernel golden_row_sum() {
    kir::Builder k("row_sum");
    k.workgroup_size(32);
    const auto x = k.binding("x", kir::Scalar::f32, 4, kir::Access::read, 4096),
               sums = k.binding("sums", kir::Scalar::i32, 1, kir::Access::write, 16);
    const auto partial = k.workgroup_array("partial", kir::f32_type, 32);
    const kir::Expr row = k.workgroup_id(0), lane = k.local_id(0);
    const auto sum = k.loop(k.u32(0), k.u32(8), k.u32(1), {k.f32(0)}, [&](kir::Expr step, const kir::Builder::Values& carried) {
        const kir::Expr v = k.load(x, row * 256 + step * 32 + lane);
        return kir::Builder::Values{carried[0] + k.extract(v, 0) + k.extract(v, 1) + k.extract(v, 2) + k.extract(v, 3)};
    });
    k.store(partial, lane, sum[0]);
    k.barrier();
    k.when(lane == 0, [&] {
        const auto total = k.loop(k.u32(1), k.u32(32), k.u32(1), {sum[0]}, [&](kir::Expr i, const kir::Builder::Values& carried) {
            return kir::Builder::Values{carried[0] + k.load(partial, i)};
        });
        k.store(sums, row, k.convert(total[0], kir::Scalar::i32));
    });
    return k.finish();
}

}  // namespace darner
