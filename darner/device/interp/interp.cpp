// SPDX-License-Identifier: MIT
// The interpreter device.
#include "darner/device/interp/interp.h"

#include "darner/kir/interpret.h"
#include "darner/program/groups.h"
#include "darner/program/host_calls.h"

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

std::string label_of(const Member& member) { return member.dispatch ? member.dispatch->label : "copy"; }

class InterpExecutable final : public Executable {
public:
    InterpExecutable(std::shared_ptr<const Program> program, uint32_t subgroup_size)
        : program_(std::move(program)), subgroup_size_(subgroup_size) {}

    Result<void> prepare() {
        for (const Segment& s : program_->segments) {
            Memory& m = memory_.emplace_back();
            m.words.assign(s.bytes / 4, s.zeroed ? 0 : poison_word);
            m.shadow = kir::Shadow(s.bytes, s.zeroed);
        }
        for (const Constant& c : program_->constants) put(c.segment, c.offset, c.bytes);
        for (const Entry& entry : program_->entries) {
            TRY(std::vector<BarrierGroup> groups, barrier_groups(entry));
            groups_.push_back(std::move(groups));
        }
        return {};
    }

    Result<void> write(TensorId tensor, std::span<const std::byte> bytes) override {
        TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "write"));
        put(t->segment, t->offset, bytes);
        return {};
    }

    Result<void> read(TensorId tensor, std::span<std::byte> bytes) override {
        TRY(const ProgramTensor* t, find_tensor(*program_, tensor, bytes.size(), "read"));
        TRY(wait());
        Memory& m = memory_[t->segment.value];
        if (!m.shadow.is_initialised(t->offset, t->bytes))
            return invalid(fmt::format("[interp] tensor '{}' was read, but not all of it was ever written", t->name));
        if (!bytes.empty()) std::memcpy(bytes.data(), m.bytes() + t->offset, bytes.size());
        return {};
    }

    Result<void> submit(uint32_t entry, uint32_t steps) override {
        TRY(check_entry(*program_, entry));
        for (uint32_t step = 0; step < steps && !failure_; ++step) run_step(entry, step, nullptr);
        return {};
    }

    Result<void> wait() override {
        if (failure_) return *failure_;
        return {};
    }

    Result<std::vector<DispatchTime>> profile(uint32_t entry) override {
        TRY(check_entry(*program_, entry));
        std::vector<DispatchTime> times;
        if (!failure_) run_step(entry, 0, &times);
        TRY(wait());
        return times;
    }

private:
    // The last word is filled up with zeros: kernels read packed dtypes as whole words.
    void put(SegmentId segment, uint64_t offset, std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        Memory& m = memory_[segment.value];
        const uint64_t whole = (bytes.size() + 3) / 4 * 4;
        std::memset(m.bytes() + offset + whole - 4, 0, 4);
        std::memcpy(m.bytes() + offset, bytes.data(), bytes.size());
        m.shadow.mark_initialised(offset, whole);
    }

    void poison_scratch() {
        for (size_t i = 0; i < memory_.size(); ++i) {
            if (!is_poisoned(program_->segments[i])) continue;
            std::fill(memory_[i].words.begin(), memory_[i].words.end(), poison_word);
            memory_[i].shadow.poison(0, program_->segments[i].bytes);
        }
    }

    void run_step(uint32_t entry, uint32_t step, std::vector<DispatchTime>* times) {
        poison_scratch();
        for (const BarrierGroup& group : groups_[entry]) {
            for (Memory& m : memory_) m.shadow.begin_dispatch();
            std::vector<Member> order = group;
            shuffler_.shuffle(order);
            for (const Member& member : order) {
                const auto start = std::chrono::steady_clock::now();
                const Result<void> done = member.dispatch ? run_dispatch(*member.dispatch) : run_copy(*member.copy);
                if (!done) return fail(entry, step, group, member, done.error());
                const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
                if (times) times->push_back({label_of(member), seconds.count()});
            }
        }
    }

    Result<void> run_dispatch(const Dispatch& d) {
        std::vector<kir::Buffer> buffers;
        for (const BindingWindow& w : d.bindings) {
            Memory& m = memory_[w.segment.value];
            buffers.push_back({m.bytes() + w.offset, w.bytes, &m.shadow, w.offset});
        }
        kir::InterpretOptions options;
        options.subgroup_size = subgroup_size_;
        options.after_barrier = false;  // run_step has opened the group
        return kir::interpret(program_->kernel(d.kernel).kir, d.groups, buffers, d.params, options);
    }

    Result<void> run_copy(const Copy& c) {
        Memory &source = memory_[c.source.segment.value], &target = memory_[c.target.segment.value];
        if (!source.shadow.is_initialised(c.source.offset, c.source.bytes))
            return device_error(fmt::format("copies bytes [{}, +{}) of segment {}, not all of which were written",
                                            c.source.offset, c.source.bytes, c.source.segment.value));
        const bool ordered = source.shadow.touch(c.source.offset, c.source.bytes, false) &&
                             target.shadow.touch(c.target.offset, c.target.bytes, true);
        if (!ordered)
            return device_error("touches bytes that another member of its barrier group writes, or writes what one reads");
        std::memcpy(target.bytes() + c.target.offset, source.bytes() + c.source.offset, c.source.bytes);
        return {};
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
    std::vector<Memory> memory_;                     // a segment
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
        uint64_t bytes = 0;
        for (const Segment& s : program->segments) bytes += s.bytes;
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
