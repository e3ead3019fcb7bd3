// SPDX-License-Identifier: MIT
// The interpreter device.
#include "darner/device/interp/interp.h"

#include "darner/kir/interpret.h"
#include "darner/program/groups.h"
#include "darner/program/host_calls.h"
#include "darner/program/rings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>

namespace darner {
namespace {

uint64_t physical_memory() {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

// SplitMix64: the same orders on every machine and run.
class Shuffler {
public:
    void shuffle(std::vector<Member>& members) {
        for (size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[next() % i]);
    }

private:
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    uint64_t state_ = 0;
};

struct Memory {
    std::vector<uint32_t> words;
    kir::Shadow shadow;
    std::byte* bytes() { return reinterpret_cast<std::byte*>(words.data()); }
};

bool overlap(const ProgramTensor& a, const ProgramTensor& b) {
    return a.segment == b.segment && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

class InterpExecutable final : public Executable {
public:
    InterpExecutable(std::shared_ptr<const Program> program, uint32_t subgroup_size)
        : program_(std::move(program)), subgroup_size_(subgroup_size) {}

    Result<void> prepare() {
        TRY(rings_, Rings::create(*program_));
        finished_.resize(program_->entries.size());
        for (const Segment& s : program_->segments) {
            std::vector<Memory>& slots = memory_.emplace_back(s.slots);
            for (Memory& m : slots) {
                m.words.assign(s.bytes / 4, s.zeroed ? 0 : poison_word);
                m.shadow = kir::Shadow(s.bytes, s.zeroed);
            }
        }
        for (uint32_t s = 0; s < memory_.size(); ++s)
            for (const ByteRange& zeros : zero_ranges(*program_, SegmentId(s))) zeros_.emplace_back(SegmentId(s), zeros);
        for (const Constant& c : program_->constants) put(memory(c.segment), c.offset, c.bytes);
        for (const Entry& entry : program_->entries) {
            TRY(std::vector<BarrierGroup> groups, barrier_groups(entry));
            groups_.push_back(std::move(groups));
        }
        return {};
    }

    Result<void> write(TensorId tensor, std::span<const std::byte> bytes, uint32_t ahead) override {
        TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "write"));
        TRY(const Run run, rings_->find_write(tensor, ahead));
        slot_ = run.slot;
        put(memory(t->segment), t->offset, bytes);
        rings_->written(tensor, run);
        return {};
    }

    Result<void> read(TensorId tensor, std::span<std::byte> bytes, uint32_t ago) override {
        TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "read"));
        TRY(const Run run, rings_->find_read(tensor, ago));
        TRY(wait());
        slot_ = run.slot;
        Memory& m = memory(t->segment);
        if (!m.shadow.is_initialised(t->offset, t->bytes))
            return invalid(fmt::format("[interp] tensor '{}' was read, but not all of it was ever written", t->name));
        if (!bytes.empty()) std::memcpy(bytes.data(), m.bytes() + t->offset, bytes.size());
        return {};
    }

    Result<void> submit(uint32_t entry, uint32_t steps) override {
        TRY(check_entry(*program_, entry));
        TRY(rings_->check_inputs(entry, steps));
        for (uint32_t step = 0; step < steps; ++step) run_step(entry, step, nullptr);
        return {};
    }

    // A submit runs at once.
    Result<uint64_t> finished(uint32_t entry) override {
        TRY(check_entry(*program_, entry));
        return finished_[entry];
    }

    Result<void> wait() override {
        if (failure_) return *failure_;
        return {};
    }

    Result<std::vector<DispatchTime>> profile(uint32_t entry) override {
        TRY(check_entry(*program_, entry));
        TRY(rings_->check_inputs(entry, 1));
        std::vector<DispatchTime> times;
        run_step(entry, 0, &times);
        TRY(wait());
        return times;
    }

private:
    // Of a ring: the slot of the run or call at hand.
    Memory& memory(SegmentId segment) {
        std::vector<Memory>& slots = memory_[segment.value];
        return slots[slots.size() == 1 ? 0 : slot_];
    }

    // The last word is filled up with zeros: kernels read packed dtypes as whole words.
    static void put(Memory& m, uint64_t offset, std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        const uint64_t whole = (bytes.size() + 3) / 4 * 4;
        std::memset(m.bytes() + offset + whole - 4, 0, 4);
        std::memcpy(m.bytes() + offset, bytes.data(), bytes.size());
        m.shadow.mark_initialised(offset, whole);
    }

