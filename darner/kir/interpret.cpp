// SPDX-License-Identifier: MIT
// The checking interpreter: setup, control flow and errors.
#include "darner/kir/interpret.h"

#include "darner/kir/interpreter.h"
#include "darner/kir/text.h"
#include "darner/kir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace darner::kir {

namespace {

constexpr uint32_t max_invocations = 0x7fff;  // what a shadow tells apart
constexpr uint32_t last_epoch = 0xffff0000u;

bool overlap(const Buffer& a, const Buffer& b) {
    if (a.shadow && a.shadow == b.shadow)
        return a.shadow_offset < b.shadow_offset + b.bytes && b.shadow_offset < a.shadow_offset + a.bytes;
    return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

}  // namespace

Interpreter::Interpreter(const Kernel& kernel, std::array<uint32_t, 3> groups, std::span<Buffer> buffers,
                         std::span<const uint32_t> params, const InterpretOptions& options)
    : kernel_(kernel),
      groups_(groups),
      buffers_(buffers),
      params_(params),
      options_(options),
      lanes_(kernel.invocations()),
      subgroup_size_(kernel.required_subgroup_size ? kernel.required_subgroup_size : options.subgroup_size),
      subgroups_((lanes_ + subgroup_size_ - 1) / std::max(1u, subgroup_size_)) {}

Result<void> Interpreter::check_call() const {
    auto bad = [&](const std::string& what) { return invalid(fmt::format("[kernel {}] {}", kernel_.name, what)); };
    if (lanes_ > max_invocations)
        return bad(fmt::format("{} invocations in a workgroup, the interpreter takes {}", lanes_, max_invocations));
    if (!std::has_single_bit(subgroup_size_) || subgroup_size_ > 128)
        return bad(fmt::format("subgroup size {}: expected a power of two up to 128", subgroup_size_));
    if (buffers_.size() != kernel_.bindings.size())
        return bad(fmt::format("got {} buffers, expected {}", buffers_.size(), kernel_.bindings.size()));
    if (params_.size() != kernel_.params.size())
        return bad(fmt::format("got {} params, expected {}", params_.size(), kernel_.params.size()));
    for (uint32_t axis = 0; axis < 3; ++axis)
        if (groups_[axis] > 65535)
            return bad(fmt::format("{} workgroups in dimension {}, at most 65535 are allowed", groups_[axis], axis));
    for (size_t i = 0; i < buffers_.size(); ++i) {
        const Buffer& b = buffers_[i];
        const std::string& name = kernel_.bindings[i].name;
        if (b.bytes && !b.data) return bad("binding " + name + " has no data");
        if (reinterpret_cast<uintptr_t>(b.data) % 4 || b.shadow_offset % 4)
            return bad("binding " + name + " is not aligned to 4 bytes");
        if (b.shadow && (b.shadow_offset > b.shadow->bytes() || b.bytes > b.shadow->bytes() - b.shadow_offset))
            return bad("binding " + name + " lies outside its shadow");
    }
    bool coop = std::any_of(kernel_.instructions.begin(), kernel_.instructions.end(),
                            [](const Instruction& i) { return i.type.is_coop(); });
    if (coop && lanes_ % subgroup_size_)
        return bad(
            fmt::format("cooperative matrices need whole subgroups: {} invocations, subgroups of {}", lanes_, subgroup_size_));
    return {};
}

// ---- setup ----

void Interpreter::lay_out_value(ValueId v) {
    offset_[v.value] = values_.size();
    values_.resize(values_.size() + words_of(kernel_.at(v).type));
}

void Interpreter::lay_out() {
    offset_.assign(kernel_.instructions.size(), 0);
    slots_.resize(kernel_.instructions.size());
    for (const Block& block : kernel_.blocks) {
        for (ValueId v : block.arguments) lay_out_value(v);
        for (ValueId v : block.instructions)
            if (kernel_.at(v).op != Opcode::result) lay_out_value(v);
    }
    size_t largest = 0;
    for (const Block& block : kernel_.blocks) {
        for (ValueId v : block.instructions) {
            const Instruction& inst = kernel_.at(v);
            if (inst.block_count == 0) continue;
            const Block& body = kernel_.block(inst.first_block);
            size_t total = 0;
            for (size_t i = 0; i < body.yields.size(); ++i) {
                const Type& type = kernel_.at(body.yields[i]).type;
                total += words_of(type);
                if (inst.op == Opcode::loop) {
                    slots_[v.value].push_back(offset_[body.arguments[i + 1].value]);
                } else {
                    slots_[v.value].push_back(values_.size());
                    values_.resize(values_.size() + words_of(type));
                }
            }
            largest = std::max(largest, total);
        }
    }
    // A result is where the loop or branch left it: nothing writes there while the result is alive.
    for (const Block& block : kernel_.blocks)
        for (ValueId v : block.instructions)
            if (kernel_.at(v).op == Opcode::result) offset_[v.value] = slots_[kernel_.operand(v, 0).value][kernel_.at(v).aux];
    scratch_.resize(largest);
}

void Interpreter::set_up_memory() {
    own_shadows_.reserve(buffers_.size() + kernel_.arrays.size());
    bool alone = options_.after_barrier && options_.before_barrier;
    for (size_t i = 0; i < buffers_.size(); ++i) {
        const Binding& b = kernel_.bindings[i];
        const Buffer& buffer = buffers_[i];
        uint32_t size = byte_size(b.scalar);
        uint64_t window = buffer.bytes / size, most = b.elements > (~uint64_t{0} >> 4) ? ~uint64_t{0} >> 2 : b.elements * b.lanes;
        if (b.elements == 0) most = window;
        Memory m{.kind = "binding",
                 .name = b.name,
                 .data = buffer.data,
                 .bytes = std::min(window, most) * size,
                 .declared = most,
                 .window = window,
                 .scalar = b.scalar,
                 .lanes = b.lanes};
        m.shadow = buffer.shadow;
        m.shadow_offset = buffer.shadow_offset;
        if (!m.shadow) {
            m.shadow = &own_shadows_.emplace_back(buffer.bytes, true);
            m.shadow_offset = 0;
        }
        m.initialised = !buffer.shadow || m.shadow->is_initialised(m.shadow_offset, m.bytes);
        bool written = false;
        for (size_t j = 0; j < buffers_.size(); ++j)
            written = written || (kernel_.bindings[j].access != kir::Access::read && overlap(buffer, buffers_[j]));
        m.tracked = written || !alone;
        bindings_.push_back(std::move(m));
    }
    array_data_.resize(kernel_.arrays.size());
    private_.resize(kernel_.arrays.size());
    for (size_t i = 0; i < kernel_.arrays.size(); ++i) {
        const Array& a = kernel_.arrays[i];
        Memory m;
        if (a.space == ArraySpace::workgroup) {
            uint64_t scalars = uint64_t{a.count} * a.type.lanes;
            uint32_t size = byte_size(a.type.scalar);
            array_data_[i].resize(scalars * size);
            m = {.kind = "workgroup array",
                 .name = a.name,
                 .data = array_data_[i].data(),
                 .bytes = scalars * size,
                 .declared = scalars,
                 .window = scalars,
                 .scalar = a.type.scalar,
                 .lanes = a.type.lanes};
            m.shadow = &own_shadows_.emplace_back(scalars * 4);
            m.word_shift = size == 2 ? 1 : 2;
        } else {
            private_[i].words.resize(a.count * words_of(a.type));
            private_[i].initialised.resize(size_t{a.count} * (a.type.is_coop() ? subgroups_ : lanes_));
        }
        arrays_.push_back(std::move(m));
    }
    uint32_t first = 1;
    for (Memory& m : bindings_) {
        if (options_.after_barrier) m.shadow->begin_dispatch();
        first = std::max(first, m.shadow->next_epoch());
    }
    moment_ = {first, first};
}

// What is the same in all workgroups.
void Interpreter::fill_leaves() {
    const auto& size = kernel_.workgroup_size;
    for (const Block& block : kernel_.blocks) {
        for (ValueId v : block.instructions) {
            const Instruction& inst = kernel_.at(v);
            uint32_t* to = out(v);
            auto fill = [&](auto f) {
                for (uint32_t c = 0; c < inst.type.lanes; ++c)
                    for (uint32_t i = 0; i < lanes_; ++i) to[c * lanes_ + i] = f(i);
            };
            switch (inst.op) {
                case Opcode::constant: fill([&](uint32_t) { return inst.aux; }); break;
                case Opcode::param: fill([&](uint32_t) { return params_[inst.aux]; }); break;
                case Opcode::num_workgroups: fill([&](uint32_t) { return groups_[inst.aux]; }); break;
                case Opcode::local_id:
                    fill([&](uint32_t i) {
                        return inst.aux == 0 ? i % size[0] : inst.aux == 1 ? i / size[0] % size[1] : i / size[0] / size[1];
                    });
                    break;
                case Opcode::local_index: fill([&](uint32_t i) { return i; }); break;
                case Opcode::subgroup_id: fill([&](uint32_t i) { return i / subgroup_size_; }); break;
                case Opcode::lane_id: fill([&](uint32_t i) { return i % subgroup_size_; }); break;
                case Opcode::subgroup_size: fill([&](uint32_t) { return subgroup_size_; }); break;
                default: break;
            }
        }
    }
}

void Interpreter::start_group() {
    for (size_t i = 0; i < arrays_.size(); ++i) {
        if (Shadow* shadow = arrays_[i].shadow) {
            shadow->poison(0, shadow->bytes());
            shadow->use_epochs(moment_.now);
            shadow->begin_dispatch();
        }
        std::fill(private_[i].initialised.begin(), private_[i].initialised.end(), uint8_t{0});
    }
}

Result<void> Interpreter::run() {
    TRY(check_call());
    lay_out();
    set_up_memory();
    fill_leaves();
    Active all;
    for (uint32_t i = 0; i < lanes_; ++i) all.lanes.push_back(static_cast<uint16_t>(i));
    all.all = true;
    bool ok = true;
    uint64_t total = uint64_t{groups_[0]} * groups_[1] * groups_[2];
    for (uint64_t n = 0; n < total && ok; ++n) {
        group_ = {static_cast<uint32_t>(n % groups_[0]), static_cast<uint32_t>(n / groups_[0] % groups_[1]),
                  static_cast<uint32_t>(n / groups_[0] / groups_[1])};
        start_group();
        ok = run_block(BlockId(0u), all);
        if (ok && ++moment_.now >= last_epoch) ok = fail({}, 0, "too many workgroups and barriers for the interpreter");
        moment_.group_start = moment_.now;
    }
    for (Memory& m : bindings_) m.shadow->use_epochs(moment_.now + 1);
    if (InterpretStats* stats = options_.stats) {
        stats->loads.resize(std::max(stats->loads.size(), bindings_.size()));
        stats->stores.resize(std::max(stats->stores.size(), bindings_.size()));
        for (size_t i = 0; i < bindings_.size(); ++i) {
            stats->loads[i] += bindings_[i].loads;
            stats->stores[i] += bindings_[i].stores;
        }
    }
    if (!ok) return error_;
    return {};
}

// ---- control flow ----

bool Interpreter::run_block(BlockId block, const Active& active) {
    for (ValueId v : kernel_.block(block).instructions)
        if (!run_instruction(v, kernel_.at(v), active)) return false;
    return true;
}

bool Interpreter::run_instruction(ValueId v, const Instruction& inst, const Active& active) {
    if (inst.op == Opcode::workgroup_id) std::fill_n(out(v), lanes_, group_[inst.aux]);
    if (is_id(inst.op)) return true;  // the others have been filled in before the first workgroup
    switch (inst.op) {
        case Opcode::constant:
        case Opcode::argument:
        case Opcode::param:
        case Opcode::result: return true;
        case Opcode::load: return run_load(v, bindings_[inst.aux], active);
        case Opcode::store: return run_store(v, bindings_[inst.aux], active);
        case Opcode::array_load:
            if (kernel_.arrays[inst.aux].space == ArraySpace::private_) return run_private(v, inst, active);
            return run_load(v, arrays_[inst.aux], active);
        case Opcode::array_store:
            if (kernel_.arrays[inst.aux].space == ArraySpace::private_) return run_private(v, inst, active);
            return run_store(v, arrays_[inst.aux], active);
        case Opcode::atomic: return run_atomic(v, inst, bindings_[inst.aux], active);
        case Opcode::loop: return run_loop(v, inst, active);
        case Opcode::branch: return run_branch(v, inst, active);
        case Opcode::barrier: return run_barrier(v, active);
        case Opcode::subgroup_reduce:
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: return run_subgroup(v, inst, active);
        case Opcode::coop_fill:
        case Opcode::coop_load:
        case Opcode::coop_store:
        case Opcode::coop_mul_add:
        case Opcode::coop_convert:
        case Opcode::coop_map: return run_coop(v, inst, active);
        default: return run_arithmetic(v, inst, active);
    }
}

// Copies the active lanes (or subgroups) of a value to an offset of values_.
void Interpreter::copy_value(ValueId from, size_t to, const Active& active) {
    const Type& type = kernel_.at(from).type;
    const uint32_t* source = values_.data() + offset_[from.value];
    uint32_t* target = values_.data() + to;
    if (source == target) return;
    if (active.all) {
        std::copy_n(source, words_of(type), target);
    } else if (type.is_coop()) {
        size_t elements = size_t{type.rows} * type.cols;
        for (uint16_t lane : active.lanes)
            if (lane % subgroup_size_ == 0)
                std::copy_n(source + lane / subgroup_size_ * elements, elements, target + lane / subgroup_size_ * elements);
    } else {
        for (uint32_t c = 0; c < type.lanes; ++c)
            for (uint16_t lane : active.lanes) target[c * lanes_ + lane] = source[c * lanes_ + lane];
    }
}

void Interpreter::copy_yields(const Block& block, const std::vector<size_t>& slots, const Active& active) {
    // A yield that is itself a slot must be read before the slot is written.
    bool tangled = false;
    for (ValueId v : block.yields) tangled = tangled || std::find(slots.begin(), slots.end(), offset_[v.value]) != slots.end();
    if (!tangled || slots.size() < 2) {
        for (size_t i = 0; i < slots.size(); ++i) copy_value(block.yields[i], slots[i], active);
        return;
    }
    size_t at = 0;
    for (ValueId v : block.yields) {
        size_t words = words_of(kernel_.at(v).type);
        std::copy_n(values_.data() + offset_[v.value], words, scratch_.data() + at);
        at += words;
    }
    at = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        const Type& type = kernel_.at(block.yields[i]).type;
        uint32_t* target = values_.data() + slots[i];
        const uint32_t* source = scratch_.data() + at;
        size_t elements = type.is_coop() ? size_t{type.rows} * type.cols : 0;
        if (type.is_coop()) {
            for (uint16_t lane : active.lanes)
                if (uint32_t s = lane / subgroup_size_; lane % subgroup_size_ == 0)
                    std::copy_n(source + s * elements, elements, target + s * elements);
        } else {
            for (uint32_t c = 0; c < type.lanes; ++c)
                for (uint16_t lane : active.lanes) target[c * lanes_ + lane] = source[c * lanes_ + lane];
        }
        at += words_of(type);
    }
}

