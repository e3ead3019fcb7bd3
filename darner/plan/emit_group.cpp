// SPDX-License-Identifier: MIT
#include "darner/plan/emit_group.h"

#include "darner/kernels/map.h"
#include "darner/kernels/row.h"
#include "darner/plan/emit_contract.h"
#include "darner/plan/emit_kernel.h"
#include "darner/plan/space.h"
#include "darner/plan/storage.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::plan {

using kir::Access;
using kir::Builder;
using kir::Expr;

namespace {

// Declares a binding the first time a buffer is touched.
class Bindings {
public:
    Bindings(Builder& b, const std::vector<Buffer>& buffers) : b_(b), buffers_(buffers) {}

    void plan_write(BufferId buffer, bool also_read) { writes_.push_back({buffer, also_read ? Access::inout : Access::write}); }

    // A kernel over a window touches more than its first buffer.
    void override_words(uint64_t words) { words_ = words; }

    kir::BindingRef of(BufferId buffer) {
        for (size_t i = 0; i < declared_.size(); ++i)
            if (declared_[i].first == buffer) return refs_[i];
        Access access = Access::read;
        for (const auto& [written, how] : writes_)
            if (written == buffer) access = how;
        const Buffer& info = buffers_[buffer.value];
        const uint64_t words = words_ != 0 && info.elements > 1 ? words_ : info.words();
        declared_.push_back({buffer, access});
        refs_.push_back(
            b_.binding(fmt::format("b{}", declared_.size() - 1), kernels::word_scalar(info.storage), 1, access, words));
        return refs_.back();
    }

    Expr load(BufferId buffer, Expr position) {
        return kernels::load_element(b_, of(buffer), buffers_[buffer.value].storage, position);
    }

    // One element of a 32-bit buffer.
    void store(BufferId buffer, Expr position, Expr value) {
        const kernels::Storage storage = buffers_[buffer.value].storage;
        value = b_.convert(value, kernels::register_scalar(storage));
        kernels::store_elements(b_, of(buffer), storage, position, std::span(&value, 1));
    }

    std::vector<std::pair<BufferId, Access>> take() { return std::move(declared_); }

private:
    Builder& b_;
    const std::vector<Buffer>& buffers_;
    std::vector<std::pair<BufferId, Access>> writes_, declared_;
    std::vector<kir::BindingRef> refs_;
    uint64_t words_ = 0;
};

// Of the kernel.
std::string name_of(const Graph& graph, const Group& group) {
    const bool own = group.kind == GroupKind::kernel;
    return std::string(own ? std::get<KernelLower>(graph.node(group.nodes[0]).op->lower).name : to_string(group.kind));
}

class GroupEmitter {
public:
    GroupEmitter(const Graph& graph, const Grouping& grouping, const Group& group, const NodeBuffers& node_buffers,
                 std::vector<Buffer>& buffers, const Caps& caps)
        : graph_(graph),
          grouping_(grouping),
          group_(group),
          node_buffers_(node_buffers),
          buffers_(buffers),
          caps_(caps),
          b_(name_of(graph, group)),
          bindings_(b_, buffers),
          pull_(graph, b_, [this](NodeId id, Point& at) { return resolve(id, at); }) {
        for (NodeId id : group.stored) {
            const BufferId buffer = buffer_of(id);
            bool also_read = false;
            for (NodeId member : group.nodes)
                for (NodeId source : grouping.sources[member.value])
                    also_read |= !group.find(source) && node_buffers.of[source.value] == buffer;
            if (group.place(id) != Place::column) bindings_.plan_write(buffer, also_read);
        }
        known_.resize(group.nodes.size());
    }

    Result<EmittedKernel> emit(uint64_t count_override) {
        EmittedKernel out;
        switch (group_.kind) {
            case GroupKind::map: {
                TRY(out.grid, map(count_override));
                break;
            }
            case GroupKind::row: {
                TRY(out.grid, row(out));
                break;
            }
            case GroupKind::contract: {
                TRY(out.grid, contract());
                break;
            }
            case GroupKind::kernel: {
                TRY(out.grid, kernel());
                break;
            }
        }
        out.flops = flops_ != 0 ? flops_ : group_.space.count() * group_.nodes.size();
        out.kernel = b_.finish();
        out.bindings = bindings_.take();
        return out;
    }

private:
    BufferId buffer_of(NodeId id) const { return node_buffers_.at(grouping_, id); }

    std::optional<Expr> resolve(NodeId id, Point& at) {
        const auto member = group_.find(id);
        if (member && known_[*member].valid()) return known_[*member];
        if (member) return std::nullopt;
        const BufferId buffer = buffer_of(id);
        if (!buffer.valid()) return std::nullopt;  // pulled through
        const Expr loaded = bindings_.load(buffer, linear_of(b_, at, graph_.type(id)));
        return b_.convert(loaded, kernels::register_scalar(*storage_of(graph_.type(id).dtype)));
    }

