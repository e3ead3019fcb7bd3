// SPDX-License-Identifier: MIT
// The contract archetype: C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n], with operands fetched through index
// maps and an epilogue in the store. Scalar forms, chosen by caps and shape:
//   tiled     operands staged in workgroup memory, a register tile per invocation: for GPUs;
//   register  no workgroup memory and no barriers, a larger register tile: for drivers where barriers are dear;
//   direct    the same with one column of few rows: where there are too few rows to share what would be staged (depthwise
//             convolutions) and neighbouring columns are neighbours in memory.
// Each output's products are added in ascending k, so both forms and all tile sizes give equal bits where fma does.
#pragma once

#include "darner/kernels/grid.h"

namespace darner::kernels {

struct ContractSpec {
    uint32_t batch = 1, m = 1, n = 1, k = 1;
    uint32_t k_inner = 0;                   // the innermost axis of k, where k has several: loops run over it apart; 0: one axis
    bool a_k_contiguous = true;             // neighbouring k of A are neighbours in memory (else neighbouring m)
    bool b_n_contiguous = true;             // neighbouring n of B are (else neighbouring k)
    kir::Scalar scalar = kir::Scalar::f32;  // of operands and sum
    std::function<kir::Expr(kir::Builder&, kir::Expr batch, kir::Expr m, kir::Expr k)> load_a;
    std::function<kir::Expr(kir::Builder&, kir::Expr batch, kir::Expr k, kir::Expr n)> load_b;
    std::function<void(kir::Builder&, kir::Expr batch, kir::Expr m, kir::Expr n, kir::Expr sum)> store;
};

struct ContractShape {
    bool tiled = true;
    uint32_t threads_m = 16, threads_n = 16;  // invocations of a workgroup
    uint32_t rows = 4, cols = 4;              // outputs an invocation
    uint32_t depth = 16;                      // k staged a step (tiled)
    uint32_t max_rounds = 0;                  // of the loop over k; 0: any
    Grid grid;
    uint32_t tile_m() const { return threads_m * rows; }
    uint32_t tile_n() const { return threads_n * cols; }
};

// Nothing when no grid covers the output or the device cannot loop over so long a k.
std::optional<ContractShape> contract_shape(const ContractSpec& spec, const Caps& caps);

// Into how many pieces k is best cut, with the sums of each added in order afterwards: where a long k has few outputs, which do
// not fill the device, and where k is longer than the device loops. 1: as it is.
uint64_t contract_pieces(uint64_t batch, uint64_t m, uint64_t n, uint64_t k, const Caps& caps);

void build_contract(kir::Builder& b, const ContractSpec& spec, const ContractShape& shape);

}  // namespace darner::kernels
