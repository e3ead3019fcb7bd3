// SPDX-License-Identifier: MIT
// Every kernel of the zoo, in every variant of the emitter, must pass spirv-val: the distribution's for what it knows, a newer
// one (tools/wgsl/setup.sh) for cooperative matrices and bfloat16 too. Golden disassembly shows what is emitted.
#include "darner/emit/spirv.h"

#include "darner/emit/golden_kernels_test.h"
#include "darner/emit/kernel_zoo_test.h"
#include "darner/emit/spirv_words.h"
#include "darner/emit/tools_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string_view as_bytes(const std::vector<uint32_t>& words) {
    return {reinterpret_cast<const char*>(words.data()), words.size() * 4};
}

std::string newer_validator() { return source_path(".cache/wgsl/spirv-tools/spirv-val"); }

void expect_valid(const TemporaryFolder& folder, const ZooKernel& zoo, const Caps& caps, const SpirvOptions& options,
                  const std::string& variant) {
    const auto words = emit_spirv(zoo.kernel, caps, options);
    ASSERT_TRUE(words) << words.error().text();
    const std::string file = folder.write(zoo.kernel.name + ".spv", as_bytes(*words));
    std::vector<std::string> validators = {newer_validator()};
    if (!zoo.coop && !zoo.bf16) validators.push_back("spirv-val");
    for (const std::string& validator : validators) {
        const CommandResult result = run_command(validator + " --target-env vulkan1.2 " + file);
        EXPECT_EQ(result.exit_code, 0) << zoo.kernel.name << " (" << variant << "): " << validator << ": " << result.output;
    }
}

std::string disassemble(const kir::Kernel& kernel, const Caps& caps, const SpirvOptions& options = {}) {
    const auto words = emit_spirv(kernel, caps, options);
    if (!words) return words.error().text();
    const TemporaryFolder folder;
    const CommandResult result = run_command("spirv-dis --no-color " + folder.write("module.spv", as_bytes(*words)));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
}

TEST(Spirv, ValidatorsAreInstalled) {
    EXPECT_EQ(run_command("spirv-val --version").exit_code, 0) << "install spirv-tools";
    EXPECT_EQ(run_command(newer_validator() + " --version").exit_code, 0) << "run tools/wgsl/setup.sh";
}

TEST(Spirv, ZooIsValid) {
    const TemporaryFolder folder;
    for (const ZooKernel& zoo : kernel_zoo()) expect_valid(folder, zoo, zoo_caps(), {}, "vulkan memory model");
}

TEST(Spirv, ZooIsValidWithoutVulkanMemoryModel) {
    const TemporaryFolder folder;
    Caps caps = zoo_caps();
    caps.vulkan_memory_model = false;
    for (const ZooKernel& zoo : kernel_zoo())
        if (!zoo.coop) expect_valid(folder, zoo, caps, {}, "GLSL450 memory model");
}

TEST(Spirv, ZooIsValidWithoutHalfArithmetic) {
    const TemporaryFolder folder;
    Caps caps = zoo_caps();
    caps.f16_arithmetic = false;
    for (const char* name : {"halves", "half_storage", "conversions"})
        expect_valid(folder, zoo_kernel(name), caps, {}, "no f16 arithmetic");
}

TEST(Spirv, ZooIsValidWithProbeOptions) {
    const TemporaryFolder folder;
    const SpirvOptions options = {.coop_accumulators_as_phis = true, .non_private_pointer = false, .no_contraction = true};
    for (const ZooKernel& zoo : kernel_zoo())
        expect_valid(folder, zoo, zoo_caps(), options, "phis, private pointers, no contraction");
}

TEST(Spirv, SameWordsEachTime) {
    for (const ZooKernel& zoo : kernel_zoo()) {
        const auto first = emit_spirv(zoo.kernel, zoo_caps()), second = emit_spirv(zoo.kernel, zoo_caps());
        ASSERT_TRUE(first && second);
        EXPECT_EQ(*first, *second) << zoo.kernel.name;
    }
}

TEST(Spirv, Golden) {
    Caps plain = zoo_caps();
    plain.vulkan_memory_model = false;
    expect_golden("axpy.spvasm", disassemble(golden_axpy(), plain));
    expect_golden("row_sum.spvasm", disassemble(golden_row_sum(), zoo_caps()));
}

