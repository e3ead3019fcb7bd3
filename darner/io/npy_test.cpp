// SPDX-License-Identifier: MIT
// Files written by NumPy (testdata/generate.py), round trips, and damaged files: each with its message.
#include "darner/io/npy.h"

#include "darner/base/bytes.h"

#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Array> read_sample(const std::string& name) {
    return read_npy(std::string(DARNER_SOURCE_DIR) + "/darner/io/testdata/" + name + ".npy");
}

template <class T>
void expect_grid(const std::string& name) {
    const auto array = read_sample(name);
    ASSERT_TRUE(array) << array.error().text();
    EXPECT_THAT(array->dims, ElementsAre(2, 3));
    EXPECT_THAT(values_of<T>(*array), ElementsAre(0, 1, 2, 3, 4, 5)) << name;
}

TEST(Npy, ReadsWhatNumPyWrites) {
    expect_grid<float>("f4");
    expect_grid<double>("f8");
    expect_grid<int8_t>("i1");
    expect_grid<uint8_t>("u1");
    expect_grid<int32_t>("i4");
    expect_grid<uint32_t>("u4");
    expect_grid<int64_t>("i8");
    expect_grid<float>("version2");
    expect_grid<float>("version3");
    expect_grid<float>("big_endian");
    const auto half = read_sample("f2");
    ASSERT_TRUE(half);
    EXPECT_EQ(type_text(*half), "f16[2,3]");
    EXPECT_EQ(load_le<uint16_t>(half->data.data() + 2), 0x3c00);
    const auto mask = read_sample("bool");
    ASSERT_TRUE(mask);
    EXPECT_EQ(mask->dtype, "bool");
    EXPECT_THAT(mask->data, ElementsAre(std::byte{0}, std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}, std::byte{1}));
}

TEST(Npy, ReadsEveryRank) {
    const auto scalar = read_sample("scalar");
    ASSERT_TRUE(scalar);
    EXPECT_THAT(scalar->dims, ElementsAre());
    EXPECT_THAT(values_of<double>(*scalar), ElementsAre(2.5));
    const auto empty = read_sample("empty");
    ASSERT_TRUE(empty);
    EXPECT_EQ(type_text(*empty), "f32[3,0,2]");
    const auto vector = read_sample("vector");
    ASSERT_TRUE(vector);
    EXPECT_THAT(values_of<int64_t>(*vector), ElementsAre(7, 8, 9));
}

TEST(Npy, FortranOrderIsTransposed) {
    const auto array = read_sample("fortran");
    ASSERT_TRUE(array);
    EXPECT_EQ(type_text(*array), "i32[2,3,4]");
    std::vector<int32_t> expected(24);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_THAT(values_of<int32_t>(*array), testing::ElementsAreArray(expected));
}

TEST(Npy, RefusesTypesWithAReason) {
    for (const auto& [name, reason] : {std::pair("i2", "no 16-bit integer tensors; save it as int32"),
                                       {"u2", "no 16-bit integer tensors"},
                                       {"u8", "no unsigned 64-bit tensors"},
                                       {"c8", "no complex tensors"},
                                       {"record", "records are not supported"},
                                       {"text", "it is not a number"}}) {
        const auto array = read_sample(name);
        ASSERT_FALSE(array) << name;
        EXPECT_EQ(array.error().kind, ErrorKind::unsupported);
        EXPECT_THAT(array.error().text(), HasSubstr(reason));
        EXPECT_THAT(array.error().text(), HasSubstr(std::string(name) + ".npy"));
    }
}

std::vector<std::byte> file_of(const std::string& header, const std::string& data, int version = 1) {
    std::vector<std::byte> file;
    for (char c : std::string("\x93NUMPY")) file.push_back(static_cast<std::byte>(c));
    append_le(file, static_cast<uint8_t>(version));
    append_le(file, uint8_t{0});
    if (version == 1)
        append_le(file, static_cast<uint16_t>(header.size()));
    else
        append_le(file, static_cast<uint32_t>(header.size()));
    for (char c : header + data) file.push_back(static_cast<std::byte>(c));
    return file;
}

