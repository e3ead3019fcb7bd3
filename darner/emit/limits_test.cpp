// SPDX-License-Identifier: MIT
#include "darner/emit/limits.h"

#include "darner/emit/kernel_zoo_test.h"
#include "darner/kir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using kir::Access;
using kir::Builder;
using kir::Scalar;
using testing::HasSubstr;

std::string reason(const kir::Kernel& kernel, const Caps& caps, ErrorKind kind) {
    const Result<void> result = check_limits(kernel, caps);
    EXPECT_FALSE(result) << kernel.name;
    if (result) return {};
    EXPECT_EQ(result.error().kind, kind) << result.error().text();
    return result.error().text();
}

TEST(Limits, ZooFits) {
    for (const ZooKernel& zoo : kernel_zoo()) {
        const Result<void> result = check_limits(zoo.kernel, zoo_caps());
        EXPECT_TRUE(result) << (result ? "" : result.error().text());
    }
}

TEST(Limits, AllReasonsAtOnce) {
    Builder k("big");
    k.workgroup_size(64, 8);
    std::vector<kir::BindingRef> out;
    for (int i = 0; i < 3; ++i) out.push_back(k.binding("out" + std::to_string(i), Scalar::f32, 4, Access::write, 1u << 20));
    const auto shared = k.workgroup_array("shared", kir::f32_type, 8192);
    const kir::Expr p = k.param("p"), i = k.local_index();
    k.store(shared, i, k.f32(1));
    k.barrier();
    const kir::Expr v = k.load(shared, p);
    for (const kir::BindingRef& b : out) k.store(b, i, k.make_vector({v, v, v, v}));
    Caps caps;
    caps.max_storage_bindings = 2;
    caps.max_binding_bytes = 1u << 20;
    caps.max_workgroup_size = {32, 256, 64};
    caps.max_param_bytes = 0;
    const std::string text = reason(k.finish(), caps, ErrorKind::limit);
    for (const char* part : {"[kernel big]", "3 bindings, the device has 2", "binding out1 spans 1048576 elements of 16 bytes",
                             "32768 bytes of workgroup memory, the device has 16384", "512 invocations",
                             "workgroup size 64 along axis 0, the device allows 32", "4 bytes of params"})
        EXPECT_THAT(text, HasSubstr(part));
}

TEST(Limits, SizesDoNotWrapAround) {
    Builder k("wide");
    k.workgroup_size(65536, 65536);
    const auto out = k.binding("out", Scalar::f32, 4, Access::write, UINT64_MAX / 8);
    k.store(out, k.local_index(), k.constant({Scalar::f32, 4}, 1));
    const std::string text = reason(k.finish(), Caps{}, ErrorKind::limit);
    EXPECT_THAT(text, HasSubstr("4294967296 invocations"));
    EXPECT_THAT(text, HasSubstr("binding out spans"));
}

TEST(Limits, Subgroups) {
    Caps caps = zoo_caps();
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = 0;
    EXPECT_THAT(reason(zoo_kernel("subgroups").kernel, caps, ErrorKind::unsupported), HasSubstr("subgroup operations"));

    const kir::Kernel& fixed = zoo_kernel("coop_convert").kernel;  // asks for subgroups of 32
    caps = zoo_caps();
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = 8;
    EXPECT_THAT(reason(fixed, caps, ErrorKind::unsupported), HasSubstr("subgroups of 32, the device has 8 to 8"));
    caps.subgroup_max = 64;
    EXPECT_THAT(reason(fixed, caps, ErrorKind::unsupported), HasSubstr("cannot be asked"));
    caps.subgroup_size_control = true;
    EXPECT_TRUE(check_limits(fixed, caps));
}

TEST(Limits, Halves) {
    Caps caps = zoo_caps();
    caps.f16_arithmetic = false;
    EXPECT_TRUE(check_limits(zoo_kernel("half_storage").kernel, caps));  // loads, conversions and stores need storage only
    EXPECT_THAT(reason(zoo_kernel("half_arithmetic").kernel, caps, ErrorKind::unsupported), HasSubstr("f16 arithmetic"));
    caps.f16_storage = false;
    EXPECT_THAT(reason(zoo_kernel("half_storage").kernel, caps, ErrorKind::unsupported), HasSubstr("f16 bindings"));
}

TEST(Limits, CooperativeMatrices) {
    const kir::Kernel& matmul = zoo_kernel("coop_matmul_f16").kernel;
    Caps caps = zoo_caps();
    caps.coop_shapes = {{Scalar::f16, Scalar::f16, 16, 16, 16}, {Scalar::f16, Scalar::f32, 16, 8, 16}};
    EXPECT_THAT(reason(matmul, caps, ErrorKind::unsupported), HasSubstr("16x16x16 matrix products of f16 and f16 into f32"));
    caps.coop_shapes.clear();
    EXPECT_THAT(reason(matmul, caps, ErrorKind::unsupported), HasSubstr("cooperative matrices, which the device does not have"));
    caps = zoo_caps();
    caps.vulkan_memory_model = false;
    EXPECT_THAT(reason(matmul, caps, ErrorKind::unsupported), HasSubstr("Vulkan memory model"));
    caps = zoo_caps();
    caps.bf16_coop = false;
    EXPECT_THAT(reason(zoo_kernel("coop_matmul_bf16").kernel, caps, ErrorKind::unsupported), HasSubstr("bf16 values"));
}

TEST(Limits, Bf16HasNoArithmetic) {
    Builder k("sum");
    k.workgroup_size(32);
    const auto data = k.binding("data", Scalar::f16, 1, Access::inout, 32);
    const kir::Expr v = k.load(data, k.local_index());
    k.store(data, k.local_index(), v + v);
    kir::Kernel kernel = k.finish();
    kernel.bindings[0].scalar = Scalar::bf16;  // the builder itself would not have it
    for (kir::Instruction& inst : kernel.instructions)
        if (inst.type.scalar == Scalar::f16) inst.type.scalar = Scalar::bf16;
    EXPECT_THAT(reason(kernel, zoo_caps(), ErrorKind::unsupported), HasSubstr("add on bf16"));
}

}  // namespace
}  // namespace darner
