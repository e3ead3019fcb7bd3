// SPDX-License-Identifier: MIT
// Dims as polynomials, their text, overflow, and the bounds of types.
#include "darner/graph/type.h"
#include "darner/graph/test_support.h"

#include <gtest/gtest.h>

#include <random>

namespace darner {
namespace {

using testing::ok;

Dim dim(std::string_view text) { return ok(parse_dim(text)); }

TEST(Dim, TextIsCanonical) {
    EXPECT_EQ(dim("784").text(), "784");
    EXPECT_EQ(dim("1 + n*2").text(), "2*n+1");
    EXPECT_EQ(dim("n*m - m*n").text(), "0");
    EXPECT_EQ(dim("b*a*a - 3*a + -2").text(), "a*a*b-3*a-2");
    EXPECT_EQ(dim("--3").text(), "3");
    EXPECT_EQ(dim("-n").text(), "-n");
    EXPECT_EQ(dim("-9223372036854775808").value(), INT64_MIN);
}

TEST(Dim, Algebra) {
    const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
    EXPECT_EQ((n + m) * (n - m), n * n - m * m);
    EXPECT_EQ((n + 1) * (n + 1), n * n + n * 2 + 1);
    EXPECT_TRUE((n - n).is_constant());
    EXPECT_NE(n, m);
    EXPECT_NE(n, Dim(4));
    EXPECT_EQ(n * 0, Dim(0));
}

TEST(Dim, ExactDivision) {
    EXPECT_EQ(dim("n*n - m*m").exact_div(dim("n+m")), dim("n-m"));
    EXPECT_EQ(dim("6*n+4").exact_div(2), dim("3*n+2"));
    EXPECT_EQ(dim("6*n+4").exact_div(4), std::nullopt);
    EXPECT_EQ(dim("n+1").exact_div(dim("n")), std::nullopt);
    EXPECT_EQ(dim("12").exact_div(dim("n")), std::nullopt);
    EXPECT_EQ(dim("0").exact_div(dim("n")), Dim(0));
    EXPECT_EQ(dim("7").exact_div(0), std::nullopt);
    EXPECT_EQ(Dim(INT64_MIN).exact_div(-1), std::nullopt);
}

TEST(Dim, DivisionUndoesMultiplication) {
    std::mt19937 random(3);
    const Dim symbols[] = {Dim::symbol("a"), Dim::symbol("b"), Dim::symbol("c"), 1};
    const auto polynomial = [&] {
        Dim sum;
        for (int i = 0; i < 4; ++i)
            sum = sum + symbols[random() % 4] * symbols[random() % 4] * (static_cast<int>(random() % 9) - 4);
        return sum;
    };
    for (int i = 0; i < 500; ++i) {
        const Dim a = polynomial(), b = polynomial();
        if (b != Dim(0)) EXPECT_EQ((a * b).exact_div(b), a) << a.text() << " by " << b.text();
        EXPECT_EQ(dim(a.text()), a);
    }
}

TEST(Dim, OverflowStaysAndEqualsNothing) {
    const Dim large = INT64_MAX;
    for (const Dim& overflow : {large + 1, large * 2, Dim(INT64_MIN) - 1, Dim::symbol("n") * large * 2, dim("n*4") * INT64_MAX}) {
        EXPECT_TRUE(overflow.overflowed());
        EXPECT_FALSE(overflow.is_constant());
        EXPECT_TRUE((overflow - overflow).overflowed());
        EXPECT_TRUE((overflow * 0).overflowed());
        EXPECT_FALSE(overflow == overflow);
        EXPECT_FALSE(check_type(f32({overflow})));
    }
}

TEST(Dim, Bind) {
    EXPECT_EQ(ok(dim("2*n+m*m-1").bind({{"n", 5}, {"m", 3}})), 18);
    EXPECT_EQ(dim("n*n").bind({{"n", INT64_MAX}}).error().message, "the dim n*n does not fit in 64 bits");
    EXPECT_EQ(dim("n+m").bind({{"n", 1}}).error().message, "the symbol m of the dim m+n has no value");
}

TEST(Dim, ParseErrors) {
    for (const char* wrong : {"", "n+", "2n", "n m", "(n)", "*", "9223372036854775808", "4611686018427387904*2", "n.m"})
        EXPECT_FALSE(parse_dim(wrong)) << wrong;
    for (const char* wrong : {"", "64", "[1,]", "[,1]", "[1", "[1,,2]"}) EXPECT_FALSE(parse_dims(wrong)) << wrong;
    EXPECT_EQ(ok(parse_dims(" [ 1 , n ] ")).size(), 2u);
    EXPECT_EQ(ok(parse_dims("[]")).size(), 0u);
}

TEST(Type, TextAndCount) {
    EXPECT_EQ(to_string(f32({64, Dim::symbol("n")})), "f32[64,n]");
    EXPECT_EQ(to_string(boolean()), "bool[]");
    EXPECT_EQ(f32({3, 5}).count(), 15);
    EXPECT_EQ(f32().count(), 1);
    EXPECT_FALSE(f32({Dim::symbol("n")}).is_concrete());
    for (int i = 0; i < dtype_count; ++i) EXPECT_EQ(parse_dtype(to_string(static_cast<DType>(i))), static_cast<DType>(i));
    EXPECT_EQ(parse_dtype("f31"), std::nullopt);
}

TEST(Type, Bounds) {
    EXPECT_TRUE(check_type(f32({max_elements})));
    EXPECT_TRUE(check_type(f32({0, max_elements})));
    EXPECT_EQ(check_type(f32({65536, 32768})).error().kind, ErrorKind::limit);
    EXPECT_FALSE(check_type(f32({0, max_elements, 2})));
    EXPECT_EQ(check_type(f32({2, -1})).error().message, "the dim -1 of f32[2,-1] is negative");
}

TEST(Type, Axes) {
    EXPECT_EQ(normalize_axis(-1, 3), 2u);
    EXPECT_EQ(normalize_axis(2, 3), 2u);
    EXPECT_EQ(normalize_axis(3, 3), std::nullopt);
    EXPECT_EQ(normalize_axis(-4, 3), std::nullopt);
    EXPECT_EQ(normalize_axis(0, 0), std::nullopt);
}

}  // namespace
}  // namespace darner
