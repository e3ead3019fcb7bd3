// SPDX-License-Identifier: MIT
// verify() finds each violation and lists all of them; barrier groups; look-ups and text.
#include "darner/program/program.h"

#include "darner/program/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace darner {
namespace {

using ::testing::HasSubstr;

kir::Kernel copy_kernel() {
    kir::Kernel k;
    k.name = "copy";
    k.workgroup_size = {64, 1, 1};
    k.bindings = {{"x", kir::Scalar::f32, 1, kir::Access::read, 64}, {"y", kir::Scalar::f32, 1, kir::Access::write, 64}};
    k.params = {"offset"};
    return k;
}

Dispatch dispatch() {
    Dispatch d;
    d.kernel = KernelId(0);
    d.bindings = {{SegmentId(0), 0, 256, kir::Access::read}, {SegmentId(1), 256, 256, kir::Access::write}};
    d.params = {3};
    d.label = "relu";
    return d;
}

Program valid_program() {
    Program p;
    p.segments = {
        {SegmentKind::io, 512}, {SegmentKind::scratch, 512}, {SegmentKind::constant, 256}, {SegmentKind::state, 256, true}};
    p.tensors = {{"x", "f32", {8, 8}, SegmentId(0), 0, 256}, {"n", "u32", {}, SegmentId(3), 0, 4, "counter"}};
    p.kernels = {{copy_kernel(), 1, {}, ""}};
    p.constants = {{SegmentId(2), 0, std::vector<std::byte>(4)}};
    Entry entry;
    entry.name = "step";
    entry.inputs = {TensorId(0)};
    entry.body = {dispatch(), Barrier{}, Copy{{SegmentId(1), 256, 256}, {SegmentId(0), 256, 256}}};
    p.entries = {entry};
    return p;
}

std::string violations(const std::function<void(Program&)>& change) {
    Program p = valid_program();
    change(p);
    const Result<void> verified = verify(p);
    return verified ? "none" : verified.error().message;
}

Dispatch& first(Program& p) { return std::get<Dispatch>(p.entries[0].body[0]); }
Copy& copy(Program& p) { return std::get<Copy>(p.entries[0].body[2]); }

TEST(Verify, ABufferIsReadOnlyOrWritableInADispatchWhereHazardsGoByBuffer) {
    const auto beside_its_output = [](Program& p) { first(p).bindings[0].segment = SegmentId(1); };
    EXPECT_EQ(violations(beside_its_output), "none") << "bytes decide elsewhere";
    EXPECT_THAT(violations([&](Program& p) {
                    beside_its_output(p);
                    p.caps.hazard = HazardKind::per_buffer;
                }),
                HasSubstr("binding 'x' is read-only in segment 1, which 'y' has writable"));
    EXPECT_EQ(violations([&](Program& p) {
                  beside_its_output(p);
                  p.caps.hazard = HazardKind::per_buffer;
                  p.kernels[0].kir.bindings[0].in_written_buffer = true;
              }),
              "none");
}

TEST(Verify, AcceptsAValidProgram) {
    EXPECT_EQ(violations([](Program&) {}), "none");
}

TEST(Verify, Segments) {
    EXPECT_THAT(violations([](Program& p) { p.segments[1].bytes = 1ull << 40; }), HasSubstr("the device's limit is 268435456"));
    EXPECT_THAT(violations([](Program& p) { p.segments[1].bytes = 520; }), HasSubstr("no multiple of 16"));
}

TEST(Verify, KeptZeros) {
    const auto with = [](std::vector<ByteRange> zeros, bool zeroed = true) {
        return violations([&](Program& p) {
            p.segments[1].zeroed = zeroed;
            p.segments[1].kept_zero = zeros;
        });
    };
    EXPECT_EQ(with({{16, 16}, {32, 480}}), "none");
    EXPECT_THAT(with({{16, 16}}, false), HasSubstr("segment 1: keeps zeros but is no zeroed scratch"));
    EXPECT_THAT(with({{16, 16}, {16, 16}}), HasSubstr("not ascending"));
    EXPECT_THAT(with({{500, 16}}), HasSubstr("within its 512 bytes"));
    EXPECT_THAT(with({{UINT64_MAX - 3, 8}}), HasSubstr("within its 512 bytes"));
    EXPECT_THAT(violations([](Program& p) { p.segments[3].kept_zero = {{4, 4}}; }), HasSubstr("segment 3: keeps zeros"));
}

TEST(Verify, Tensors) {
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].segment = SegmentId(9); }),
                HasSubstr("segment 9 does not exist (4 segments)"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].offset = 304; }), HasSubstr("end behind segment 0 of 512 bytes"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].offset = UINT64_MAX - 15; }), HasSubstr("end behind segment"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].offset = 8; }), HasSubstr("offset 8"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].bytes = 200; }), HasSubstr("200 bytes, but f32[8,8] has 256"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].dtype = "x"; }), HasSubstr("unknown dtype 'x'"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].dims = {-1}; }), HasSubstr("impossible dimension -1"));
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].dims = {INT64_MAX, INT64_MAX}; }), HasSubstr("impossible dimension"));
    EXPECT_THAT(violations([](Program& p) { p.entries[0].outputs = {TensorId()}; }), HasSubstr("output tensor"));
}

