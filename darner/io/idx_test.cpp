// SPDX-License-Identifier: MIT
// IDX files are small enough to be spelled out; the packed ones are made with zlib.
#include "darner/io/idx.h"

#include "darner/base/bytes.h"
#include "darner/io/gzip.h"

#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string header(char type, std::vector<uint32_t> dims) {
    std::string out = {0, 0, type, static_cast<char>(dims.size())};
    for (uint32_t extent : dims)
        for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
    return out;
}

std::string gzip(const std::string& text) {
    z_stream stream = {};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

Result<Array> parse(const std::string& text, uint64_t max_bytes = default_max_idx_bytes) {
    return parse_idx(bytes_of(text), "f.idx", max_bytes);
}

TEST(Idx, ReadsLabelsAndImages) {
    const auto labels = parse(header(8, {3}) + "\1\2\xff");
    ASSERT_TRUE(labels);
    EXPECT_THAT(values_of<uint8_t>(*labels), ElementsAre(1, 2, 255));
    const auto images = parse(header(8, {2, 1, 2}) + "abcd");
    ASSERT_TRUE(images);
    EXPECT_EQ(type_text(*images), "u8[2,1,2]");
}

TEST(Idx, ReadsTheOtherTypesInNativeOrder) {
    const auto integers = parse(header(0x0c, {2}) + std::string("\0\0\1\2\xff\xff\xff\xff", 8));
    ASSERT_TRUE(integers);
    EXPECT_THAT(values_of<int32_t>(*integers), ElementsAre(258, -1));
    const auto floats = parse(header(0x0d, {1}) + std::string("\x3f\x80\0\0", 4));
    ASSERT_TRUE(floats);
    EXPECT_THAT(values_of<float>(*floats), ElementsAre(1.0f));
    EXPECT_EQ(type_text(*parse(header(0x0e, {0}))), "f64[0]");
    EXPECT_EQ(type_text(*parse(header(0x09, {}) + "x")), "i8[]");
}

TEST(Idx, ReadsGzip) {
    const std::string plain = header(8, {100'000}) + std::string(100'000, 'x');
    EXPECT_EQ(*parse(gzip(plain)), *parse(plain));
    EXPECT_EQ(*parse(gzip(plain.substr(0, 50'000)) + gzip(plain.substr(50'000))), *parse(plain));
}

TEST(Idx, DamagedFilesAreExplained) {
    const std::pair<std::string, const char*> cases[] = {
        {"", "it has 0 bytes"},
        {"PK\3\4", "its first two bytes are not zero"},
        {header(7, {1}) + "x", "unknown element type 0x07 at byte 2"},
        {header(0x0b, {1}) + "xx", "16-bit integers"},
        {header(8, {1, 2}).substr(0, 9), "ends inside its 2 extents at byte 9"},
        {header(8, {3}) + "xx", "u8[3] needs 3 bytes of data from byte 8, the file has 2"},
        {header(8, {1}) + "xx", "needs 1 bytes"},
        {header(8, {0xffffffff, 0xffffffff, 0xffffffff}), "is too large"},
        {header(8, {0xffffffff}), "needs 4294967295 bytes"},
        {header(8, std::vector<uint32_t>(65, 1)) + "x", "65 axes at byte 3"},
    };
    for (const auto& [text, message] : cases) {
        const auto array = parse(text);
        ASSERT_FALSE(array) << message;
        EXPECT_THAT(array.error().text(), HasSubstr(message));
        EXPECT_THAT(array.error().text(), HasSubstr("f.idx: [idx]"));
        EXPECT_EQ(parse(gzip(text)).error().text(), array.error().text());
    }
}

TEST(Gzip, DamageIsExplained) {
    const std::string packed = gzip(header(8, {1000}) + std::string(1000, 'x'));
    for (size_t size = 2; size < packed.size(); ++size) {
        const auto array = parse(packed.substr(0, size));
        ASSERT_FALSE(array);
        EXPECT_THAT(array.error().text(), HasSubstr("[gzip] the file ends too early")) << size;
    }
    std::string wrong_sum = packed;
    wrong_sum[packed.size() - 5] ^= 1;
    EXPECT_THAT(parse(wrong_sum).error().text(), HasSubstr("[gzip] damaged at byte"));
    EXPECT_THAT(parse(packed + "tail").error().text(),
                HasSubstr("[gzip] unexpected bytes at byte " + std::to_string(packed.size())));
    for (size_t at = 0; at < packed.size(); ++at) {
        std::string changed = packed;
        changed[at] ^= 0x55;
        const auto array = parse(changed);
        EXPECT_TRUE(!array || verify(*array));
    }
}

TEST(Gzip, LimitStopsBombs) {
    const std::string bomb = gzip(std::string(10'000'000, '\0'));
    EXPECT_LT(bomb.size(), 20'000u);
    const auto refused = gunzip(bytes_of(bomb), 1'000'000, "bomb");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::limit);
    EXPECT_EQ(gunzip(bytes_of(bomb), 10'000'000, "bomb")->size(), 10'000'000u);
    EXPECT_FALSE(gunzip(bytes_of(bomb), 9'999'999, "bomb"));
    EXPECT_TRUE(gunzip(bytes_of(gzip("")), 0, "nothing"));
}

}  // namespace
}  // namespace darner
