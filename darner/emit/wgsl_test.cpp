// SPDX-License-Identifier: MIT
// Every kernel of the zoo that WGSL can express must compile in Dawn and give, run through wgpu on the first Vulkan device, what
// the checking interpreter gives. Both come with tools/wgsl/setup.sh.
#include "darner/emit/wgsl.h"

#include "darner/emit/golden_kernels_test.h"
#include "darner/emit/kernel_zoo_test.h"
#include "darner/emit/tools_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace darner {
namespace {

using testing::HasSubstr;

Caps wgsl_caps() {
    Caps caps = zoo_caps();
    caps.code = CodeKind::wgsl;
    return caps;
}

bool expressible(const ZooKernel& zoo) { return !zoo.coop && !zoo.bf16; }

CommandResult compile_with_dawn(const std::vector<std::string>& files) {
    return run_command(fmt::format("node {} {}", source_path("tools/wgsl/check.mjs"), fmt::join(files, " ")));
}

TEST(Wgsl, ZooCompilesInDawn) {
    const TemporaryFolder folder;
    std::vector<std::string> files;
    for (const ZooKernel& zoo : kernel_zoo()) {
        if (!expressible(zoo)) continue;
        const auto text = emit_wgsl(zoo.kernel, wgsl_caps());
        ASSERT_TRUE(text) << text.error().text();
        files.push_back(folder.write(zoo.kernel.name + ".wgsl", *text));
    }
    const CommandResult result = compile_with_dawn(files);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr(fmt::format("{} passed, 0 failed", files.size())));
}

// ---- running

std::string_view as_bytes(const std::vector<uint32_t>& words) {
    return {reinterpret_cast<const char*>(words.data()), words.size() * 4};
}

std::string job(const ZooKernel& zoo, const TemporaryFolder& folder, const std::string& wgsl) {
    std::vector<std::string> buffers;
    for (size_t i = 0; i < zoo.buffers.size(); ++i) {
        const std::string file = folder.write(fmt::format("{}.{}", zoo.kernel.name, i), as_bytes(zoo.buffers[i]));
        buffers.push_back(
            fmt::format(R"({{"file": "{}", "access": "{}"}})", file, kir::to_string(zoo.kernel.bindings[i].access)));
    }
    return fmt::format(R"({{"wgsl": "{}", "groups": [{}], "params": [{}], "buffers": [{}]}})",
                       folder.write(zoo.kernel.name + ".wgsl", wgsl), fmt::join(zoo.groups, ", "), fmt::join(zoo.params, ", "),
                       fmt::join(buffers, ", "));
}

TEST(Wgsl, ZooRunsAsInterpreted) {
    const TemporaryFolder folder;
    std::vector<std::string> jobs;
    for (const ZooKernel& zoo : kernel_zoo()) {
        if (!expressible(zoo)) continue;
        const auto text = emit_wgsl(zoo.kernel, wgsl_caps());
        ASSERT_TRUE(text) << text.error().text();
        jobs.push_back(job(zoo, folder, *text));
    }
    const std::string file = folder.write("jobs.json", fmt::format("[{}]", fmt::join(jobs, ",\n")));
    const CommandResult result =
        run_command(fmt::format("{} {} {}", source_path(".cache/wgsl/venv/bin/python"), source_path("tools/wgsl/run.py"), file));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    for (const ZooKernel& zoo : kernel_zoo()) {
        if (!expressible(zoo)) continue;
        std::vector<std::vector<uint32_t>> contents;
        for (size_t i = 0; i < zoo.buffers.size(); ++i) {
            const std::string bytes = read_text(folder.path(fmt::format("{}.{}", zoo.kernel.name, i)));
            contents.emplace_back(bytes.size() / 4);
            std::memcpy(contents.back().data(), bytes.data(), contents.back().size() * 4);
        }
        expect_as_interpreted(zoo, contents);
    }
}

// The checker must be able to fail.
TEST(Wgsl, DawnRefusesWrongCode) {
    const TemporaryFolder folder;
    const std::string broken = folder.write("broken.wgsl", "@compute @workgroup_size(1) fn main() { let x: u32 = 1.5f; }");
    // A barrier in control flow that depends on the invocation.
    const std::string divergent = folder.write("divergent.wgsl",
                                               "@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {\n"
                                               "  if (i < 3u) { workgroupBarrier(); }\n}");
    for (const std::string& file : {broken, divergent}) {
        const CommandResult result = compile_with_dawn({file});
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output, HasSubstr("0 passed, 1 failed"));
    }
}

TEST(Wgsl, Golden) {
    Caps caps = wgsl_caps();
    for (const kir::Kernel& kernel : {golden_axpy(), golden_row_sum()}) {
        const auto text = emit_wgsl(kernel, caps);
        ASSERT_TRUE(text) << text.error().text();
        expect_golden(kernel.name + ".wgsl", *text);
    }
}

// WebGPU has each buffer either read-only or writable in a dispatch.
TEST(Wgsl, AReadInAWrittenBufferIsDeclaredWritable) {
    kir::Builder b("copy");
    b.workgroup_size(64);
    const kir::BindingRef x = b.binding("x", kir::Scalar::f32, 1, kir::Access::read, 64);
    const kir::BindingRef y = b.binding("y", kir::Scalar::f32, 1, kir::Access::write, 64);
    b.store(y, b.local_id(0), b.load(x, b.local_id(0)));
    kir::Kernel kernel = b.finish();
    EXPECT_THAT(*emit_wgsl(kernel, webgpu_default_caps()), HasSubstr("var<storage, read> x"));
    kernel.bindings[0].in_written_buffer = true;
    EXPECT_THAT(*emit_wgsl(kernel, webgpu_default_caps()), HasSubstr("var<storage, read_write> x"));
}

TEST(Wgsl, RefusesWhatWgslLacks) {
    for (const ZooKernel& zoo : kernel_zoo()) {
        if (expressible(zoo)) continue;
        const auto text = emit_wgsl(zoo.kernel, wgsl_caps());
        ASSERT_FALSE(text) << zoo.kernel.name;
        EXPECT_EQ(text.error().kind, ErrorKind::unsupported);
        if (zoo.coop) EXPECT_THAT(text.error().text(), HasSubstr("cooperative matrices"));
        if (zoo.bf16) EXPECT_THAT(text.error().text(), HasSubstr("bf16"));
    }
    Caps caps = wgsl_caps();
    caps.f16_storage = caps.f16_arithmetic = false;
    for (const ZooKernel& zoo : kernel_zoo())
        if (zoo.f16) EXPECT_FALSE(emit_wgsl(zoo.kernel, caps)) << zoo.kernel.name;
}

}  // namespace
}  // namespace darner
