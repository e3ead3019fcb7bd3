// SPDX-License-Identifier: MIT
// .dp files: nothing is lost, damage anywhere and every truncation is refused, and so is a file that is wrong with a right hash.
#include "darner/program/dp.h"

#include "darner/base/bytes.h"
#include "darner/base/sha256.h"
#include "darner/kir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace darner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

kir::Kernel scale_kernel() {
    kir::Builder b("scale by \"two\"");
    b.workgroup_size(64);
    const auto x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, 64);
    const auto y = b.binding("y", kir::Scalar::f32, 1, kir::Access::write, 64);
    b.store(y, b.local_id(0), b.load(x, b.local_id(0)) * b.convert(b.param("factor"), kir::Scalar::f32));
    return b.finish();
}

kir::Kernel subgroup_kernel() {
    kir::Builder b("total");
    b.workgroup_size(32);
    b.require_subgroup_size(32);
    const auto x = b.binding("x", kir::Scalar::f16, 1, kir::Access::inout, 32);
    const kir::Expr i = b.local_id(0);
    const kir::Expr total = b.subgroup_reduce(kir::ReduceKind::add, b.convert(b.load(x, i), kir::Scalar::f32));
    b.store(x, i, b.convert(total, kir::Scalar::f16));
    return b.finish();
}

