// SPDX-License-Identifier: MIT
// Lowered caps: what each word takes away, and what is said of words that are not known.
#include "darner/runtime/caps_override.h"

#include "darner/graph/builder.h"
#include "darner/runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace darner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Caps lowered(std::string_view words) {
    const Result<Caps> caps = lower_caps(interpreter_caps(), words);
    EXPECT_TRUE(caps) << caps.error().text();
    return caps ? *caps : Caps{};
}

TEST(LowerCaps, WebGpu) {
    const Caps caps = lowered("webgpu"), floor = webgpu_default_caps();
    EXPECT_EQ(caps.kind, DeviceKind::interpreter);
    EXPECT_EQ(caps.code, CodeKind::kir);
    EXPECT_EQ(caps.hazard, HazardKind::per_buffer);
    EXPECT_EQ(caps.max_storage_bindings, 8u);
    EXPECT_EQ(caps.max_binding_bytes, 128u << 20);
    EXPECT_EQ(caps.max_segment_bytes, floor.max_segment_bytes);
    EXPECT_EQ(caps.max_workgroup_bytes, 16384u);
    EXPECT_EQ(caps.max_invocations, 256u);
    EXPECT_EQ(caps.max_workgroup_size, floor.max_workgroup_size);
    EXPECT_EQ(caps.max_groups[0], 65535u);
    EXPECT_GE(caps.offset_alignment, 256u);
    EXPECT_EQ(caps.known_subgroup_size(), 0u);
    EXPECT_FALSE(caps.f16_storage || caps.f16_arithmetic || caps.bf16_coop);
    EXPECT_TRUE(caps.coop_shapes.empty());
}

TEST(LowerCaps, NeverRaises) {
    Caps small = interpreter_caps();
    small.max_invocations = 128;
    small.max_binding_bytes = 1000;
    small.offset_alignment = 512;
    const Result<Caps> caps = lower_caps(small, "webgpu,binding=4096");
    ASSERT_TRUE(caps) << caps.error().text();
    EXPECT_EQ(caps->max_invocations, 128u);
    EXPECT_EQ(caps->max_binding_bytes, 1000u);
    EXPECT_EQ(caps->offset_alignment, 512u);
}

TEST(LowerCaps, SingleWords) {
    const Caps all = lowered("");
    EXPECT_GT(all.known_subgroup_size(), 0u);
    EXPECT_TRUE(all.f16_storage && all.f16_arithmetic);
    ASSERT_EQ(all.coop_shapes.size(), 3u);

    const Caps no_subgroups = lowered("no-subgroups");
    EXPECT_EQ(no_subgroups.known_subgroup_size(), 0u);
    EXPECT_EQ(no_subgroups.subgroup_max, 0u);
    EXPECT_TRUE(no_subgroups.coop_shapes.empty());
    EXPECT_TRUE(no_subgroups.f16_storage);

    const Caps no_f16 = lowered("no-f16");
    EXPECT_FALSE(no_f16.f16_storage || no_f16.f16_arithmetic);
    ASSERT_EQ(no_f16.coop_shapes.size(), 1u);
    EXPECT_EQ(no_f16.coop_shapes[0].input, kir::Scalar::bf16);
    EXPECT_GT(no_f16.known_subgroup_size(), 0u);

    const Caps both = lowered("binding=65536,no-f16");
    EXPECT_EQ(both.max_binding_bytes, 65536u);
    EXPECT_FALSE(both.f16_storage);
    EXPECT_EQ(lowered("binding=65536").max_segment_bytes, all.max_segment_bytes);
}

TEST(LowerCaps, Errors) {
    const auto error_of = [](std::string_view words) { return lower_caps(interpreter_caps(), words).error().text(); };
    EXPECT_THAT(error_of("no-subgroup"),
                AllOf(HasSubstr("[caps] DARNER_CAPS: there is no \"no-subgroup\""),
                      HasSubstr("webgpu, no-subgroups, no-f16, binding=N"), HasSubstr("did you mean \"no-subgroups\"?")));
    EXPECT_THAT(error_of("no-f16,,webgpu"), HasSubstr("there is no \"\""));
    for (const char* words : {"binding=", "binding=0", "binding=64k", "binding=-4", "binding=65538", "binding=4"})
        EXPECT_THAT(error_of(words), HasSubstr("expected binding= and a multiple of 4 bytes")) << words;
}

// Sets the variable for a test, which may itself run under another value.
class Environment {
public:
    explicit Environment(const char* words) {
        if (const char* old = std::getenv("DARNER_CAPS")) old_ = old;
        setenv("DARNER_CAPS", words, 1);
    }
    ~Environment() { old_ ? setenv("DARNER_CAPS", old_->c_str(), 1) : unsetenv("DARNER_CAPS"); }

private:
    std::optional<std::string> old_;
};

TEST(LowerCaps, CompileObeysTheEnvironment) {
    Module module;
    {
        Builder b;
        b.output("y", b.input("x", f32({8})) * 2.0);
        Result<Graph> graph = b.finish();
        ASSERT_TRUE(graph) << graph.error().text();
        module.graphs.push_back(std::move(*graph));
    }
    {
        const Environment environment("webgpu,binding=512");
        const Result<Session> session = compile(module, {.device = "interp"});
        ASSERT_TRUE(session) << session.error().text();
        EXPECT_EQ(session->program().caps.max_invocations, 256u);
        EXPECT_EQ(session->program().caps.max_binding_bytes, 512u);
    }
    const Environment environment("webgl");
    const Result<Session> session = compile(module, {.device = "interp"});
    ASSERT_FALSE(session);
    EXPECT_THAT(session.error().text(), HasSubstr("there is no \"webgl\""));
}

}  // namespace
}  // namespace darner
