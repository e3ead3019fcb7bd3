// SPDX-License-Identifier: MIT
// Whole training steps on devices: a small network of odd sizes, started by its `init` graph and trained for some steps with each
// optimizer. After every step the loss and all state (params, moments, counters) are compared with the f64 reference, which
// carries its own state from step to step. The networks of networks.h go through one step each. Then the plan of the demo's step:
// how many dispatches it is.
#include "darner/nn/training.h"

#include "darner/graph/text.h"
#include "darner/nn/fashion_mnist.h"
#include "darner/nn/models.h"
#include "darner/nn/test_support.h"
#include "darner/ops/ops.h"
#include "tests/compare.h"
#include "tests/fuzz_check.h"
#include "tests/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace darner::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t batch = 5, features = 7, hidden = 6, classes = 4;
constexpr uint64_t seed = 11;
constexpr int steps = 3;

struct Case {
    const char* name;
    Optimizer optimizer;
    std::set<std::string> state;  // besides the params, `step` and `seed`: what precedes the params' names
};

// Learning rates and decay far above usual ones, so that a wrong term shows after one step. The usual bound of error holds for
// Adam too: it divides a gradient by its own size, which amplifies rounding errors only where cancellation leaves next to nothing
// of the gradient, and these inputs have no such place.
std::vector<Case> cases() {
    return {
        {"sgd", sgd({.learning_rate = 0.1}), {}},
        {"sgd with momentum", sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}), {"sgd.momentum"}},
        {"sgd with nesterov", sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}), {"sgd.momentum"}},
        {"adam", adam({.learning_rate = 0.01, .weight_decay = 0.1}), {"adam.m", "adam.v"}},
        {"adamw", adamw({.learning_rate = 0.01, .weight_decay = 0.1}), {"adamw.m", "adamw.v"}},
    };
}

Result<Module> training_module(const Optimizer& optimizer) {
    Builder b;
    const std::array<int64_t, 1> widths = {hidden};
    const Value logits = mlp(b.input("x", f32({batch, features})), widths, classes);
    return training_step(cross_entropy(logits, b.input("y", i32({batch}))), optimizer, {.outputs = {{"logits", logits}}});
}

// Another batch for each step.
NamedTensors batch_of_step(const Graph& step, int index) {
    const NamedTensors leaves = random_leaves(step, 100 + static_cast<uint64_t>(index), 1, classes);
    return {{"x", leaves.at("x")}, {"y", leaves.at("y")}};
}

NamedArrays arrays_of(const NamedTensors& tensors) {
    NamedArrays arrays;
    for (const auto& [name, tensor] : tensors) arrays[name] = array_of(tensor);
    return arrays;
}

std::set<std::string> expected_state(const Case& test) {
    std::set<std::string> names{"step", "seed"};
    for (const char* param : {"0.weight", "0.bias", "2.weight", "2.bias"}) {
        names.insert(param);
        for (const std::string& kind : test.state) names.insert(kind + "." + param);
    }
    return names;
}

Result<Session> open_session(const Module& module, const DeviceCase& on) {
    return compile(module, {.device = on.device, .plan = on.plan, .seed = seed, .restrict_caps = on.restrict_caps});
}

std::string state_difference(Session& session, const testing::ReferenceSession& reference) {
    std::string differences;
    for (const std::string& name : session.state()) {
        const Result<Array> array = session.read(name);
        if (!array) return array.error().text();
        const Result<Tensor> got = tensor_of(*array);
        if (!got) return got.error().text();
        differences += difference(name, *got, reference.read(name));
    }
    return differences;
}

