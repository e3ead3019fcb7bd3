// SPDX-License-Identifier: MIT
// How dtypes lie in bindings. 32-bit dtypes are bound as themselves; smaller ones are packed into u32 words, read by word and
// shifted out. A packed word is written whole, by one invocation.
#pragma once

#include "darner/kir/builder.h"

#include <span>

namespace darner::kernels {

enum class Storage : uint8_t { f32, f16, bf16, i8, u8, i32, u32, boolean };

constexpr uint32_t byte_size(Storage s) {
    switch (s) {
        case Storage::f32:
        case Storage::i32:
        case Storage::u32: return 4;
        case Storage::f16:
        case Storage::bf16: return 2;
        default: return 1;
    }
}
constexpr uint32_t per_word(Storage s) { return 4 / byte_size(s); }

kir::Scalar register_scalar(Storage s);  // what a loaded element is: f32, i32, u32 or boolean
kir::Scalar word_scalar(Storage s);      // what the binding holds

// The element at an index, in its register type.
kir::Expr load_element(kir::Builder& b, kir::BindingRef binding, Storage s, kir::Expr index);

// Stores elements [first, first + values.size()): as many as fill whole words (1 for 32-bit dtypes). `first` is a multiple of
// that.
void store_elements(kir::Builder& b, kir::BindingRef binding, Storage s, kir::Expr first, std::span<const kir::Expr> values);

}  // namespace darner::kernels
