// SPDX-License-Identifier: MIT
// The checking interpreter: loads, stores and atomics, with bounds, initialisation and race checks.
#include "darner/kir/interpreter.h"

#include "darner/kir/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace darner::kir {

namespace {

uint32_t read_scalar(const std::byte* at, uint32_t size) {
    if (size == 2) {
        uint16_t half;
        std::memcpy(&half, at, 2);
        return half;
    }
    uint32_t word;
    std::memcpy(&word, at, 4);
    return word;
}

void write_scalar(std::byte* at, uint32_t size, uint32_t value) {
    if (size == 2) {
        auto half = static_cast<uint16_t>(value);
        std::memcpy(at, &half, 2);
    } else {
        std::memcpy(at, &value, 4);
    }
}

// The halves of a shadow word that an access covers.
uint8_t half_mask(uint64_t byte, uint32_t size, uint32_t word_shift) {
    return word_shift == 2 && size == 2 ? (byte % 4 ? 2 : 1) : 3;
}

}  // namespace

bool Interpreter::check_read(ValueId v, Memory& memory, Access access, uint32_t lane) {
    uint64_t first = memory.shadow_offset + access.byte;
    for (uint64_t at = first; at < first + access.size; at += uint64_t{1} << memory.word_shift) {
        uint64_t word = at >> memory.word_shift;
        if (!memory.initialised) {
            uint8_t needed = half_mask(at, access.size, memory.word_shift);
            if ((memory.shadow->halves(word) & needed) != needed)
                return fail(v, lane,
                            fmt::format("uninitialised read: {} {}, scalar {}", memory.kind, memory.name,
                                        (at - memory.shadow_offset) / byte_size(memory.scalar)));
        }
        if (!memory.tracked) continue;
        Shadow::Conflict conflict = memory.shadow->on_read(word, moment_, access.who);
        if (conflict != Shadow::Conflict::none) return fail_conflict(v, lane, memory, at - memory.shadow_offset, conflict);
    }
    return true;
}

bool Interpreter::check_write(ValueId v, Memory& memory, Access access, uint32_t lane) {
    uint64_t first = memory.shadow_offset + access.byte;
    for (uint64_t at = first; at < first + access.size; at += uint64_t{1} << memory.word_shift) {
        uint64_t word = at >> memory.word_shift;
        Shadow::Conflict conflict = memory.shadow->on_write(word, moment_, access.who);
        if (conflict != Shadow::Conflict::none) return fail_conflict(v, lane, memory, at - memory.shadow_offset, conflict);
        memory.shadow->set_halves(word, half_mask(at, access.size, memory.word_shift));
    }
    return true;
}

// The frequent case of run_load(), of 32-bit scalars.
template <uint32_t components>
bool Interpreter::run_word_load(ValueId v, Memory& memory, const Active& active) {
    const uint32_t* index = in(v, 0);
    uint32_t* to = out(v);
    const uint64_t limit = memory.bytes / (4 * components), first_word = memory.shadow_offset / 4;
    const bool tracked = memory.tracked, initialised = memory.initialised;
    const uint32_t lanes = lanes_;
    const std::byte* data = memory.data;
    const Shadow::Moment moment = moment_;
    Shadow& shadow = *memory.shadow;
    for (uint32_t lane : active.lanes) {
        uint64_t at = index[lane];
        if (at >= limit) [[unlikely]]
            return fail_bounds(v, lane, memory, at, components);
        at *= components;
        for (uint32_t c = 0; c < components; ++c) {
            uint64_t word = first_word + at + c;
            if (!initialised && shadow.halves(word) != 3) [[unlikely]]
                return check_read(v, memory, {(at + c) * 4, 4, static_cast<uint16_t>(lane)}, lane);
            if (tracked)
                if (auto conflict = shadow.on_read(word, moment, static_cast<uint16_t>(lane)); conflict != Shadow::Conflict::none)
                    [[unlikely]]
                    return fail_conflict(v, lane, memory, (at + c) * 4, conflict);
            std::memcpy(&to[c * lanes + lane], data + (at + c) * 4, 4);
        }
    }
    return true;
}