TEST(TrainingStep, LossAndAllStateAgreeWithTheReferenceAtEveryStep) {
    for (const Case& test : cases()) {
        const Result<Module> module = training_module(test.optimizer);
        ASSERT_TRUE(module) << module.error().text();
        const Graph& step = *module->find("step");
        for (const DeviceCase& on : device_cases()) {
            SCOPED_TRACE(std::string(test.name) + " on " + on.name);
            testing::ReferenceSession reference(*module, seed);
            Result<Session> session = open_session(*module, on);
            ASSERT_TRUE(session) << session.error().text();
            const std::vector<std::string> names = session->state();
            EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected_state(test));
            EXPECT_EQ(state_difference(*session, reference), "") << "after init";
            for (int i = 0; i < steps; ++i) {
                const NamedTensors inputs = batch_of_step(step, i);
                const NamedTensors want = reference.run("step", inputs);
                const Result<NamedArrays> got = session->run("step", arrays_of(inputs));
                ASSERT_TRUE(got) << got.error().text();
                ASSERT_EQ(got->size(), 2u);
                for (const char* name : {"loss", "logits"}) {
                    const Result<Tensor> value = tensor_of(got->at(name));
                    ASSERT_TRUE(value) << value.error().text();
                    EXPECT_EQ(difference(name, *value, want.at(name)), "") << "step " << i;
                }
                EXPECT_EQ(state_difference(*session, reference), "") << "after step " << i;
            }
            EXPECT_EQ(reference.read("step").at(0), steps);
        }
    }
}

// Steps that are queued together compute what the same steps one by one compute, to the bit.
TEST(TrainingStep, StepsInOneSubmitAreTheSameSteps) {
    for (const Case& test : cases()) {
        const Result<Module> module = training_module(test.optimizer);
        ASSERT_TRUE(module) << module.error().text();
        const NamedArrays inputs = arrays_of(batch_of_step(*module->find("step"), 0));
        for (const DeviceCase& on : device_cases()) {
            SCOPED_TRACE(std::string(test.name) + " on " + on.name);
            Result<Session> single = open_session(*module, on), together = open_session(*module, on);
            ASSERT_TRUE(single && together);
            for (int i = 0; i < steps; ++i) ASSERT_TRUE(single->run("step", inputs));
            for (const auto& [name, value] : inputs) ASSERT_TRUE(together->write(name, value));
            ASSERT_TRUE(together->submit("step", steps));
            for (const std::string& name : single->state()) {
                const Result<Array> a = single->read(name), b = together->read(name);
                ASSERT_TRUE(a && b);
                EXPECT_EQ(*a, *b) << name;
            }
        }
    }
}

// From what `init` and two steps of the reference make of it, so that no moment is zero.
NamedTensors trained_leaves(const TestNetwork& network) {
    testing::ReferenceSession reference(network.module, seed);
    for (uint64_t i = 0; i < 2; ++i) reference.run("step", network.inputs(i));
    NamedTensors leaves = network.inputs(2);
    for (const GraphParam& param : network.step().params) leaves[param.name] = reference.read(param.name);
    return leaves;
}

// Two steps, apart and in one submit, within bounds that follow the network's own conditioning.
TEST(TrainingStep, NetworksAgreeWithTheReference) {
    for (const TestNetwork& network : test_networks()) {
        const NamedTensors leaves = trained_leaves(network);
        for (const DeviceCase& on : device_cases()) {
            const FuzzResult result = fuzz_on_device(network.step(), leaves, on);
            EXPECT_EQ(result.verdict, Verdict::good) << network.name << " on " << on.name << ": " << result.text;
        }
    }
}

// --- the plan of the demo's step ----------------------------------------------------------------------------------------

// Of an image's size, black: modules depend on shapes alone.
LabelledImages black_images(int64_t count) {
    constexpr int64_t pixels = 28 * 28;
    return {.images = {"u8", {count, pixels}, std::vector<std::byte>(static_cast<size_t>(count * pixels))},
            .labels = {"u8", {count}, std::vector<std::byte>(static_cast<size_t>(count))}};
}

bool writes_a_param(const Program& program, const Dispatch& dispatch) {
    for (const ProgramTensor& tensor : program.tensors) {
        if (tensor.role != "param" || !tensor.trainable) continue;
        for (const BindingWindow& window : dispatch.bindings)
            if (window.access != kir::Access::read && window.segment == tensor.segment &&
                window.offset < tensor.offset + tensor.bytes && tensor.offset < window.offset + window.bytes)
                return true;
    }
    return false;
}

