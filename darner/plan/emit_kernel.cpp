// SPDX-License-Identifier: MIT
#include "darner/plan/emit_kernel.h"

#include "darner/kernels/scatter.h"
#include "darner/plan/storage.h"

#include <algorithm>

namespace darner::plan {

using kir::Builder;
using kir::Expr;

namespace {

struct Entry {
    std::string_view name;
    EmitKernel emit;
};
constexpr Entry table[] = {
    {"scatter_add", emit_scatter},
    {"attention", emit_attention},
    {"attention_dq", emit_attention},
    {"attention_dkv", emit_attention},
};

}  // namespace

EmitKernel kernel_emitter(std::string_view name) {
    for (const Entry& entry : table)
        if (entry.name == name) return entry.emit;
    bug(__FILE__, __LINE__, "no kernel " + std::string(name));
}

Result<kernels::Grid> emit_scatter(KernelGroup& g) {
    const NodeId id = g.group.nodes[0];
    const Node& node = g.graph.node(id);
    const NodeCall call(g.graph, id);
    const auto out = node.type.shape();
    const size_t axis = call->axis("axis", out.size());
    kernels::ScatterSpec spec;
    for (size_t i = 0; i < out.size(); ++i)
        (i < axis ? spec.outer : i > axis ? spec.inner : spec.size) *= static_cast<uint32_t>(out[i]);
    spec.indices = static_cast<uint32_t>(call->type(0).count());
    spec.scalar = kernels::register_scalar(*storage_of(node.type.dtype));
    spec.index = [&](Builder&, Expr which) { return g.value(node.operands[0], Point::at(which)); };
    spec.update = [&](Builder&, Expr outer, Expr which, Expr inner) {
        return g.value(node.operands[1], Point::at((outer * spec.indices + which) * spec.inner + inner));
    };
    spec.store = [&](Builder&, Expr linear, Expr sum) { g.store(id, linear, sum); };
    g.flops = g.group.space.count() * std::max(1u, spec.indices);
    return kernels::build_scatter(g.builder, spec, g.caps);
}

}  // namespace darner::plan
