// SPDX-License-Identifier: MIT
// Cases of the op table test for convolutions: one to three spatial axes, groups, depthwise, padding on one side and negative,
// strides above the kernel, dilation with and against strides, single channels and places, empty batches.
#include "darner/runtime/op_check_cases.h"

namespace darner {
namespace {

using Cases = std::vector<OpCase>;
using Ints = std::vector<int64_t>;

struct ConvCase {
    Ints x, w;
    Ints strides = {}, padding = {}, dilation = {};
    int64_t groups = 1;
    bool bias = false;
    Ints output_padding = {};
    DType dtype = DType::f32;
};

CaseOperand of(const Ints& dims, DType dtype) { return spread(Dims(dims.begin(), dims.end()), dtype); }

OpCase case_of(const ConvCase& c, int64_t outputs, int64_t channels, bool transposed) {
    OpCase made;
    made.operands = {of(c.x, c.dtype), of(c.w, c.dtype), c.bias ? spread({outputs}, c.dtype) : left_out()};
    made.attrs = {{"strides", c.strides}, {"padding", c.padding}, {"dilation", c.dilation}, {"groups", c.groups}};
    if (transposed) made.attrs.emplace_back("output_padding", c.output_padding);
    made.smooth = c.dtype == DType::f32;
    made.contraction = std::max<int64_t>(1, channels);
    for (size_t axis = 2; axis < c.w.size(); ++axis) made.contraction *= c.w[axis];
    return made;
}

const std::vector<ConvCase>& geometries() {
    static const std::vector<ConvCase> cases = {
        {{2, 3, 7}, {4, 3, 3}},
        {{1, 1, 1}, {1, 1, 1}},
        {{2, 3, 9}, {2, 3, 3}, {2}, {1, 1}},
        {{1, 2, 8}, {3, 2, 3}, {1}, {0, 2}},
        {{1, 2, 9}, {2, 2, 3}, {1}, {-2, 1}},
        {{1, 2, 9}, {2, 2, 2}, {2}, {-1, -3}},
        {{2, 2, 4}, {2, 2, 1}, {1}, {2, 1}},
        {{1, 2, 11}, {2, 2, 2}, {4}},
        {{1, 2, 13}, {2, 2, 3}, {1}, {2, 2}, {3}},
        {{1, 1, 17}, {1, 1, 4}, {2}, {3, 0}, {3}},
        {{1, 1, 19}, {2, 1, 3}, {4}, {2, 3}, {2}},
        {{1, 1, 19}, {1, 1, 5}, {3}, {4, 4}, {3}},
        {{1, 2, 12}, {2, 2, 7}, {3}, {3, 3}},
        {{1, 1, 5}, {1, 1, 3}, {100}, {1, 1}, {2}},
        {{1, 1, 0}, {2, 1, 2}, {1}, {1, 1}},
        {{0, 2, 5}, {3, 2, 3}},
        {{2, 2, 5}, {0, 2, 3}},
        {{1, 0, 5}, {2, 0, 3}, {}, {}, {}, 1, true},
        {{2, 3, 5, 5}, {4, 3, 3, 3}, {}, {1, 1, 1, 1}, {}, 1, true},
        {{2, 3, 7, 6}, {4, 3, 3, 2}, {2, 3}, {1, 0, 2, 1}},
        {{1, 4, 5, 6}, {6, 2, 3, 2}, {1, 2}, {1, 1, 0, 1}, {2, 1}, 2},
        {{2, 5, 6, 5}, {5, 1, 3, 3}, {}, {1, 1, 1, 1}, {}, 5, true},
        {{1, 3, 7, 7}, {6, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 3},
        {{2, 17, 3, 5}, {18, 17, 1, 1}},
        {{2, 3, 5, 5}, {4, 3, 1, 1}, {2, 2}},
        {{1, 3, 8, 8}, {2, 3, 4, 4}, {4, 4}},
        {{3, 2, 11, 10}, {5, 2, 5, 5}, {2, 2}, {2, 2, 2, 2}},
        {{1, 2, 4, 4, 3}, {3, 2, 2, 3, 2}, {}, {0, 0, 1, 1, 0, 1}},
        {{2, 4, 3, 5, 4}, {4, 2, 2, 2, 2}, {1, 2, 3}, {1, 0, 0, 0, 1, 1}, {1, 2, 1}, 2, true},
        {{1, 1, 2, 3, 2, 3}, {1, 1, 2, 1, 2, 2}},
        {{2, 3, 4, 4}, {2, 3, 3, 3}, {}, {1, 1, 1, 1}, {}, 1, true, {}, DType::f16},
        {{2, 3, 4, 4}, {2, 3, 3, 3}, {}, {1, 1, 1, 1}, {}, 1, false, {}, DType::bf16},
        {{2, 3, 4, 4}, {2, 3, 3, 3}, {2, 1}, {1, 1, 1, 1}, {}, 1, true, {}, DType::f64},
    };
    return cases;
}

Cases conv_op_cases(const OpDef&) {
    Cases cases;
    for (const ConvCase& c : geometries()) cases.push_back(case_of(c, c.w[0], c.w[1], false));
    return cases;
}

Cases conv_transpose_cases(const OpDef&) {
    const std::vector<ConvCase> of_its_own = {
        {{2, 3, 4}, {3, 2, 3}},
        {{1, 1, 1}, {1, 1, 1}},
        {{2, 3, 4}, {3, 2, 3}, {2}, {1, 1}, {}, 1, true, {1}},
        {{1, 2, 5}, {2, 3, 2}, {2}},
        {{1, 2, 3}, {2, 1, 2}, {4}, {}, {}, 1, false, {3}},
        {{1, 2, 4}, {2, 2, 4}, {3}, {0, 2}, {2}},
        {{1, 2, 3}, {2, 2, 3}, {2}, {-1, -2}},
        {{1, 1, 4}, {1, 1, 7}, {3}, {2, 3}},
        {{0, 2, 3}, {2, 2, 3}, {2}},
        {{2, 4, 3, 4}, {4, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 2, true, {1, 1}},
        {{1, 3, 3, 3}, {3, 2, 2, 2}, {2, 2}},
        {{1, 3, 2, 3}, {3, 2, 4, 4}, {2, 2}, {1, 1, 1, 1}},
        {{1, 4, 3, 3}, {4, 1, 3, 3}, {1, 2}, {1, 1, 1, 1}, {}, 4, true},
        {{1, 2, 2, 2, 3}, {2, 2, 2, 3, 2}, {1, 2, 2}, {0, 0, 1, 1, 0, 0}},
        {{2, 2, 3, 3}, {2, 2, 3, 3}, {2, 2}, {}, {}, 1, false, {}, DType::f16},
    };
    Cases cases;
    for (const ConvCase& c : of_its_own) {
        // Each result sums all taps at most; gradients sum as conv does.
        cases.push_back(case_of(c, c.w[1] * c.groups, c.x[1] / c.groups, true));
    }
    return cases;
}

constexpr CaseGenerator generators[] = {{"conv", conv_op_cases}, {"conv_transpose", conv_transpose_cases}};

}  // namespace

std::span<const CaseGenerator> conv_cases() { return generators; }

}  // namespace darner
