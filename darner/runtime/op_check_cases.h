// SPDX-License-Identifier: MIT
// Cases of the op table test: operand types, attributes and how operand values are drawn. Elementwise ops get theirs from
// their entry alone; ops with attributes have a generator by name.
#pragma once

#include "darner/graph/op_def.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace darner {

// Values of float operands are multiplied by the magnitude under test, except where a domain says that it is fixed.
enum class Domain : uint8_t {
    spread,      // in [-2, 2], all different, none 0; edge values of integers
    nonzero,     // |v| >= 0.5
    positive,    // in [0.2, 2.2]
    unit,        // in [-0.84, 0.84], not multiplied
    chance,      // in [0.05, 0.95], not multiplied: probabilities
    above_one,   // from 1.1 on, further at larger magnitudes
    fixed,       // like spread, not multiplied: exponents, weights
    ties,        // few different values, among them 0
    index,       // in 0 .. limit-1
    wild_index,  // also outside
    random_key,
};

bool is_multiplied(Domain domain);

struct CaseOperand {
    Type type;
    Domain domain = Domain::spread;
    int64_t limit = 0;
    bool left_out = false;
};

struct OpCase {
    std::vector<CaseOperand> operands;
    std::vector<std::pair<std::string, AttrValue>> attrs = {};
    bool smooth = true;        // central differences apply: no ties, no rounding
    int64_t contraction = 0;   // length of the sums of a contraction; 0: none
    double absolute_from = 0;  // the ULP bound is of max(|y|, this)
    std::string label() const;
};

// The magnitude below which the op's ULP bound is absolute, as docs/ops.md says; 0: nowhere.
double absolute_below(const OpDef& op);
CaseOperand spread(Dims dims, DType dtype = DType::f32);
CaseOperand ties(Dims dims);
CaseOperand drawn(Domain domain, Dims dims, DType dtype = DType::f32);
CaseOperand index(Dims dims, int64_t limit, DType dtype = DType::i32);
CaseOperand wild_index(Dims dims, int64_t limit);
CaseOperand left_out();

// Whether inference takes the case.
bool accepts(const OpDef& op, const OpCase& c);

// Cases of an op that are not made from its entry alone.
struct CaseGenerator {
    std::string_view op;
    std::vector<OpCase> (*cases)(const OpDef&);
};
std::span<const CaseGenerator> rearranging_cases();  // of arrange.cpp, lookup.cpp, resize.cpp, statistics.cpp
std::span<const CaseGenerator> loss_cases();         // of losses, dropout
std::span<const CaseGenerator> attention_cases();    // of attention and its kernels, rotary
std::span<const CaseGenerator> window_cases();       // of windows, pools, norms

// Empty: nobody wrote cases for this op.
std::vector<OpCase> op_cases(const OpDef& op);
Tensor case_values(const CaseOperand& operand, size_t number, double magnitude);

}  // namespace darner
