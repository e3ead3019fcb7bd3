// SPDX-License-Identifier: MIT
// Cleanup: one walk over the nodes in topological order that simplifies each on its simplified operands and looks it up
// among the equal ones before it is made, then one that drops what is dead. Linear in the size of the graph.
#include "darner/base/hash.h"
#include "darner/graph/build_call.h"
#include "darner/transform/dead_code.h"
#include "darner/transform/simplify.h"
#include "darner/transform/transform.h"

#include <algorithm>
#include <unordered_map>

namespace darner {
namespace {

void hash_type(Hasher& hasher, const Type& type) {
    hasher.add(type.dtype);
    for (const Dim& dim : type.dims) dim.is_constant() ? hasher.add(dim.value()) : hasher.add(std::string_view(dim.text()));
}

struct AttrHasher {
    Hasher& hasher;
    void operator()(std::monostate) const { hasher.add(0); }
    void operator()(int64_t v) const { hasher.add(v); }
    void operator()(double v) const { hasher.add(v); }
    void operator()(bool v) const { hasher.add(v); }
    void operator()(const std::string& v) const { hasher.add(std::string_view(v)); }
    void operator()(DType v) const { hasher.add(v); }
    void operator()(const Dims& v) const { hash_type(hasher, {DType::f32, v}); }
    void operator()(const std::vector<int64_t>& v) const {
        hasher.add(v.size());
        for (int64_t i : v) hasher.add(i);
    }
    void operator()(const std::vector<std::vector<int64_t>>& v) const {
        hasher.add(v.size());
        for (const auto& list : v) (*this)(list);
    }
};

bool same_bits(std::span<const double> a, std::span<const double> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); });
}

// -0 and 0 are different constants, equal NaNs are one.
bool same_tensor(const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.dims == b.dims && same_bits(a.real, b.real) && a.integer == b.integer;
}

bool same_attr(const AttrValue& a, const AttrValue& b) {
    const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
    return x != nullptr && y != nullptr ? same_bits({x, 1}, {y, 1}) : a == b;
}

class Cleaner {
public:
    explicit Cleaner(const Graph& source) : source_(source), builder_(source.name), copier_(source, builder_) {}

    Result<Graph> run() {
        for (size_t i = 0; i < source_.nodes.size() && !builder_.failed(); ++i) {
            const NodeId id(i);
            switch (source_.node(id).kind) {
                case NodeKind::input:
                case NodeKind::param: copier_.copy(id); break;
                case NodeKind::constant: copier_[id] = constant(id); break;
                case NodeKind::op: copier_[id] = op(id); break;
            }
        }
        builder_.set_provenance(Id<void>::none);
        copier_.copy_outputs();
        copier_.copy_updates();
        return builder_.finish();
    }

private:
    Value constant(NodeId id) {
        const Node& node = source_.node(id);
        const Tensor& tensor = source_.constant(node);
        const uint64_t hash = hash_constant(node.type, tensor);
        if (const Value found = find_constant(hash, node.type, tensor); found.valid()) return found;
        const Value made = copier_.copy(id);
        if (made.valid()) made_[hash].push_back(made.id);
        return made;
    }

    Value splat(const Type& type, const Tensor& value) {
        const uint64_t hash = hash_constant(type, value);
        if (const Value found = find_constant(hash, type, value); found.valid()) return found;
        const Value made = builder_.constant(type, value);
        if (made.valid()) made_[hash].push_back(made.id);
        return made;
    }

    static uint64_t hash_constant(const Type& type, const Tensor& tensor) {
        Hasher hasher;
        hash_type(hasher, type);
        for (double v : tensor.real) hasher.add(v);
        for (int64_t v : tensor.integer) hasher.add(v);
        return hasher.value();
    }

    Value find_constant(uint64_t hash, const Type& type, const Tensor& tensor) {
        for (NodeId id : made_[hash]) {
            const Node& node = builder_.graph().node(id);
            if (node.kind != NodeKind::constant || node.type != type) continue;
            const Tensor& other = builder_.graph().constant(node);
            const bool splats = tensor.count() == 1 && other.count() == 1;  // whatever shape their one element has
            if (splats ? same_bits(tensor.real, other.real) && tensor.integer == other.integer : same_tensor(tensor, other))
                return {&builder_, id};
        }
        return {};
    }

    Value op(NodeId id) {
        const std::vector<Value> operands = copier_.operands(source_.node(id));
        Node node = source_.node(id);
        for (size_t i = 0; i < operands.size(); ++i) node.operands[i] = operands[i].valid() ? operands[i].id : NodeId{};
        builder_.set_provenance(builder_.add_provenance(source_.provenance(id)));
        for (;;) {
            Simplified simpler = simplify(builder_.graph(), node);
            if (simpler.value.valid()) return named({&builder_, simpler.value}, id);
            if (simpler.splat) return named(splat(node.type, *simpler.splat), id);
            if (!simpler.node) break;
            node = std::move(*simpler.node);
        }
        return named(find_or_make(node), id);
    }

    // A name of the source goes to the value that takes its node's place, unless that is a leaf or has one.
    Value named(Value value, NodeId source) {
        const std::string& name = source_.names[source.value];
        if (!value.valid() || name.empty()) return value;
        const Graph& graph = builder_.graph();
        if (graph.node(value.id).kind == NodeKind::op && graph.names[value.id.value].empty()) builder_.set_name(value, name);
        return value;
    }

    Value find_or_make(const Node& node) {
        const std::vector<NodeId> operands = canonical_operands(node);
        Hasher hasher;
        hasher.add(node.op->name);
        for (NodeId operand : operands) hasher.add(operand.value);
        for (const AttrValue& attr : node.attrs) std::visit(AttrHasher{hasher}, attr);
        std::vector<NodeId>& candidates = made_[hasher.value()];
        if (!keeps_its_place(*node.op)) {
            for (NodeId id : candidates) {
                const Node& other = builder_.graph().node(id);
                if (other.kind == NodeKind::op && other.op == node.op && canonical_operands(other) == operands &&
                    std::equal(other.attrs.begin(), other.attrs.end(), node.attrs.begin(), node.attrs.end(), same_attr))
                    return {&builder_, id};
            }
        }
        const Value made = builder_.call_exact(*node.op, values_of(builder_, node.operands), node.attrs);
        if (!made.valid()) return made;
        CHECK(made.type() == node.type, "cleanup changed the type of " + std::string(node.op->name));
        candidates.push_back(made.id);
        return made;
    }

    static std::vector<NodeId> canonical_operands(const Node& node) {
        std::vector<NodeId> operands = node.operands;
        if (node.op->commutative) std::sort(operands.begin(), operands.end());
        return operands;
    }

    const Graph& source_;
    Builder builder_;
    GraphCopier copier_;
    std::unordered_map<uint64_t, std::vector<NodeId>> made_;  // constants and ops of the new graph by structural hash
};

}  // namespace

Result<Graph> cleanup(const Graph& graph) {
    TRY(const Graph simplified, Cleaner(graph).run());
    return remove_dead_code(simplified);
}

}  // namespace darner