TEST(Spirv, BindingsAreDecorated) {
    const std::string text = disassemble(golden_axpy(), zoo_caps());
    EXPECT_THAT(text, HasSubstr("OpDecorate %x NonWritable"));
    EXPECT_THAT(text, Not(HasSubstr("OpDecorate %y NonWritable")));
    EXPECT_THAT(text, HasSubstr("OpDecorate %x Restrict"));
    EXPECT_THAT(text, HasSubstr("OpDecorate %y Restrict"));
}

// Reads of what nobody writes are private; everything that invocations may share is not.
TEST(Spirv, NonPrivatePointerWhereShared) {
    const std::string text = disassemble(golden_row_sum(), zoo_caps());
    EXPECT_THAT(text, HasSubstr("NonPrivatePointer"));
    EXPECT_THAT(disassemble(golden_row_sum(), zoo_caps(), {.non_private_pointer = false}), Not(HasSubstr("NonPrivatePointer")));
    Caps glsl = zoo_caps();
    glsl.vulkan_memory_model = false;
    EXPECT_THAT(disassemble(golden_row_sum(), glsl), Not(HasSubstr("NonPrivatePointer")));
}

// Barriers order storage only when a binding is both read and written.
TEST(Spirv, BarrierSemantics) {
    const auto has_semantics = [](const kir::Kernel& kernel, const Caps& caps, uint32_t semantics) {
        return disassemble(kernel, caps).find("OpConstant %uint " + std::to_string(semantics) + "\n") != std::string::npos;
    };
    Caps glsl = zoo_caps();
    glsl.vulkan_memory_model = false;
    using namespace spirv;
    const uint32_t workgroup = AcquireRelease | WorkgroupMemory, visible = MakeAvailable | MakeVisible;
    EXPECT_TRUE(has_semantics(golden_row_sum(), glsl, workgroup));
    EXPECT_TRUE(has_semantics(golden_row_sum(), zoo_caps(), workgroup | visible));
    EXPECT_TRUE(has_semantics(zoo_kernel("exchange").kernel, glsl, workgroup | UniformMemory));
    EXPECT_TRUE(has_semantics(zoo_kernel("exchange").kernel, zoo_caps(), workgroup | UniformMemory | visible));
}

TEST(Spirv, AccumulatorsAsArraysOrPhis) {
    const TemporaryFolder folder;
    const std::string disassembler = source_path(".cache/wgsl/spirv-tools/spirv-dis") + " --no-color ";
    const auto text_of = [&](const SpirvOptions& options) {
        const auto words = emit_spirv(zoo_kernel("coop_matmul_f16").kernel, zoo_caps(), options);
        EXPECT_TRUE(words);
        return words ? run_command(disassembler + folder.write("coop.spv", as_bytes(*words))).output : "";
    };
    const auto phis_of_matrices = [](const std::string& text) {
        size_t at = text.find("OpTypeCooperativeMatrixKHR %float ");
        const size_t start = text.rfind('\n', at) + 1;
        const std::string type = text.substr(text.find('%', start), text.find(" =", start) - text.find('%', start));
        size_t count = 0;
        for (at = 0; (at = text.find("OpPhi " + type + " ", at)) != std::string::npos; ++at) ++count;
        return count;
    };
    EXPECT_EQ(phis_of_matrices(text_of({})), 0u);
    EXPECT_EQ(phis_of_matrices(text_of({.coop_accumulators_as_phis = true})), 4u);
}

// Infinity and NaN pass as bits, never as float literals.
TEST(Spirv, NoOddLiterals) {
    const std::string text = disassemble(zoo_kernel("constants").kernel, zoo_caps());
    EXPECT_THAT(text, Not(HasSubstr("OpConstant %float 0x1p+128")));
    EXPECT_THAT(text, Not(HasSubstr("OpConstant %float -0x1p+128")));
    EXPECT_THAT(text, Not(HasSubstr("OpConstant %float 0x1.8p+128")));
    EXPECT_THAT(text, HasSubstr("OpConstant %uint 2143289344"));
}

TEST(Spirv, NoContraction) {
    EXPECT_THAT(disassemble(zoo_kernel("f32_x1").kernel, zoo_caps()), Not(HasSubstr("NoContraction")));
    EXPECT_THAT(disassemble(zoo_kernel("f32_x1").kernel, zoo_caps(), {.no_contraction = true}), HasSubstr("NoContraction"));
}

TEST(Spirv, RefusesWhatTheDeviceLacks) {
    const auto words = emit_spirv(zoo_kernel("coop_matmul_f16").kernel, Caps{});
    ASSERT_FALSE(words);
    EXPECT_EQ(words.error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace darner