// Labels of the dispatches of `step` that write trainable params.
std::vector<std::string> param_updates(const Program& program) {
    std::vector<std::string> labels;
    for (const Item& item : program.find_entry("step")->body)
        if (const auto* dispatch = std::get_if<Dispatch>(&item); dispatch != nullptr && writes_a_param(program, *dispatch))
            labels.push_back(dispatch->label);
    return labels;
}

// The interpreter's, and those of a GPU and of a CPU driver.
std::vector<Caps> unlike_caps() {
    Caps gpu = interpreter_caps(32), cpu = interpreter_caps(8);
    gpu.kind = DeviceKind::discrete_gpu;
    cpu.kind = DeviceKind::cpu;
    return {interpreter_caps(), gpu, cpu};
}

TEST(TrainingPlan, OneDispatchUpdatesAllParams) {
    const LabelledDataSet data{.train = black_images(200), .test = black_images(130), .classes = 10};
    for (const char* optimizer : {"sgd", "adam", "adamw"}) {
        const Result<Module> module = fashion_mnist_module({.optimizer = optimizer}, data);
        ASSERT_TRUE(module) << module.error().text();
        for (const Caps& caps : unlike_caps()) {
            SCOPED_TRACE(std::string(optimizer) + " on " + to_string(caps.kind));
            const Result<Program> merged = compile_program(*module, caps);
            ASSERT_TRUE(merged) << merged.error().text();
            EXPECT_THAT(param_updates(*merged), ElementsAre(HasSubstr("over 4 tensors"))) << to_text(*merged);
            const auto report = std::find_if(merged->reports.begin(), merged->reports.end(),
                                             [](const PlanReport& r) { return r.entry == "step"; });
            ASSERT_NE(report, merged->reports.end());
            EXPECT_LE(report->dispatches, 16u);
            EXPECT_LE(report->barriers, 10u);

            const Result<Program> separate = compile_program(*module, caps, {.merge_windows = false});
            ASSERT_TRUE(separate) << separate.error().text();
            const std::vector<std::string> updates = param_updates(*separate);
            EXPECT_EQ(updates.size(), 4u) << to_text(*separate);
            EXPECT_THAT(updates, Each(Not(HasSubstr("tensors"))));
        }
    }
}

// The gaps between params stay zero only where the update makes zeros of zeros, whatever its scalars are.
TEST(TrainingPlan, UpdatesThatMakeMoreOfZerosStayApart) {
    const auto updates_of = [](const std::string& value) {
        const auto update = [&](std::string name) {
            std::string text = "update " + name + " = " + value + "\n";
            for (size_t at; (at = text.find('%')) != std::string::npos;) text.replace(at, 1, name);
            return text;
        };
        const Result<Module> module = parse_module(
            "graph step {\na = param f32[5]\nb = param f32[7]\ns = input f32[]\n"
            "t = input f32[]\n" +
            update("a") + update("b") + "}\n");
        if (!module) return std::vector<std::string>{module.error().text()};
        const Result<Program> program = compile_program(*module, interpreter_caps());
        return program ? param_updates(*program) : std::vector<std::string>{program.error().text()};
    };
    EXPECT_THAT(updates_of("mul(%, s)"), ElementsAre(HasSubstr("over 2 tensors")));
    EXPECT_THAT(updates_of("mul(sub(%, mul(%, t)), s)"), ElementsAre(HasSubstr("over 2 tensors")));
    EXPECT_EQ(updates_of("add(%, s)").size(), 2u);
    EXPECT_EQ(updates_of("sub(add(%, s), t)").size(), 2u);
    EXPECT_EQ(updates_of("select(eq(s, 0), 1, %)").size(), 2u);
}

}  // namespace
}  // namespace darner::test