TEST(Verify, Constants) {
    EXPECT_THAT(violations([](Program& p) { p.constants[0].segment = SegmentId(1); }), HasSubstr("does not last"));
    EXPECT_THAT(violations([](Program& p) { p.constants[0].offset = 255; }), HasSubstr("end behind segment 2"));
    EXPECT_THAT(violations([](Program& p) {
                    first(p).bindings[1].segment = SegmentId(2);
                    first(p).bindings[1].offset = 0;
                }),
                HasSubstr("writes constant segment 2"));
}

TEST(Verify, Kernels) {
    EXPECT_THAT(violations([](Program& p) {
                    p.kernels[0].kir.workgroup_size = {0, 1, 1};
                }),
                HasSubstr("workgroup size 0 on axis 0"));
    EXPECT_THAT(violations([](Program& p) { p.kernels[0].kir.workgroup_size = {256, 2, 1}; }), HasSubstr("512 invocations"));
    EXPECT_THAT(violations([](Program& p) { p.kernels[0].kir.required_subgroup_size = 32; }), HasSubstr("subgroups of 32"));
    EXPECT_THAT(violations([](Program& p) { p.caps.max_storage_bindings = 1; }),
                HasSubstr("2 bindings, the device's limit is 1"));
    EXPECT_THAT(violations([](Program& p) { p.caps.max_param_bytes = 0; }), HasSubstr("4 bytes of parameters"));
    EXPECT_THAT(violations([](Program& p) {
                    p.kernels[0].kir.arrays = {{"tile", kir::ArraySpace::workgroup, kir::f32_type, 5000}};
                }),
                HasSubstr("20000 bytes of workgroup memory"));
}

TEST(Verify, Dispatches) {
    EXPECT_THAT(violations([](Program& p) { first(p).kernel = KernelId(4); }), HasSubstr("kernel 4 does not exist"));
    EXPECT_THAT(violations([](Program& p) { first(p).groups[1] = 0; }), HasSubstr("0 workgroups on axis 1"));
    EXPECT_THAT(violations([](Program& p) { first(p).groups[0] = 70000; }), HasSubstr("70000 workgroups"));
    EXPECT_THAT(violations([](Program& p) { first(p).params.clear(); }), HasSubstr("0 parameter words, kernel 'copy' takes 1"));
    EXPECT_THAT(violations([](Program& p) { first(p).bindings.pop_back(); }), HasSubstr("1 bindings, kernel 'copy' has 2"));
    EXPECT_THAT(violations([](Program& p) { first(p).bindings[0].access = kir::Access::inout; }), HasSubstr("bound for inout"));
    EXPECT_THAT(violations([](Program& p) { first(p).bindings[0].offset = 128; }), HasSubstr("no multiple of the device's 256"));
    EXPECT_THAT(violations([](Program& p) { first(p).bindings[0].bytes = 128; }), HasSubstr("touches 64 elements of 4 bytes"));
    EXPECT_THAT(violations([](Program& p) {
                    first(p).bindings[0] = first(p).bindings[1];
                    first(p).bindings[0].access = kir::Access::read;
                }),
                HasSubstr("'x' and 'y' overlap"));
    EXPECT_THAT(violations([](Program& p) { p.caps.max_binding_bytes = 128; }), HasSubstr("window of 256 bytes"));
}

TEST(Verify, Copies) {
    EXPECT_THAT(violations([](Program& p) { copy(p).target.bytes = 128; }), HasSubstr("source has 256 bytes, target 128"));
    EXPECT_THAT(violations([](Program& p) { copy(p).target.offset = 254; }), HasSubstr("multiples of 4"));
    EXPECT_THAT(violations([](Program& p) { copy(p).target = copy(p).source; }), HasSubstr("source and target overlap"));
    EXPECT_THAT(violations([](Program& p) { copy(p).target.segment = SegmentId(2); }), HasSubstr("copy target"));
}