std::string header_of(const std::string& shape, const std::string& descr = "<f4") {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

TEST(Npy, HeaderSpellingsOfOtherWriters) {
    const std::string data(4, '\0');
    EXPECT_TRUE(parse_npy(file_of(header_of("(1,)"), data)));
    EXPECT_TRUE(parse_npy(file_of(header_of("(1L,)"), data)));
    EXPECT_TRUE(parse_npy(file_of(header_of("( 1 , 1 )"), data)));
    EXPECT_TRUE(parse_npy(file_of("{\"shape\":(),\"fortran_order\":True,\"descr\":\"<f4\"}", data)));
    EXPECT_TRUE(parse_npy(file_of(header_of("(1,)", "=f4"), data)));
}

struct Damage {
    std::string header, data, message;
};

TEST(Npy, DamagedFilesAreExplained) {
    const std::string four(4, '\0');
    const Damage cases[] = {
        {header_of("(2,)"), four, "f32[2] needs 8 bytes of data from byte 68, the file has 4"},
        {header_of("(1,)"), four + four, "f32[1] needs 4 bytes"},
        {header_of("(1)"), four, "expected ',' in the shape"},
        {header_of("(-1,)"), four, "expected an extent of 0 or more"},
        {header_of("(99999999999999999999,)"), four, "an extent of the shape is too large"},
        {header_of("(4294967296,4294967296)"), four, "is too large"},
        {header_of("(4294967296,4294967296,0)"), "", "is too large"},
        {header_of("(4611686018427387904,)"), four, "is too large"},
        {header_of("(1,"), four, "expected an extent"},
        {header_of("(1.5,)"), four, "expected ',' in the shape"},
        {header_of("(1,)", "f4"), four, "does not start with a byte order"},
        {header_of("(1,)", "|f4"), four, "lacks a byte order"},
        {header_of("(1,)", "|O"), four, "Python objects"},
        {header_of("(1,)", "<V2"), "ab", "save bfloat16 data as float32"},
        {header_of("(1,)", ""), four, "does not start with a byte order"},
        {"{'descr': '<f4', 'fortran_order': False}", four, "lacks the entry 'shape'"},
        {"{'descr': '<f4', 'descr': '<f4'}", four, "'descr' occurs twice"},
        {"{'descr': '<f4', 'color': 1}", four, "unknown header entry 'color'"},
        {"{'descr': '<f4', 'fortran_order': Maybe}", four, "expected True or False"},
        {"{'descr': '<f4' 'shape': ()}", four, "expected ',' or '}'"},
        {"{'descr': '<f4", four, "unfinished text"},
        {"{} junk", four, "unexpected text behind"},
        {"", four, "expected '{'"},
        {"{'shape': (" + std::string(2000, '1') + ",)}", four, "too large"},
        {"{'shape': (" +
             [] {
                 std::string s;
                 for (int i = 0; i < 65; ++i) s += "1,";
                 return s;
             }() +
             ")}",
         four, "more than 64"},
    };
    for (const Damage& damage : cases) {
        for (int version : {1, 2, 3}) {
            const auto array = parse_npy(file_of(damage.header, damage.data, version), "bad.npy");
            ASSERT_FALSE(array) << damage.header;
            // Offsets in the messages are those of version 1.
            if (version == 1) {
                EXPECT_THAT(array.error().text(), HasSubstr(damage.message));
            }
            EXPECT_THAT(array.error().text(), HasSubstr("bad.npy: [npy]"));
        }
    }
}

TEST(Npy, DamagedPrefixesAreExplained) {
    EXPECT_THAT(parse_npy({}).error().text(), HasSubstr("not a .npy file"));
    EXPECT_THAT(parse_npy(bytes_of("PK\3\4 an archive")).error().text(), HasSubstr("not a .npy file"));
    EXPECT_THAT(parse_npy(file_of(header_of("()"), "abcd", 4)).error().text(), HasSubstr("version 4.0 is not known"));
    std::vector<std::byte> long_header = file_of("{}", "");
    long_header[9] = std::byte{0xff};
    EXPECT_THAT(parse_npy(long_header).error().text(), HasSubstr("the header says 65282 bytes at byte 10, the file has 2 left"));
}

// Every prefix and every single changed byte of a good file: an error or an array, never a crash.
TEST(Npy, SurvivesTruncationAndNoise) {
    const auto good = file_of(header_of("(2, 3)"), std::string(24, 'x'));
    for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parse_npy(std::span(good).first(size))) << size;
    for (size_t at = 0; at < good.size(); ++at) {
        for (int value = 0; value < 256; ++value) {
            auto changed = good;
            changed[at] = static_cast<std::byte>(value);
            const auto array = parse_npy(changed);
            EXPECT_TRUE(!array || verify(*array));
        }
    }
}

TEST(Npy, RoundTripsEveryType) {
    for (const char* dtype : {"f32", "f16", "f64", "i8", "u8", "i32", "u32", "i64", "bool"}) {
        for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{}, {0}, {3}, {2, 0, 3}, {2, 3}, {1, 1, 5}}) {
            Array array{dtype, dims, {}};
            array.data.resize(*array_bytes(dtype, dims), std::byte{1});
            const auto file = format_npy(array);
            ASSERT_TRUE(file);
            const auto back = parse_npy(*file);
            ASSERT_TRUE(back) << back.error().text();
            EXPECT_EQ(*back, array);
        }
    }
}

TEST(Npy, WritesTheBytesThatNumPyWrites) {
    for (const char* name : {"f4", "f2", "i8", "bool", "scalar", "empty", "vector"}) {
        const std::string path = std::string(DARNER_SOURCE_DIR) + "/darner/io/testdata/" + name + ".npy";
        EXPECT_EQ(*format_npy(*read_npy(path)), *read_file(path)) << name;
    }
}

TEST(Npy, RefusesToWriteWhatItCannot) {
    const std::string path = (std::filesystem::temp_directory_path() / "darner-never-written.npy").string();
    const auto refused = write_npy(path, {"bf16", {1}, std::vector<std::byte>(2)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), path + ": [npy] NumPy has no type for bf16 (cast to f32 or write a safetensors file)");
    EXPECT_FALSE(write_npy(path, {"f32", {1}, std::vector<std::byte>(2)}));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Npy, AnyNonZeroByteIsTrue) {
    const auto array = parse_npy(file_of(header_of("(3,)", "|b1"), std::string("\0\1\xff", 3)));
    ASSERT_TRUE(array);
    EXPECT_THAT(array->data, ElementsAre(std::byte{0}, std::byte{1}, std::byte{1}));
}

}  // namespace
}  // namespace darner
