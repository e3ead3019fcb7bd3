// SPDX-License-Identifier: MIT
// Each refusal of the verifier, on kernels written as text, and the uniformity analysis.
#include "darner/kir/verify.h"

#include "darner/kir/builder.h"
#include "darner/kir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner::kir {
namespace {

using testing::HasSubstr;

// A kernel with the given statements behind common declarations and values.
std::string with(const std::string& statements) {
    return "kernel k {\n"
           "  workgroup 64 1 1\n"
           "  binding in : f32 read 64\n"
           "  binding out : f32 write 64\n"
           "  binding io : u32 inout 64\n"
           "  binding v : vec4<f32> read 16\n"
           "  array tile : workgroup f32 64\n"
           "  array mine : private f32 4\n"
           "  param p\n"
           "  %0 : u32 = local_id 0\n"
           "  %1 : f32 = constant 1\n"
           "  %2 : u32 = constant 3\n"
           "  %3 : bool = constant true\n"
           "  %4 : bool = lt %0, %2\n" +
           statements + "\n}\n";
}

std::string refusal(const std::string& statements) {
    Result<Kernel> kernel = parse(with(statements));
    EXPECT_TRUE(kernel) << statements << "\n" << kernel.error().text();
    if (!kernel) return "";
    Result<void> verified = verify(*kernel);
    return verified ? "accepted" : verified.error().message;
}

TEST(Verify, AcceptsTheCommonPart) {
    EXPECT_EQ(refusal(""), "accepted");
    EXPECT_EQ(refusal("%5 : f32 = load v[%2]\n barrier\n %6 : f32 = subgroup_reduce add %5"), "accepted");
}

struct Refusal {
    const char *statements, *message;
};
TEST(Verify, RefusesWrongTypes) {
    const Refusal cases[] = {
        {"%5 : u32 = add %0, %1", "operand 1 is f32, expected u32"},
        {"%5 : bool = add %3, %4", "works on numbers, not on bool"},
        {"%5 : f32 = neg %1, %1", "2 operands, expected 1"},
        {"%5 : u32 = exp %0", "works on f32 and f16"},
        {"%5 : f32 = bit_and %1, %1", "works on integers and booleans"},
        {"%5 : i32 = constant 1\n %6 : i32 = mul_high %5, %5", "works on u32"},
        {"%5 : f32 = lt %0, %2", "is no f32"},
        {"%5 : bool = lt %3, %4", "cannot compare bool"},
        {"%5 : bool = eq %0, %1", "compares u32 with f32"},
        {"%5 : f32 = select %0, %1, %1", "the condition is u32"},
        {"%5 : f32 = select %3, %1, %0", "both values"},
        {"%5 : f16 = bitcast %1", "has other bits"},
        {"%5 : vec2<f32> = convert %1", "has other lanes"},
        {"%5 : vec2<f32> = make_vector %1, %0", "not the lanes"},
        {"%5 : vec4<f32> = load v[%0]\n %6 : f32 = extract 4 %5", "no such lane"},
        {"%5 : u32 = pack_half2 %0, %0", "takes two f32"},
        {"%5 : bf16 = convert %1\n %6 : bf16 = add %5, %5", "works on numbers, not on bf16"},
        {"%5 : f32 = local_id 0", "is a u32"},
        {"%5 : u32 = local_id 3", "an axis"},
        {"%5 : bool = constant bits 2", "0 or 1"},
        {"%5 = branch %0 {\n }", "the condition is a boolean"},
        {"%5 = loop %6 : u32 = %0, %1, %2 {\n }", "low, high and step are u32"},
        {"%7 : u32 = constant 0\n %5 = loop %6 : u32 = %0, %2, %7 {\n }", "the step is zero"},
        {"%5 = loop %6 : u32 = %0, %2, %2 carry (%7 : f32 = %1) {\n }", "expected n, n + 1 and n"},
        {"%5 = loop %6 : u32 = %0, %2, %2 carry (%7 : f32 = %1) {\n yield %0\n }", "expected f32"},
        {"%5 = branch %3 {\n yield %1\n } else {\n yield %0\n }", "different types"},
        {"%5 = branch %3 {\n yield %1\n } else {\n yield %1\n }\n %6 : f32 = result %5.1", "no such result"},
        {"%5 = branch %3 {\n yield %1\n } else {\n yield %1\n }\n %6 : u32 = result %5.0", "another type"},
        {"%5 : f32 = result %1.0", "no loop or branch"},
        {"%5 : bool = subgroup_reduce add %3", "cannot reduce bool"},
    };
    for (const Refusal& c : cases) EXPECT_THAT(refusal(c.statements), HasSubstr(c.message)) << c.statements;
}

TEST(Verify, RefusesWrongMemoryAccess) {
    const Refusal cases[] = {
        {"%5 : f32 = load out[%0]", "write-only"},
        {"store in[%0], %1", "read-only"},
        {"store out[%0], %0", "u32 in a binding of f32"},
        {"store out[%1], %1", "an index is u32"},
        {"%5 : vec2<f32> = load v[%0]", "vec2<f32> in a binding of vec4<f32>"},
        {"%5 : f32 = array_load mine[%0]", "a constant"},
        {"%5 : u32 = constant 4\n array_store mine[%5], %1", "index 4 of 4"},
        {"%5 : u32 = array_load tile[%0]", "u32 in an array of f32"},
        {"%5 : f32 = atomic add out[%0], %1", "atomics work on"},
        {"%5 : f32 = atomic add io[%0], %1", "operand and result"},
    };
    for (const Refusal& c : cases) EXPECT_THAT(refusal(c.statements), HasSubstr(c.message)) << c.statements;
}

TEST(Verify, RefusesValuesOutOfScope) {
    EXPECT_THAT(refusal("%5 = branch %3 {\n %6 : u32 = add %0, %2\n }\n %7 : u32 = add %6, %2"),
                HasSubstr("not defined before it"));
    EXPECT_THAT(refusal("%5 = branch %3 {\n %6 : u32 = add %0, %2\n } else {\n %7 : u32 = add %6, %2\n }"),
                HasSubstr("not defined before it"));
    EXPECT_THAT(refusal("%5 = loop %6 : u32 = %0, %2, %2 {\n }\n %7 : u32 = add %6, %2"), HasSubstr("not defined before it"));
}

TEST(Verify, RefusesDivergentBarriers) {
    const Refusal cases[] = {
        {"%5 = branch %4 {\n barrier\n }", "barrier`: stands below a branch or loop that is not uniform over the workgroup"},
        {"%5 = loop %6 : u32 = %2, %0, %2 {\n barrier\n }", "not uniform over the workgroup"},
        {"%5 : u32 = load io[%2]\n %6 : bool = lt %5, %2\n %7 = branch %6 {\n barrier\n }", "not uniform over the workgroup"},
        {"%5 : u32 = subgroup_id\n %6 : bool = lt %5, %2\n %7 = branch %6 {\n barrier\n }", "not uniform over the workgroup"},
        {"%5 = branch %4 {\n %6 : f32 = subgroup_reduce add %1\n }", "not uniform over the subgroup"},
        // A carried value becomes divergent in the second trip only.
        {"%5 = loop %6 : u32 = %2, %2, %2 carry (%7 : u32 = %2, %8 : u32 = %2) {\n %9 : bool = lt %7, %2\n %10 = branch %9 {\n "
         "barrier\n }\n"
         " yield %8, %0\n }",
         "not uniform over the workgroup"},
        // Which way a branch went shows in its results.
        {"%5 = branch %4 {\n yield %2\n } else {\n yield %2\n }\n %6 : u32 = result %5.0\n %7 = loop %8 : u32 = %2, %6, %2 {\n "
         "barrier\n }",
         "not uniform over the workgroup"},
    };
    for (const Refusal& c : cases) EXPECT_THAT(refusal(c.statements), HasSubstr(c.message)) << c.statements;
    const char* accepted[] = {
        "%5 : u32 = param p\n %6 = loop %7 : u32 = %2, %5, %2 {\n barrier\n }",
        "%5 : u32 = workgroup_id 1\n %6 : bool = lt %5, %2\n %7 = branch %6 {\n barrier\n }",
        "%5 : u32 = subgroup_id\n %6 : bool = lt %5, %2\n %7 = branch %6 {\n %8 : f32 = subgroup_reduce add %1\n }",
    };
    for (const char* statements : accepted) EXPECT_EQ(refusal(statements), "accepted") << statements;
}

TEST(Verify, RefusesWrongCooperativeOperations) {
    const std::string head =
        "%10 : f16 = constant 0\n%11 : coop<f16,16,16,a> = coop_fill %10\n%12 : coop<f16,16,16,b> = coop_fill %10\n"
        "%13 : coop<f32,16,16,accumulator> = coop_fill %1\n%14 : coop<f32,16,8,accumulator> = coop_fill %1\n";
    EXPECT_EQ(refusal(head + "%15 : coop<f32,16,16,accumulator> = coop_mul_add %11, %12, %13"), "accepted");
    EXPECT_THAT(refusal(head + "%15 : coop<f32,16,16,accumulator> = coop_mul_add %12, %11, %13"),
                HasSubstr("use a, b and accumulator"));
    EXPECT_THAT(refusal(head + "%15 : coop<f32,16,8,accumulator> = coop_mul_add %11, %12, %14"), HasSubstr("shapes do not fit"));
    EXPECT_THAT(refusal(head + "%15 : coop<f16,16,16,a> = coop_fill %1"), HasSubstr("fills with a f32"));
    EXPECT_THAT(refusal(head + "coop_store binding io[%2] stride %2, %13"), HasSubstr("a matrix of f32 in memory of u32"));
    EXPECT_EQ(refusal(head + "coop_store binding io[%2] stride %2, %11"), "accepted");
    EXPECT_THAT(refusal(head + "coop_store binding out[%0] stride %2, %13"),
                HasSubstr("operand 0 is not uniform over the subgroup"));
    EXPECT_THAT(refusal(head + "%15 : coop<f32,16,16,accumulator> = coop_map exp %13, %1"), HasSubstr("arithmetic opcode"));
    EXPECT_THAT(refusal(head + "%15 : coop<f32,16,16,accumulator> = add %13, %13"), HasSubstr("works on numbers"));
}

TEST(Verify, RefusesWrongTables) {
    Kernel k = *parse(with(""));
    auto message = [](const Kernel& kernel) { return verify(kernel).error().message; };
    Kernel bad = k;
    bad.workgroup_size = {64, 0, 1};
    EXPECT_THAT(message(bad), HasSubstr("workgroup size 64 0 1"));
    bad = k;
    bad.bindings[1].name = "in";
    EXPECT_THAT(message(bad), HasSubstr("two bindings are named in"));
    bad = k;
    bad.name = "";
    bad.params.assign(17, "q");
    EXPECT_THAT(message(bad), testing::AllOf(HasSubstr("no name"), HasSubstr("17 params"), HasSubstr("two params are named q")));
    bad = k;
    bad.arrays[0].count = 0;
    bad.bindings[0].lanes = 3;
    EXPECT_THAT(message(bad), testing::AllOf(HasSubstr("no elements"), HasSubstr("binding in: elements of type")));
    bad = k;
    bad.required_subgroup_size = 24;
    EXPECT_THAT(message(bad), HasSubstr("power of two"));
}

TEST(Verify, SurvivesBrokenIds) {
    Kernel k = *parse(with("%5 = branch %4 {\n %6 : f32 = load in[%0]\n store out[%0], %6\n }"));
    for (size_t i = 0; i < k.instructions.size(); ++i) {
        for (uint32_t wrong : {0u, 3u, 1000u, 0xffffffffu}) {
            Kernel bad = k;
            Instruction& inst = bad.instructions[i];
            inst.first_operand = wrong;
            (void)verify(bad).has_value();
            (void)to_text(bad);
            inst = k.instructions[i];
            inst.aux = wrong;
            (void)verify(bad).has_value();
            (void)to_text(bad);
            inst = k.instructions[i];
            inst.first_block = BlockId(wrong);
            inst.block_count = 2;
            EXPECT_TRUE(!verify(bad) || wrong == 1);
            (void)to_text(bad);
        }
    }
    for (ValueId& operand : k.operands) operand = ValueId(5000u);
    EXPECT_FALSE(verify(k));
}

}  // namespace
}  // namespace darner::kir
