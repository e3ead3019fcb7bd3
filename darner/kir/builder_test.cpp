// SPDX-License-Identifier: MIT
// Each rule of the Builder: folding, algebra, bounds, numbering within scopes, versioned loads, placement, dead code.
#include "darner/kir/builder.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace darner::kir {
namespace {

size_t count(const Kernel& kernel, Opcode op) {
    size_t n = 0;
    for (const Block& block : kernel.blocks)
        for (ValueId v : block.instructions) n += kernel.at(v).op == op;
    return n;
}

struct BuilderTest : testing::Test {
    Builder b{"test"};
    BindingRef in, out, f_in, f_out;
    Expr x, y;  // u32 without known bounds

    void SetUp() override {
        b.workgroup_size(64);
        in = b.binding("in", Scalar::u32, 1, Access::read, 1000);
        out = b.binding("out", Scalar::u32, 1, Access::inout, 1000);
        f_in = b.binding("f_in", Scalar::f32, 1, Access::read, 1000);
        f_out = b.binding("f_out", Scalar::f32, 1, Access::write, 1000);
        x = b.load(in, b.u32(0));
        y = b.load(in, b.u32(1));
    }
    Opcode op(Expr e) const { return b.kernel().at(e.id).op; }
    Expr below(uint32_t limit, uint32_t at) { return b.assume_max(b.load(in, b.u32(at)), limit - 1); }
    void expect_constant(Expr e, uint32_t bits) {
        ASSERT_TRUE(b.is_constant(e)) << to_string(op(e));
        EXPECT_EQ(b.constant_bits(e), bits);
    }
    void expect_same(Expr a, Expr c) { EXPECT_EQ(a.id, c.id) << to_string(op(a)) << " and " << to_string(op(c)); }
};

TEST_F(BuilderTest, IntegersFoldWithWrap) {
    expect_constant(b.u32(0xffffffffu) + 2, 1);
    expect_constant(b.u32(3) - 5, 0xfffffffeu);
    expect_constant(b.u32(0x80000001u) * 2, 2);
    expect_constant(b.i32(-7) / b.i32(2), static_cast<uint32_t>(-3));
    expect_constant(b.i32(-7) % b.i32(2), static_cast<uint32_t>(-1));
    expect_constant(b.i32(std::numeric_limits<int32_t>::min()) / b.i32(-1), 0x80000000u);
    expect_constant(b.i32(std::numeric_limits<int32_t>::min()) % b.i32(-1), 0);
    expect_constant(b.i32(-8) >> 1, static_cast<uint32_t>(-4));
    expect_constant(b.u32(0x80000000u) >> 31, 1);
    expect_constant(b.mul_high(b.u32(0x80000000u), b.u32(6)), 3);
    expect_constant(b.min(b.i32(-1), b.i32(1)), static_cast<uint32_t>(-1));
    expect_constant(b.min(b.u32(0xffffffffu), b.u32(1)), 1);
    expect_constant(b.i32(-1) < b.i32(0), 1);
    expect_constant(b.u32(0xffffffffu) < b.u32(0), 0);
    EXPECT_EQ(op(b.u32(1) / b.u32(0)), Opcode::div);  // left for the interpreter to report
    EXPECT_EQ(op(b.u32(1) << 32), Opcode::shl);
}

TEST_F(BuilderTest, FloatsFoldInSinglePrecision) {
    expect_constant(b.f32(0.1f) + b.f32(0.2f), std::bit_cast<uint32_t>(0.1f + 0.2f));
    expect_constant(b.round_even(b.f32(2.5f)), std::bit_cast<uint32_t>(2.0f));
    expect_constant(b.fma(b.f32(2), b.f32(3), b.f32(1)), std::bit_cast<uint32_t>(7.0f));
    EXPECT_EQ(op(b.f32(1) / b.f32(0)), Opcode::div) << "no infinite literals";
    EXPECT_EQ(op(b.log(b.f32(-1))), Opcode::log);
    expect_constant(b.f32(1) < b.f32(2), 1);
}

TEST_F(BuilderTest, ConversionsFoldAndSaturate) {
    expect_constant(b.convert(b.f32(-2.9f), Scalar::i32), static_cast<uint32_t>(-2));
    expect_constant(b.convert(b.f32(3e9f), Scalar::i32), 0x7fffffffu);
    expect_constant(b.convert(b.f32(-1.0f), Scalar::u32), 0);
    expect_constant(b.convert(b.f32(1e20f), Scalar::u32), 0xffffffffu);
    expect_constant(b.convert(b.f32(std::numeric_limits<float>::quiet_NaN()), Scalar::i32), 0);
    expect_constant(b.convert(b.f32(1.5f), Scalar::f16), 0x3e00);
    expect_constant(b.convert(b.u32(7), Scalar::boolean), 1);
    expect_constant(b.bitcast(b.f32(1), Scalar::u32), 0x3f800000);
    Expr f = b.load(f_in, x);
    expect_same(b.convert(f, Scalar::f32), f);
    expect_same(b.bitcast(b.bitcast(f, Scalar::u32), Scalar::f32), f);
    expect_same(b.convert(b.convert(x, Scalar::i32), Scalar::u32), x);
}

TEST_F(BuilderTest, IdentitiesOfIntegers) {
    expect_same(x + 0, x);
    expect_same(x * 1, x);
    expect_same(x / 1, x);
    expect_constant(x * 0, 0);
    expect_constant(x % 1, 0);
    expect_constant(x - x, 0);
    expect_same((x + y) - y, x);
    expect_same((x + 3) + 5, x + 8);
    expect_same((x * 3) * 5, x * 15);
    expect_same(b.min(x, x), x);
    expect_same(x & x, x);
    expect_same(x ^ 0, x);
    expect_same(x + y, y + x);
    expect_same(b.max(x, y), b.max(y, x));
    expect_same(x > y, y < x);
    expect_same(x << 0, x);
}

TEST_F(BuilderTest, IdentitiesOfFloatsAreExact) {
    Expr f = b.load(f_in, x);
    expect_same(f * 1, f);
    expect_same(f / 1, f);
    expect_same(f - 0, f);
    expect_same(f + b.f32(-0.0f), f);
    EXPECT_EQ(op(f + 0), Opcode::add) << "-0 + 0 is 0";
    EXPECT_EQ(op(f * 0), Opcode::mul) << "the factor may be infinite";
    EXPECT_EQ(op(f == f), Opcode::eq) << "the value may be NaN";
    expect_same(-(-f), f);
    expect_same(b.abs(-f), b.abs(f));
    expect_same(b.floor(b.ceil(f)), b.ceil(f));
}

TEST_F(BuilderTest, BooleansAndSelect) {
    Expr c = x < y;
    expect_same(!(!c), c);
    expect_same(!c, y <= x);
    expect_same(c & b.boolean(true), c);
    expect_constant(c & b.boolean(false), 0);
    expect_constant(c | b.boolean(true), 1);
    expect_same(c == b.boolean(true), c);
    expect_same(b.select(b.boolean(true), x, y), x);
    expect_same(b.select(b.boolean(false), x, y), y);
    expect_same(b.select(c, x, x), x);
    expect_same(b.select(c, b.boolean(true), b.boolean(false)), c);
    Expr f = b.load(f_in, x), g = b.load(f_in, y);
    Expr less = f < g;
    expect_same(b.select(!less, x, y), b.select(less, y, x));
    EXPECT_EQ(op(!less), Opcode::bit_not) << "not (f < g) is not g <= f: NaN";
}

TEST_F(BuilderTest, BoundsOfIdsAndResults) {
    EXPECT_EQ(b.max_of(b.local_id(0)), 63u);
    expect_constant(b.local_id(1), 0);
    EXPECT_EQ(b.max_of(b.workgroup_id(0)), 65534u);
    EXPECT_EQ(b.max_of(b.local_id(0) * 4 + 3), 255u);
    EXPECT_EQ(b.max_of(x % 10), 9u);
    EXPECT_EQ(b.max_of(x & 12), 12u);
    EXPECT_EQ(b.max_of(63 - b.local_id(0)), 63u);
    EXPECT_EQ(b.max_of(b.local_id(0) - 1), 0xffffffffu) << "0 - 1 wraps";
    EXPECT_EQ(b.max_of(x + 1), 0xffffffffu);
    b.loop(b.u32(0), b.u32(10), b.u32(1), [&](Expr i) { EXPECT_EQ(b.max_of(i), 9u); });
    EXPECT_EQ(b.max_of(b.branch(
                  x < y, [&] { return Builder::Values{b.u32(3)}; }, [&] { return Builder::Values{x % 10}; })[0]),
              9u);
}

TEST_F(BuilderTest, ComparisonsDecidedByBounds) {
    Expr i = below(8, 2);
    expect_constant(i < 8, 1);
    expect_constant(i <= 7, 1);
    expect_constant(i >= 8, 0);
    expect_constant(i == 8, 0);
    expect_constant(i != 9, 1);
    expect_constant(x < 0, 0);
    expect_constant(x >= 0, 1);
    expect_same(b.min(i, b.u32(7)), i);
    expect_constant(b.max(i, b.u32(9)), 9);
    EXPECT_EQ(op(i < 7), Opcode::lt);
}

TEST_F(BuilderTest, DivisionByConstants) {
    Expr i = below(8, 2), j = below(100, 3);
    expect_same(i % 8, i);
    expect_constant(i / 8, 0);
    EXPECT_EQ(op(x / 8), Opcode::shr);
    EXPECT_EQ(op(x % 8), Opcode::bit_and);
    EXPECT_EQ(op(x / 7), Opcode::div);
    expect_same((j * 8) / 8, j);
    expect_same((j * 8 + i) / 8, j);
    expect_same((j * 8 + i) % 8, i);
    expect_same((i + j * 24) / 8, j * 3);
    expect_same((j * 4 + b.min(i, b.u32(3))) / 8, j / 2);
    expect_same((j * 2 + i % 2) % 10, (j % 5) * 2 + i % 2);
    expect_same((j * 8 + 11) / 8, j + 1);
    expect_same((x / 3) / 5, x / 15);
    expect_same((x % 12) % 4, x % 4);
    expect_constant((x / 0x10000) / 0x10000, 0);
    EXPECT_NE((x * 8 / 8).id, x.id) << "x * 8 may wrap";
    EXPECT_NE(((x * 8 + i) % 8).id, i.id) << "the sum may wrap";
}

TEST_F(BuilderTest, IndexTakenApartAndRejoined) {
    expect_same(x / 7 * 7 + x % 7, x);
    expect_same(x % 8 + x / 8 * 8, x);
    expect_same(x / 7 * 21 + x % 7 * 3, x * 3);
    Expr rows = x / 35, middle = x / 7 % 5, last = x % 7;
    expect_same(rows * 35 + middle * 7 + last, x);
    expect_same(y + x / 7 * 7 + x % 7, y + x);
    EXPECT_EQ(op(x / 7 * 8 + x % 7), Opcode::add);
}

TEST_F(BuilderTest, Vectors) {
    Expr v = b.make_vector({x, y});
    expect_same(b.extract(v, 1), y);
    expect_constant(b.extract(b.constant(f32_type.with_lanes(4), 2), 3), std::bit_cast<uint32_t>(2.0f));
    EXPECT_TRUE(b.is_constant(b.make_vector({b.f32(1), b.f32(1)})));
    Expr w = v + b.constant(v.type(), 1);
    expect_same(b.make_vector({b.extract(w, 0), b.extract(w, 1)}), w);
    EXPECT_EQ(b.select(x < y, v, w).type(), v.type());
    EXPECT_EQ((v < w).type(), (Type{Scalar::boolean, 2}));
}

TEST_F(BuilderTest, TanhIsClamped) {
    Expr t = b.tanh(b.load(f_in, x));
    ASSERT_EQ(op(t), Opcode::tanh);
    EXPECT_EQ(b.kernel().at(b.kernel().operand(t.id, 0)).op, Opcode::select);
    expect_constant(b.tanh(b.f32(1e30f)), std::bit_cast<uint32_t>(1.0f));
}

TEST_F(BuilderTest, NumberingFollowsScopes) {
    Expr outside = x + y, inside;
    b.when(x < y, [&] {
        expect_same(x + y, outside);
        inside = x * y;
        expect_same(x * y, inside);
    });
    EXPECT_NE((x * y).id, inside.id);
}

TEST_F(BuilderTest, InvariantsLeaveLoopsButNotBranches) {
    Expr in_loop, in_branch;
    b.loop(b.u32(0), x, b.u32(1), [&](Expr i) {
        in_loop = x * y;
        b.store(out, i, in_loop + i);
    });
    b.when(x < y, [&] { b.loop(b.u32(0), x, b.u32(1), [&](Expr i) { b.store(out, i, in_branch = x ^ y); }); });
    expect_same(x * y, in_loop);
    EXPECT_NE((x ^ y).id, in_branch.id);
    // A divisor may be zero where the loop never runs.
    Expr quotient;
    b.loop(b.u32(0), x, b.u32(1), [&](Expr i) { b.store(out, i, quotient = y / x); });
    EXPECT_NE((y / x).id, quotient.id);
}

TEST_F(BuilderTest, AssumptionsEndWithTheirBlock) {
    Expr doubled;
    b.when(x < 10, [&] {
        expect_constant(x < 10, 1);
        EXPECT_EQ(b.max_of(x), 9u);
    });
    EXPECT_EQ(b.max_of(x), 0xffffffffu);
    EXPECT_EQ(op(x < 10), Opcode::lt);
    b.loop(b.u32(0), y, b.u32(1), [&](Expr) {
        b.assume_max(x, 5);
        doubled = x * 2;
        EXPECT_EQ(b.max_of(doubled), 10u);
    });
    EXPECT_EQ(b.max_of(doubled), 0xffffffffu);
}

TEST_F(BuilderTest, LoadsAreVersioned) {
    expect_same(b.load(in, x), b.load(in, x));
    Expr first = b.load(out, x);
    expect_same(b.load(out, x), first);
    b.store(out, y, x);
    Expr second = b.load(out, x);
    EXPECT_NE(second.id, first.id);
    expect_same(b.load(in, b.u32(0)), x);
    b.barrier();
    Expr third = b.load(out, x);
    EXPECT_NE(third.id, second.id);
    b.when(x < y, [&] {
        expect_same(b.load(out, x), third);
        b.store(out, x, y);
    });
    Expr fourth = b.load(out, x);
    EXPECT_NE(fourth.id, third.id);
    b.atomic(AtomicKind::add, out, y, x);
    Expr fifth = b.load(out, x);
    EXPECT_NE(fifth.id, fourth.id);
    b.loop(b.u32(0), x, b.u32(1), [&](Expr i) {
        EXPECT_NE(b.load(out, x).id, fifth.id) << "the second trip sees the store of the first";
        b.store(out, i, y);
    });
    Expr sixth = b.load(out, x);
    EXPECT_NE(sixth.id, fifth.id);
    b.loop(b.u32(0), x, b.u32(1), [&](Expr) {});
    expect_same(b.load(out, x), sixth);
}

TEST_F(BuilderTest, ArraysAreVersioned) {
    ArrayRef shared = b.workgroup_array("shared", u32_type, 64), mine = b.private_array("mine", u32_type, 4);
    Expr s = b.load(shared, x), p = b.load(mine, b.u32(1));
    b.barrier();
    EXPECT_NE(b.load(shared, x).id, s.id);
    expect_same(b.load(mine, b.u32(1)), p);
    b.store(mine, b.u32(2), x);
    EXPECT_NE(b.load(mine, b.u32(1)).id, p.id);
}

TEST_F(BuilderTest, LoopsOfNoTripAndOneTripVanish) {
    auto body = [&](Expr i, const Builder::Values& v) { return Builder::Values{v[0] + i + 1}; };
    expect_same(b.loop(b.u32(5), b.u32(5), b.u32(1), {x}, body)[0], x);
    expect_same(b.loop(b.u32(5), b.u32(6), b.u32(1), {x}, body)[0], x + 6);
    Expr looped = b.loop(b.u32(0), b.u32(2), b.u32(1), {x}, body)[0];
    EXPECT_EQ(op(looped), Opcode::result);
    expect_same(b.branch(
                    b.boolean(false), [&] { return Builder::Values{x}; }, [&] { return Builder::Values{y}; })[0],
                y);
}

TEST_F(BuilderTest, FinishRemovesDeadCode) {
    auto results = b.loop(b.u32(0), b.u32(10), b.u32(1), {x, y}, [&](Expr i, const Builder::Values& v) {
        return Builder::Values{v[0] + i, v[1] * v[1]};
    });
    b.loop(b.u32(0), x, b.u32(1), {y}, [&](Expr i, const Builder::Values& v) { return Builder::Values{v[0] + i}; });
    b.load(f_in, y);
    b.store(out, b.u32(0), results[0]);
    Kernel k = b.finish();
    EXPECT_EQ(count(k, Opcode::loop), 1u);
    EXPECT_EQ(count(k, Opcode::mul), 0u);
    EXPECT_EQ(count(k, Opcode::load), 1u);
    EXPECT_EQ(count(k, Opcode::result), 1u);
    EXPECT_EQ(k.blocks.size(), 2u);
    EXPECT_EQ(k.blocks[1].arguments.size(), 2u);
}

TEST_F(BuilderTest, BlocksOfABranchAreConsecutive) {
    b.branch(
        x < y,
        [&] {
            b.when(x < 3, [&] { b.store(out, x, y); });
            return Builder::Values{};
        },
        [&] {
            b.store(out, y, x);
            return Builder::Values{};
        });
    Kernel k = b.finish();
    ASSERT_EQ(k.blocks.size(), 5u);
    for (ValueId v : k.blocks[0].instructions) {
        if (k.at(v).op != Opcode::branch) continue;
        EXPECT_EQ(k.block(BlockId(k.at(v).first_block.value + 1)).instructions.size(), 1u);
    }
}

TEST(StructuralHash, IgnoresNamesAndNothingElse) {
    auto make = [](const char* name, uint32_t factor, Access access) {
        Builder b(name);
        b.workgroup_size(64);
        BindingRef out = b.binding(name, Scalar::u32, 1, access, 64);
        b.store(out, b.local_id(0), b.local_id(0) * factor);
        return structural_hash(b.finish());
    };
    EXPECT_EQ(make("a", 3, Access::write), make("b", 3, Access::write));
    EXPECT_NE(make("a", 3, Access::write), make("a", 5, Access::write));
    EXPECT_NE(make("a", 3, Access::write), make("a", 3, Access::inout));
}

using BuilderDeathTest = BuilderTest;
TEST_F(BuilderDeathTest, MisuseIsCaught) {
    EXPECT_DEATH(x + b.f32(1), "add of u32 and f32");
    EXPECT_DEATH(b.load(b.private_array("p", f32_type, 4), x), "index is a constant");
    EXPECT_DEATH(b.load(f_out, x), "write-only");
    EXPECT_DEATH(b.store(in, x, x), "read-only");
    EXPECT_DEATH(b.constant(u32_type, 1.5), "not of its type");
    EXPECT_DEATH(b.loop(b.u32(0), x, b.u32(0), [](Expr) {}), "step");
    EXPECT_DEATH(
        {
            Expr inside;
            b.when(x < y, [&] { inside = x * y; });
            b.store(out, x, inside);
        },
        "outside the block");
}

}  // namespace
}  // namespace darner::kir
