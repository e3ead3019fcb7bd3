// SPDX-License-Identifier: MIT
// Every shader of real programs is valid: what the plans of plan_cases.h, of RMSNorm's gradients, of whole training modules and
// of every op's check cases emit goes through spirv-val and Dawn's WGSL compiler, under the caps of unlike devices. No device
// is needed. The tools come with tools/wgsl/setup.sh.
#include "darner/graph/text.h"
#include "darner/nn/fashion_mnist.h"
#include "darner/runtime/op_check_reference.h"
#include "darner/runtime/session.h"
#include "darner/transform/vjp.h"
#include "tests/plan_cases.h"
#include "tests/subprocess.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

namespace darner::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// --- what is compiled -------------------------------------------------------------------------------------------------

struct NamedModule {
    std::string name;
    Module module;
};
using Modules = std::vector<NamedModule>;

void add(Modules& modules, const std::string& name, Result<Module> module) {
    if (module) {
        modules.push_back({name, std::move(*module)});
    } else {
        ADD_FAILURE() << name << ": " << module.error().text();
    }
}

Result<Module> rms_norm_gradients(int64_t rows, int64_t cols) {
    TRY(Module module, parse_module(fmt::format(R"(graph g {{
        x = input f32[{0},{1}]
        w = input f32[{1}]
        b = input f32[{1}]
        output y = rms_norm(x, w, b)
    }})",
                                                rows, cols)));
    const std::vector<std::string> wrt = {"x", "w", "b"};
    TRY(module.graphs[0], gradient_graph(module.graphs[0], "y", wrt));
    return module;
}

// Of an image's size, black: modules depend on shapes alone.
LabelledImages black_images(int64_t count) {
    constexpr int64_t features = 28 * 28;
    return {.images = {"u8", {count, features}, std::vector<std::byte>(static_cast<size_t>(count * features))},
            .labels = {"u8", {count}, std::vector<std::byte>(static_cast<size_t>(count))}};
}

bool exists_on_devices(const Graph& graph) {
    return std::none_of(graph.nodes.begin(), graph.nodes.end(),
                        [](const Node& n) { return n.type.dtype == DType::f64 || n.type.dtype == DType::i64; });
}

// All cases of an op's check, with their gradients.
Result<Module> op_module(const OpDef& op) {
    Module module;
    for (const OpCase& test : op_cases(op)) {
        TRY(Graph graph, case_graph(op, test, true));
        if (!exists_on_devices(graph)) continue;
        graph.name = fmt::format("case{}", module.graphs.size());
        module.graphs.push_back(std::move(graph));
    }
    return module;
}

Modules make_modules() {
    Modules modules;
    for (const PlanCase& test : plan_cases) add(modules, test.name, parse_module(test.text, test.name));
    for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 5}, {17, 257}, {2, 4099}, {129, 64}})
        add(modules, fmt::format("rms_norm {}x{}", rows, cols), rms_norm_gradients(rows, cols));
    const LabelledDataSet data{.train = black_images(200), .test = black_images(130), .classes = 10};
    for (const char* optimizer : {"sgd", "adam", "adamw"})
        add(modules, fmt::format("fashion_mnist {}", optimizer), fashion_mnist_module({.optimizer = optimizer}, data));
    for (const OpDef* op : op_registry().all()) add(modules, fmt::format("op {}", op->name), op_module(*op));
    return modules;
}

const Modules& modules() {
    static const Modules all = make_modules();
    return all;
}

// --- for which devices ------------------------------------------------------------------------------------------------

struct Target {
    const char* name;
    Caps caps;
    PlanOptions plan = {};
};

// A GPU with everything, the same with a kernel a node, the least that Vulkan guarantees, a CPU driver, and bindings so small
// that most tensors need several.
std::vector<Target> spirv_targets() {
    Caps gpu = interpreter_caps(32);
    gpu.kind = DeviceKind::discrete_gpu;
    gpu.subgroup_size_control = true;

    Caps cpu = interpreter_caps(8);
    cpu.kind = DeviceKind::cpu;
    cpu.coop_shapes.clear();

    std::vector<Target> targets{{"gpu", gpu},
                                {"unfused", gpu, {.merge_windows = false, .fuse = false}},
                                {"least", vulkan_minimum_caps()},
                                {"cpu", cpu},
                                {"windows", gpu}};
    targets.back().caps.max_binding_bytes = 4096;
    for (Target& target : targets) target.caps.code = CodeKind::spirv;
    return targets;
}

std::vector<Target> wgsl_targets() {
    Caps extended = webgpu_default_caps();
    extended.f16_storage = extended.f16_arithmetic = extended.subgroup_shuffle = true;
    extended.subgroup_min = extended.subgroup_max = extended.subgroup_size = 32;
    Caps windows = webgpu_default_caps();
    windows.max_binding_bytes = 4096;
    return {{"webgpu", webgpu_default_caps()}, {"webgpu_extended", extended}, {"windows", windows}};
}

// --- their shaders ----------------------------------------------------------------------------------------------------