    static void poison(Memory& m, uint64_t offset, uint64_t bytes) {
        std::fill_n(m.words.begin() + static_cast<ptrdiff_t>(offset / 4), (bytes + 3) / 4, poison_word);
        m.shadow.poison(offset, (bytes + 3) / 4 * 4);
    }

    // What is dead before a run: scratch, and outputs, which the run has to write anew.
    void poison_dead(const Entry& entry) {
        for (size_t i = 0; i < memory_.size(); ++i)
            for (const ByteRange& dead : dead_ranges(program_->segments[i])) poison(memory_[i][0], dead.offset, dead.bytes);
        for (TensorId id : entry.outputs) {
            const ProgramTensor& t = program_->tensor(id);
            const auto shared = [&](TensorId input) { return overlap(program_->tensor(input), t); };
            if (program_->segment(t.segment).kind != SegmentKind::io ||
                std::any_of(entry.inputs.begin(), entry.inputs.end(), shared))
                continue;
            poison(memory(t.segment), t.offset, t.bytes);
        }
    }

    // Its first group, like every other, is ordered behind all before it.
    void run_step(uint32_t entry, uint32_t step, std::vector<DispatchTime>* times) {
        slot_ = rings_->run(entry, rings_->submitted(entry)).slot;
        rings_->submit(entry, 1);
        if (failure_) return;
        poison_dead(program_->entries[entry]);
        for (const BarrierGroup& group : groups_[entry]) {
            for (std::vector<Memory>& slots : memory_)
                for (Memory& m : slots) m.shadow.begin_dispatch();
            std::vector<Member> order = group;
            shuffler_.shuffle(order);
            for (const Member& member : order) {
                const auto start = std::chrono::steady_clock::now();
                const Result<void> done = run_member(member);
                if (!done) return fail(entry, step, group, member, done.error());
                const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
                if (times) times->push_back({label_of(member), seconds.count()});
            }
        }
        ++finished_[entry];
        check_zeros(entry, step);
    }

    void check_zeros(uint32_t entry, uint32_t step) {
        for (const auto& [segment, zeros] : zeros_) {
            const auto first = memory(segment).words.begin() + static_cast<ptrdiff_t>(zeros.offset / 4);
            const auto is_zero = [](uint32_t word) { return (word & 0x7fffffffu) == 0; };  // of either sign
            if (std::all_of(first, first + static_cast<ptrdiff_t>(zeros.bytes / 4), is_zero)) continue;
            failure_ =
                device_error(fmt::format("[interp] entry '{}', step {} of the submit: bytes [{}, +{}) of segment {} lie "
                                         "between tensors and were to stay zero, but do not",
                                         program_->entries[entry].name, step, zeros.offset, zeros.bytes, segment.value));
            return;
        }
    }

    Result<void> run_member(const Member& member) {
        if (member.dispatch) return run_dispatch(*member.dispatch);
        return member.copy ? run_copy(*member.copy) : run_counter(*member.counter, member.round);
    }

    Result<void> run_dispatch(const Dispatch& d) {
        std::array<uint32_t, 3> groups = d.groups;
        if (d.groups_from) {
            TRY(groups, read_groups(*d.groups_from, d.groups));
            if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return {};
        }
        std::vector<kir::Buffer> buffers;
        for (const BindingWindow& w : d.bindings) {
            Memory& m = memory(w.segment);
            buffers.push_back({m.bytes() + w.offset, w.bytes, &m.shadow, w.offset});
        }
        kir::InterpretOptions options;
        options.subgroup_size = subgroup_size_;
        options.after_barrier = false;  // run_step has opened the group
        return kir::interpret(program_->kernel(d.kernel).kir, groups, buffers, d.params, options);
    }

    // The workgroup counts of an indirect dispatch. It is a member of its group like any other: its reading them counts.
    Result<std::array<uint32_t, 3>> read_groups(const BindingWindow& w, const std::array<uint32_t, 3>& most) {
        Memory& m = memory(w.segment);
        if (!m.shadow.is_initialised(w.offset, w.bytes))
            return device_error(
                fmt::format("takes its workgroup counts from bytes [{}, +{}) of segment {}, not all of which were "
                            "written",
                            w.offset, w.bytes, w.segment.value));
        if (!m.shadow.touch(w.offset, w.bytes, false))
            return device_error("takes its workgroup counts from bytes that another member of its barrier group writes");
        std::array<uint32_t, 3> groups;
        std::memcpy(groups.data(), m.bytes() + w.offset, sizeof groups);
        for (size_t axis = 0; axis < 3; ++axis)
            if (groups[axis] > most[axis])
                return device_error(
                    fmt::format("finds {} workgroups on axis {}, planned are at most {}", groups[axis], axis, most[axis]));
        return groups;
    }

