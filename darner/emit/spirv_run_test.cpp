// SPDX-License-Identifier: MIT
// The zoo run on the Vulkan device that is present, in the variants of the emitter, against the checking interpreter. Where the
// device lacks a feature the kernel must be refused, and by name.
#include "darner/device/vulkan/vulkan.h"
#include "darner/emit/kernel_zoo_test.h"
#include "darner/emit/limits.h"
#include "darner/emit/spirv.h"

#include <gtest/gtest.h>

namespace darner {
namespace {

Program program_of(const ZooKernel& zoo, const Caps& caps, std::vector<uint32_t> words) {
    Program program;
    program.caps = caps;
    program.kernels.push_back({zoo.kernel, kir::structural_hash(zoo.kernel), std::move(words), ""});
    Dispatch dispatch;
    dispatch.kernel = KernelId(0);
    dispatch.groups = zoo.groups;
    dispatch.params = zoo.params;
    dispatch.label = zoo.kernel.name;
    Entry entry;
    entry.name = "run";
    for (size_t b = 0; b < zoo.buffers.size(); ++b) {
        const uint64_t bytes = zoo.buffers[b].size() * 4;
        const SegmentId segment(b);
        program.segments.push_back({SegmentKind::io, (bytes + 15) / 16 * 16});
        program.tensors.push_back({zoo.kernel.bindings[b].name, "u32", {int64_t(zoo.buffers[b].size())}, segment, 0, bytes, ""});
        dispatch.bindings.push_back({segment, 0, bytes, zoo.kernel.bindings[b].access});
        entry.inputs.push_back(TensorId(b));
        entry.outputs.push_back(TensorId(b));
    }
    entry.body.push_back(std::move(dispatch));
    program.entries.push_back(std::move(entry));
    return program;
}

Result<std::vector<std::vector<uint32_t>>> run(Device& device, const ZooKernel& zoo, std::vector<uint32_t> words) {
    TRY(const auto executable, device.load(std::make_shared<const Program>(program_of(zoo, device.caps(), std::move(words)))));
    for (size_t b = 0; b < zoo.buffers.size(); ++b) TRY(executable->write(TensorId(b), std::as_bytes(std::span(zoo.buffers[b]))));
    TRY(executable->submit(0, 1));
    TRY(executable->wait());
    std::vector<std::vector<uint32_t>> contents = zoo.buffers;
    for (size_t b = 0; b < contents.size(); ++b)
        TRY(executable->read(TensorId(b), std::as_writable_bytes(std::span(contents[b]))));
    return contents;
}

void run_zoo(Device& device, const Caps& caps, const SpirvOptions& options) {
    for (const ZooKernel& zoo : kernel_zoo()) {
        const auto words = emit_spirv(zoo.kernel, caps, options);
        if (!words) {
            EXPECT_FALSE(check_limits(zoo.kernel, caps)) << words.error().text();
            continue;
        }
        const auto contents = run(device, zoo, *words);
        ASSERT_TRUE(contents) << contents.error().text();
        expect_as_interpreted(zoo, *contents);
    }
}

TEST(SpirvRun, ZooRunsAsInterpreted) {
    const auto device = open_vulkan("");
    ASSERT_TRUE(device) << device.error().text();
    const Caps& caps = (*device)->caps();
    run_zoo(**device, caps, {});
    Caps plain = caps;
    plain.vulkan_memory_model = plain.f16_arithmetic = false;
    run_zoo(**device, plain, {.no_contraction = true});
}

}  // namespace
}  // namespace darner