// The valid program with a ring of two slots for its input.
std::string ring_violations(const std::function<void(Program&)>& change) {
    return violations([&](Program& p) {
        p.segments[0].slots = 2;
        p.tensors[0].per_step = true;
        change(p);
    });
}

TEST(Verify, Rings) {
    EXPECT_EQ(ring_violations([](Program&) {}), "none");
    EXPECT_EQ(ring_violations([](Program& p) { p.segments[0].slots = 1; }), "none");
    EXPECT_THAT(ring_violations([](Program& p) { p.segments[0].slots = 0; }), HasSubstr("segment 0: a ring of 0 slots"));
    EXPECT_THAT(ring_violations([](Program& p) { p.segments[0].slots = 1u << 20; }), HasSubstr("allowed are 1 to 1024"));
    EXPECT_THAT(ring_violations([](Program& p) { p.segments[3].slots = 2; }), HasSubstr("2 slots of kind state"));
    EXPECT_THAT(ring_violations([](Program& p) { p.tensors[0].per_step = false; }),
                HasSubstr("not per step, but in ring segment 0"));
    EXPECT_THAT(ring_violations([](Program& p) { p.tensors[1].per_step = true; }),
                HasSubstr("'n': per step, but in segment 3 of kind state"));
    EXPECT_THAT(ring_violations([](Program& p) {
                    p.segments[0].slots = 1;
                    p.tensors.push_back(p.tensors[0]);
                    p.tensors.back().per_step = false;
                }),
                HasSubstr("segment 0 holds tensors per step and others"));
    EXPECT_THAT(ring_violations([](Program& p) {
                    p.entries.push_back(p.entries[0]);
                    p.entries[1].name = "eval";
                }),
                HasSubstr("not valid: entry 'eval': uses ring segment 0 of entry 'step'"));
}

TEST(Verify, Tables) {
    EXPECT_THAT(violations([](Program& p) { p.entries[0].inputs.push_back(TensorId(0)); }), HasSubstr("input 'x' appears twice"));
    EXPECT_EQ(violations([](Program& p) { p.entries[0].outputs.push_back(TensorId(0)); }), "none");
    EXPECT_THAT(violations([](Program& p) { p.tensors[0].segment = SegmentId(1); }),
                HasSubstr("input 'x' lies in segment 1 of kind scratch"));
    EXPECT_THAT(violations([](Program& p) { p.tensors.push_back(p.tensors[1]); }), HasSubstr("state tensor 'n' appears twice"));
}

TEST(Verify, IndirectDispatches) {
    const auto from = [](BindingWindow window, bool per_buffer = false) {
        return violations([&](Program& p) {
            first(p).groups_from = window;
            if (per_buffer) p.caps.hazard = HazardKind::per_buffer;
        });
    };
    EXPECT_EQ(from({SegmentId(3), 244, 12}), "none");
    EXPECT_EQ(from({SegmentId(0), 0, 12}), "none");  // which the dispatch reads
    EXPECT_EQ(from({SegmentId(1), 244, 12}), "none");
    EXPECT_THAT(from({SegmentId(1), 244, 12}, true), HasSubstr("binding 'y' of the same dispatch writes in their segment"));
    EXPECT_THAT(from({SegmentId(1), 248, 12}), HasSubstr("binding 'y' of the same dispatch writes them"));
    EXPECT_THAT(from({SegmentId(3), 246, 12}), HasSubstr("bytes [246, +12) are not three words"));
    EXPECT_THAT(from({SegmentId(3), 0, 16}), HasSubstr("are not three words"));
    EXPECT_THAT(from({SegmentId(3), 248, 12}), HasSubstr("end behind segment 3 of 256 bytes"));
    EXPECT_THAT(from({SegmentId(9), 0, 12}), HasSubstr("segment 9 does not exist"));
}

