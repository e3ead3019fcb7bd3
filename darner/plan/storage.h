// SPDX-License-Identifier: MIT
// From graph dtypes to how kernels hold them.
#pragma once

#include "darner/graph/type.h"
#include "darner/kernels/storage.h"

#include <optional>

namespace darner::plan {

// Nothing for dtypes that only the reference evaluator has (f64, i64).
inline std::optional<kernels::Storage> storage_of(DType dtype) {
    switch (dtype) {
        case DType::f32: return kernels::Storage::f32;
        case DType::f16: return kernels::Storage::f16;
        case DType::bf16: return kernels::Storage::bf16;
        case DType::i8: return kernels::Storage::i8;
        case DType::u8: return kernels::Storage::u8;
        case DType::i32: return kernels::Storage::i32;
        case DType::u32: return kernels::Storage::u32;
        case DType::boolean: return kernels::Storage::boolean;
        default: return std::nullopt;
    }
}

// The 32-bit form of the same register type: what kernels that do not own whole words write to scratch.
inline kernels::Storage widened(kernels::Storage s) {
    switch (kernels::register_scalar(s)) {
        case kir::Scalar::f32: return kernels::Storage::f32;
        case kir::Scalar::i32: return kernels::Storage::i32;
        default: return kernels::Storage::u32;  // u8; bool as 0 and 1
    }
}

}  // namespace darner::plan
