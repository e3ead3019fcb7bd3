// SPDX-License-Identifier: MIT
// Ops against PyTorch: results and gradients of drawn calls (testdata/ops_pytorch*.py), in the reference and on devices. The
// reference of a composite is its own expansion, so this is what tells that an expansion means the right thing.
#include "darner/graph/text.h"
#include "darner/io/safetensors.h"
#include "darner/runtime/perturb.h"
#include "darner/runtime/session.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace darner::test {
namespace {

struct Case {
    Graph graph;  // with d_x for each x that has one, from the input d_y
    std::string text;
    NamedTensors leaves, expected;
};

// The numbers of the file, in the order in which the graphs take them.
class Numbers {
public:
    explicit Numbers(Tensor all) : all_(std::move(all)) {}
    Tensor take(const Type& type) {
        Tensor tensor = Tensor::zeros(type.dtype, type.shape());
        for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, all_.real.at(next_++));
        return tensor;
    }
    bool at_end() const { return next_ == all_.real.size(); }

private:
    Tensor all_;
    size_t next_ = 0;
};

Result<Case> read_case(const Graph& graph, Numbers& numbers) {
    Case c;
    c.text = to_text(graph);
    std::vector<std::string> wrt;
    for (const GraphInput& input : graph.inputs) {
        const Type& type = graph.type(input.node);
        c.leaves.emplace(input.name, numbers.take(type));
        if (is_float(type.dtype) && !input.name.starts_with("fixed")) wrt.push_back(input.name);
    }
    const Type& type = graph.type(graph.find_output("y")->node);
    c.expected.emplace("y", numbers.take(type));
    if (!is_float(type.dtype)) {
        c.graph = graph;
        return c;
    }
    c.leaves.emplace("d_y", numbers.take(type));
    for (const std::string& name : wrt) c.expected.emplace("d_" + name, numbers.take(c.leaves.at(name).type()));
    TRY(c.graph, gradient_graph(graph, "y", wrt));
    if (c.graph.find_input("d_y") == nullptr) c.leaves.erase("d_y");  // a scalar starts from 1
    return c;
}

void read_file(const std::string& path, std::vector<Case>& read) {
    SCOPED_TRACE(path);
    const auto file = read_safetensors(path);
    ASSERT_TRUE(file) << file.error().text();
    const auto values = tensor_of(file->tensors.at("values"));
    const auto module = parse_module(file->metadata.at("graphs"));
    ASSERT_TRUE(values);
    ASSERT_TRUE(module) << module.error().text();
    Numbers numbers(*values);
    for (const Graph& graph : module->graphs) {
        Result<Case> c = read_case(graph, numbers);
        ASSERT_TRUE(c) << to_text(graph) << c.error().text();
        read.push_back(std::move(*c));
    }
    EXPECT_TRUE(numbers.at_end()) << "the graphs do not take all numbers of the file";
}

const std::vector<Case>& cases() {
    static const std::vector<Case> all = [] {
        std::vector<std::string> paths;
        for (const auto& entry : std::filesystem::directory_iterator(DARNER_SOURCE_DIR "/tests/testdata")) {
            const std::string name = entry.path().filename();
            if (name.starts_with("ops_pytorch") && name.ends_with(".safetensors")) paths.push_back(entry.path());
        }
        std::sort(paths.begin(), paths.end());
        EXPECT_GE(paths.size(), 2u);
        std::vector<Case> read;
        for (const std::string& path : paths) read_file(path, read);
        return read;
    }();
    return all;
}

// `spread`: what rounding of the formula's own steps may change; null for the reference, which computes in double.
void compare(const Case& c, const std::string& name, const Tensor& got, const NamedTensors* spread) {
    const Tensor& want = c.expected.at(name);
    ASSERT_EQ(got.dims, want.dims) << c.text << name;
    double largest = 0;
    for (const double v : want.real)
        if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    for (int64_t i = 0; i < want.count(); ++i) {
        const double g = got.at(i), w = want.at(i);
        if (g == w || (std::isnan(g) && std::isnan(w))) continue;
        // The file has f32, and so have constants of expansions, whose rounding a difference can bring out; subnormals may flush.
        double bound = 1e-6 * std::fabs(w) + 1e-7 * largest + 1e-37;
        if (spread) bound += 1e-5 * std::fabs(w) + 1e-6 * largest + 4 * spread->at(name).real[i];
        EXPECT_LE(std::fabs(g - w), bound) << c.text << name << "[" << i << "]: got " << g << ", PyTorch has " << w;
    }
}

TEST(OpsPyTorch, Reference) {
    EXPECT_GT(cases().size(), 500u);
    for (const Case& c : cases()) {
        const auto result = eval(c.graph, c.leaves);
        ASSERT_TRUE(result) << c.text << result.error().text();
        for (const auto& [name, want] : c.expected) compare(c, name, result->outputs.at(name), nullptr);
    }
}

TEST(OpsPyTorch, Devices) {
    Module module;
    for (const Case& c : cases()) {
        module.graphs.push_back(c.graph);
        module.graphs.back().name = "case" + std::to_string(module.graphs.size() - 1);
    }
    for (const char* device : {"interp", "vulkan"}) {
        SCOPED_TRACE(device);
        CompileOptions options;
        options.device = device;
        Result<Session> session = compile(module, options);
        ASSERT_TRUE(session) << session.error().text();
        for (size_t i = 0; i < cases().size(); ++i) {
            const Case& c = cases()[i];
            NamedArrays arrays;
            for (const auto& [name, tensor] : c.leaves) arrays.emplace(name, array_of(tensor));
            const auto outputs = session->run(module.graphs[i].name, arrays);
            ASSERT_TRUE(outputs) << c.text << outputs.error().text();
            const auto spread = rounding_spread(c.graph, c.leaves);
            ASSERT_TRUE(spread) << c.text << spread.error().text();
            for (const auto& [name, want] : c.expected) {
                const auto got = tensor_of(outputs->at(name));
                ASSERT_TRUE(got) << c.text << name;
                compare(c, name, *got, &*spread);
            }
        }
    }
}

}  // namespace
}  // namespace darner::test
