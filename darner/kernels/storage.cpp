// SPDX-License-Identifier: MIT
#include "darner/kernels/storage.h"

#include "darner/base/check.h"

namespace darner::kernels {

using kir::Builder;
using kir::Expr;
using kir::Scalar;

Scalar register_scalar(Storage s) {
    switch (s) {
        case Storage::f32:
        case Storage::f16:
        case Storage::bf16: return Scalar::f32;
        case Storage::i8:
        case Storage::i32: return Scalar::i32;
        case Storage::u8:
        case Storage::u32: return Scalar::u32;
        case Storage::boolean: return Scalar::boolean;
    }
    return Scalar::f32;
}

Scalar word_scalar(Storage s) { return byte_size(s) == 4 ? register_scalar(s) : Scalar::u32; }

Expr load_element(Builder& b, kir::BindingRef binding, Storage s, Expr index) {
    if (byte_size(s) == 4) return b.load(binding, index);
    const uint32_t count = per_word(s);
    const Expr word = b.load(binding, index / count);
    const Expr part = index % count;
    switch (s) {
        case Storage::f16: {
            const Expr both = b.unpack_half2(word);
            return b.select(part == 0, b.extract(both, 0), b.extract(both, 1));
        }
        case Storage::bf16: return b.bitcast((word >> (part * 16)) << 16, Scalar::f32);
        case Storage::u8: return b.assume_max((word >> (part * 8)) & 0xff, 0xff);
        // Shifting left and then right arithmetically extends the sign.
        case Storage::i8: return b.bitcast(word << (24 - part * 8), Scalar::i32) >> 24;
        case Storage::boolean: return ((word >> (part * 8)) & 0xff) != 0;
        default: CHECK(false, "not a packed dtype"); return {};
    }
}

namespace {

// Round to nearest even on the bits; a NaN keeps a quiet bit so that it does not round to infinity.
Expr bf16_bits(Builder& b, Expr value) {
    const Expr bits = b.bitcast(value, Scalar::u32);
    const Expr rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Expr is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return b.select(is_nan, (bits >> 16) | 0x40, rounded);
}

Expr packed_bits(Builder& b, Storage s, Expr value) {
    switch (s) {
        case Storage::bf16: return bf16_bits(b, value);
        case Storage::u8: return value & 0xff;
        case Storage::i8: return b.bitcast(value, Scalar::u32) & 0xff;
        case Storage::boolean: return b.select(value, b.u32(1), b.u32(0));
        default: CHECK(false, "not a packed dtype"); return {};
    }
}

}  // namespace

void store_elements(Builder& b, kir::BindingRef binding, Storage s, Expr first, std::span<const Expr> values) {
    CHECK(values.size() == per_word(s), "a store fills whole words");
    if (byte_size(s) == 4) return b.store(binding, first, values[0]);
    const Expr word_index = first / per_word(s);
    if (s == Storage::f16) return b.store(binding, word_index, b.pack_half2(values[0], values[1]));
    const uint32_t bits = 8 * byte_size(s);
    Expr word = packed_bits(b, s, values[0]);
    for (uint32_t i = 1; i < values.size(); ++i) word = word | (packed_bits(b, s, values[i]) << (bits * i));
    b.store(binding, word_index, word);
}

}  // namespace darner::kernels