TEST(Verify, CountersOfRepeats) {
    const auto with = [](BindingWindow counter, std::vector<Item> body) {
        return violations([&](Program& p) { p.entries[0].body = {Repeat{3, body, counter}}; });
    };
    const Copy into_state{{SegmentId(0), 0, 16}, {SegmentId(3), 64, 16}};
    const Copy from_counter{{SegmentId(3), 128, 4}, {SegmentId(3), 132, 4}};
    EXPECT_EQ(with({SegmentId(3), 128, 4}, {dispatch(), from_counter}), "none");
    EXPECT_EQ(with({SegmentId(3), 80, 4}, {into_state}), "none");
    EXPECT_THAT(with({SegmentId(3), 76, 4}, {into_state}), HasSubstr("copy target: writes the counter of a repeat around it"));
    EXPECT_THAT(with({SegmentId(1), 508, 4}, {Repeat{2, {dispatch()}}}), HasSubstr("'relu', binding 'y': writes the counter"));
    EXPECT_THAT(with({SegmentId(3), 8, 4}, {Repeat{2, {dispatch()}, BindingWindow{SegmentId(3), 8, 4}}}),
                HasSubstr("counter of a repeat: writes the counter of a repeat around it"));
    EXPECT_EQ(with({SegmentId(3), 8, 4}, {Repeat{2, {dispatch()}, BindingWindow{SegmentId(3), 12, 4}}}), "none");
    EXPECT_THAT(with({SegmentId(2), 0, 4}, {dispatch()}), HasSubstr("writes constant segment 2"));
    EXPECT_THAT(with({SegmentId(3), 2, 4}, {dispatch()}), HasSubstr("bytes [2, +4) are not one word"));
    EXPECT_THAT(with({SegmentId(3), 0, 8}, {dispatch()}), HasSubstr("are not one word"));
    EXPECT_THAT(with({SegmentId(3), 256, 4}, {dispatch()}), HasSubstr("end behind segment 3"));
    EXPECT_THAT(with({SegmentId(7), 0, 4}, {dispatch()}), HasSubstr("segment 7 does not exist"));
}

TEST(Verify, ListsAllViolationsWithTheirPlace) {
    const std::string text = violations([](Program& p) {
        first(p).groups[1] = 0;
        first(p).params.clear();
        p.entries.push_back(p.entries[0]);
    });
    EXPECT_THAT(text, HasSubstr("entry 'step', dispatch 'relu': 0 workgroups on axis 1"));
    EXPECT_THAT(text, HasSubstr("entry 'step', dispatch 'relu': 0 parameter words"));
    EXPECT_THAT(text, HasSubstr("entry 'step' appears twice"));
}

TEST(Verify, ManyViolationsAreCounted) {
    const std::string text = violations([](Program& p) {
        for (int i = 0; i < 100; ++i) p.entries[0].inputs.push_back(TensorId(1000 + i));
    });
    EXPECT_THAT(text, HasSubstr("input tensor 1000 does not exist"));
    EXPECT_THAT(text, HasSubstr("; and 90 more"));
}

TEST(Verify, DeepNestingIsRefused) {
    EXPECT_THAT(violations([](Program& p) {
                    std::vector<Item> body = {dispatch()};
                    for (int i = 0; i < 40; ++i) {
                        Repeat r;
                        r.count = 1;
                        r.body = std::move(body);
                        body = {r};
                    }
                    p.entries[0].body = body;
                }),
                HasSubstr("nest deeper"));
}

TEST(Verify, OtherCapsThanTheProgramsOwn) {
    Caps small;
    small.max_segment_bytes = 256;
    EXPECT_TRUE(verify(valid_program()));
    EXPECT_FALSE(verify(valid_program(), small));
}

TEST(BarrierGroups, UnrollsAndMerges) {
    Repeat thrice;
    thrice.count = 3;
    thrice.body = {dispatch(), Barrier{}};
    Entry entry;
    entry.body = {Barrier{}, dispatch(), dispatch(), Barrier{}, Barrier{}, thrice, dispatch(), Barrier{}};
    const Result<std::vector<BarrierGroup>> groups = barrier_groups(entry);
    ASSERT_TRUE(groups);
    std::vector<size_t> sizes;
    for (const BarrierGroup& group : *groups) sizes.push_back(group.size());
    EXPECT_EQ(sizes, (std::vector<size_t>{2, 1, 1, 1, 1}));
}

TEST(BarrierGroups, RefusesWhatCannotBeRecorded) {
    std::vector<Item> body = {dispatch()};
    for (int i = 0; i < 3; ++i) {
        Repeat r;
        r.count = UINT32_MAX;
        r.body = std::move(body);
        body = {r};
    }
    Entry entry;
    entry.name = "long";
    entry.body = body;
    const Result<std::vector<BarrierGroup>> groups = barrier_groups(entry);
    ASSERT_FALSE(groups);
    EXPECT_THAT(groups.error().message, HasSubstr("entry 'long' unrolls to more than 2^64 items"));
}

