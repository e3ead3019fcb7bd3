// SPDX-License-Identifier: MIT
// For tests of this folder: results unwrapped with their error shown, and equality of graphs node by node.
#pragma once

#include "darner/graph/builder.h"
#include "darner/graph/text.h"

#include <gtest/gtest.h>

#include <string>

namespace darner::testing {

template <class T>
T ok(Result<T> result) {
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return result ? std::move(*result) : T{};
}

inline Graph parse(std::string_view text) {
    Module module = ok(parse_module(text));
    return module.graphs.empty() ? Graph{} : std::move(module.graphs[0]);
}

// NaN equals NaN here, and -0 differs from 0.
inline bool same_values(const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.bytes() == b.bytes() && a.integer == b.integer;
}

inline void expect_same(const Graph& a, const Graph& b) {
    ASSERT_EQ(a.nodes.size(), b.nodes.size());
    EXPECT_EQ(a.name, b.name);
    for (size_t i = 0; i < a.nodes.size(); ++i) {
        const Node &x = a.nodes[i], &y = b.nodes[i];
        ASSERT_EQ(x.kind, y.kind) << i;
        EXPECT_EQ(x.op, y.op) << i;
        EXPECT_EQ(x.operands, y.operands) << i;
        EXPECT_EQ(x.type, y.type) << i;
        EXPECT_EQ(a.provenances[x.provenance], b.provenances[y.provenance]) << i;
        EXPECT_EQ(a.names[i], b.names[i]) << i;
        ASSERT_EQ(x.attrs.size(), y.attrs.size()) << i;
        for (size_t k = 0; k < x.attrs.size(); ++k) EXPECT_EQ(to_text(x.attrs[k]), to_text(y.attrs[k])) << i;
        if (x.kind == NodeKind::constant) EXPECT_TRUE(same_values(a.constant(x), b.constant(y))) << i;
    }
    ASSERT_EQ(a.inputs.size(), b.inputs.size());
    for (size_t i = 0; i < a.inputs.size(); ++i) {
        EXPECT_EQ(a.inputs[i].name, b.inputs[i].name);
        EXPECT_EQ(a.inputs[i].per_step, b.inputs[i].per_step);
    }
    ASSERT_EQ(a.params.size(), b.params.size());
    for (size_t i = 0; i < a.params.size(); ++i) {
        EXPECT_EQ(a.params[i].name, b.params[i].name);
        EXPECT_EQ(a.params[i].init, b.params[i].init);
        EXPECT_EQ(a.params[i].trainable, b.params[i].trainable);
        EXPECT_EQ(a.params[i].role, b.params[i].role);
    }
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i) {
        EXPECT_EQ(a.outputs[i].name, b.outputs[i].name);
        EXPECT_EQ(a.outputs[i].node, b.outputs[i].node);
        EXPECT_EQ(a.outputs[i].per_step, b.outputs[i].per_step);
    }
    ASSERT_EQ(a.updates.size(), b.updates.size());
    for (size_t i = 0; i < a.updates.size(); ++i) {
        EXPECT_EQ(a.updates[i].param, b.updates[i].param);
        EXPECT_EQ(a.updates[i].value, b.updates[i].value);
    }
}

}  // namespace darner::testing