    Expr value_at(NodeId id, Expr position) { return pull_.value(id, Point::at(position)); }

    std::vector<NodeId> stored_with(Place place) const {
        std::vector<NodeId> nodes;
        for (NodeId id : group_.stored)
            if (group_.place(id) == place) nodes.push_back(id);
        return nodes;
    }

    Result<kernels::Grid> map(uint64_t count_override) {
        kernels::MapSpec spec;
        spec.count = static_cast<uint32_t>(count_override != 0 ? count_override : group_.space.count());
        if (count_override != 0) bindings_.override_words(count_override);
        spec.body = [&](Builder&, Expr linear) {
            pull_.new_scope();
            std::vector<Expr> values;
            for (NodeId id : group_.stored) values.push_back(value_at(id, linear));
            // Outputs are bound behind the inputs that the values have bound.
            for (size_t i = 0; i < group_.stored.size(); ++i) spec.outputs[i].binding = bindings_.of(buffer_of(group_.stored[i]));
            return values;
        };
        for (NodeId id : group_.stored) spec.outputs.push_back({{}, buffers_[buffer_of(id).value].storage});
        return kernels::build_map(b_, spec, caps_);
    }

    Result<kernels::Grid> row(EmittedKernel& out) {
        kernels::RowSpec spec;
        spec.rows = static_cast<uint32_t>(group_.space.rows);
        spec.cols = static_cast<uint32_t>(group_.space.cols);
        // Reductions in stage order; ties in node order.
        std::vector<size_t> reduces;
        for (size_t n = 0; n < group_.nodes.size(); ++n)
            if (is_reduce(group_.nodes[n]) && group_.places[n] == Place::row) reduces.push_back(n);
        std::stable_sort(reduces.begin(), reduces.end(), [&](size_t x, size_t y) { return group_.stages[x] < group_.stages[y]; });
        for (size_t n : reduces) spec.reduces.push_back({row_op(graph_, group_.nodes[n]), group_.stages[n]});
        const auto full = stored_with(Place::full), rows = stored_with(Place::row), columns = stored_with(Place::column);
        spec.has_full_outputs = !full.empty();
        spec.has_row_outputs = !rows.empty();
        spec.column_sums = columns.size();
        const auto shape = kernels::row_shape(spec.rows, spec.cols, spec.reduces, columns.size(), caps_);
        if (!shape) return limit_error("[plan] rows too long for the device's workgroups in " + describe(graph_, group_));
        for (NodeId id : columns) {
            Buffer partial;
            partial.elements = uint64_t{shape->blocks} * spec.cols;
            partial.label = "partial sums of " + graph_.describe(id);
            out.partials.push_back(BufferId(buffers_.size()));
            buffers_.push_back(std::move(partial));
            bindings_.plan_write(out.partials.back(), false);
        }
        out.partial_blocks = shape->blocks;

        spec.operand = [&](Builder&, size_t k, Expr r, Expr c) {
            pull_.new_scope();
            return value_at(graph_.node(group_.nodes[reduces[k]]).operands[0], full_position(b_, group_.space, r, c));
        };
        spec.reduced = [&](Builder&, size_t k, Expr value) {
            const DType dtype = graph_.type(group_.nodes[reduces[k]]).dtype;
            known_[reduces[k]] = b_.convert(value, kernels::register_scalar(*storage_of(dtype)));
        };
        spec.store_full = [&](Builder&, Expr r, Expr c) {
            pull_.new_scope();
            const Expr position = full_position(b_, group_.space, r, c);
            store_all(full, position);
        };
        spec.store_row = [&](Builder&, Expr r) {
            pull_.new_scope();
            store_all(rows, r);
        };
        spec.column_operand = [&](Builder&, size_t s, Expr r, Expr c) {
            pull_.new_scope();
            return value_at(graph_.node(columns[s]).operands[0], full_position(b_, group_.space, r, c));
        };
        spec.store_partial = [&](Builder&, size_t s, Expr block, Expr c, Expr value) {
            bindings_.store(out.partials[s], block * spec.cols + c, value);
        };
        kernels::build_row(b_, spec, *shape, caps_);
        return shape->grid;
    }

    void store_all(const std::vector<NodeId>& nodes, Expr position) {
        std::vector<Expr> values;
        for (NodeId id : nodes) values.push_back(value_at(id, position));
        for (size_t i = 0; i < nodes.size(); ++i) bindings_.store(buffer_of(nodes[i]), position, values[i]);
    }

