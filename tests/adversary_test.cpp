// SPDX-License-Identifier: MIT
// The interpreter device is what proves barriers and aliasing, so it must see every mistake in them: in the Programs of small
// training steps each barrier in turn is deleted, and each scratch buffer's life is shortened by one barrier group, so that
// another buffer takes its bytes while they are still read. Every such Program must be reported. A deletion that is not is a
// barrier that the planner need not emit, or a check that the interpreter lacks.
#include "darner/program/groups.h"
#include "darner/runtime/devices.h"
#include "tests/compare.h"
#include "tests/networks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace darner::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uint32_t steps = 2;  // the second starts on what the first left
const auto is_hazard =
    AnyOf(HasSubstr("race: "), HasSubstr("uninitialised read: "), HasSubstr("another member of its barrier group"),
          HasSubstr("not all of which were written"), HasSubstr("overlap and one is written"));

std::vector<Item>& body_of_step(Program& program) {
    return std::find_if(program.entries.begin(), program.entries.end(), [](const Entry& e) { return e.name == "step"; })->body;
}

// A network's Program, with the state that `init` gives and one batch: what a changed Program is run with.
class Trial {
public:
    Trial(const TestNetwork& network, const PlanOptions& options) : device_(*open_device("interp")) {
        CompileOptions compile_options;
        compile_options.open = device_;
        compile_options.plan = options;
        compile_options.seed = 5;
        Result<Session> session = compile(network.module, compile_options);
        if (!session) {
            ADD_FAILURE() << network.name << ": " << session.error().text();
            return;
        }
        program_ = session->program();
        for (const std::string& name : session->state()) values_[name] = *session->read(name);
        for (const auto& [name, tensor] : network.inputs(3)) values_[name] = array_of(tensor);
    }

    const Program& program() const { return program_; }

    // What the device says of the Program, when it is loaded or in some steps; "" when it finds nothing.
    std::string error_of(Program changed) const {
        const auto program = std::make_shared<const Program>(std::move(changed));
        Result<std::unique_ptr<Executable>> executable = device_->load(program);
        if (!executable) return executable.error().text();
        Session session(device_, program, std::move(*executable));
        for (const auto& [name, value] : values_)
            if (Result<void> written = session.write(name, value); !written) return written.error().text();
        if (Result<void> queued = session.submit("step", steps); !queued) return queued.error().text();
        const Result<void> done = session.wait();
        return done ? "" : done.error().text();
    }

private:
    std::shared_ptr<Device> device_;
    Program program_;
    NamedArrays values_;
};

// --- barriers -----------------------------------------------------------------------------------------------------------

size_t count_barriers(const std::vector<Item>& body) {
    size_t count = 0;
    for (const Item& item : body) {
        if (std::holds_alternative<Barrier>(item)) ++count;
        if (const auto* repeat = std::get_if<Repeat>(&item)) count += count_barriers(repeat->body);
    }
    return count;
}

// Deletes the barrier that `index` others precede, those within repeats included; what stood before it, for messages.
std::string delete_barrier(std::vector<Item>& body, size_t& index) {
    std::string before = "the start";
    for (size_t i = 0; i < body.size(); ++i) {
        if (std::holds_alternative<Barrier>(body[i]) && index-- == 0) {
            body.erase(body.begin() + static_cast<ptrdiff_t>(i));
            return before;
        }
        if (const auto* dispatch = std::get_if<Dispatch>(&body[i])) before = dispatch->label;
        if (auto* repeat = std::get_if<Repeat>(&body[i]))
            if (std::string found = delete_barrier(repeat->body, index); !found.empty()) return found;
    }
    return {};
}

class Adversary : public ::testing::TestWithParam<TestNetwork (*)()> {};

