// SPDX-License-Identifier: MIT
// SHA-256 against the standard's examples, and independence of how the bytes come in.
#include "darner/base/sha256.h"

#include "darner/base/bytes.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

std::string hash_of(std::string_view text) {
    Sha256 hash;
    hash.add(bytes_of(text));
    return hash.hex();
}

TEST(Sha256, ExamplesOfTheStandard) {
    EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths round a block's end, in pieces of every size.
TEST(Sha256, PiecesDoNotMatter) {
    for (const size_t length : {55, 56, 57, 63, 64, 65, 119, 120, 128}) {
        const std::string text(length, 'x');
        for (size_t piece = 1; piece <= length; ++piece) {
            Sha256 hash;
            for (size_t at = 0; at < length; at += piece) hash.add(bytes_of(std::string_view(text).substr(at, piece)));
            ASSERT_EQ(hash.hex(), hash_of(text)) << length << " in pieces of " << piece;
        }
    }
}

}  // namespace
}  // namespace darner
