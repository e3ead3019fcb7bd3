// SPDX-License-Identifier: MIT
// Files written by the safetensors package (testdata/generate.py), round trips, and damaged files: each with its message.
#include "darner/io/safetensors.h"

#include "darner/base/bytes.h"

#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string sample(const std::string& name) {
    return std::string(DARNER_SOURCE_DIR) + "/darner/io/testdata/" + name + ".safetensors";
}

std::string scratch_path() {
    return (std::filesystem::temp_directory_path() / ("darner-" + std::to_string(::getpid()) + ".safetensors")).string();
}

std::vector<std::byte> file_of(const std::string& header, size_t data_bytes = 0) {
    std::vector<std::byte> file;
    append_le(file, uint64_t{header.size()});
    for (char c : header) file.push_back(static_cast<std::byte>(c));
    file.resize(file.size() + data_bytes, std::byte{7});
    return file;
}

// One f32[2] called "a" whose entries can be replaced.
std::string tensor(const std::string& offsets, const std::string& shape = "[2]", const std::string& dtype = "F32") {
    return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, ReadsWhatThePackageWrites) {
    const auto file = read_safetensors(sample("mixed"));
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_EQ(file->tensors.size(), 5u);
    EXPECT_THAT(values_of<float>(file->tensors.at("weight")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(type_text(file->tensors.at("bias")), "f16[3]");
    EXPECT_EQ(type_text(file->tensors.at("none")), "f32[0,4]");
    EXPECT_THAT(file->tensors.at("mask").data, ElementsAre(std::byte{1}, std::byte{0}, std::byte{1}));
    EXPECT_THAT(values_of<int64_t>(file->tensors.at("step")), ElementsAre(41));
    EXPECT_EQ(file->metadata.at("format"), "np");
    EXPECT_EQ(file->metadata.at("title"), "a \"quoted\" na\xc3\xafve text");
    EXPECT_EQ(*parse_safetensors(*read_file(sample("mixed"))), *file);
}

TEST(Safetensors, RefusesTypesByName) {
    const auto file = read_safetensors(sample("i16"));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(file.error().text(), HasSubstr("\"short\": the element type I16 is not supported"));
}

TEST(Safetensors, RoundTripsEveryType) {
    Safetensors contents;
    for (const char* dtype : {"f32", "f16", "bf16", "f64", "i8", "u8", "i32", "u32", "i64", "bool"}) {
        for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{}, {0}, {3}, {2, 0}, {5, 7}}) {
            Array array{dtype, dims, {}};
            array.data.resize(*array_bytes(dtype, dims), std::byte{1});
            contents.tensors[std::string(dtype) + "/\"" + std::to_string(contents.tensors.size()) + "\n\xc3\xa9"] = array;
        }
    }
    contents.metadata = {{"epoch", "3"}, {"", "\t"}};
    const std::string path = scratch_path();
    ASSERT_TRUE(write_safetensors(path, contents));
    const auto bytes = *read_file(path);
    const auto back = read_safetensors(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, contents);
    EXPECT_EQ(load_le<uint64_t>(bytes.data()) % 8, 0u);
}

TEST(Safetensors, NamesAreInOrderAndElementsAligned) {
    Safetensors contents;
    contents.tensors["a"] = make_array<uint8_t>({1}, {1});
    contents.tensors["c"] = make_array<float>({1}, {2});
    contents.tensors["b"] = make_array<double>({1}, {3});
    const std::string path = scratch_path();
    ASSERT_TRUE(write_safetensors(path, contents));
    const std::string text = *read_text_file(path);
    std::filesystem::remove(path);
    EXPECT_THAT(text.substr(8), testing::StartsWith(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[12,13]},)"
                                                    R"("b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                                                    R"("c":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})"));
}

TEST(Safetensors, EmptyFileOfTensorsIsAFile) {
    EXPECT_EQ(*parse_safetensors(file_of("{}")), Safetensors());
    EXPECT_EQ(*parse_safetensors(file_of("{}      ")), Safetensors());
    const std::string path = scratch_path();
    ASSERT_TRUE(write_safetensors(path, {}));
    EXPECT_EQ(*read_safetensors(path), Safetensors());
    std::filesystem::remove(path);
}

struct Damage {
    std::string header;
    size_t data_bytes;
    std::string message;
};