TEST_P(Adversary, EveryDeletedBarrierIsReported) {
    const Trial trial(GetParam()(), {});
    ASSERT_EQ(trial.error_of(trial.program()), "");
    Program original = trial.program();
    const size_t count = count_barriers(body_of_step(original));
    ASSERT_GT(count, 5u);
    for (size_t i = 0; i < count; ++i) {
        Program changed = trial.program();
        size_t index = i;
        const std::string before = delete_barrier(body_of_step(changed), index);
        ASSERT_EQ(count_barriers(body_of_step(changed)), count - 1);
        EXPECT_THAT(trial.error_of(std::move(changed)), is_hazard) << "barrier " << i << " of " << count << ", behind " << before;
    }
}

// --- lives --------------------------------------------------------------------------------------------------------------

// A window onto a scratch buffer and the barrier group of its dispatch.
struct Touch {
    uint64_t offset = 0, bytes = 0;
    uint32_t group = 0;
    size_t item = 0;  // of the entry's body
};

// Bytes of a scratch segment that windows of the step span.
struct ScratchBuffer {
    SegmentId segment;
    uint64_t begin = 0, end = 0;
    std::vector<Touch> touches;  // in order

    uint64_t bytes() const { return end - begin; }
    uint32_t first_group() const { return touches.front().group; }
    uint32_t last_group() const { return touches.back().group; }
    bool shares_dispatch(const ScratchBuffer& other) const {
        for (const Touch& a : touches)
            for (const Touch& b : other.touches)
                if (a.item == b.item) return true;
        return false;
    }
    // The widest in a group.
    Touch touch_in(uint32_t group) const {
        Touch widest;
        for (const Touch& touch : touches)
            if (touch.group == group && touch.bytes > widest.bytes) widest = touch;
        return widest;
    }
    bool holds(const BindingWindow& window) const {
        return window.segment == segment && window.offset < end && begin < window.offset + window.bytes;
    }
};

// Calls `visit(window, number of its barrier group, index of its item)` for every window of the step.
template <class Body, class Visit>
void for_each_window(Body& body, const Visit& visit) {
    uint32_t group = 0;
    for (size_t i = 0; i < body.size(); ++i) {
        if (std::holds_alternative<Barrier>(body[i])) ++group;
        EXPECT_FALSE(std::holds_alternative<Repeat>(body[i])) << "lives within rounds are not followed here";
        if (auto* dispatch = std::get_if<Dispatch>(&body[i]))
            for (auto& window : dispatch->bindings) visit(window, group, i);
        if (auto* copy = std::get_if<Copy>(&body[i])) {
            visit(copy->source, group, i);
            visit(copy->target, group, i);
        }
    }
}

// Of a Program in which no two buffers share bytes, so that overlapping windows show the same buffer.
std::vector<ScratchBuffer> scratch_buffers(Program program) {
    std::vector<ScratchBuffer> buffers;
    for_each_window(body_of_step(program), [&](const BindingWindow& window, uint32_t group, size_t item) {
        if (program.segment(window.segment).kind != SegmentKind::scratch || window.bytes == 0) return;
        ScratchBuffer all{window.segment, window.offset, window.offset + window.bytes, {}};
        std::erase_if(buffers, [&](const ScratchBuffer& known) {
            if (!known.holds(window)) return false;
            all.begin = std::min(all.begin, known.begin);
            all.end = std::max(all.end, known.end);
            all.touches.insert(all.touches.end(), known.touches.begin(), known.touches.end());
            return true;
        });
        all.touches.push_back({window.offset, window.bytes, group, item});
        std::stable_sort(all.touches.begin(), all.touches.end(),
                         [](const Touch& x, const Touch& y) { return x.group < y.group; });
        buffers.push_back(all);
    });
    return buffers;
}

uint64_t align(uint64_t offset, const Caps& caps) {
    const uint64_t alignment = std::max<uint64_t>(16, caps.offset_alignment);
    return (offset + alignment - 1) / alignment * alignment;
}

