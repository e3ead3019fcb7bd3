// SPDX-License-Identifier: MIT
#include "darner/base/reasons.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

TEST(Reasons, AreListedInOrderAndOnce) {
    Reasons reasons;
    EXPECT_TRUE(reasons.empty());
    for (const char* reason : {"b", "a", "b"}) reasons.add(reason);
    EXPECT_FALSE(reasons.empty());
    EXPECT_EQ(reasons.text(), "b; a");
    EXPECT_EQ(reasons.text("\n  "), "b\n  a");
}

TEST(Reasons, ManyAreCounted) {
    Reasons reasons(3);
    for (int i = 0; i < 8; ++i) reasons.add(std::to_string(i));
    EXPECT_TRUE(reasons.is_full());
    EXPECT_EQ(reasons.text(), "0; 1; 2; and 5 more");
}

TEST(Reasons, LongOnesAreCutBetweenCharacters) {
    std::string reason(1999, 'x');
    for (int i = 0; i < 2000; ++i) reason += "é";
    Reasons reasons;
    reasons.add(reason);
    EXPECT_EQ(reasons.text(), std::string(1999, 'x') + "…");
}

}  // namespace
}  // namespace darner