std::string_view code_of(const KernelCode& kernel) {
    if (!kernel.wgsl.empty()) return kernel.wgsl;
    return {reinterpret_cast<const char*>(kernel.spirv.data()), kernel.spirv.size() * sizeof(uint32_t)};
}

// A file a shader, equal ones once. The file's name, which the tools print, says where the shader is from.
class ShaderFiles {
public:
    explicit ShaderFiles(std::string extension) : extension_(std::move(extension)) {}

    void add_kernels(const Target& target) {
        for (const NamedModule& from : modules()) {
            const Result<Program> program = compile_program(from.module, target.caps, target.plan);
            if (!program) {
                ADD_FAILURE() << from.name << " for " << target.name << ": " << program.error().text();
                continue;
            }
            for (const KernelCode& kernel : program->kernels)
                add(fmt::format("{}.{}.{}", target.name, from.name, kernel.kir.name), code_of(kernel));
        }
    }

    void add(std::string name, std::string_view code) {
        if (!seen_.emplace(code).second) return;
        for (char& c : name)
            if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
        files_.push_back(folder_.file(fmt::format("{}.{}.{}", name, files_.size(), extension_)));
        std::ofstream(files_.back(), std::ios::binary) << code;
    }

    const std::vector<std::string>& paths() const { return files_; }

private:
    TemporaryFolder folder_;
    std::string extension_;
    std::set<std::string, std::less<>> seen_;
    std::vector<std::string> files_;
};

std::string in_cache(const std::string& name) { return DARNER_SOURCE_DIR "/.cache/wgsl/" + name; }

std::vector<std::string> with_arguments(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// What the validator has to say of each file that is not valid. It takes one file a call.
std::string validate_spirv(const ShaderFiles& shaders) {
    const std::string script =
        R"(for file in "$@"; do message=$("$0" --target-env vulkan1.2 "$file" 2>&1) || printf '%s: %s\n' "$file" "$message"; done)";
    const ProcessResult result =
        run_process(with_arguments({"/bin/sh", "-c", script, in_cache("spirv-tools/spirv-val")}, shaders.paths()));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
}

ProcessResult compile_wgsl(const ShaderFiles& shaders) {
    return run_process(with_arguments({"/usr/bin/env", "node", DARNER_SOURCE_DIR "/tools/wgsl/check.mjs"}, shaders.paths()));
}

void expect_all_used(const ShaderFiles& shaders) {
    EXPECT_GT(shaders.paths().size(), modules().size());  // each program has a kernel of its own, and most several
    testing::Test::RecordProperty("shaders", static_cast<int>(shaders.paths().size()));
}

// --- the tests --------------------------------------------------------------------------------------------------------

TEST(Shaders, ToolsAreInstalled) {
    EXPECT_EQ(run_process({in_cache("spirv-tools/spirv-val"), "--version"}).exit_code, 0) << "run tools/wgsl/setup.sh";
    EXPECT_EQ(run_process({"/usr/bin/env", "node", "--version"}).exit_code, 0) << "install nodejs";
}

TEST(Shaders, SpirvOfRealProgramsIsValid) {
    ShaderFiles shaders("spv");
    for (const Target& target : spirv_targets()) shaders.add_kernels(target);
    expect_all_used(shaders);
    EXPECT_THAT(validate_spirv(shaders), IsEmpty());
}

TEST(Shaders, WgslOfRealProgramsCompilesInDawn) {
    ShaderFiles shaders("wgsl");
    for (const Target& target : wgsl_targets()) shaders.add_kernels(target);
    expect_all_used(shaders);
    const ProcessResult result = compile_wgsl(shaders);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(fmt::format("{} passed, 0 failed\n", shaders.paths().size())));
}

// The checks above would see a shader that is wrong in one place, and would name it.
TEST(Shaders, BrokenOnesAreFound) {
    const Result<Module> module = parse_module("graph g { x = input f32[8]; output y = add(x, 1.0) }");
    ASSERT_TRUE(module) << module.error().text();
    const Result<Program> vulkan = compile_program(*module, spirv_targets()[0].caps);
    const Result<Program> webgpu = compile_program(*module, wgsl_targets()[0].caps);
    ASSERT_TRUE(vulkan && webgpu);

    ShaderFiles spirv("spv"), wgsl("wgsl");
    std::vector<uint32_t> words = vulkan->kernels[0].spirv;
    words[3] = 1;  // the bound of ids
    spirv.add("good", code_of(vulkan->kernels[0]));
    spirv.add("broken", {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)});
    const std::string messages = validate_spirv(spirv);
    EXPECT_THAT(messages, HasSubstr("broken.1.spv"));
    EXPECT_THAT(messages, testing::Not(HasSubstr("good")));

    wgsl.add("good", code_of(webgpu->kernels[0]));
    wgsl.add("broken", webgpu->kernels[0].wgsl + "fn unused() -> f32 { return 1u; }\n");
    const ProcessResult result = compile_wgsl(wgsl);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, HasSubstr("1 passed, 1 failed\n"));
    EXPECT_THAT(result.err, HasSubstr("broken.1.wgsl"));
}

}  // namespace
}  // namespace darner::test