bool Interpreter::run_loop(ValueId v, const Instruction& inst, const Active& active) {
    const Block& body = kernel_.block(inst.first_block);
    const uint32_t *low = in(v, 0), *high = in(v, 1), *step = in(v, 2);
    uint32_t* index = out(body.arguments[0]);
    const auto& slots = slots_[v.value];
    for (uint16_t lane : active.lanes) index[lane] = low[lane];
    for (size_t i = 0; i < slots.size(); ++i) copy_value(kernel_.operand(v, 3 + i), slots[i], active);

    Active current = active;
    auto drop_finished = [&] {
        auto finished = [&](uint16_t lane) { return index[lane] >= high[lane]; };
        size_t before = current.lanes.size();
        current.lanes.erase(std::remove_if(current.lanes.begin(), current.lanes.end(), finished), current.lanes.end());
        current.all = current.all && current.lanes.size() == before;
    };
    drop_finished();
    while (!current.lanes.empty()) {
        if (!run_block(inst.first_block, current)) return false;
        copy_yields(body, slots, current);
        for (uint16_t lane : current.lanes) {
            if (step[lane] == 0) return fail(v, lane, "the step of the loop is zero");
            if (index[lane] + step[lane] < index[lane]) return fail(v, lane, "the index of the loop wraps around");
            index[lane] += step[lane];
        }
        drop_finished();
    }
    return true;
}

