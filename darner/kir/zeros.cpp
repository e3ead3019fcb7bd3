// SPDX-License-Identifier: MIT
#include "darner/kir/zeros.h"

#include <algorithm>

namespace darner::kir {
namespace {

// What is known of a value when the elements are zero. `unknown` may be infinite or NaN because of them (1/0, log 0), `free` only
// where a free operand makes it so: zero times `free` is zero.
enum class Known : uint8_t { zero, free, unknown };

class Analysis {
public:
    Analysis(const Kernel& kernel, const std::vector<bool>& zero)
        : kernel_(kernel), zero_(zero), known_(kernel.instructions.size(), Known::unknown) {}

    bool keeps(BlockId id) {
        for (const ValueId v : kernel_.block(id).instructions) {
            const Instruction& i = kernel_.at(v);
            switch (i.op) {
                case Opcode::store:
                    if (known(v, 1) != Known::zero) return false;
                    break;
                case Opcode::branch:
                    for (uint32_t b = 0; b < i.block_count; ++b)
                        if (!keeps(BlockId(i.first_block.value + b))) return false;
                    break;
                case Opcode::loop:
                case Opcode::barrier:
                case Opcode::array_store:
                case Opcode::atomic:
                case Opcode::coop_store: return false;
                default: known_[v.value] = value_of(v, i);
            }
        }
        return true;
    }

private:
    Known known(ValueId v, size_t operand) const { return known_[kernel_.operand(v, operand).value]; }

    Known all_of(ValueId v, size_t first = 0) const {
        Known all = Known::zero;
        for (size_t o = first; o < kernel_.at(v).operand_count; ++o) all = std::max(all, known(v, o));
        return all;
    }

    static bool is_zero(const Instruction& constant) {
        return constant.aux == 0 || (constant.type.scalar == Scalar::f32 && constant.aux == 0x80000000u);
    }

    static Known product(Known a, Known b) {
        if (a == Known::unknown || b == Known::unknown) return Known::unknown;
        return a == Known::zero || b == Known::zero ? Known::zero : Known::free;
    }

    Known value_of(ValueId v, const Instruction& i) const {
        switch (i.op) {
            case Opcode::constant: return is_zero(i) ? Known::zero : Known::free;
            case Opcode::param: return Known::free;
            case Opcode::load: return zero_[i.aux] ? Known::zero : Known::free;
            case Opcode::mul: return product(known(v, 0), known(v, 1));
            case Opcode::fma: return std::max(product(known(v, 0), known(v, 1)), known(v, 2));
            case Opcode::div:
                // A quotient of free values is free: the divisor is not zero because of the elements.
                return known(v, 1) == Known::free ? known(v, 0) : Known::unknown;
            case Opcode::select: return all_of(v, 1);
            case Opcode::eq:
            case Opcode::ne:
            case Opcode::lt:
            case Opcode::le:
            case Opcode::gt:
            case Opcode::ge: return Known::free;
            case Opcode::add:
            case Opcode::sub:
            case Opcode::min:
            case Opcode::max:
            case Opcode::neg:
            case Opcode::abs:
            case Opcode::bit_and:
            case Opcode::bit_or:
            case Opcode::bit_xor:
            case Opcode::convert:
            case Opcode::bitcast:
            case Opcode::floor:
            case Opcode::ceil:
            case Opcode::trunc:
            case Opcode::round_even:
            case Opcode::sqrt:
            case Opcode::sin:
            case Opcode::tanh:
            case Opcode::make_vector:
            case Opcode::extract: return all_of(v);
            case Opcode::exp:
            case Opcode::exp2:
            case Opcode::cos: return std::max(all_of(v), Known::free);
            // Of zero these are not finite.
            case Opcode::rsqrt:
            case Opcode::log:
            case Opcode::log2: return known(v, 0) == Known::free ? Known::free : Known::unknown;
            // The exponent may be zero, and then the power is one.
            case Opcode::pow: return all_of(v) == Known::unknown ? Known::unknown : Known::free;
            default: return is_id(i.op) ? Known::free : Known::unknown;
        }
    }

    const Kernel& kernel_;
    const std::vector<bool>& zero_;
    std::vector<Known> known_;
};

}  // namespace

bool keeps_zeros(const Kernel& kernel, const std::vector<bool>& zero) {
    return kernel.blocks.empty() || Analysis(kernel, zero).keeps(BlockId(0u));
}

}  // namespace darner::kir
