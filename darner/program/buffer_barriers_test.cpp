// SPDX-License-Identifier: MIT
// The model of a device that tracks hazards by buffer, on sequences whose waits are written down.
#include "darner/program/buffer_barriers.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

using enum kir::Access;

Item dispatch(std::vector<std::pair<uint32_t, kir::Access>> uses) {
    Dispatch d;
    uint64_t offset = 0;  // no two windows share bytes: the device does not look at them
    for (const auto& [segment, access] : uses) d.bindings.push_back({SegmentId(segment), offset += 256, 256, access});
    return d;
}

Item copy(uint32_t from, uint32_t to) { return Copy{{SegmentId(from), 0, 16, read}, {SegmentId(to), 0, 16, write}}; }

uint32_t count(std::vector<Item> items) {
    Entry entry;
    entry.body = std::move(items);
    const auto barriers = buffer_barriers(entry);
    EXPECT_TRUE(barriers);
    return *barriers;
}

TEST(BufferBarriers, ReadersOfOneBufferDoNotWait) {
    EXPECT_EQ(count({dispatch({{0, read}}), dispatch({{0, read}, {1, read}}), dispatch({{1, read}})}), 0u);
}

TEST(BufferBarriers, OneBarrierServesAllThatFollowIt) {
    // The third waits for the first and so for the second too; the fourth need not.
    EXPECT_EQ(count({dispatch({{0, write}}), dispatch({{1, write}}), dispatch({{0, read}}), dispatch({{1, read}})}), 1u);
}

TEST(BufferBarriers, WritersOfOneBufferWaitWhateverBytesTheyWrite) {
    EXPECT_EQ(count({dispatch({{0, write}}), dispatch({{0, write}}), dispatch({{0, inout}})}), 2u);
    EXPECT_EQ(count({dispatch({{0, read}, {1, write}}), dispatch({{0, read}, {2, write}})}), 0u);
    EXPECT_EQ(count({dispatch({{0, read}}), dispatch({{0, write}})}), 1u) << "write after read";
}

TEST(BufferBarriers, AReadInAWrittenBufferIsAWrite) {
    EXPECT_EQ(count({dispatch({{1, read}}), dispatch({{0, write}, {0, read}}), dispatch({{0, read}})}), 1u);
    EXPECT_EQ(count({dispatch({{0, read}, {0, write}}), dispatch({{0, read}})}), 1u);
}

TEST(BufferBarriers, CopiesReadAndWrite) {
    EXPECT_EQ(count({dispatch({{0, read}}), copy(0, 1)}), 0u);
    EXPECT_EQ(count({dispatch({{0, write}}), copy(0, 1), copy(0, 2), copy(3, 1)}), 2u);
}

TEST(BufferBarriers, IndirectCountsAndRepeatsAreSeen) {
    Dispatch indirect = std::get<Dispatch>(dispatch({{0, read}}));
    indirect.groups_from = BindingWindow{SegmentId(1u), 0, 12, read};
    EXPECT_EQ(count({dispatch({{1, write}}), indirect}), 1u);
    EXPECT_EQ(count({dispatch({{1, read}}), indirect}), 0u);
    Repeat repeat;
    repeat.count = 5;
    repeat.body = {dispatch({{0, inout}})};
    EXPECT_EQ(count({repeat}), 4u);
}

}  // namespace
}  // namespace darner