void move(Program& program, const ScratchBuffer& buffer, SegmentId segment, uint64_t offset) {
    Segment& target = program.segments[segment.value];
    target.bytes = std::max(target.bytes, align(offset + buffer.bytes(), program.caps));
    // The gaps of a bundle stay zero where it moves to, behind all that is there.
    const std::vector<ByteRange> gaps = program.segments[buffer.segment.value].kept_zero;
    for (const ByteRange& gap : gaps)
        if (buffer.begin <= gap.offset && gap.offset < buffer.end)
            target.kept_zero.push_back({offset + (gap.offset - buffer.begin), gap.bytes});
    for_each_window(body_of_step(program), [&](BindingWindow& window, uint32_t, size_t) {
        if (!buffer.holds(window)) return;
        window.segment = segment;
        window.offset = offset + (window.offset - buffer.begin);
    });
}

// What a planner might do if it took `dying`'s life to end one group early: `heir`, whose life begins in the group of that last
// use, gets bytes of it. Both move behind all other memory, so that nothing else changes. `apart`: they share no bytes after all.
Program with_heir(Program program, const ScratchBuffer& dying, const ScratchBuffer& heir, bool apart) {
    // Memory that the planner wants zeroed stays that.
    const SegmentId segment = program.segment(dying.segment).zeroed ? dying.segment : heir.segment;
    // Bundles are touched piece by piece: the pieces of that group are what must meet.
    const uint64_t in_dying = dying.touch_in(dying.last_group()).offset - dying.begin;
    const uint64_t in_heir = heir.touch_in(dying.last_group()).offset - heir.begin;
    const uint64_t meeting = program.segment(segment).bytes + std::max(in_dying, in_heir);
    move(program, dying, segment, meeting - in_dying);
    move(program, heir, segment, apart ? program.segment(segment).bytes : meeting - in_heir);
    return program;
}

// The buffer to give `dying`'s bytes to: the one with the widest window in the group, which leaves the fewest bytes of it out;
// one of another dispatch where there is any, since a dispatch whose own bindings overlap is refused before it runs.
const ScratchBuffer* early_heir(const std::vector<ScratchBuffer>& buffers, const ScratchBuffer& dying) {
    const ScratchBuffer* best = nullptr;
    const uint32_t group = dying.last_group();
    const auto rank = [&](const ScratchBuffer& heir) {
        return std::pair(!heir.shares_dispatch(dying), heir.touch_in(group).bytes);
    };
    for (const ScratchBuffer& other : buffers)
        if (other.first_group() == group && dying.first_group() < group && (best == nullptr || rank(other) > rank(*best)))
            best = &other;
    return best;
}

TEST_P(Adversary, EveryShortenedLifeIsReported) {
    // Where no two buffers share bytes, a window tells its buffer.
    const Trial trial(GetParam()(), {.alias_scratch = false});
    const std::vector<ScratchBuffer> buffers = scratch_buffers(trial.program());
    size_t tried = 0, seen_in_a_step = 0;
    for (const ScratchBuffer& dying : buffers) {
        const ScratchBuffer* heir = early_heir(buffers, dying);
        if (heir == nullptr) continue;  // nothing starts in the group of its last use: a shorter life frees bytes for nobody
        ++tried;
        SCOPED_TRACE(fmt::format("bytes {} to {} of segment {}", dying.begin, dying.end, dying.segment.value));
        EXPECT_EQ(trial.error_of(with_heir(trial.program(), dying, *heir, true)), "");
        const std::string error = trial.error_of(with_heir(trial.program(), dying, *heir, false));
        EXPECT_THAT(error, is_hazard);
        seen_in_a_step += error.find("[interp]") != std::string::npos;
    }
    EXPECT_GT(tried, buffers.size() / 2) << "of " << buffers.size();
    EXPECT_GT(seen_in_a_step, 0u);
    RecordProperty("tried", static_cast<int>(tried));
    RecordProperty("buffers", static_cast<int>(buffers.size()));
    RecordProperty("seen_in_a_step", static_cast<int>(seen_in_a_step));
}

INSTANTIATE_TEST_SUITE_P(Networks, Adversary, ::testing::Values(&mlp_network, &deep_mlp_network, &transformer_network),
                         [](const auto& info) { return info.param().name; });

}  // namespace
}  // namespace darner::test