TEST(BarrierGroups, EmptyBodiesCostNothing) {
    Repeat idle;
    idle.count = UINT32_MAX;
    Repeat outer;
    outer.count = UINT32_MAX;
    outer.body = {idle};
    Entry entry;
    entry.body = {idle, outer};
    const Result<std::vector<BarrierGroup>> groups = barrier_groups(entry);
    ASSERT_TRUE(groups);
    EXPECT_TRUE(groups->empty());
}

TEST(BarrierGroups, CountersStandAlone) {
    const BindingWindow outer{SegmentId(3), 0, 4}, inner{SegmentId(3), 16, 4};
    Entry entry;
    entry.body = {dispatch(), Repeat{2, {dispatch(), Repeat{2, {dispatch()}, inner}}, outer}, Repeat{3, {Barrier{}}, outer},
                  dispatch()};
    const auto groups = barrier_groups(entry);
    ASSERT_TRUE(groups);
    std::string order;
    for (const BarrierGroup& group : *groups) {
        order += order.empty() ? "" : " | ";
        for (const Member& member : group) {
            EXPECT_EQ((member.dispatch != nullptr) + (member.copy != nullptr) + (member.counter != nullptr), 1);
            if (member.counter) EXPECT_EQ(group.size(), 1u);
            order += !member.counter ? "d" : (member.counter->offset == 0 ? "outer" : "inner") + std::to_string(member.round);
        }
    }
    const std::string round = "d | inner0 | d | inner1 | d";
    EXPECT_EQ(order, "d | outer0 | " + round + " | outer1 | " + round + "d");
}

TEST(BarrierGroups, CountersCountAsItems) {
    Entry entry;
    entry.body = {Repeat{3u << 20, {dispatch()}}};
    EXPECT_TRUE(barrier_groups(entry));
    std::get<Repeat>(entry.body[0]).counter = BindingWindow{SegmentId(3), 0, 4};
    EXPECT_THAT(barrier_groups(entry).error().message, HasSubstr("unrolls to 6291456 items"));
}

TEST(Program, LookUps) {
    const Program p = valid_program();
    EXPECT_EQ(p.find_entry("step"), &p.entries[0]);
    EXPECT_EQ(p.find_entry("eval"), nullptr);
    EXPECT_EQ(p.find_state("n"), TensorId(1));
    EXPECT_FALSE(p.find_state("x").valid());  // an input, no state
}

TEST(Program, TextOfRingsIndirectDispatchesAndCounters) {
    Program p = valid_program();
    p.segments[0].slots = 4;
    p.tensors[0].per_step = true;
    first(p).groups_from = BindingWindow{SegmentId(3), 16, 12};
    p.entries[0].body = {Repeat{5, p.entries[0].body, BindingWindow{SegmentId(3), 32, 4}}};
    const std::string text = to_text(p);
    EXPECT_THAT(text, HasSubstr("segment s0 io 512 bytes slots 4\n"));
    EXPECT_THAT(text, HasSubstr("tensor t0 x f32[8,8] s0[0+256] per_step\n"));
    EXPECT_THAT(text, HasSubstr("params 3 groups from s3[16+12]  # relu\n"));
    EXPECT_THAT(text, HasSubstr("  repeat 5 counter s3[32+4] {\n"));
}

TEST(Program, TextNamesWhatIsThere) {
    const std::string text = to_text(valid_program());
    EXPECT_THAT(text, HasSubstr("segment s3 state 256 bytes zeroed"));
    EXPECT_THAT(text, HasSubstr("tensor t0 x f32[8,8] s0[0+256]"));
    EXPECT_THAT(text,
                HasSubstr("  dispatch k0 copy [1, 1, 1] (read s0[0+256], write s1[256+256]) params 3  # relu\n  barrier\n"));
    EXPECT_THAT(text, HasSubstr("copy s1[256+256] -> s0[256+256]"));
}

TEST(Caps, PresetsAreConsistent) {
    EXPECT_EQ(webgpu_default_caps().code, CodeKind::wgsl);
    EXPECT_EQ(webgpu_default_caps().hazard, HazardKind::per_buffer);
    EXPECT_EQ(interpreter_caps(8).subgroup_size, 8u);
    EXPECT_STREQ(to_string(DeviceKind::cpu), "cpu");
    EXPECT_STREQ(to_string(CodeKind::spirv), "spirv");
}

}  // namespace
}  // namespace darner