TEST(Safetensors, DamagedFilesAreExplained) {
    const std::string a = "{\"a\":" + tensor("[0,8]");
    const Damage cases[] = {
        {"", 0, "does not start with '{'"},
        {" {}", 0, "does not start with '{'"},
        {"{", 0, "not valid JSON at byte"},
        {"{}}", 0, "not valid JSON at byte 10"},
        {"{\"a\xff\":1}", 0, "not valid JSON"},
        {"{\"a\":1}", 0, "\"a\": got the number 1, expected an object"},
        {"{\"a\":[]}", 0, "\"a\": got a list, expected an object"},
        {"{\"a\":{}}", 0, "\"a\": the entry \"dtype\" is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "\"data_offsets\" is missing"},
        {"{\"a\":{\"dtype\":\"F99\"}}", 0, "the element type F99 is not supported"},
        {"{\"a\":{\"dtype\":4}}", 0, "\"dtype\" holds the number 4, expected a text"},
        {"{\"a\":{\"dtype\":[]}}", 0, "\"dtype\" holds a list, expected a text"},
        {"{\"a\":{\"shape\":\"x\"}}", 0, "\"shape\" holds a text, expected a list of numbers"},
        {"{\"a\":{\"shape\":[[]]}}", 0, "\"shape\" holds a list"},
        {"{\"a\":{\"shape\":{}}}", 0, "\"shape\" holds an object"},
        {"{\"a\":{\"shape\":[{}]}}", 0, "\"shape\" holds an object"},
        {"{\"a\":{\"shape\":[-1]}}", 0, "\"shape\" holds the number -1"},
        {"{\"a\":{\"shape\":[1.0]}}", 0, "\"shape\" holds the number 1.0"},
        {"{\"a\":{\"shape\":[1e99]}}", 0, "\"shape\" holds the number 1e99"},
        {"{\"a\":{\"shape\":[9223372036854775808]}}", 0, "an extent of \"shape\" is too large"},
        {"{\"a\":{\"shape\":[true]}}", 0, "holds a boolean"},
        {"{\"a\":{\"shape\":null}}", 0, "holds null"},
        {"{\"a\":{\"shape\":[" + std::string(200, '[') + "]}}", 0, "holds a list"},
        {"{\"a\":{\"color\":1}}", 0, "unknown entry \"color\""},
        {"{\"a\":{\"shape\":[],\"shape\":[]}}", 0, "\"shape\" occurs twice"},
        {"{\"a\":" + tensor("[0]") + "}", 8, "fewer than two"},
        {"{\"a\":" + tensor("[0,8,9]") + "}", 8, "more than two"},
        {"{\"a\":" + tensor("[0,8]") + ",\"a\":" + tensor("[8,16]") + "}", 16, "\"a\": the name occurs twice"},
        {"{\"a\":" + tensor("[0,8]", "[3]") + "}", 8, "f32[3] needs 12 bytes, its offsets [0, 8] span 8"},
        {"{\"a\":" + tensor("[0,8]") + "}", 7, "not within the 7 bytes of data"},
        {"{\"a\":" + tensor("[8,0]") + "}", 8, "the offsets [8, 0] are not within"},
        {"{\"a\":" + tensor("[0,18446744073709551615]") + "}", 8, "are not within"},
        {"{\"a\":" + tensor("[0,8]", "[4294967296,4294967296]") + "}", 8, "is too large"},
        {"{\"a\":" + tensor("[0,8]") + "}", 12, "4 bytes from byte"},
        {"{\"a\":" + tensor("[4,12]") + "}", 12, "\"a\" leaves a hole before it"},
        {a + ",\"b\":" + tensor("[4,12]") + "}", 12, "\"b\" overlaps another tensor"},
        {a + ",\"b\":" + tensor("[0,8]") + "}", 8, "\"b\" overlaps another tensor"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "\"k\" holds the number 1, expected a text"},
        {"{\"__metadata__\":{\"k\":{}}}", 0, "\"k\" holds an object"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "\"k\" occurs twice"},
        {"{\"__metadata__\":[]}", 0, "got a list, expected an object"},
    };
    const std::string path = scratch_path();
    for (const Damage& damage : cases) {
        const auto bytes = file_of(damage.header, damage.data_bytes);
        const auto parsed = parse_safetensors(bytes, path);
        ASSERT_FALSE(parsed) << damage.header;
        EXPECT_THAT(parsed.error().text(), HasSubstr(damage.message)) << damage.header;
        EXPECT_THAT(parsed.error().text(), HasSubstr(path + ": [safetensors]"));
        ASSERT_TRUE(write_file(path, bytes));
        const auto read = read_safetensors(path);
        ASSERT_FALSE(read) << damage.header;
        EXPECT_EQ(read.error().text(), parsed.error().text());
    }
    std::filesystem::remove(path);
}

TEST(Safetensors, DamagedLengthsAreExplained) {
    EXPECT_THAT(parse_safetensors({}).error().text(), HasSubstr("the file has 0 bytes, expected 8 or more"));
    std::vector<std::byte> file = file_of("{}");
    file[0] = std::byte{3};
    EXPECT_THAT(parse_safetensors(file).error().text(), HasSubstr("the header says 3 bytes, the file has 2 left"));
    file[7] = std::byte{0xff};
    EXPECT_THAT(parse_safetensors(file).error().text(), HasSubstr("not a safetensors file?"));
}

TEST(Safetensors, SurvivesTruncationAndNoise) {
    const auto good = *read_file(sample("mixed"));
    for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parse_safetensors(std::span(good).first(size))) << size;
    for (size_t at = 0; at < good.size(); ++at) {
        for (char value : std::string_view("\0\1\"{}[],:9\\\x7f\xff", 13)) {
            auto changed = good;
            changed[at] = static_cast<std::byte>(value);
            const auto file = parse_safetensors(changed);
            if (!file) continue;
            for (const auto& [name, array] : file->tensors) EXPECT_TRUE(verify(array)) << name;
        }
    }
}

TEST(Safetensors, RefusesToWriteWhatItCannotRead) {
    const std::string path = scratch_path();
    const auto message = [&](const std::string& name, Array array) {
        const Result<void> written = write_safetensors(path, {{{name, std::move(array)}}, {}});
        return written ? std::string() : written.error().text();
    };
    EXPECT_THAT(message("__metadata__", make_array<float>({}, {1})), HasSubstr("no tensor may be called"));
    EXPECT_THAT(message("bad\xff", make_array<float>({}, {1})), HasSubstr("not valid UTF-8"));
    EXPECT_THAT(message("x", {"i16", {}, std::vector<std::byte>(2)}), HasSubstr("\"x\": [array] there is no dtype \"i16\""));
    EXPECT_THAT(message("x", {"f32", {2}, std::vector<std::byte>(2)}), HasSubstr("2 bytes of data, expected 8"));
    EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace darner