// Every kind of item, segment and field, none at its default.
Program full_program() {
    Program p;
    p.caps = interpreter_caps(32);
    p.caps.code = CodeKind::spirv;
    p.caps.copy_bytes_per_second = 4.1e12;
    p.segments = {{SegmentKind::io, 512, false, 3},
                  {SegmentKind::scratch, 1024, true, 1, {{512, 16}, {768, 256}}},
                  {SegmentKind::constant, 256},
                  {SegmentKind::state, 512, true}};
    p.tensors = {{"x", "f32", {8, 8}, SegmentId(0), 0, 256, "", false, true},
                 {"weight ü", "f32", {64}, SegmentId(3), 0, 256, "param", true},
                 {"n", "u32", {}, SegmentId(3), 256, 4, "counter"}};
    for (const kir::Kernel& kernel : {scale_kernel(), subgroup_kernel()})
        p.kernels.push_back({kernel, kir::structural_hash(kernel), {0x07230203, 7, 9}, "fn main() {}"});
    p.kernels[1].wgsl.clear();
    p.constants = {{SegmentId(2), 0, std::vector<std::byte>(12, std::byte{7})}, {SegmentId(2), 16, {}}};
    const Dispatch scale{.kernel = KernelId(0),
                         .groups = {5, 2, 1},
                         .bindings = {{SegmentId(0), 0, 256}, {SegmentId(1), 256, 256, kir::Access::write}},
                         .params = {3},
                         .label = "mul layers.0 model.py:3",
                         .bytes_moved = 512,
                         .flops = 64,
                         .groups_from = BindingWindow{SegmentId(2), 0, 12}};
    const Dispatch total{.kernel = KernelId(1), .bindings = {{SegmentId(1), 256, 64, kir::Access::inout}}};
    const Repeat inner{2, {total, Barrier{}}};
    const Repeat outer{4, {inner, Copy{{SegmentId(1), 256, 64}, {SegmentId(3), 0, 64}}}, BindingWindow{SegmentId(3), 256, 4}};
    p.entries = {{"step", {TensorId(0)}, {TensorId(1)}, {scale, Barrier{}, outer}}, {"nothing", {}, {}, {}}};
    p.reports = {{"step", 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
    return p;
}

std::vector<std::byte> full_file() {
    Result<std::vector<std::byte>> file = to_dp(full_program());
    EXPECT_TRUE(file) << file.error().text();
    return *file;
}

constexpr size_t length_at = 16, header_at = 24, hash_at = header_at + 9, hash_digits = 64;

std::string header_of(const std::vector<std::byte>& file) {
    return std::string(text_of(std::span(file).subspan(header_at, load_le<uint64_t>(file.data() + length_at))));
}

// The file with another header and data, and a hash that is right for them.
std::vector<std::byte> forge(const std::vector<std::byte>& file, std::string header, std::span<const std::byte> data) {
    header.append((8 - header.size() % 8) % 8, ' ');
    header.replace(hash_at - header_at, hash_digits, std::string(hash_digits, '0'));
    std::vector<std::byte> forged(file.begin(), file.begin() + length_at);
    append_le(forged, uint64_t{header.size()});
    for (const std::span<const std::byte> part : {bytes_of(header), data}) forged.insert(forged.end(), part.begin(), part.end());
    Sha256 hash;
    hash.add(forged);
    const std::string digits = hash.hex();
    std::copy_n(bytes_of(digits).begin(), hash_digits, forged.begin() + hash_at);
    return forged;
}

std::string refusal(const std::vector<std::byte>& file) {
    const Result<Program> program = parse_dp(file, "model.dp");
    return program ? "accepted" : program.error().text();
}

// What comes of the full file with `from` in its header replaced, the hash being right.
std::string with(const std::string& from, const std::string& to) {
    const std::vector<std::byte> file = full_file();
    std::string header = header_of(file);
    const size_t at = header.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in " << header;
    if (at != std::string::npos) header.replace(at, from.size(), to);
    return refusal(forge(file, header, std::span(file).subspan(header_at + header_of(file).size())));
}

TEST(ProgramFile, NothingIsLost) {
    const Program program = full_program();
    const std::vector<std::byte> file = full_file();
    ASSERT_TRUE(is_dp(file));
    const Result<Program> loaded = parse_dp(file);
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(to_text(*loaded), to_text(program));
    ASSERT_EQ(loaded->kernels.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(kir::same_structure(loaded->kernels[i].kir, program.kernels[i].kir));
        EXPECT_EQ(loaded->kernels[i].spirv, program.kernels[i].spirv);
        EXPECT_EQ(loaded->kernels[i].wgsl, program.kernels[i].wgsl);
    }
    EXPECT_EQ(loaded->constants[0].bytes, program.constants[0].bytes);
    EXPECT_EQ(loaded->caps.copy_bytes_per_second, 4.1e12);
    EXPECT_EQ(loaded->caps.coop_shapes, program.caps.coop_shapes);
    EXPECT_EQ(loaded->segments[1].kept_zero, program.segments[1].kept_zero);
    EXPECT_EQ(*to_dp(*loaded), file);
}

TEST(ProgramFile, FeaturesComeFromTheKernels) {
    EXPECT_THAT(required_features(full_program()),
                ElementsAre("f16_storage", "subgroup", "subgroup_operations", "subgroup_size_32"));
}

TEST(ProgramFile, EveryTruncationIsRefused) {
    const std::vector<std::byte> file = full_file();
    for (size_t size = 0; size < file.size(); ++size)
        ASSERT_FALSE(parse_dp(std::span(file).first(size))) << "with " << size << " of " << file.size() << " bytes";
    std::vector<std::byte> longer = file;
    longer.resize(file.size() + 8);
    EXPECT_FALSE(parse_dp(longer));
    EXPECT_THAT(refusal({file.begin(), file.end() - 8}), HasSubstr("model.dp: [dp] the contents do not have the hash"));
}

TEST(ProgramFile, ADamagedByteAnywhereIsRefused) {
    std::vector<std::byte> file = full_file();
    for (size_t at = 0; at < file.size(); ++at)
        for (const int bit : {0, 5}) {
            file[at] ^= std::byte(1 << bit);
            ASSERT_FALSE(parse_dp(file)) << "byte " << at << ", bit " << bit;
            file[at] ^= std::byte(1 << bit);
        }
    EXPECT_TRUE(parse_dp(file));
}

TEST(ProgramFile, OtherFilesAndVersionsAreNamedAsSuch) {
    EXPECT_FALSE(is_dp(bytes_of("graph step {")));
    EXPECT_FALSE(is_dp({}));
    EXPECT_THAT(refusal({}), HasSubstr("not a .dp file"));
    EXPECT_THAT(with("\"format\":1", "\"format\":2"), HasSubstr("has format version 2, this darner reads 1"));
    EXPECT_THAT(with("\"format\":1", "\"format\":\"1\""), HasSubstr("no format version"));
    EXPECT_THAT(with("\"format\":1", "\"format\":1.5"), HasSubstr("format: expected a whole number"));
    EXPECT_THAT(with("\"format\":1,", ""), HasSubstr("does not begin with hash and format"));
}

TEST(ProgramFile, EachFieldIsChecked) {
    EXPECT_EQ(with("\"label\":\"mul", "\"label\":\"add"), "accepted");  // the forged files are right otherwise
    EXPECT_THAT(with("\"zeroed\":true", "\"zeroed\":1"), HasSubstr("segments[1].zeroed: expected true or false"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":-3"),
                HasSubstr("segments[0].slots: expected a whole number from 0 to 4294967295"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":4294967296"), HasSubstr("segments[0].slots: expected a whole number"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":3e0"), HasSubstr("segments[0].slots: expected a whole number"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":0"), HasSubstr("a ring of 0 slots, allowed are 1 to 1024"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":3,\"slots\":3"), HasSubstr("an entry occurs twice"));
    EXPECT_THAT(with("\"slots\":3,", ""), HasSubstr("segments[0].slots: it is missing"));
    EXPECT_THAT(with("\"slots\":3", "\"slots\":3,\"spots\":3"), HasSubstr("segments[0]: unknown entry \"spots\""));
    EXPECT_THAT(with("\"kind\":\"io\"", "\"kind\":\"oi\""),
                HasSubstr("got \"oi\", expected one of state, io, scratch, constant"));
    EXPECT_THAT(with("\"kind\":\"io\"", "\"kind\":null"), HasSubstr("segments[0].kind: expected a text"));
    EXPECT_THAT(with("\"dims\":[8,8]", "\"dims\":[8,-8]"), HasSubstr("impossible dimension -8"));
    EXPECT_THAT(with("\"dims\":[8,8]", "\"dims\":[8,9223372036854775808]"), HasSubstr("tensors[0].dims[1]: expected a whole"));
    EXPECT_THAT(with("\"dims\":[8,8]", "\"dims\":{}"), HasSubstr("tensors[0].dims: expected a list"));
    EXPECT_THAT(with("\"groups\":[5,2,1]", "\"groups\":[5,2]"), HasSubstr("groups: expected a list of 3"));
    EXPECT_THAT(with("4100000000000.0", "\"fast\""), HasSubstr("caps.copy_bytes_per_second: expected a number"));
    EXPECT_THAT(with("{\"barrier\":{}}", "\"barrier\""),
                HasSubstr("entries[0].body[1]: expected an object with one of dispatch"));
    EXPECT_THAT(with("{\"barrier\":{}}", "{\"barrier\":{},\"copy\":{}}"), HasSubstr("entries[0].body[1]: expected an object"));
    EXPECT_THAT(with("{\"barrier\":{}}", "{\"barrier\":{\"now\":1}}"), HasSubstr("body[1]: unknown entry \"now\""));
    EXPECT_THAT(with("{\"barrier\":{}}", "{\"jump\":{}}"), HasSubstr("entries[0].body[1]: expected an object"));
    EXPECT_THAT(with("\"f16_storage\",", ""), HasSubstr("\"features\" are [subgroup, "));
    EXPECT_THAT(with("\"reports\":[", "\"reports\":[7,"), HasSubstr("reports[0]: expected an object"));
}

TEST(ProgramFile, TheProgramIsVerified) {
    EXPECT_THAT(with("\"name\":\"nothing\"", "\"name\":\"step\""),
                HasSubstr("model.dp: [program] not valid: entry 'step' appears twice"));
    EXPECT_THAT(with("\"kernel\":1", "\"kernel\":2"), HasSubstr("kernel 2 does not exist"));
    EXPECT_THAT(with("\"bytes\":512", "\"bytes\":18446744073709551600"), HasSubstr("segment 0: 18446744073709551600 bytes"));
    EXPECT_THAT(with("\"name\":\"n\"", "\"name\":\"weight ü\""), HasSubstr("state tensor 'weight ü' appears twice"));
    EXPECT_THAT(with("\"max_storage_bindings\":16", "\"max_storage_bindings\":1"),
                HasSubstr("2 bindings, the device's limit is 1"));
}

TEST(ProgramFile, BlobsLieOneBehindTheOther) {
    const std::vector<std::byte> file = full_file();
    const std::string header = header_of(file);
    const size_t at = header.find("\"kir\":[0,") + 9, end = header.find(']', at);
    const std::string bytes = header.substr(at, end - at), first = "\"kir\":[0," + bytes + "]";
    EXPECT_THAT(with(first, "\"kir\":[8," + bytes + "]"),
                HasSubstr("kernels[0].kir: bytes at 8 of the data, expected them at 0"));
    EXPECT_THAT(with(first, "\"kir\":[0,18446744073709551615]"), HasSubstr("end behind the"));
    EXPECT_THAT(with(first, "\"kir\":[0]"), HasSubstr("kernels[0].kir: expected [offset, bytes]"));
    EXPECT_THAT(with(first, "\"kir\":[0," + std::to_string(std::stoull(bytes) - 30) + "]"), HasSubstr("kernels[0].kir: "));
    std::vector<std::byte> data(file.begin() + static_cast<ptrdiff_t>(header_at + header.size()), file.end());
    data.resize(data.size() + 8);
    EXPECT_THAT(refusal(forge(file, header, data)), HasSubstr("8 bytes of data that nothing points to"));
    data.resize(data.size() - 16);
    EXPECT_THAT(refusal(forge(file, header, data)), HasSubstr("end behind the"));
}

TEST(ProgramFile, KernelsAreParsedAndVerified) {
    const std::vector<std::byte> file = full_file();
    std::string all(text_of(file));
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string changed = all;
        const size_t at = changed.find(from, header_at + header_of(file).size());
        EXPECT_NE(at, std::string::npos) << from;
        EXPECT_EQ(from.size(), to.size());
        changed.replace(at, from.size(), to);
        return refusal(forge(file, header_of(file), bytes_of(changed).subspan(header_at + header_of(file).size())));
    };
    EXPECT_THAT(refused("load x", "lead x"), HasSubstr("kernels[0].kir: "));
    EXPECT_THAT(refused("store y[", "stole y["), HasSubstr("kernels[0].kir: "));
    EXPECT_THAT(refused("f32 write 64", "f32 read  64"), HasSubstr("kernels[0].kir: "));
}

TEST(ProgramFile, NestingIsBounded) {
    Program program = full_program();
    const auto nested = [&](int depth) {
        std::vector<Item> body = {Barrier{}};
        for (int i = 0; i < depth; ++i) body = {Repeat{1, std::move(body)}};
        program.entries[1].body = std::move(body);
        return refusal(*to_dp(program));
    };
    EXPECT_EQ(nested(20), "accepted");
    EXPECT_THAT(nested(50), HasSubstr("nest deeper than 32"));
    EXPECT_THAT(nested(500), HasSubstr("items nest deeper than 64"));
    const std::string deep = std::string(200000, '[') + std::string(200000, ']');
    EXPECT_THAT(with("\"reports\":[", "\"reports\":[" + deep + ","), HasSubstr("reports[0]: expected an object"));
    EXPECT_THAT(with("\"reports\":[", "\"reports\":[" + std::string(200000, '[')), HasSubstr("not valid JSON"));
}

TEST(ProgramFile, WhatJsonCannotSayIsRefusedWhenWriting) {
    Program program = full_program();
    program.tensors[0].name = "\xff";
    EXPECT_THAT(to_dp(program).error().message, HasSubstr("not valid UTF-8"));
    program = full_program();
    program.caps.f32_flops = std::nan("");
    EXPECT_THAT(to_dp(program).error().message, HasSubstr("no finite number"));
}

TEST(ProgramFile, FilesOnDisk) {
    const std::string path = ::testing::TempDir() + "darner_dp_test.dp";
    ASSERT_TRUE(write_dp(path, full_program()));
    const Result<Program> loaded = read_dp(path);
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(to_text(*loaded), to_text(full_program()));
    EXPECT_THAT(read_dp(path, 100).error().text(), HasSubstr(path));
    std::filesystem::remove(path);
    EXPECT_THAT(read_dp(path).error().text(), HasSubstr(path));
}

}  // namespace
}  // namespace darner
