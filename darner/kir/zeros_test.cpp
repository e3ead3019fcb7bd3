// SPDX-License-Identifier: MIT
// Kernels that keep zeros and kernels that do not, one element each; what the analysis accepts is also seen to hold.
#include "darner/kir/zeros.h"

#include "darner/kir/builder.h"

#include <gtest/gtest.h>

#include <functional>

namespace darner::kir {
namespace {

// y[i] = f(x[i], s): x holds the elements, s is free.
bool keeps(const std::function<Expr(Builder&, Expr x, Expr s)>& f) {
    Builder b("k");
    const BindingRef x = b.binding("x", Scalar::f32, 1, Access::read, 1), s = b.binding("s", Scalar::f32, 1, Access::read, 1),
                     y = b.binding("y", Scalar::f32, 1, Access::write, 1);
    const Expr zero = b.u32(0);
    b.store(y, zero, f(b, b.load(x, zero), b.load(s, zero)));
    return keeps_zeros(b.finish(), {true, false, true});
}

TEST(Zeros, Kept) {
    EXPECT_TRUE(keeps([](Builder&, Expr x, Expr) { return x; }));
    EXPECT_TRUE(keeps([](Builder&, Expr x, Expr s) { return x * s; }));
    EXPECT_TRUE(keeps([](Builder&, Expr x, Expr s) { return x / s - x * x; }));
    EXPECT_TRUE(keeps([](Builder& b, Expr x, Expr s) { return b.fma(s, x, -x); }));
    EXPECT_TRUE(keeps([](Builder& b, Expr x, Expr s) { return b.select(s > 1, x, x * s); }));
    // Adam: m / (sqrt(v) + eps).
    EXPECT_TRUE(keeps([](Builder& b, Expr x, Expr s) { return x / (b.sqrt(x * s) / s + b.f32(1e-8f)); }));
}

TEST(Zeros, NotKept) {
    EXPECT_FALSE(keeps([](Builder&, Expr, Expr s) { return s; }));
    EXPECT_FALSE(keeps([](Builder&, Expr x, Expr s) { return x + s; }));
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr s) { return (x + s) - (s * b.f32(1)); })) << "equal for some scalars";
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr s) { return b.select(s == 0, b.f32(1), x); }));
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr) { return b.exp(x); }));
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr) { return b.cos(x); }));
    EXPECT_FALSE(keeps([](Builder&, Expr x, Expr) { return x / x; }));
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr) { return x * b.rsqrt(x); })) << "0 times infinity";
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr) { return x * b.log(x); }));
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr s) { return b.pow(x, s); })) << "0^0 is 1";
}

TEST(Zeros, NotFollowed) {
    EXPECT_FALSE(keeps([](Builder& b, Expr x, Expr) {
        return b.loop(b.u32(0), b.u32(4), b.u32(1), {x}, [](Expr, const Builder::Values& v) { return v; })[0];
    }));
}

}  // namespace
}  // namespace darner::kir
