// SPDX-License-Identifier: MIT
#include "darner/plan/emit_contract.h"

#include "darner/plan/storage.h"

#include <cstdlib>
#include <numeric>

namespace darner::plan {

using kir::Builder;
using kir::Expr;

namespace {

using Extents = std::vector<int64_t>;

uint32_t count(const Extents& extents) {
    return static_cast<uint32_t>(std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<int64_t>()));
}

class ContractEmitter {
public:
    ContractEmitter(const Graph& graph, NodeId id, Builder& b, const ContractHooks& hooks)
        : graph_(graph),
          id_(id),
          call_(graph, id),
          lower_(std::get<ContractLower>(graph.node(id).op->lower)),
          space_(lower_.space(*call_)),
          b_(b),
          hooks_(hooks) {}

    Result<EmittedContraction> emit(const Caps& caps) {
        kernels::ContractSpec spec;
        spec.batch = count(space_.batch);
        spec.m = count(space_.m);
        spec.n = count(space_.n);
        spec.k = count(space_.k);
        if (space_.k.size() > 1) spec.k_inner = static_cast<uint32_t>(space_.k.back());
        spec.scalar = kernels::register_scalar(*storage_of(graph_.type(id_).dtype));
        spec.a_k_contiguous = k_is_inner(lower_.a, space_.m);
        spec.b_n_contiguous = !k_is_inner(lower_.b, space_.n);
        spec.load_a = [&](Builder&, Expr batch, Expr m, Expr k) { return load(lower_.a, batch, m, k); };
        spec.load_b = [&](Builder&, Expr batch, Expr k, Expr n) { return load(lower_.b, batch, n, k); };
        spec.store = [&](Builder&, Expr batch, Expr m, Expr n, Expr sum) { store(batch, m, n, sum); };
        const auto shape = kernels::contract_shape(spec, caps);
        if (!shape)
            return limit_error("[plan] more workgroups or longer loops than the device takes for " + graph_.describe(id_));
        kernels::build_contract(b_, spec, *shape);
        return EmittedContraction{shape->grid, uint64_t{2} * spec.batch * spec.m * spec.n * std::max(1u, spec.k)};
    }

private:
    NodeId operand(size_t which) const { return graph_.node(id_).operands[which]; }

    Expr load(size_t which, Expr batch, Expr side, Expr k) {
        hooks_.pull.new_scope();
        return read(b_, hooks_.pull, which, batch, side, k);
    }

    Expr read(Builder& b, Pull& pull, size_t which, Expr batch, Expr side, Expr k) const {
        std::vector<Expr> index;
        const auto batches = kernels::delinearize(b, batch, space_.batch);
        const auto sides = kernels::delinearize(b, side, which == lower_.a ? space_.m : space_.n);
        const auto terms = kernels::delinearize(b, k, space_.k);
        const Expr inside = lower_.read(*call_, b, which, batches, sides, terms, index);
        const Expr value = pull.value(operand(which), Point::at(std::move(index)));
        return inside.valid() ? b.select(inside, value, b.constant(value.type(), 0)) : value;
    }

    void store(Expr batch, Expr m, Expr n, Expr sum) {
        hooks_.pull.new_scope();
        if (lower_.write == nullptr) {
            hooks_.store(Point::at((batch * count(space_.m) + m) * count(space_.n) + n), sum);
            return;
        }
        std::vector<Expr> index;
        lower_.write(*call_, kernels::delinearize(b_, batch, space_.batch), kernels::delinearize(b_, m, space_.m),
                     kernels::delinearize(b_, n, space_.n), index);
        Point at = Point::at(std::move(index));
        at.linear = linear_of(b_, at, graph_.type(id_));
        hooks_.store(std::move(at), sum);
    }

    // Whether neighbours along k are nearer in the operand's memory than neighbours along its own side, and where both are as
    // near, whether k has the longer row of them: asked of a scratch kernel with constants.
    bool k_is_inner(size_t which, const Extents& side) const {
        if (count(space_.k) <= 1 || count(side) <= 1) return count(side) <= 1;
        const uint32_t s = middle(side), k = middle(space_.k);
        const int64_t origin = position(which, s, k);
        const int64_t along_k = std::abs(position(which, s, k + 1) - origin),
                      along_side = std::abs(position(which, s + 1, k) - origin);
        return along_k != along_side ? along_k < along_side : space_.k.back() >= side.back();
    }

    // Away from the edges, where maps clamp.
    static uint32_t middle(const Extents& extents) {
        int64_t linear = 0;
        for (const int64_t extent : extents) linear = linear * extent + (extent - 1) / 2;
        return static_cast<uint32_t>(linear);
    }

    int64_t position(size_t which, uint32_t side, uint32_t k) const {
        Builder scratch("probe");
        std::optional<int64_t> position;
        Pull pull(graph_, scratch, [&](NodeId id, Point& at) -> std::optional<Expr> {
            if (!hooks_.is_stored(id)) return std::nullopt;
            const Expr linear = linear_of(scratch, at, graph_.type(id));
            if (!position) position = scratch.is_constant(linear) ? scratch.constant_bits(linear) : 0;
            return scratch.constant({kernels::register_scalar(*storage_of(graph_.type(id).dtype))}, 0);
        });
        read(scratch, pull, which, scratch.u32(0), scratch.u32(side), scratch.u32(k));
        return position.value_or(0);
    }

    const Graph& graph_;
    NodeId id_;
    const NodeCall call_;
    const ContractLower& lower_;
    const ContractSpace space_;
    Builder& b_;
    const ContractHooks& hooks_;
};

}  // namespace

Result<EmittedContraction> emit_contract(const Graph& graph, NodeId contraction, Builder& b, const Caps& caps,
                                         const ContractHooks& hooks) {
    return ContractEmitter(graph, contraction, b, hooks).emit(caps);
}

}  // namespace darner::plan
