// SPDX-License-Identifier: MIT
// The text form: round trips without loss, errors with their place, garbage.
#include "darner/kir/text.h"

#include "darner/kir/builder.h"
#include "darner/kir/verify.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace darner::kir {
namespace {

using testing::HasSubstr;

// A kernel in which every kind of statement occurs.
Kernel everything() {
    Builder b("every thing");
    b.workgroup_size(32, 2);
    b.require_subgroup_size(32);
    BindingRef x = b.binding("x", Scalar::f32, 4, Access::read, 100), y = b.binding("y", Scalar::f32, 1, Access::write, 100);
    BindingRef n = b.binding("odd \"name\"\n", Scalar::i32, 1, Access::inout, 8),
               h = b.binding("h", Scalar::f16, 1, Access::inout, 4096);
    ArrayRef tile = b.workgroup_array("tile", f32_type.with_lanes(2), 64), mine = b.private_array("mine", f32_type, 3);
    Type a_type{Scalar::f16, 1, 16, 16, CoopUse::a}, b_type{Scalar::f16, 1, 16, 16, CoopUse::b},
        c_type{Scalar::f32, 1, 16, 16, CoopUse::accumulator};
    ArrayRef staged = b.workgroup_array("staged", f16_type, 256), acc = b.private_array("acc", c_type, 2);
    Expr i = b.local_index() + b.param("offset") * b.num_workgroups(0) + b.subgroup_id() + b.lane_id() + b.workgroup_id(1);
    Expr v = b.load(x, i), s = b.load_scalar(x, i * 4 + 1);
    b.store(tile, i, b.make_vector({s, b.extract(v, 2)}));
    b.barrier();
    Expr f = b.extract(b.load(tile, i), 1);
    b.store(mine, b.u32(2), f);
    auto sums = b.loop(b.u32(0), b.param("count"), b.u32(3), {f, i}, [&](Expr k, const Builder::Values& c) {
        Expr t = b.branch(
            k < 7, [&] { return Builder::Values{b.fma(c[0], f, s)}; }, [&] { return Builder::Values{b.tanh(c[0])}; })[0];
        b.when(b.load(mine, b.u32(2)) != f, [&] { b.store(y, k, t); });
        return Builder::Values{t, c[1] ^ k};
    });
    b.store(y, sums[1], sums[0] + b.f32(0.1f) + b.f32(-0.0f) + b.f32(1e-42f) + b.f32(std::numeric_limits<float>::infinity()));
    b.atomic(AtomicKind::exchange, n, i, b.convert(sums[0], Scalar::i32) + b.i32(-5));
    Expr r = b.subgroup_reduce(ReduceKind::max, b.subgroup_broadcast(b.subgroup_shuffle_xor(f, 3), 4));
    b.store(y, i, b.select(b.convert(i, Scalar::boolean), r, b.bitcast(b.pack_half2(f, r), Scalar::f32)));
    b.store(y, i,
            b.extract(b.unpack_half2(i), 1) + b.convert(b.constant(f16_type, 1.5) + b.convert(f, Scalar::f16), Scalar::f32));
    Expr m = b.coop_mul_add(b.coop_load(a_type, h, i, b.u32(16)), b.coop_load(b_type, staged, b.u32(0), b.u32(16), true),
                            b.coop_fill(c_type, b.f32(0)));
    b.store(acc, b.u32(1), b.coop_map(Opcode::mul, m, b.f32(2)));
    b.coop_store(h, b.u32(0), b.u32(16), b.coop_convert(b.load(acc, b.u32(1)), Scalar::f16), true);
    b.coop_store(staged, b.u32(0), b.u32(16), b.coop_convert(m, Scalar::f16));
    return b.finish();
}

TEST(Text, RoundTripIsLossless) {
    Kernel kernel = everything();
    ASSERT_TRUE(verify_structure(kernel)) << verify_structure(kernel).error().text();
    std::string text = to_text(kernel);
    Result<Kernel> read = parse(text);
    ASSERT_TRUE(read) << read.error().text() << "\n" << text;
    EXPECT_EQ(to_text(*read), text);
    EXPECT_EQ(structural_hash(*read), structural_hash(kernel));
    EXPECT_EQ(read->operands, kernel.operands);
    EXPECT_EQ(read->params, kernel.params);
    EXPECT_EQ(read->bindings[2].name, kernel.bindings[2].name);
    EXPECT_TRUE(verify_structure(*read));
}

TEST(Text, Form) {
    Builder b("scale");
    b.workgroup_size(64);
    BindingRef x = b.binding("x", Scalar::f32, 1, Access::read, 1000), y = b.binding("y", Scalar::f32, 1, Access::write, 1000);
    Expr i = b.local_id(0);
    b.when(i < b.param("count"), [&] { b.store(y, i, b.load(x, i) * 0.5); });
    const char* expected =
        "kernel scale {\n"
        "  workgroup 64 1 1\n"
        "  binding x : f32 read 1000\n"
        "  binding y : f32 write 1000\n"
        "  param count\n"
        "  %0 : u32 = local_id 0\n"
        "  %1 : u32 = param count\n"
        "  %2 : bool = lt %0, %1\n"
        "  %3 : f32 = constant 0.5\n"
        "  %4 = branch %2 {\n"
        "    %5 : f32 = load x[%0]\n"
        "    %6 : f32 = mul %5, %3\n"
        "    store y[%0], %6\n"
        "  }\n"
        "}\n";
    EXPECT_EQ(to_text(b.finish()), expected);
}

TEST(Text, ABindingInAWrittenBufferIsAKernelOfItsOwn) {
    Kernel kernel = everything();
    const uint64_t hash = structural_hash(kernel);
    Binding& read_only =
        *std::find_if(kernel.bindings.begin(), kernel.bindings.end(), [](const Binding& b) { return b.access == Access::read; });
    read_only.in_written_buffer = true;
    EXPECT_NE(structural_hash(kernel), hash);
    EXPECT_FALSE(same_structure(kernel, everything()));
    EXPECT_THAT(to_text(kernel), HasSubstr(" in_written_buffer\n"));
    Result<Kernel> read = parse(to_text(kernel));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(to_text(*read), to_text(kernel));
    const auto fault = [](const char* access) {
        const Result<void> verified =
            verify(*parse(fmt::format("kernel k {{\n workgroup 1 1 1\n binding x : f32 {} 4 in_written_buffer\n}}", access)));
        return verified ? "none" : verified.error().text();
    };
    EXPECT_EQ(fault("read"), "none");
    EXPECT_THAT(fault("inout"), HasSubstr("in_written_buffer is for what is read"));
}

TEST(Text, AmbiguousNamesAreWrittenByIndex) {
    Kernel kernel = everything();
    for (Binding& b : kernel.bindings) b.name = "same";
    std::string text = to_text(kernel);
    EXPECT_THAT(text, HasSubstr("load @0["));
    Result<Kernel> read = parse(text);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(structural_hash(*read), structural_hash(kernel));
}

struct BadText {
    const char *text, *where, *message;
};
TEST(Text, ErrorsNamePlaceAndExpectation) {
    const BadText cases[] = {
        {"", "1:1", "got the end, expected kernel"},
        {"kernel k", "1:9", "expected {"},
        {"kernel k {\n  workgroup 1 x 1", "2:15", "got x, expected a number"},
        {"kernel k {\n  binding b : f99 read 3", "2:15", "expected a type"},
        {"kernel k {\n  binding b : f32 both 3", "2:19", "expected read, write or inout"},
        {"kernel k {\n  %0 : u32 = local_id 0\n  %0 : u32 = local_id 0\n}", "3:3", "%0 is defined twice"},
        {"kernel k {\n  %1 : u32 = add %0, %0\n}", "2:18", "%0 is not defined above"},
        {"kernel k {\n  %1 : u32 = constnat 3\n}", "2:14", "expected an instruction"},
        {"kernel k {\n  %1 : u32 = constant 4294967296\n}", "2:23", "4294967295"},
        {"kernel k {\n  %1 : f32 = constant 1e99\n}", "2:23", "float in range"},
        {"kernel k {\n  %1 : u32 = barrier\n}", "2:14", "gives no value"},
        {"kernel k {\n  local_id 0\n}", "2:3", "gives a value"},
        {"kernel k {\n  %0 : f32 = load x[%1]\n}", "2:19", "there is no binding x; there are: none"},
        {"kernel k {\n} x", "2:3", "got x, expected the end"},
        {"kernel \"k", "1:8", "unfinished name"},
    };
    for (const BadText& c : cases) {
        Result<Kernel> read = parse(c.text);
        ASSERT_FALSE(read) << c.text;
        EXPECT_EQ(read.error().where, c.where) << c.text;
        EXPECT_THAT(read.error().message, HasSubstr(c.message)) << c.text;
    }
    EXPECT_THAT(parse("kernel k {\n  %1 : u32 = constnat 3\n}").error().hint, HasSubstr("constant"));
}

// Every prefix and many mutations: parse() ends with a value or an error, and what it accepts can be verified and printed.
TEST(Text, GarbageIsRefusedGracefully) {
    std::string text = to_text(everything());
    for (size_t n = 0; n < text.size(); n += 7) EXPECT_FALSE(parse(text.substr(0, n)));
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        std::string mutant = text;
        for (int change = 0; change < 3; ++change) {
            size_t at = random() % mutant.size();
            if (random() % 2)
                mutant[at] = static_cast<char>(random() % 256);
            else
                mutant.erase(at, random() % 20);
        }
        if (Result<Kernel> read = parse(mutant)) {
            (void)verify(*read).has_value();
            EXPECT_FALSE(to_text(*read).empty());
        }
    }
    std::string deep = "kernel k {\n%0 : bool = constant true\n";
    for (int i = 1; i < 100000; ++i) deep += "%" + std::to_string(i) + " = branch %0 {\n";
    EXPECT_THAT(parse(deep).error().message, HasSubstr("nested"));
}

}  // namespace
}  // namespace darner::kir
