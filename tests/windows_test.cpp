// SPDX-License-Identifier: MIT
// Tensors larger than a binding may be: whole plans with the limit cut far below the sizes of their tensors, on the interpreter
// and on Vulkan, against the reference.
#include "darner/graph/builder.h"
#include "darner/graph/text.h"
#include "darner/nn/fashion_mnist.h"
#include "darner/ops/ops.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/load.h"
#include "tests/compare.h"
#include "tests/fuzz_check.h"
#include "tests/fuzz_graphs.h"
#include "tests/networks.h"
#include "tests/plan_cases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace darner::test {
namespace {

using testing::HasSubstr;

// Each plan under the caps of unlike devices, with bindings of so many bytes.
std::string compare_limited(const Graph& graph, uint64_t bytes, const std::vector<DeviceCase>& devices, int64_t int_limit = 3,
                            const Tolerance& tolerance = {}) {
    std::string all;
    for (const DeviceCase& on : devices)
        all += compare(graph, random_leaves(graph, 1, 1, int_limit), with_bindings(on, bytes), tolerance);
    return all;
}

// --- graphs whose tensors are small: the limit is smaller ------------------------------------------------------------------

class SmallPlan : public testing::TestWithParam<PlanCase> {};

TEST_P(SmallPlan, AgreesWithTheReferenceWithinTinyBindings) {
    const auto module = parse_module(GetParam().text, "test");
    ASSERT_TRUE(module) << module.error().text();
    for (const uint64_t bytes : {4096, 1024})
        EXPECT_EQ(compare_limited(module->graphs[0], bytes, device_cases(), GetParam().int_limit), "");
}

INSTANTIATE_TEST_SUITE_P(Windows, SmallPlan, testing::ValuesIn(plan_cases),
                         [](const auto& info) { return std::string(info.param.name); });

DeviceCase webgpu_defaults(DeviceCase on) {
    on.restrict_caps = [](Caps caps) {
        Caps cut = webgpu_default_caps();
        cut.code = caps.code;
        cut.kind = caps.kind;
        return cut;
    };
    on.name += " with WebGPU's limits";
    return on;
}

// Random graphs with their gradients and updates, whose tensors have at most a few kilobytes.
TEST(Windows, RandomGraphsAgreeWithinTinyBindings) {
    int compared = 0;
    for (uint64_t seed = 0; seed < 140; ++seed) {
        const auto random = random_case({.seed = 7000 + seed, .max_nodes = 12});
        if (!random) continue;  // no graph came of this seed
        std::vector<DeviceCase> devices = seed % 8 == 0 ? device_cases() : main_device_cases();
        devices.push_back(webgpu_defaults(devices[0]));
        for (const DeviceCase& on : devices) {
            const FuzzResult result =
                fuzz_on_device(random->graph, random->leaves, with_bindings(on, seed % 2 == 0 ? 512 : 1024));
            ASSERT_NE(result.verdict, Verdict::bad) << "seed " << seed << "\n" << result.text << "\n" << to_text(random->graph);
            compared += result.verdict == Verdict::good;
        }
    }
    EXPECT_GT(compared, 300);
}

// --- tensors of more than 64 KiB ------------------------------------------------------------------------------------------

constexpr uint64_t limit = 64 << 10;

struct LargePlan {
    const char* name;
    const char* text;
    int64_t int_limit = 3;
    Tolerance tolerance = {};
};

// What the tests' names show.
void PrintTo(const LargePlan& plan, std::ostream* os) { *os << plan.name; }

const LargePlan large_plans[] = {
    {"maps", R"(graph g {
        x = input f32[300,211]
        b = input f32[211]
        c = input f32[300,1]
        p = param f32[300,211]
        y = tanh(add(mul(x, c), b))
        output y
        output t = mul(transpose(x, perm=[1,0]), 2.0)
        update p = add(mul(p, 0.5), y)
    })"},
    {"broadcast_of_a_large_vector", R"(graph g {
        x = input f32[3,40000]
        v = input f32[40000]
        output y = add(x, v)
        output z = mul(sub(x, 1.0), broadcast(v, shape=[3,40000], axes=[1]))
    })"},
    {"index_ops", R"(graph g {
        x = input f32[150,190]
        y = input f32[150,130]
        output c = concat(x, y, axis=1)
        output d = mul(concat(x, x, axis=0), 0.5)
        output p = pad(x, low=[3,1], high=[0,5], interior=[1,0], value=2)
        output s = add(slice(x, start=[1,3], stop=[149,190], step=[2,1]), 1.0)
        output i = add(x, iota(shape=[150,190], dtype=f32, axis=1))
    })"},
    {"packed", R"(graph g {
        x = input u8[500,333]
        h = input f16[331,400]
        m = input bool[300,400]
        output f = mul(cast(x, dtype=f32), 0.25)
        output t = add(transpose(h, perm=[1,0]), 1.5)
        output s = select(m, slice(h, start=[0,0], stop=[300,400]), 0.0)
        output n = logical_not(m)
        output r = sum(cast(x, dtype=f32), axes=[0])
        output u = add(x, x)
    })"},
    {"reductions",
     R"(graph g {
        x = input f32[260,301]
        w = input f32[2,90001]
        output a = sum(x)
        output b = sum(x, axes=[0])
        output c = max(x, axes=[1])
        output d = min(w, axes=[1])
        output e = argmax(w, axis=1)
        output f = mean(w)
        output h = max(w)
    })",
     3,
     {.relative = 1e-5, .of_largest = 1e-4}},
    {"rows",
     R"(graph g {
        x = input f32[3,30011]
        y = input f32[200,130]
        w = input f32[130]
        dy = input f32[200,130]
        output a = softmax(x)
        output b = log_softmax(y, axis=0)
        r = rsqrt(add(mean(mul(y, y), axes=[1], keep=true), 1e-5))
        output n = mul(mul(y, r), w)
        output dw = sum(mul(dy, mul(y, r)), axes=[0])
    })",
     3,
     {.relative = 2e-5, .of_largest = 1e-5}},
    {"products",
     R"(graph g {
        a = input f32[7,9001]
        b = input f32[9001,11]
        c = input f32[130,140]
        d = input f32[140,150]
        e = input f32[9001,13]
        f = input f32[5,60,70]
        h = input f32[60,70,5]
        output ab = dot(a, b, contract=[[1],[0]])
        output cd = relu(add(dot(c, d, contract=[[1],[0]]), 0.5))
        output be = dot(b, e, contract=[[0],[0]])
        output dd = dot(d, c, contract=[[0],[1]])
        output fh = dot(f, h, batch=[[0],[2]], contract=[[2],[1]])
        output outer = dot(reshape(f, shape=[21000]), slice(a, start=[0,0], stop=[1,3]), contract=[[],[]])
    })",
     3,
     {.relative = 1e-4, .of_largest = 1e-5}},
    {"gather_of_bytes", R"(graph g {
        bytes = input u8[250,1003]
        i = input i32[70]
        output c = cast(gather(bytes, i), dtype=f32)
        output d = gather(bytes, i)
        output e = mul(cast(gather(bytes, i, axis=1), dtype=f32), 0.5)
    })",
     250},
    {"gathers_and_scatters",
     R"(graph g {
        table = input f32[9000,40]
        wide = input f32[3,20000]
        i = input i32[70]
        j = input u32[5,3]
        updates = input f32[70,400]
        output a = gather(table, i)
        output b = gather(wide, j, axis=1)
        output d = scatter_add(i, updates, size=300)
        output e = sum(gather(table, i), axes=[1])
    })",
     9500,
     {.relative = 1e-5, .of_largest = 1e-5}},
};

