// SPDX-License-Identifier: MIT
// Fills the attention archetype from a group of one of its kernels: the operands and attributes of all nodes are those of the
// first; which results are wanted follows from the nodes.
#include "darner/kernels/attention.h"
#include "darner/plan/emit_kernel.h"

namespace darner::plan {

using kir::Builder;
using kir::Expr;

namespace {

enum Operand : size_t { q_at, k_at, v_at, mask_at, position_at, bits_at, dy_at, rows_at };

class AttentionEmitter {
public:
    explicit AttentionEmitter(KernelGroup& g) : g_(g), node_(g.graph.node(g.group.nodes[0])) {
        const auto q = shape(q_at), k = shape(k_at), v = shape(v_at);
        const NodeCall call(g.graph, g.group.nodes[0]);
        spec_.batch = q[0];
        spec_.kv_heads = k[1];
        spec_.group = q[1] / k[1];
        spec_.queries = q[2];
        spec_.keys = k[2];
        spec_.depth = q[3];
        spec_.width = v[3];
        spec_.causal = call->boolean("causal");
        spec_.window = static_cast<uint32_t>(call->integer("window"));
        spec_.scale = static_cast<float>(call->real("scale"));
        spec_.soft_cap = static_cast<float>(call->real("soft_cap"));
        spec_.dropout = static_cast<float>(call->real("dropout"));
        spec_.q = element(q_at);
        spec_.k = element(k_at);
        spec_.v = element(v_at);
        spec_.mask = element(mask_at);
        spec_.bits = element(bits_at);
        spec_.dy = element(dy_at);
        spec_.rows = element(rows_at);
        if (has(position_at))
            spec_.position = [this](Builder&, Expr batch) { return g_.value(node_.operands[position_at], Point::at(batch)); };
        for (NodeId id : g.group.nodes) set_result(id);
    }

    Result<kernels::Grid> emit() {
        g_.flops = kernels::attention_flops(spec_);
        return kernels::build_attention(g_.builder, spec_, g_.caps);
    }

private:
    bool has(size_t operand) const { return operand < node_.operands.size() && node_.operands[operand].valid(); }
    std::vector<uint32_t> shape(size_t operand) const {
        std::vector<uint32_t> dims;
        for (int64_t dim : g_.graph.type(node_.operands[operand]).shape()) dims.push_back(static_cast<uint32_t>(dim));
        return dims;
    }

    // Axes of extent 1 in a mask are read at 0.
    kernels::AttentionSpec::Element element(size_t operand) const {
        if (!has(operand)) return {};
        return [this, id = node_.operands[operand], dims = shape(operand)](Builder& b, Expr batch, Expr head, Expr place,
                                                                           Expr feature) {
            std::vector<Expr> index = {batch, head, place, feature};
            for (size_t i = 0; i < 4; ++i)
                if (dims[i] == 1) index[i] = b.u32(0);
            return g_.value(id, Point::at(std::move(index)));
        };
    }

    // One kernel name gives one pass; its results differ in what their op is called.
    void set_result(NodeId id) {
        const auto store = [this, id](Builder& b, Expr batch, Expr head, Expr place, Expr feature, Expr value) {
            const auto dims = g_.graph.type(id).shape();
            g_.store(id, kernels::linearize(b, std::array{batch, head, place, feature}, dims), value);
        };
        const std::string_view op = g_.graph.node(id).op->name;
        spec_.pass = op == "attention_dq"                           ? kernels::AttentionPass::query_gradient
                     : op == "attention_dk" || op == "attention_dv" ? kernels::AttentionPass::key_gradient
                                                                    : kernels::AttentionPass::forward;
        (op == "attention_dq"     ? spec_.dq
         : op == "attention_dk"   ? spec_.dk
         : op == "attention_dv"   ? spec_.dv
         : op == "attention_rows" ? spec_.numbers
                                  : spec_.y) = store;
    }

    KernelGroup& g_;
    const Node& node_;
    kernels::AttentionSpec spec_;
};

}  // namespace

Result<kernels::Grid> emit_attention(KernelGroup& g) { return AttentionEmitter(g).emit(); }

}  // namespace darner::plan