    bool is_reduce(NodeId id) const { return std::holds_alternative<ReduceLower>(graph_.node(id).op->lower); }

    NodeId contraction() const {
        for (NodeId id : group_.nodes)
            if (std::holds_alternative<ContractLower>(graph_.node(id).op->lower)) return id;
        bug(__FILE__, __LINE__, "a contract group without a contraction");
    }

    Result<kernels::Grid> contract() {
        const NodeId product = contraction();
        const ContractHooks hooks{pull_, [&](NodeId id) { return buffer_of(id).valid(); },
                                  [&](Point at, Expr sum) {
                                      known_[*group_.find(product)] = sum;
                                      std::vector<Expr> values;
                                      for (NodeId id : group_.stored) {
                                          Point here = at;
                                          here.has_index = at.has_index && graph_.type(id).dims == graph_.type(product).dims;
                                          values.push_back(pull_.value(id, std::move(here)));
                                      }
                                      for (size_t i = 0; i < values.size(); ++i)
                                          bindings_.store(buffer_of(group_.stored[i]), at.linear, values[i]);
                                      known_[*group_.find(product)] = {};
                                  }};
        TRY(const EmittedContraction emitted, emit_contract(graph_, product, b_, caps_, hooks));
        flops_ = emitted.flops;
        return emitted.grid;
    }

    Result<kernels::Grid> kernel() {
        KernelGroup g{graph_, group_, b_, caps_, {}, {}};
        g.value = [&](NodeId id, Point at) {
            pull_.new_scope();
            return pull_.value(id, std::move(at));
        };
        g.store = [&](NodeId id, Expr position, Expr value) { bindings_.store(buffer_of(id), position, value); };
        const std::string_view name = std::get<KernelLower>(graph_.node(group_.nodes[0]).op->lower).name;
        TRY(const kernels::Grid grid, kernel_emitter(name)(g));
        flops_ = g.flops;
        return grid;
    }

    const Graph& graph_;
    const Grouping& grouping_;
    const Group& group_;
    const NodeBuffers& node_buffers_;
    std::vector<Buffer>& buffers_;
    const Caps& caps_;
    Builder b_;
    Bindings bindings_;
    Pull pull_;
    std::vector<Expr> known_;  // by member: a result that the archetype has handed over
    uint64_t flops_ = 0;
};

}  // namespace

Result<EmittedKernel> emit_group(const Graph& graph, const Grouping& grouping, const Group& group,
                                 const NodeBuffers& node_buffers, std::vector<Buffer>& buffers, const Caps& caps,
                                 uint64_t count_override) {
    return GroupEmitter(graph, grouping, group, node_buffers, buffers, caps).emit(count_override);
}

Result<EmittedKernel> emit_partial_sums(const std::vector<BufferId>& partials, const std::vector<BufferId>& sums, uint32_t blocks,
                                        uint32_t cols, const std::vector<Buffer>& buffers, const Caps& caps) {
    Builder b("partial_sums");
    Bindings bindings(b, buffers);
    kernels::MapSpec spec;
    spec.count = cols;
    for (BufferId sum : sums) {
        bindings.plan_write(sum, false);
        spec.outputs.push_back({{}, buffers[sum.value].storage});
    }
    spec.body = [&](Builder&, Expr col) {
        std::vector<Expr> values;
        for (size_t s = 0; s < partials.size(); ++s) {
            const Builder::Values total =
                b.loop(b.u32(0), b.u32(blocks), b.u32(1), {b.f32(0)}, [&](Expr block, const Builder::Values& carried) {
                    return Builder::Values{carried[0] + bindings.load(partials[s], block * cols + col)};
                });
            values.push_back(total[0]);
        }
        for (size_t s = 0; s < sums.size(); ++s) spec.outputs[s].binding = bindings.of(sums[s]);
        return values;
    };
    EmittedKernel out;
    TRY(out.grid, kernels::build_map(b, spec, caps));
    out.flops = uint64_t{blocks} * cols * partials.size();
    out.kernel = b.finish();
    out.bindings = bindings.take();
    return out;
}

std::string describe(const Graph& graph, const Group& group) {
    std::vector<std::string_view> ops;
    for (NodeId id : group.nodes) {
        const std::string_view name = graph.node(id).op->name;
        if (std::find(ops.begin(), ops.end(), name) == ops.end()) ops.push_back(name);
    }
    std::string text = fmt::format("{}[{}]", to_string(group.kind), fmt::join(ops, "+"));
    for (size_t i = group.nodes.size(); i-- > 0;) {
        const std::string where = graph.provenance(group.nodes[i]).text();
        if (!where.empty()) return text + " " + where;
    }
    return text;
}

}  // namespace darner::plan