class Large : public testing::TestWithParam<LargePlan> {};

TEST_P(Large, AgreesWithTheReferenceWholeAndWithinBindingsOf64KiB) {
    const auto module = parse_module(GetParam().text, "test");
    ASSERT_TRUE(module) << module.error().text();
    for (const uint64_t bytes : {limit, uint64_t{1} << 31})
        EXPECT_EQ(compare_limited(module->graphs[0], bytes, device_cases(), GetParam().int_limit, GetParam().tolerance), "");
}

INSTANTIATE_TEST_SUITE_P(Windows, Large, testing::ValuesIn(large_plans),
                         [](const auto& info) { return std::string(info.param.name); });

// --- whole training steps ---------------------------------------------------------------------------------------------------

// State at random, but what is a variance or counts is not negative.
NamedTensors step_leaves(const Graph& step, uint64_t seed, int64_t classes) {
    NamedTensors leaves = random_leaves(step, seed, 0.1, classes);
    for (auto& [name, tensor] : leaves)
        for (double& v : tensor.real) v = std::abs(v);
    return leaves;
}

TEST(Windows, NetworksTrainTheSameWithinSmallBindings) {
    for (const TestNetwork& network : test_networks()) {
        if (network.name == "deep mlp") continue;
        const NamedTensors leaves = step_leaves(network.step(), 3, network.classes);
        for (const uint64_t bytes : {uint64_t{1024}, uint64_t{4096}})
            for (const DeviceCase& on : main_device_cases())
                EXPECT_EQ(compare(network.step(), leaves, with_bindings(webgpu_defaults(on), bytes),
                                  {.relative = 1e-3, .of_largest = 1e-4}),
                          "")
                    << network.name;
    }
}

