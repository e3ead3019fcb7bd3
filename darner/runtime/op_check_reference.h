// SPDX-License-Identifier: MIT
// The parts of the op table test: one case as graphs, its checks on the reference evaluator, its checks on a device.
#pragma once

#include "darner/graph/eval.h"
#include "darner/runtime/op_check.h"
#include "darner/runtime/op_check_cases.h"

namespace darner {

inline constexpr double check_magnitudes[] = {1e-2, 1, 1e2};

// One case of one op: where its failures go.
struct CaseCheck {
    const OpDef& op;
    const OpCase& test;
    OpCheckReport& report;

    void fail(const std::string& what) const;
    // Counts `error / bound` and fails above 1.
    void compare(double got, double want, double bound, const std::string& what) const;
};

std::string operand_input(size_t i);                 // "x0": the name of an operand's input
bool is_differentiated(const CaseOperand& operand);  // float and present
NamedTensors case_leaves(const OpCase& test, double magnitude);

// y = op(x0, ...). With `gradients` also d_x0, ... for a cotangent input `dy` of y's type, where y is a float.
Result<Graph> case_graph(const OpDef& op, const OpCase& test, bool with_gradients);

void check_on_reference(const CaseCheck& check);
// All cases of an op in one Program; what a device cannot have (f64, i64) is left out.
void check_on_device(const OpDef& op, const std::vector<OpCase>& cases, Device& device, OpCheckReport& report);

}  // namespace darner
