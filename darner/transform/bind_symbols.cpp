// SPDX-License-Identifier: MIT
// Concrete dims in place of symbols: leaves and attributes are bound, the types of ops follow by inference.
#include "darner/graph/build_call.h"
#include "darner/transform/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace darner {
namespace {

class SymbolBinder {
public:
    SymbolBinder(const Graph& source, const SymbolBindings& bindings)
        : source_(source), bindings_(bindings), builder_(source.name), copier_(source, builder_) {}

    Result<Graph> run() {
        for (size_t i = 0; i < source_.nodes.size() && !builder_.failed(); ++i) copier_[NodeId(i)] = bound(NodeId(i));
        builder_.set_provenance(Id<void>::none);
        if (!errors_.empty()) {
            Error error = invalid(fmt::format("[bind_symbols] graph {}: {}", source_.name, fmt::join(errors_, "; ")));
            error.hint = "give each symbol a number; on the command line with --dim NAME=N";
            return error;
        }
        copier_.copy_outputs();
        copier_.copy_updates();
        return builder_.finish();
    }

private:
    Value bound(NodeId id) {
        const Node& node = source_.node(id);
        const Type type = bound(node.type);
        builder_.set_provenance(builder_.add_provenance(source_.provenance(id)));
        switch (node.kind) {
            case NodeKind::input: {
                const GraphInput& input = source_.inputs[node.leaf];
                return input.per_step ? builder_.input_per_step(input.name, type) : builder_.input(input.name, type);
            }
            case NodeKind::param: {
                const GraphParam& param = source_.params[node.leaf];
                const Value init = param.init.valid() ? copier_[param.init] : Value{};
                return builder_.param(param.name, type, {.init = init, .trainable = param.trainable, .role = param.role});
            }
            // Only a splat can have symbols in its type.
            case NodeKind::constant:
                return type == node.type ? copier_.copy(id) : builder_.constant(type, source_.constant(node).at(0));
            case NodeKind::op: break;
        }
        std::vector<AttrValue> attrs = node.attrs;
        for (AttrValue& attr : attrs)
            if (Dims* dims = std::get_if<Dims>(&attr)) *dims = bound({DType::f32, *dims}).dims;
        const Value value = builder_.call_exact(*node.op, copier_.operands(node), std::move(attrs));
        if (errors_.empty() && value.valid() && value.type() != type)
            errors_.insert(
                fmt::format("{} becomes {}, expected {}", source_.describe(id), to_string(value.type()), to_string(type)));
        if (value.valid() && !source_.names[id.value].empty()) builder_.set_name(value, source_.names[id.value]);
        return value;
    }

    Type bound(Type type) {
        for (Dim& dim : type.dims) {
            if (dim.is_constant()) continue;
            const Result<int64_t> value = dim.bind(bindings_);
            if (!value)
                errors_.insert(value.error().message);
            else if (*value < 0)
                errors_.insert(fmt::format("{} is {}: a dim cannot be negative", dim.text(), *value));
            dim = value && *value >= 0 ? Dim(*value) : Dim(1);
        }
        return type;
    }

    const Graph& source_;
    const SymbolBindings& bindings_;
    Builder builder_;
    GraphCopier copier_;
    std::set<std::string> errors_;  // all of them, each once
};

}  // namespace

Result<Graph> bind_symbols(const Graph& graph, const SymbolBindings& bindings) { return SymbolBinder(graph, bindings).run(); }

}  // namespace darner
