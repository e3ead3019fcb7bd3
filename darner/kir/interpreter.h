// SPDX-License-Identifier: MIT
// Inside of the checking interpreter (interpret.h): the state of one dispatch and of the workgroup that runs. Values are
// arrays over the workgroup's invocations ("lanes" here), component by component, so an instruction is one loop over lanes.
// Pure arithmetic runs on inactive lanes too where that is faster; nothing reads what it computes there.
#pragma once

#include "darner/kir/interpret.h"

#include <algorithm>
#include <string>
#include <vector>

namespace darner::kir {

class Interpreter {
public:
    Interpreter(const Kernel& kernel, std::array<uint32_t, 3> groups, std::span<Buffer> buffers, std::span<const uint32_t> params,
                const InterpretOptions& options);
    Result<void> run();

private:
    // Invocations that execute, in ascending order.
    struct Active {
        std::vector<uint16_t> lanes;
        bool all = false;
    };
    // A binding or workgroup array.
    struct Memory {
        std::string kind, name;
        std::byte* data = nullptr;
        uint64_t bytes = 0;                 // that may be touched: within the window and the declared elements
        uint64_t declared = 0, window = 0;  // scalars, for messages
        Scalar scalar = Scalar::f32;
        uint8_t lanes = 1;
        Shadow* shadow = nullptr;
        uint64_t shadow_offset = 0;  // bytes
        uint32_t word_shift = 2;     // log2 of the bytes that one shadow word covers
        bool tracked = true;         // reads may race with writes
        bool initialised = false;    // all of it
        uint64_t loads = 0, stores = 0;
    };
    struct PrivateArray {
        std::vector<uint32_t> words;       // [element][component][lane]; cooperative: [element][subgroup][row][column]
        std::vector<uint8_t> initialised;  // [element][lane]; cooperative: [element][subgroup]
    };
    struct Access {
        uint64_t byte = 0;
        uint32_t size = 0;
        uint16_t who = 0;
    };

    // Setup.
    Result<void> check_call() const;
    void lay_out();
    void lay_out_value(ValueId v);
    void set_up_memory();
    void fill_leaves();
    void start_group();

    // Execution; false: stopped, error_ says why.
    bool run_block(BlockId block, const Active& active);
    bool run_instruction(ValueId v, const Instruction& inst, const Active& active);
    bool run_loop(ValueId v, const Instruction& inst, const Active& active);
    bool run_branch(ValueId v, const Instruction& inst, const Active& active);
    bool run_barrier(ValueId v, const Active& active);
    template <uint32_t components>
    bool run_word_load(ValueId v, Memory& memory, const Active& active);
    bool run_load(ValueId v, Memory& memory, const Active& active);
    bool run_store(ValueId v, Memory& memory, const Active& active);
    bool run_atomic(ValueId v, const Instruction& inst, Memory& memory, const Active& active);
    bool run_private(ValueId v, const Instruction& inst, const Active& active);
    bool run_arithmetic(ValueId v, const Instruction& inst, const Active& active);  // interpret_lanes.cpp
    bool check_divisors(ValueId v, const Instruction& inst, const Active& active);
    bool run_subgroup(ValueId v, const Instruction& inst, const Active& active);  // interpret_subgroup.cpp
    bool run_coop(ValueId v, const Instruction& inst, const Active& active);
    bool run_coop_memory(ValueId v, const Instruction& inst, uint32_t subgroup);
    void reduce_subgroup(ValueId v, const Instruction& inst, uint32_t begin, uint32_t end);
    void copy_value(ValueId from, size_t to, const Active& active);
    void copy_yields(const Block& block, const std::vector<size_t>& slots, const Active& active);

    // Checks.
    bool check_read(ValueId v, Memory& memory, Access access, uint32_t lane);
    bool check_write(ValueId v, Memory& memory, Access access, uint32_t lane);
    bool fail(ValueId v, uint32_t lane, const std::string& what);
    bool fail_bounds(ValueId v, uint32_t lane, const Memory& memory, uint64_t index, uint64_t per_element);
    bool fail_conflict(ValueId v, uint32_t lane, const Memory& memory, uint64_t byte, Shadow::Conflict conflict);
    // Calls use(subgroup, first lane, end) for the subgroups that take part; fails where one does only in part.
    template <class Use>
    bool for_subgroups(ValueId v, const Active& active, Use&& use);
    bool is_uniform(const uint32_t* value, uint32_t begin, uint32_t end) const;
    uint32_t subgroup_begin(uint32_t s) const { return s * subgroup_size_; }
    uint32_t subgroup_end(uint32_t s) const { return std::min(lanes_, (s + 1) * subgroup_size_); }

    const uint32_t* in(ValueId v, size_t i) const { return values_.data() + offset_[kernel_.operand(v, i).value]; }
    uint32_t* out(ValueId v) { return values_.data() + offset_[v.value]; }
    // Words that a value of a type takes: cooperative matrices hold one f32 an element and subgroup.
    size_t words_of(const Type& type) const {
        return type.is_coop() ? size_t{type.rows} * type.cols * subgroups_ : size_t{type.lanes} * lanes_;
    }

    const Kernel& kernel_;
    const std::array<uint32_t, 3> groups_;
    const std::span<Buffer> buffers_;
    const std::span<const uint32_t> params_;
    const InterpretOptions& options_;
    const uint32_t lanes_;
    const uint32_t subgroup_size_, subgroups_;

    std::vector<uint32_t> values_;
    std::vector<size_t> offset_;              // per value, into values_
    std::vector<std::vector<size_t>> slots_;  // per loop or branch: where its carried values or results live
    std::vector<uint32_t> scratch_;
    std::vector<Memory> bindings_, arrays_;  // arrays_: empty entries for private arrays
    std::vector<std::vector<std::byte>> array_data_;
    std::vector<PrivateArray> private_;
    std::vector<Shadow> own_shadows_;
    std::array<uint32_t, 3> group_ = {0, 0, 0};
    Shadow::Moment moment_ = {1, 1};
    Error error_;
};

// Calls f(lane) for the active lanes, or for all of them where that is faster and does no harm.
template <class F>
inline void each_lane(bool dense, uint32_t lanes, std::span<const uint16_t> active, F&& f) {
    if (dense)
        for (uint32_t i = 0; i < lanes; ++i) f(i);
    else
        for (uint32_t i : active) f(i);
}

template <class Use>
bool Interpreter::for_subgroups(ValueId v, const Active& active, Use&& use) {
    for (size_t at = 0; at < active.lanes.size();) {
        uint32_t subgroup = active.lanes[at] / subgroup_size_, begin = subgroup_begin(subgroup), end = subgroup_end(subgroup);
        bool whole = active.lanes[at] == begin && at + (end - begin) <= active.lanes.size() &&
                     active.lanes[at + (end - begin) - 1] == end - 1;
        if (!whole) return fail(v, active.lanes[at], "subgroup operation in divergent control flow");
        if (!use(subgroup, begin, end)) return false;
        at += end - begin;
    }
    return true;
}

}  // namespace darner::kir
