// SPDX-License-Identifier: MIT
// Shadow: what the checking interpreter knows about each 32-bit word of a memory: whether it was ever written, and who last
// touched it. A device holds one per segment for a whole Program run; the interpreter makes its own where none is given.
//
// Time is counted in epochs: each stretch of one workgroup between two barriers is one. Two accesses of a word are unordered
// when they are of different workgroups since begin_dispatch(), or of different invocations in one epoch. Workgroups run one
// after the other, so it is enough to keep the last write, the last read and the first read of a word.
#pragma once

#include <cstdint>
#include <vector>

namespace darner::kir {

class Shadow {
public:
    Shadow() = default;
    explicit Shadow(uint64_t bytes, bool initialised = false);

    // Everything before is ordered before what follows: a barrier between dispatches.
    void begin_dispatch();

    // Byte ranges, rounded outwards to 2 bytes. poison() makes a range uninitialised.
    void mark_initialised(uint64_t offset, uint64_t bytes);
    void poison(uint64_t offset, uint64_t bytes);
    bool is_initialised(uint64_t offset, uint64_t bytes) const;
    uint64_t bytes() const { return uint64_t{words_.size()} * 4; }

    // Records a copy's access to a range, as by a workgroup of its own. False when it is unordered with an earlier access
    // since begin_dispatch(); a write also initialises.
    bool touch(uint64_t offset, uint64_t bytes, bool write);

    // ---- for the interpreter ----

    // Invocation numbers below 0x8000 are single invocations; a cooperative access of subgroup s is coop_base + s.
    static constexpr uint16_t coop_base = 0x8000, several = 0xfffe, atomic_writer = 0xffff;
    enum class Conflict : uint8_t { none, workgroups, invocations };

    // The epochs of one workgroup's current stretch.
    struct Moment {
        uint32_t group_start, now;
    };
    uint32_t next_epoch() const { return next_; }
    void use_epochs(uint32_t end) { next_ = end > next_ ? end : next_; }

    Conflict on_read(uint64_t word, Moment m, uint16_t who) {
        Word& w = words_[word];
        if (w.written >= start_) {
            if (w.written < m.group_start) return Conflict::workgroups;
            if (w.written == m.now && w.writer != who) return Conflict::invocations;
        }
        if (w.first_read < start_) w.first_read = m.now;
        w.reader = w.read == m.now && w.reader != who ? several : who;
        w.read = m.now;
        return Conflict::none;
    }
    Conflict on_write(uint64_t word, Moment m, uint16_t who) {
        Word& w = words_[word];
        bool both_atomic = who == atomic_writer && w.writer == atomic_writer;
        if (w.written >= start_ && !both_atomic) {
            if (w.written < m.group_start) return Conflict::workgroups;
            if (w.written == m.now && w.writer != who) return Conflict::invocations;
        }
        if (w.first_read >= start_ && w.first_read < m.group_start) return Conflict::workgroups;
        if (w.read == m.now && w.reader != who) return Conflict::invocations;
        w.written = m.now;
        w.writer = who;
        return Conflict::none;
    }
    // Bit h of a word: its half h is initialised.
    uint8_t halves(uint64_t word) const { return initialised_[word]; }
    void set_halves(uint64_t word, uint8_t mask) { initialised_[word] |= mask; }

private:
    struct Word {
        uint32_t written = 0, first_read = 0, read = 0;  // epochs; 0: never
        uint16_t writer = 0, reader = 0;
    };
    std::vector<Word> words_;
    std::vector<uint8_t> initialised_;
    uint32_t start_ = 1, next_ = 1;
};

}  // namespace darner::kir