bool Interpreter::run_branch(ValueId v, const Instruction& inst, const Active& active) {
    const uint32_t* condition = in(v, 0);
    Active sides[2];
    for (uint16_t lane : active.lanes) sides[condition[lane] ? 0 : 1].lanes.push_back(lane);
    for (uint32_t side = 0; side < 2; ++side) {
        if (sides[side].lanes.empty()) continue;
        sides[side].all = active.all && sides[1 - side].lanes.empty();
        BlockId block(inst.first_block.value + side);
        if (!run_block(block, sides[side])) return false;
        copy_yields(kernel_.block(block), slots_[v.value], sides[side]);
    }
    return true;
}

bool Interpreter::run_barrier(ValueId v, const Active& active) {
    if (active.lanes.size() != lanes_)
        return fail(v, active.lanes[0],
                    fmt::format("divergent barrier: {} of {} invocations reach it", active.lanes.size(), lanes_));
    if (++moment_.now >= last_epoch) return fail(v, 0, "too many workgroups and barriers for the interpreter");
    return true;
}

// ---- errors ----

bool Interpreter::fail(ValueId v, uint32_t lane, const std::string& what) {
    const auto& size = kernel_.workgroup_size;
    error_ = invalid(fmt::format("[kernel {}] {}, in `{}`, workgroup ({},{},{}), invocation ({},{},{})", kernel_.name, what,
                                 instruction_text(kernel_, v), group_[0], group_[1], group_[2], lane % size[0],
                                 lane / size[0] % size[1], lane / size[0] / size[1]));
    return false;
}

