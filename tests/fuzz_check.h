// SPDX-License-Identifier: MIT
// One fuzzed graph against the reference: on devices, step after step, with poisoned memory; and its gradients against central
// differences. Bounds follow the graph's own conditioning: they are a few times what moving every inexact step by its error
// bound changes (RoundingModel). A graph in which such moves reach a jump (a comparison that flips), or change an output by
// more than a few percent, proves nothing and is unsuitable; how many are is counted and bounded by the test.
#pragma once

#include "tests/compare.h"

#include <optional>
#include <string>

namespace darner::test {

enum class Verdict : uint8_t { good, bad, unsuitable };
struct FuzzResult {
    Verdict verdict = Verdict::good;
    std::string text;  // of bad: what differs; of unsuitable: why
};

// Compiles the graph, runs it twice from `leaves` and compares each run, then both steps in one submit, which must give the
// same bits.
FuzzResult fuzz_on_device(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on);

// The outputs d1, d2, ... of a fuzzed graph against central differences of `loss`.
FuzzResult fuzz_gradients(const Graph& graph, const NamedTensors& leaves);

// The same failure in a smaller graph: outputs, updates and nodes are dropped as long as `fails` holds.
struct Shrunk {
    Graph graph;
    NamedTensors leaves;
};
Shrunk shrink(const Graph& graph, const NamedTensors& leaves,
              const std::function<bool(const Graph&, const NamedTensors&)>& fails);

}  // namespace darner::test