LabelledImages images(int64_t count) {
    constexpr int64_t pixels = 28 * 28;
    return {.images = {"u8", {count, pixels}, std::vector<std::byte>(static_cast<size_t>(count * pixels))},
            .labels = {"u8", {count}, std::vector<std::byte>(static_cast<size_t>(count))}};
}

TEST(Windows, FashionMnistTrainsTheSameWithinBindingsOf64KiB) {
    const LabelledDataSet data{.train = images(1500), .test = images(300), .classes = 10};
    for (const char* optimizer : {"sgd", "adamw"}) {
        const Result<Module> module = fashion_mnist_module({.optimizer = optimizer}, data);
        ASSERT_TRUE(module) << module.error().text();
        for (const char* name : {"step", "eval"}) {
            const Graph& graph = *module->find(name);
            const NamedTensors leaves = step_leaves(graph, 5, 10);
            for (const DeviceCase& on : main_device_cases())
                EXPECT_EQ(
                    compare(graph, leaves, with_bindings(webgpu_defaults(on), limit), {.relative = 1e-3, .of_largest = 1e-4}), "")
                    << optimizer << " " << name;
        }
    }
}

// --- what plans look like ----------------------------------------------------------------------------------------------------

Result<Program> plan_of(std::string_view text, const Caps& caps) {
    TRY(const Module module, parse_module(text, "test"));
    return compile_program(module, caps);
}

Caps limited_caps(uint64_t bytes) {
    Caps caps = interpreter_caps();
    caps.kind = DeviceKind::discrete_gpu;
    caps.max_binding_bytes = bytes;
    return caps;
}

uint64_t widest_binding(const Program& program) {
    uint64_t widest = 0;
    for (const Entry& entry : program.entries)
        for (const Item& item : entry.body)
            if (const auto* dispatch = std::get_if<Dispatch>(&item))
                for (const BindingWindow& window : dispatch->bindings) widest = std::max(widest, window.bytes);
    return widest;
}

// The sum of a whole tensor keeps more than one workgroup busy; where it is short, or rows are many, it is one kernel.
TEST(Windows, LongReductionsTakeTwoStages) {
    const auto dispatches = [](const char* text) {
        const auto program = plan_of(text, limited_caps(uint64_t{1} << 31));
        EXPECT_TRUE(program) << program.error().text();
        return program ? program->reports[0].dispatches : 0;
    };
    EXPECT_EQ(dispatches("graph g {\n x = input f32[2000,1000]\n output y = sum(exp(x))\n }"), 2u);
    EXPECT_EQ(dispatches("graph g {\n x = input f32[4,100003]\n output y = max(x, axes=[1])\n }"), 3u) << "with an odd rest";
    EXPECT_EQ(dispatches("graph g {\n x = input f32[200,100]\n output y = sum(x)\n }"), 1u);
    EXPECT_EQ(dispatches("graph g {\n x = input f32[2000,70000]\n output y = sum(x, axes=[1])\n }"), 1u);
}

// Parts of one map do not wait for each other, and share a pipeline.
TEST(Windows, PartsShareAKernelAndABarrierGroup) {
    const auto program = plan_of("graph g {\n x = input f32[65536]\n output y = tanh(x)\n }", limited_caps(limit));
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_EQ(program->reports[0].dispatches, 4u);
    EXPECT_EQ(program->reports[0].kernels, 1u);
    EXPECT_EQ(program->reports[0].barriers, 0u);
    EXPECT_EQ(widest_binding(*program), limit);
    EXPECT_EQ(program->reports[0].bytes_moved, 2u * 4 * 65536);
}

// Rows that end nowhere near the device's alignment are cut where they do.
TEST(Windows, PartsOfUnalignedRowsDoNotWait) {
    const auto program = plan_of("graph g {\n x = input f32[5000,33]\n output y = softmax(x)\n }", limited_caps(limit));
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_LE(program->reports[0].dispatches, 22u);
    EXPECT_EQ(program->reports[0].barriers, 0u);
}