bool Interpreter::fail_bounds(ValueId v, uint32_t lane, const Memory& memory, uint64_t index, uint64_t per_element) {
    std::string limit = fmt::format("of {}", memory.declared / per_element);
    if (memory.window < memory.declared) limit += fmt::format(" declared, {} in the window", memory.window / per_element);
    return fail(v, lane, fmt::format("out of bounds: {} {}, index {} {}", memory.kind, memory.name, index, limit));
}

bool Interpreter::fail_conflict(ValueId v, uint32_t lane, const Memory& memory, uint64_t byte, Shadow::Conflict conflict) {
    const char* with = conflict == Shadow::Conflict::invocations ? "another invocation touches it with no barrier between"
                       : options_.after_barrier                  ? "another workgroup touches it in the same dispatch"
                                                : "another workgroup or dispatch touches it with no barrier between";
    return fail(v, lane,
                fmt::format("race: {} {}, scalar {}: {}", memory.kind, memory.name, byte / byte_size(memory.scalar), with));
}

Result<void> interpret(const Kernel& kernel, std::array<uint32_t, 3> groups, std::span<Buffer> buffers,
                       std::span<const uint32_t> params, const InterpretOptions& options) {
    TRY(verify_structure(kernel));
    return Interpreter(kernel, groups, buffers, params, options).run();
}

}  // namespace darner::kir
