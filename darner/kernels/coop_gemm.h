// SPDX-License-Identifier: MIT
// C[m, n] f32 = A[m, k] B[k, n] of f16 or bf16 on cooperative matrices: operands staged in workgroup memory with the next step's
// loads in flight in registers, accumulators in a private array. Any m, n and k: where rows are not multiples of eight elements
// the loads go element by element with bounds, and tiles that reach past the edge are stored through workgroup memory.
// It stands alone so far: the contract archetype does not choose it yet.
#pragma once

#include "darner/base/result.h"
#include "darner/kernels/grid.h"

namespace darner::kernels {

struct CoopGemmSpec {
    uint32_t m = 1, n = 1, k = 1;
    kir::Scalar input = kir::Scalar::f16;
    uint32_t tile_m = 128, tile_n = 128, tile_k = 32;
    uint32_t subgroups_m = 2, subgroups_n = 4;  // of a workgroup
    uint32_t group_rows = 8;                    // tile rows that run side by side, for reuse in the cache
    bool prefetch = true;                       // next step's loads before this step's products
};

// Declares bindings a, b (read) and c (write), in this order. The subgroup size is the device's.
Result<Grid> build_coop_gemm(kir::Builder& b, const CoopGemmSpec& spec, const Caps& caps);

}  // namespace darner::kernels