// 40 million elements under the limits that every WebGPU device grants.
TEST(Windows, ATensorBeyondWebgpusDefaultLimit) {
    const auto program = plan_of(R"(graph g {
        x = input f32[40000,1000]
        y = tanh(mul(x, 2.0))
        output y
        output total = sum(y)
        output rows = max(y, axes=[1])
    })",
                                 webgpu_default_caps());
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_LE(widest_binding(*program), uint64_t{128} << 20);
    EXPECT_LE(program->reports[0].dispatches, 10u) << to_text(*program);
}

TEST(Windows, FortyMillionElementsOnVulkanWithinWebgpusDefaultLimit) {
    constexpr int64_t rows = 40000, cols = 1000;
    const auto module = parse_module(R"(graph g {
        x = input f32[40000,1000]
        output y = mul(x, 2.0)
        output sums = sum(x, axes=[1])
        output columns = max(x, axes=[0])
    })",
                                     "test");
    ASSERT_TRUE(module) << module.error().text();
    // For the caps of its name, whatever DARNER_CAPS says: within much smaller bindings this is thousands of dispatches.
    Result<std::unique_ptr<Device>> device = open_device("vulkan");
    ASSERT_TRUE(device) << device.error().text();
    Result<Program> program = compile_program(*module, webgpu_defaults(DeviceCase{}).restrict_caps((*device)->caps()));
    ASSERT_TRUE(program) << program.error().text();
    Result<Session> session = start_session(std::move(*device), std::move(*program), {});
    ASSERT_TRUE(session) << session.error().text();
    // Small whole numbers: sums are exact. Column c is largest in row c * 37.
    Array x{"f32", {rows, cols}, std::vector<std::byte>(rows * cols * 4)};
    auto* values = reinterpret_cast<float*>(x.data.data());
    for (int64_t i = 0; i < rows * cols; ++i) values[i] = static_cast<float>((i * 7 + i / cols) % 16);
    for (int64_t c = 0; c < cols; ++c) values[c * 37 * cols + c] = 100.0f + static_cast<float>(c);
    const Result<NamedArrays> got = session->run("g", {{"x", x}});
    ASSERT_TRUE(got) << got.error().text();
    const auto floats = [&](const char* name) { return reinterpret_cast<const float*>(got->find(name)->second.data.data()); };
    const float *y = floats("y"), *sums = floats("sums"), *columns = floats("columns");
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (int64_t c = 0; c < cols; ++c) {
            ASSERT_EQ(y[r * cols + c], values[r * cols + c] * 2) << r << ", " << c;
            sum += values[r * cols + c];
        }
        ASSERT_EQ(sums[r], sum) << "row " << r;
    }
    for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(columns[c], 100.0f + static_cast<float>(c)) << "column " << c;
}

// Without a tensor above the limit the limit changes nothing.
TEST(Windows, PlansOfSmallTensorsDoNotDependOnTheLimit) {
    for (const TestNetwork& network : test_networks()) {
        Caps caps = interpreter_caps();
        const Result<Program> any = compile_program(network.module, caps);
        uint64_t largest = 0;
        for (const ProgramTensor& tensor : any->tensors) largest = std::max(largest, tensor.bytes);
        caps.max_binding_bytes = std::max(largest * 4, widest_binding(*any)) * 4;
        const Result<Program> limited = compile_program(network.module, caps);
        ASSERT_TRUE(any && limited);
        ASSERT_EQ(any->kernels.size(), limited->kernels.size());
        for (size_t k = 0; k < any->kernels.size(); ++k) EXPECT_EQ(any->kernels[k].hash, limited->kernels[k].hash);
        EXPECT_EQ(any->reports[0].dispatches, limited->reports[0].dispatches);
    }
}

// A limit that holds no window at all is refused with the node, its type and the limit.
TEST(Windows, ALimitBelowTheAlignmentIsRefused) {
    const auto program = plan_of("graph g {\n x = input f32[100]\n output y = tanh(x)\n }", limited_caps(128));
    ASSERT_FALSE(program);
    for (const char* part : {"tanh", "f32[100]", "16 bindings", "128 bytes"})
        EXPECT_THAT(program.error().text(), HasSubstr(part));
}

}  // namespace
}  // namespace darner::test