bool Interpreter::run_load(ValueId v, Memory& memory, const Active& active) {
    uint32_t components = kernel_.at(v).type.lanes, size = byte_size(memory.scalar), bytes = components * size;
    const uint32_t* index = in(v, 0);
    uint32_t* to = out(v);
    uint64_t limit = memory.bytes / bytes;
    bool checked = memory.tracked || !memory.initialised;
    memory.loads += uint64_t{components} * active.lanes.size();
    if (size == 4) {
        if (components == 1) return run_word_load<1>(v, memory, active);
        return components == 2 ? run_word_load<2>(v, memory, active) : run_word_load<4>(v, memory, active);
    }
    for (uint32_t lane : active.lanes) {
        if (index[lane] >= limit) return fail_bounds(v, lane, memory, index[lane], components);
        uint64_t byte = uint64_t{index[lane]} * bytes;
        if (checked && !check_read(v, memory, {byte, bytes, static_cast<uint16_t>(lane)}, lane)) return false;
        for (uint32_t c = 0; c < components; ++c) to[c * lanes_ + lane] = read_scalar(memory.data + byte + c * size, size);
    }
    return true;
}

bool Interpreter::run_store(ValueId v, Memory& memory, const Active& active) {
    uint32_t components = memory.lanes, size = byte_size(memory.scalar), bytes = components * size;
    const uint32_t *index = in(v, 0), *value = in(v, 1);
    uint64_t limit = memory.bytes / bytes;
    memory.stores += uint64_t{components} * active.lanes.size();
    for (uint32_t lane : active.lanes) {
        if (index[lane] >= limit) return fail_bounds(v, lane, memory, index[lane], components);
        uint64_t byte = uint64_t{index[lane]} * bytes;
        if (!check_write(v, memory, {byte, bytes, static_cast<uint16_t>(lane)}, lane)) return false;
        for (uint32_t c = 0; c < components; ++c) write_scalar(memory.data + byte + c * size, size, value[c * lanes_ + lane]);
    }
    return true;
}

bool Interpreter::run_atomic(ValueId v, const Instruction& inst, Memory& memory, const Active& active) {
    const uint32_t *index = in(v, 0), *value = in(v, 1);
    uint32_t* to = out(v);
    bool is_signed = memory.scalar == Scalar::i32;
    auto less = [&](uint32_t a, uint32_t b) { return is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b; };
    memory.loads += active.lanes.size();
    memory.stores += active.lanes.size();
    for (uint32_t lane : active.lanes) {
        if (index[lane] >= memory.bytes / 4) return fail_bounds(v, lane, memory, index[lane], 1);
        uint64_t byte = uint64_t{index[lane]} * 4, word = (memory.shadow_offset + byte) / 4;
        if (!memory.initialised && memory.shadow->halves(word) != 3)
            return fail(v, lane, fmt::format("uninitialised read: {} {}, scalar {}", memory.kind, memory.name, index[lane]));
        if (!check_write(v, memory, {byte, 4, Shadow::atomic_writer}, lane)) return false;
        uint32_t old = read_scalar(memory.data + byte, 4), operand = value[lane], next = operand;
        switch (static_cast<AtomicKind>(inst.aux2)) {
            case AtomicKind::add: next = old + operand; break;
            case AtomicKind::min: next = less(operand, old) ? operand : old; break;
            case AtomicKind::max: next = less(old, operand) ? operand : old; break;
            case AtomicKind::exchange: break;
            case AtomicKind::bit_or: next = old | operand; break;
        }
        write_scalar(memory.data + byte, 4, next);
        to[lane] = old;
    }
    return true;
}

