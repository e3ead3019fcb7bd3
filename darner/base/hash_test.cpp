// SPDX-License-Identifier: MIT
#include "darner/base/hash.h"
#include "darner/base/ids.h"

#include <string>
#include <unordered_set>

#include <gtest/gtest.h>

namespace darner {
namespace {

uint64_t hash_of(std::string_view text) {
    Hasher hasher;
    hasher.add(text);
    return hasher.value();
}

// Hashes are in file names and caches: a change of the function makes old caches useless, so it must be deliberate.
TEST(Hasher, IsTheSameEverywhere) {
    Hasher hasher;
    hasher.add(1);
    hasher.add(2.5);
    hasher.add("darner");
    EXPECT_EQ(hasher.value(), 5681887732230809180u);
}

TEST(Hasher, OrderAndLengthCount) {
    Hasher ab, ba;
    ab.add(1);
    ab.add(2);
    ba.add(2);
    ba.add(1);
    EXPECT_NE(ab.value(), ba.value());
    EXPECT_NE(hash_of(""), hash_of(std::string_view("\0", 1)));
    EXPECT_NE(hash_of(std::string_view("a\0", 2)), hash_of("a"));
    Hasher split, whole;
    split.add("ab");
    split.add("c");
    whole.add("a");
    whole.add("bc");
    EXPECT_NE(split.value(), whole.value());
}

TEST(Hasher, SmallInputsDoNotCollide) {
    std::unordered_set<uint64_t> seen;
    for (int a = 0; a < 300; ++a) {
        for (int b = 0; b < 300; ++b) {
            Hasher hasher;
            hasher.add(a);
            hasher.add(b);
            EXPECT_TRUE(seen.insert(hasher.value()).second) << a << " " << b;
        }
    }
}

TEST(Hasher, TellsZerosApart) {
    Hasher positive, negative;
    positive.add(0.0);
    negative.add(-0.0);
    EXPECT_NE(positive.value(), negative.value());
}

TEST(Id, IsInvalidUntilSet) {
    struct Tag;
    EXPECT_FALSE(Id<Tag>().valid());
    EXPECT_TRUE(Id<Tag>(0).valid());
    EXPECT_LT(Id<Tag>(1), Id<Tag>(2));
}

}  // namespace
}  // namespace darner
