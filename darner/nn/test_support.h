// SPDX-License-Identifier: MIT
// For tests of nn: a module run step by step through the reference evaluator, with its state between.
#pragma once

#include "darner/base/check.h"
#include "darner/graph/builder.h"
#include "darner/graph/eval.h"

#include <gtest/gtest.h>

#include <string>

namespace darner::testing {

// The value; a test cannot go on without it.
template <class T>
T ok(Result<T> result) {
    CHECK(result.has_value(), result.error().text());
    return std::move(*result);
}

class ReferenceSession {
public:
    explicit ReferenceSession(Module module, uint64_t seed = 0) : module_(std::move(module)) {
        state_["seed"] = Tensor::of(DType::u32, {2}, {static_cast<double>(seed & 0xffffffffu), static_cast<double>(seed >> 32)});
        if (module_.find("init") != nullptr) run("init");
    }

    void write(const std::string& name, Tensor value) { state_[name] = std::move(value); }
    const Tensor& read(const std::string& name) const { return state_.at(name); }
    bool has(const std::string& name) const { return state_.contains(name); }

    NamedTensors run(std::string_view graph, const NamedTensors& inputs = {}) {
        NamedTensors leaves = inputs;
        const Graph& g = *module_.find(graph);
        for (const GraphParam& param : g.params)
            if (const auto found = state_.find(param.name); found != state_.end()) leaves[param.name] = found->second;
        // What `init` has not written yet.
        if (graph == "init")
            for (const GraphParam& param : g.params)
                leaves.try_emplace(param.name, Tensor::zeros(g.type(param.node).dtype, g.type(param.node).shape()));
        EvalResult result = ok(eval(g, leaves));
        for (auto& [name, value] : result.updates) state_[name] = std::move(value);
        return std::move(result.outputs);
    }

private:
    Module module_;
    NamedTensors state_;
};

}  // namespace darner::testing
