// SPDX-License-Identifier: MIT
// Kernels cut into parts over windows: run part by part on the checking interpreter, which sees every access outside a window,
// against the same kernel run whole; and what the parts look like.
#include "darner/kernels/windows.h"

#include "darner/kernels/grid.h"
#include "darner/kir/interpret.h"
#include "darner/kir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace darner::kernels {
namespace {

using kir::Access;
using kir::Builder;
using kir::Expr;
using kir::Scalar;

Caps caps_of(uint64_t bytes, uint32_t bindings = 8) {
    Caps caps;
    caps.max_binding_bytes = bytes;
    caps.max_storage_bindings = bindings;
    return caps;
}

using Words = std::vector<std::vector<uint32_t>>;  // by binding

std::vector<kir::Buffer> bound(const std::vector<Window>& windows, Words& words) {
    std::vector<kir::Buffer> buffers;
    for (const Window& w : windows) {
        auto* bytes = reinterpret_cast<std::byte*>(words[w.binding].data());
        buffers.push_back({bytes + w.offset, w.bytes});
    }
    return buffers;
}

// "" when the parts give what the whole gives.
std::string run_both(const kir::Kernel& kernel, std::array<uint32_t, 3> groups, const Caps& caps, size_t* parts = nullptr) {
    Words whole;
    for (const kir::Binding& b : kernel.bindings) {
        whole.emplace_back(b.elements * b.lanes);
        std::iota(whole.back().begin(), whole.back().end(), 1u);
    }
    Words cut_words = whole;
    const auto cut = cut_to_windows(kernel, groups, caps);
    if (!cut) return "it cannot be cut";
    if (parts != nullptr) *parts = cut->parts.size();
    std::vector<kir::Buffer> all;
    for (auto& w : whole) all.push_back({reinterpret_cast<std::byte*>(w.data()), w.size() * 4});
    if (const auto ran = kir::interpret(kernel, groups, all, {}); !ran) return ran.error().text();
    // Last part first: their order does not matter.
    for (size_t p = cut->parts.size(); p-- > 0;) {
        const KernelPart& part = cut->parts[p];
        const kir::Kernel& with = cut->kernels[part.kernel];
        if (const auto valid = kir::verify(with); !valid) return valid.error().text();
        if (part.windows.size() != with.bindings.size()) return "windows and bindings differ";
        if (with.bindings.size() > caps.max_storage_bindings) return "too many bindings";
        for (const Window& w : part.windows)
            if (w.bytes > caps.max_binding_bytes || w.bytes == 0 || w.offset % caps.offset_alignment != 0 ||
                w.offset + w.bytes > cut_words[w.binding].size() * 4)
                return "a window is beyond its limits";
        std::vector<kir::Buffer> windows = bound(part.windows, cut_words);
        const auto ran = kir::interpret(with, part.groups, windows, part.params);
        if (!ran) return ran.error().text();
    }
    return whole == cut_words ? "" : "the parts give something else than the whole";
}

struct Copy {
    Builder b{"copy"};
    kir::BindingRef x, y;
    uint32_t count;
    Grid grid;
    Copy(uint32_t elements, uint64_t from, const Caps& caps) : count(elements) {
        b.workgroup_size(64);
        x = b.binding("x", Scalar::u32, 1, Access::read, from);
        y = b.binding("y", Scalar::u32, 1, Access::write, elements);
        grid = *fold(ceil_div(elements, 64), caps);
    }
    template <class Index>
    kir::Kernel kernel(Index index) {
        const Expr id = linear_workgroup(b, grid) * 64 + b.local_id(0);
        when_below(b, id, count, [&] { b.store(y, id, b.load(x, index(id))); });
        return b.finish();
    }
};

TEST(KernelWindows, NothingIsCutBelowTheLimit) {
    const Caps caps = caps_of(4000);
    Copy copy(1000, 1000, caps);
    const kir::Kernel kernel = copy.kernel([](Expr id) { return id; });
    EXPECT_FALSE(needs_windows(kernel, caps));
    const auto cut = cut_to_windows(kernel, copy.grid.groups, caps);
    ASSERT_TRUE(cut);
    ASSERT_EQ(cut->parts.size(), 1u);
    EXPECT_TRUE(kir::same_structure(cut->kernels[0], kernel));
    EXPECT_TRUE(cut->parts[0].params.empty());
    EXPECT_TRUE(needs_windows(kernel, caps_of(3999)));
}

TEST(KernelWindows, EqualPartsShareAKernelAndTouchNoCommonBytes) {
    const Caps caps = caps_of(4096);
    Copy copy(10000, 10000, caps);
    const kir::Kernel kernel = copy.kernel([](Expr id) { return 9999 - id; });
    size_t parts = 0;
    EXPECT_EQ(run_both(kernel, copy.grid.groups, caps, &parts), "");
    EXPECT_LE(parts, 12u);
    const auto cut = cut_to_windows(kernel, copy.grid.groups, caps);
    EXPECT_EQ(cut->kernels.size(), 1u);
    for (size_t p = 1; p < cut->parts.size(); ++p) {
        const Window &before = cut->parts[p - 1].windows[1], &after = cut->parts[p].windows[1];
        EXPECT_LE(before.offset + before.bytes, after.offset);
    }
}

TEST(KernelWindows, FoldedGridsAreCutInBoxes) {
    Caps caps = caps_of(2048);
    caps.max_groups = {7, 5, 9};
    Copy copy(64 * 200 + 3, 64 * 200 + 3, caps);
    ASSERT_GT(copy.grid.groups[2], 1u);
    EXPECT_EQ(run_both(copy.kernel([](Expr id) { return id; }), copy.grid.groups, caps), "");
}

TEST(KernelWindows, SeveralWindowsOfOneBuffer) {
    const Caps caps = caps_of(1024);
    {
        Copy strided(640, 6400, caps);  // 64 elements that lie 10 apart: 2560 bytes
        EXPECT_EQ(run_both(strided.kernel([](Expr id) { return id * 10; }), strided.grid.groups, caps), "");
    }
    {
        Copy folded(2000, 1000, caps);  // both ends at once
        EXPECT_EQ(run_both(folded.kernel([](Expr id) { return id % 1000; }), folded.grid.groups, caps), "");
    }
    {
        Copy anywhere(500, 1500, caps);  // all of it: six windows
        size_t parts = 0;
        const auto kernel = anywhere.kernel([](Expr id) { return (id * id + 77) % 1500; });
        EXPECT_EQ(run_both(kernel, anywhere.grid.groups, caps, &parts), "");
        EXPECT_EQ(run_both(kernel, anywhere.grid.groups, caps_of(1024, 6)), "it cannot be cut");
    }
}

TEST(KernelWindows, StoresPickTheirWindow) {
    const Caps caps = caps_of(1024);
    Builder b("spread");
    b.workgroup_size(64);
    const auto x = b.binding("x", Scalar::u32, 1, Access::read, 640);
    const auto y = b.binding("y", Scalar::u32, 1, Access::inout, 6400);
    const Expr id = b.workgroup_id(0) * 64 + b.local_id(0);
    b.store(y, id * 10 + 3, b.load(x, id) + b.load(y, id * 10 + 3));
    b.atomic(kir::AtomicKind::add, y, id * 10 + 4, b.u32(5));
    EXPECT_EQ(run_both(b.finish(), {10, 1, 1}, caps), "");
}

TEST(KernelWindows, VectorsAndTheirComponents) {
    const Caps caps = caps_of(1024);
    Builder b("vectors");
    b.workgroup_size(64);
    const auto x = b.binding("x", Scalar::u32, 4, Access::read, 640);
    const auto y = b.binding("y", Scalar::u32, 4, Access::write, 640);
    const Expr id = b.workgroup_id(0) * 64 + b.local_id(0);
    const Expr component = b.load_scalar(x, id * 4 + 2);
    b.store(y, id, b.load(x, 639 - id) + b.make_vector({component, component, component, component}));
    EXPECT_EQ(run_both(b.finish(), {10, 1, 1}, caps), "");
}

TEST(KernelWindows, AWorkgroupThatReachesTooFarIsRefused) {
    Copy copy(100, 100000, caps_of(1024));
    const kir::Kernel kernel = copy.kernel([](Expr id) { return id * 999; });
    EXPECT_FALSE(cut_to_windows(kernel, copy.grid.groups, caps_of(1024)));
    EXPECT_FALSE(cut_to_windows(kernel, copy.grid.groups, caps_of(100))) << "no window at all";
}

}  // namespace
}  // namespace darner::kernels