    Result<void> run_copy(const Copy& c) {
        Memory &source = memory(c.source.segment), &target = memory(c.target.segment);
        if (!source.shadow.is_initialised(c.source.offset, c.source.bytes))
            return device_error(fmt::format("copies bytes [{}, +{}) of segment {}, not all of which were written",
                                            c.source.offset, c.source.bytes, c.source.segment.value));
        const bool ordered = source.shadow.touch(c.source.offset, c.source.bytes, false) &&
                             target.shadow.touch(c.target.offset, c.target.bytes, true);
        if (!ordered) return unordered();
        std::memcpy(target.bytes() + c.target.offset, source.bytes() + c.source.offset, c.source.bytes);
        return {};
    }

    Result<void> run_counter(const BindingWindow& w, uint32_t round) {
        Memory& m = memory(w.segment);
        if (!m.shadow.touch(w.offset, w.bytes, true)) return unordered();
        std::memcpy(m.bytes() + w.offset, &round, sizeof round);
        return {};
    }

    static Error unordered() {
        return device_error("touches bytes that another member of its barrier group writes, or writes what one reads");
    }

    void fail(uint32_t entry, uint32_t step, const BarrierGroup& group, const Member& member, const Error& error) {
        failure_ = device_error(fmt::format("[interp] entry '{}', step {} of the submit, '{}': {}", program_->entries[entry].name,
                                            step, label_of(member), error.message));
        failure_->where = error.where;
        failure_->hint = error.hint;
        if (group.size() == 1 || !failure_->hint.empty()) return;
        constexpr size_t shown = 8;
        std::string others;
        for (size_t i = 0; i < std::min(group.size(), shown); ++i)
            others += fmt::format("{}'{}'", i ? ", " : "", label_of(group[i]));
        failure_->hint =
            fmt::format("its barrier group has {} members: {}{}", group.size(), others, group.size() > shown ? ", ..." : "");
    }

    std::shared_ptr<const Program> program_;
    uint32_t subgroup_size_;
    std::optional<Rings> rings_;
    std::vector<uint64_t> finished_;           // an entry: runs
    std::vector<std::vector<Memory>> memory_;  // a segment, a slot
    uint32_t slot_ = 0;                        // in use
    std::vector<std::pair<SegmentId, ByteRange>> zeros_;
    std::vector<std::vector<BarrierGroup>> groups_;  // an entry
    Shuffler shuffler_;
    std::optional<Error> failure_;
};

class InterpDevice final : public Device {
public:
    explicit InterpDevice(uint32_t subgroup_size) : info_(interp_info(subgroup_size)) {}
    const DeviceInfo& info() const override { return info_; }

    Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program) override {
        TRY(verify(*program, info_.caps));
        const uint64_t bytes = needed_bytes(*program);
        if (bytes > info_.caps.memory_bytes)
            return limit_error(fmt::format("[interp] the program needs {} bytes; this machine can hold and check {}", bytes,
                                           info_.caps.memory_bytes));
        auto executable = std::make_unique<InterpExecutable>(std::move(program), info_.caps.subgroup_size);
        TRY(executable->prepare());
        return std::unique_ptr<Executable>(std::move(executable));
    }

private:
    DeviceInfo info_;
};

}  // namespace

DeviceInfo interp_info(uint32_t subgroup_size) {
    DeviceInfo info;
    info.id = subgroup_size == 32 ? "interp" : fmt::format("interp:{}", subgroup_size);
    info.name = fmt::format("checking interpreter, subgroups of {}", subgroup_size);
    info.driver = "darner";
    info.caps = interpreter_caps(subgroup_size);
    // Each word of a segment takes about six words: itself and what is known of it.
    info.caps.memory_bytes = physical_memory() / 6;
    return info;
}

Result<std::unique_ptr<Device>> open_interp(std::string_view id) {
    uint32_t size = 32;
    constexpr std::string_view prefix = "interp:";
    bool known = id == "interp";
    if (id.starts_with(prefix)) {
        const char* end = id.data() + id.size();
        const auto [parsed, error] = std::from_chars(id.data() + prefix.size(), end, size);
        known = error == std::errc() && parsed == end && std::has_single_bit(size) && size >= 4 && size <= 128;
    }
    if (!known)
        return invalid(fmt::format(
            "[device] no device \"{}\": the interpreter is interp or interp:N with N one of 4, 8, 16, 32, 64, 128", id));
    return std::unique_ptr<Device>(std::make_unique<InterpDevice>(size));
}

}  // namespace darner