// Loads and stores of private arrays: the index is a constant.
bool Interpreter::run_private(ValueId v, const Instruction& inst, const Active& active) {
    const Array& array = kernel_.arrays[inst.aux];
    PrivateArray& memory = private_[inst.aux];
    uint32_t index = kernel_.at(kernel_.operand(v, 0)).aux;
    if (index >= array.count)
        return fail(v, active.lanes[0],
                    fmt::format("out of bounds: private array {}, index {} of {}", array.name, index, array.count));
    size_t words = words_of(array.type);
    uint32_t* element = memory.words.data() + index * words;
    bool is_load = inst.op == Opcode::array_load;
    const uint32_t* from = is_load ? element : in(v, 1);
    uint32_t* to = is_load ? out(v) : element;
    // Copies one owner's part (of an invocation, or of a subgroup), which lies in `count` pieces `stride` words apart.
    auto move = [&](uint32_t owner, uint32_t owners, uint32_t lane, size_t first, size_t piece, size_t count, size_t stride) {
        uint8_t& initialised = memory.initialised[size_t{index} * owners + owner];
        if (is_load && !initialised)
            return fail(v, lane, fmt::format("uninitialised read: private array {}, element {}", array.name, index));
        initialised = 1;
        for (size_t c = 0; c < count; ++c) std::copy_n(from + first + c * stride, piece, to + first + c * stride);
        return true;
    };
    if (array.type.is_coop()) {
        size_t elements = size_t{array.type.rows} * array.type.cols;
        return for_subgroups(v, active, [&](uint32_t s, uint32_t begin, uint32_t) {
            return move(s, subgroups_, begin, s * elements, elements, 1, 0);
        });
    }
    for (uint32_t lane : active.lanes)
        if (!move(lane, lanes_, lane, lane, 1, array.type.lanes, lanes_)) return false;
    return true;
}

// Element (row, column) of a cooperative matrix sits at (index + row * stride) elements of the memory, column scalars further on
// (the other way round when column-major).
bool Interpreter::run_coop_memory(ValueId v, const Instruction& inst, uint32_t subgroup) {
    bool is_store = inst.op == Opcode::coop_store;
    Memory& memory = inst.aux2 & coop_from_array ? arrays_[inst.aux] : bindings_[inst.aux];
    uint32_t begin = subgroup_begin(subgroup), end = subgroup_end(subgroup);
    if (!is_uniform(in(v, 0), begin, end) || !is_uniform(in(v, 1), begin, end))
        return fail(v, begin, "index and stride of a cooperative access differ within the subgroup");
    ValueId matrix_id = is_store ? kernel_.operand(v, 2) : v;
    const Type& type = kernel_.at(matrix_id).type;
    uint32_t* matrix = values_.data() + offset_[matrix_id.value] + size_t{type.rows} * type.cols * subgroup;
    uint32_t size = byte_size(type.scalar), element = memory.lanes * byte_size(memory.scalar);
    uint64_t first = uint64_t{in(v, 0)[begin]} * element, stride = uint64_t{in(v, 1)[begin]} * element;
    auto who = static_cast<uint16_t>(Shadow::coop_base + subgroup);
    uint64_t moved = uint64_t{type.rows} * type.cols * size / byte_size(memory.scalar);
    (is_store ? memory.stores : memory.loads) += moved;
    for (uint32_t row = 0; row < type.rows; ++row) {
        for (uint32_t column = 0; column < type.cols; ++column) {
            uint64_t major = inst.aux2 & coop_column_major ? column : row, minor = inst.aux2 & coop_column_major ? row : column;
            uint64_t byte = first + major * stride + minor * size;
            if (byte + size > memory.bytes) return fail_bounds(v, begin, memory, byte / byte_size(memory.scalar), 1);
            uint32_t& value = matrix[row * type.cols + column];
            if (is_store) {
                if (!check_write(v, memory, {byte, size, who}, begin)) return false;
                write_scalar(memory.data + byte, size, from_float(type.scalar, std::bit_cast<float>(value)));
            } else {
                if (!check_read(v, memory, {byte, size, who}, begin)) return false;
                value = std::bit_cast<uint32_t>(to_float(type.scalar, read_scalar(memory.data + byte, size)));
            }
        }
    }
    return true;
}

}  // namespace darner::kir
