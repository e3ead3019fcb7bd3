// SPDX-License-Identifier: MIT
// The Builder: leaves, constants, calls by name, and the checks that give a user's mistake its place. Operators of Value are in
// value.cpp, copying of graphs in copier.cpp.
#include "darner/graph/builder.h"

#include "darner/base/nearest.h"
#include "darner/graph/attr.h"
#include "darner/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace darner {

namespace {

// What rounding to the constant's dtype leaves of a value; why it may not.
std::string round_constant(DType dtype, double& value) {
    if (is_float(dtype)) {
        const double rounded = round_to(dtype, value);
        if (std::isfinite(value) && !std::isfinite(rounded)) return fmt::format("{} overflows {}", value, to_string(dtype));
        value = rounded;
        return {};
    }
    // In double the end of the i64 range saturates to a value that compares equal, so it is excluded by hand.
    const bool end_of_i64 = dtype == DType::i64 && value >= 0x1p63;
    if (end_of_i64 || static_cast<double>(saturate_to(dtype, value)) != value)
        return fmt::format("{} is not a value of {}", value, to_string(dtype));
    return {};
}

std::string round_constant(Tensor& value) {
    for (double& element : value.real)
        if (std::string why = round_constant(value.dtype, element); !why.empty()) return why;
    for (int64_t element : value.integer)
        if (wrap_to(value.dtype, element) != element)
            return fmt::format("{} is not a value of {}", element, to_string(value.dtype));
    return {};
}

}  // namespace

Builder::Builder(std::string graph_name) { graph_.name = std::move(graph_name); }

// --- errors and provenance ------------------------------------------------------------------------------------------

void Builder::fail(Error error) {
    if (failed_) return;
    failed_ = true;
    error_ = std::move(error);
}

Value Builder::fail_at(Where where, std::string message, std::string hint) {
    std::string source;
    if (copied_provenance_ != Id<void>::none)
        source = graph_.provenances[copied_provenance_].text();
    else if (const Where at = place_.value_or(where); *at.file)
        source = fmt::format("{}:{}", at.file, at.line);
    Error error = invalid(std::move(message), std::move(source));
    error.hint = std::move(hint);
    fail(std::move(error));
    return {this, {}};
}

uint32_t Builder::add_provenance(Provenance provenance) {
    const std::string key = fmt::format("{}\n{}\n{}", provenance.scope, provenance.file, provenance.line);
    if (provenance == Provenance{}) return 0;
    const auto [entry, is_new] = provenance_ids_.try_emplace(key, static_cast<uint32_t>(graph_.provenances.size()));
    if (is_new) graph_.provenances.push_back(std::move(provenance));
    return entry->second;
}

uint32_t Builder::provenance_of(Where where) {
    if (copied_provenance_ != Id<void>::none) return copied_provenance_;
    const Where at = place_.value_or(where);
    return add_provenance({scope_, at.file, at.line});
}

void Builder::set_provenance_since(size_t first_node, uint32_t provenance) {
    for (size_t i = first_node; i < graph_.nodes.size(); ++i) graph_.nodes[i].provenance = provenance;
}

void Builder::set_name(Value v, std::string_view name) {
    if (failed_ || !check_owner("set_name", v, {})) return;
    graph_.names[v.id.value] = name;
}

bool Builder::check_owner(std::string_view what, Value v, Where where) {
    if (v.valid() && v.builder == this) return true;
    fail_at(where, fmt::format("[{}] {}", what, v.valid() ? "the value belongs to another builder" : "the value is missing"));
    return false;
}

// --- scopes ---------------------------------------------------------------------------------------------------------

Builder::Scope::Scope(Builder& builder, std::string_view name) : builder_(builder), length_(builder.scope_.size()) {
    builder_.scope_ = builder_.scoped(name);
}
Builder::Scope::~Scope() { builder_.scope_.resize(length_); }

Builder::Place::Place(Builder& builder, Where where) : builder_(builder), outermost_(!builder.place_) {
    if (outermost_) builder.place_ = where;
}
Builder::Place::~Place() {
    if (outermost_) builder_.place_.reset();
}

std::string Builder::scoped(std::string_view name) const {
    return scope_.empty() ? std::string(name) : fmt::format("{}.{}", scope_, name);
}

// --- leaves ---------------------------------------------------------------------------------------------------------

Value Builder::add_node(Node node, Where where) {
    CHECK(graph_.nodes.size() < Id<void>::none, "too many nodes");
    const NodeId id(graph_.nodes.size());
    node.provenance = provenance_of(where);
    types_.push_back(node.type);
    graph_.nodes.push_back(std::move(node));
    graph_.names.emplace_back();
    return {this, id};
}

bool Builder::check_leaf(std::string_view kind, std::string_view name, const Type& type, Where where) {
    if (name.empty()) return fail_at(where, fmt::format("[{}] a name is needed: got an empty one", kind)), false;
    if (leaves_.contains(std::string(name)))
        return fail_at(where, fmt::format("[{}] the name \"{}\" is taken by another input or param", kind, name)), false;
    if (Result<void> checked = check_type(type); !checked)
        return fail_at(where, fmt::format("[{}] \"{}\": {}", kind, name, checked.error().message)), false;
    return true;
}

Value Builder::input(std::string_view name, Type type, Where where) {
    return add_input({std::string(name), {}, false}, std::move(type), where, false);
}

Value Builder::input_per_step(std::string_view name, Type type, Where where) {
    return add_input({std::string(name), {}, true}, std::move(type), where, false);
}

Value Builder::param(std::string_view name, Type type, ParamOptions options, Where where) {
    if (failed_) return {this, {}};
    if ((options.init.builder || options.init.valid()) && !check_owner("param", options.init, where)) return {this, {}};
    const std::string full_name = name.empty() ? std::string() : scoped(name);
    return add_param({full_name, {}, options.init.id, options.trainable, options.role}, std::move(type), where, false);
}

Value Builder::add_input(GraphInput input, Type type, Where where, bool share) {
    if (failed_) return {this, {}};
    const auto found = leaves_.find(input.name);
    if (share && found != leaves_.end()) {
        const Node& node = graph_.node(found->second);
        if (node.kind == NodeKind::input && node.type == type && graph_.inputs[node.leaf].per_step == input.per_step)
            return {this, found->second};
    }
    if (!check_leaf("input", input.name, type, where)) return {this, {}};
    Node node;
    node.kind = NodeKind::input;
    node.type = std::move(type);
    node.leaf = static_cast<uint32_t>(graph_.inputs.size());
    const Value v = add_node(std::move(node), where);
    input.node = v.id;
    leaves_.emplace(input.name, v.id);
    graph_.inputs.push_back(std::move(input));
    return v;
}

Value Builder::add_param(GraphParam param, Type type, Where where, bool share) {
    if (failed_) return {this, {}};
    const auto found = leaves_.find(param.name);
    if (share && found != leaves_.end()) {
        const Node& node = graph_.node(found->second);
        if (node.kind == NodeKind::param && node.type == type) return {this, found->second};
    }
    if (!check_leaf("param", param.name, type, where)) return {this, {}};
    if (param.init.valid() && graph_.type(param.init) != type)
        return fail_at(where, fmt::format("[param] wrong type of the init of \"{}\": got {}, expected {}", param.name,
                                          to_string(graph_.type(param.init)), to_string(type)));
    Node node;
    node.kind = NodeKind::param;
    node.type = std::move(type);
    node.leaf = static_cast<uint32_t>(graph_.params.size());
    const Value v = add_node(std::move(node), where);
    param.node = v.id;
    leaves_.emplace(param.name, v.id);
    graph_.params.push_back(std::move(param));
    updated_.push_back(false);
    return v;
}

Value Builder::find_or_add_state(std::string_view name, Type type, bool starts_at_zero) {
    if (failed_) return {this, {}};
    if (const auto found = leaves_.find(std::string(name)); found != leaves_.end()) {
        const Node& node = graph_.node(found->second);
        if (node.kind == NodeKind::param && node.type == type) return {this, found->second};
        return fail_at({}, fmt::format("[{0}] \"{0}\" is kept for the module's own param of type {1}: got {2}", name,
                                       to_string(type), graph_.describe(found->second)));
    }
    const std::string scope = std::exchange(scope_, {});
    const Value init = starts_at_zero ? constant(type, 0, Where{}) : Value{};
    const Value v = add_param({std::string(name), {}, init.id, false, Role::counter}, std::move(type), {}, false);
    scope_ = scope;
    return v;
}

Value Builder::seed() { return find_or_add_state("seed", u32({2}), false); }
Value Builder::step() { return find_or_add_state("step", u32(), true); }

// --- constants ------------------------------------------------------------------------------------------------------

Value Builder::constant(Type type, Tensor value, Where where) {
    if (failed_) return {this, {}};
    const auto fail = [&](const std::string& why) { return fail_at(where, fmt::format("[constant] {}", why)); };
    if (Result<void> checked = check_type(type); !checked) return fail(checked.error().message);
    if (value.dtype != type.dtype)
        return fail(fmt::format("wrong dtype of the values: got {}, expected {}", to_string(value.dtype), to_string(type.dtype)));
    const bool is_splat = value.count() == 1;
    if (!is_splat && (!type.is_concrete() || value.count() != type.count()))
        return fail(fmt::format("wrong number of values: got {}, expected 1 or those of {}", value.count(), to_string(type)));
    if (std::string why = round_constant(value); !why.empty()) return fail(why);
    // One form for equal constants: a splat has no dims of its own, other values have the type's.
    value.dims = is_splat ? std::vector<int64_t>() : type.shape();
    Node node;
    node.kind = NodeKind::constant;
    node.type = std::move(type);
    node.leaf = static_cast<uint32_t>(graph_.constants.size());
    graph_.constants.push_back(std::make_shared<const Tensor>(std::move(value)));
    return add_node(std::move(node), where);
}

Value Builder::constant(Tensor value, Where where) {
    Type type = value.type();
    return constant(std::move(type), std::move(value), where);
}

Value Builder::constant(Type type, double splat, Where where) {
    if (failed_) return {this, {}};
    if (std::string why = round_constant(type.dtype, splat); !why.empty())
        return fail_at(where, fmt::format("[constant] {}", why));
    Tensor value = Tensor::scalar(type.dtype, splat);
    return constant(std::move(type), std::move(value), where);
}

Value Builder::iota(Type type, int64_t axis, Where where) {
    return call("iota", {}, {{"shape", type.dims}, {"dtype", type.dtype}, {"axis", axis}}, where);
}

// --- calls ----------------------------------------------------------------------------------------------------------

Value Builder::call(std::string_view op, std::initializer_list<Value> operands, std::initializer_list<NamedAttr> attrs,
                    Where where) {
    return call(op, std::span<const Value>(operands.begin(), operands.size()),
                std::span<const NamedAttr>(attrs.begin(), attrs.size()), where);
}

Value Builder::call(std::string_view name, std::span<const Value> operands, std::span<const NamedAttr> given, Where where) {
    if (failed_) return {this, {}};
    const OpDef* op = op_registry().find(name);
    if (!op) {
        const std::string nearest = op_registry().nearest(name);
        return fail_at(where, fmt::format("[{}] there is no op of this name", name),
                       nearest.empty() ? "" : fmt::format("did you mean \"{}\"?", nearest));
    }
    std::vector<AttrValue> attrs;
    if (!resolve_attrs(*op, given, attrs, where)) return {this, {}};
    std::vector<Value> values(operands.begin(), operands.end());
    if (!check_operands(*op, values, where)) return {this, {}};
    if (op->batch == Batch::pointwise && !broadcast_operands(*op, values, where)) return {this, {}};
    return call_resolved(*op, std::move(values), std::move(attrs), where);
}

Value Builder::call_exact(const OpDef& op, std::span<const Value> operands, std::vector<AttrValue> attrs, Where where) {
    if (failed_) return {this, {}};
    CHECK(attrs.size() == op.attrs.size(),
          fmt::format("[{}] {} attributes instead of {}", op.name, attrs.size(), op.attrs.size()));
    std::vector<Value> values(operands.begin(), operands.end());
    if (!check_operands(op, values, where)) return {this, {}};
    return call_resolved(op, std::move(values), std::move(attrs), where);
}

bool Builder::resolve_attrs(const OpDef& op, std::span<const NamedAttr> given, std::vector<AttrValue>& attrs, Where where) {
    const auto fail = [&](const std::string& why, std::string hint = {}) {
        fail_at(where, fmt::format("[{}] {}", op.name, why), std::move(hint));
        return false;
    };
    const std::span<const AttrValue> defaults = op_registry().defaults(op);
    attrs.assign(defaults.begin(), defaults.end());
    std::vector<bool> set(op.attrs.size());
    for (const auto& [name, value] : given) {
        const AttrDef* def = op.find_attr(name);
        if (!def) {
            std::vector<std::string_view> names;
            for (const AttrDef& known : op.attrs) names.push_back(known.name);
            return fail(fmt::format("there is no attribute \"{}\"", name), did_you_mean(name, names));
        }
        const auto i = static_cast<size_t>(def - op.attrs.data());
        if (set[i]) return fail(fmt::format("the attribute \"{}\" is given twice", name));
        std::optional<AttrValue> converted = convert_attr(*def, value);
        if (!converted)
            return fail(fmt::format("wrong value of \"{}\": got {}, expected {}", name, to_text(value), expected_text(*def)));
        attrs[i] = std::move(*converted);
        set[i] = true;
    }
    for (size_t i = 0; i < op.attrs.size(); ++i) {
        const AttrDef& def = op.attrs[i];
        if (op.has_side_stream && def.name == "stream" && !set[i]) {
            attrs[i] = static_cast<int64_t>(new_stream());
        } else if (def.default_text.empty() && !set[i]) {
            return fail(fmt::format("the attribute \"{}\" is missing: expected {}", def.name, expected_text(def)));
        }
    }
    return true;
}

// Fills up the operands that were left out at the end, so that a node has one entry for each operand of its op.
bool Builder::check_operands(const OpDef& op, std::vector<Value>& operands, Where where) {
    const auto fail = [&](const std::string& why) {
        fail_at(where, fmt::format("[{}] {}", op.name, why));
        return false;
    };
    const size_t most = op.operands.size(), least = op.required_operands();
    const bool variadic = most > 0 && op.operands.back().variadic;
    if (operands.size() < most) operands.resize(most);
    while (!variadic && operands.size() > most && !operands.back().valid()) operands.pop_back();
    const size_t given = static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [](Value v) { return v.valid(); }));
    if (operands.size() > most && !variadic)
        return fail(fmt::format("wrong number of operands: got {}, expected {}{}", given, least == most ? "" : "at most ", most));
    for (size_t i = 0; i < operands.size(); ++i) {
        const OperandDef& def = op.operands[std::min(i, most - 1)];
        if (!operands[i].valid()) {
            if (!def.optional) return fail(fmt::format("the operand \"{}\" is missing", def.name));
            operands[i] = {};
        } else if (operands[i].builder != this) {
            return fail(fmt::format("the operand \"{}\" belongs to another builder", def.name));
        }
    }
    return true;
}

// Dims that come as attributes are bounded before inference computes with them.
bool Builder::check_attr_dims(const OpDef& op, const std::vector<AttrValue>& attrs, Where where) {
    for (size_t i = 0; i < attrs.size(); ++i) {
        const auto* dims = std::get_if<Dims>(&attrs[i]);
        if (!dims) continue;
        if (Result<void> checked = check_dims(*dims); !checked)
            return fail_at(where, fmt::format("[{}] {}: {}", op.name, op.attrs[i].name, checked.error().message)), false;
    }
    return true;
}

Value Builder::call_resolved(const OpDef& op, std::vector<Value> operands, std::vector<AttrValue> attrs, Where where) {
    if (!check_attr_dims(op, attrs, where)) return {this, {}};
    std::vector<const Type*> types;
    Node node;
    for (Value v : operands) {
        types.push_back(v.valid() ? &v.type() : nullptr);
        node.operands.push_back(v.valid() ? v.id : NodeId());
    }
    Call call;
    call.op = &op;
    call.types = types;
    call.attrs = attrs;
    Result<Type> type = op.infer(call);
    if (!type) return fail_at(where, type.error().message, type.error().hint);
    if (Result<void> checked = check_type(*type); !checked)
        return fail_at(where, fmt::format("[{}] {}", op.name, checked.error().message));
    if (op.has_side_stream) {
        // Streams that come with copied nodes are taken.
        if (const auto* stream = std::get_if<int64_t>(&call.attr("stream"));
            stream && *stream >= next_stream_ && *stream < UINT32_MAX)
            next_stream_ = static_cast<uint32_t>(*stream) + 1;
    }
    node.op = &op;
    node.attrs = std::move(attrs);
    node.type = std::move(*type);
    return add_node(std::move(node), where);
}

// --- broadcasting ---------------------------------------------------------------------------------------------------

bool Builder::broadcast_operands(const OpDef& op, std::vector<Value>& operands, Where where) {
    Dims dims;
    bool differ = false;
    const Dims* first = nullptr;
    for (Value v : operands) {
        if (!v.valid()) continue;
        if (first && *first != v.dims()) differ = true;
        if (!first) first = &v.dims();
        if (v.rank() > dims.size()) dims.insert(dims.begin(), v.rank() - dims.size(), Dim(1));
    }
    if (!differ) return true;
    for (Value v : operands) {
        if (!v.valid()) continue;
        const size_t offset = dims.size() - v.rank();
        for (size_t i = 0; i < v.rank(); ++i) {
            Dim& have = dims[offset + i];
            const Dim& dim = v.dims()[i];
            if (dim == have || dim == Dim(1)) continue;
            if (have == Dim(1)) {
                have = dim;
                continue;
            }
            std::vector<std::string> shapes;
            for (Value each : operands)
                if (each.valid()) shapes.push_back(to_string(each.dims()));
            const bool undecided = !dim.is_constant() || !have.is_constant();
            fail_at(where,
                    fmt::format("[{}] shapes do not broadcast: got {}, and {} is not {}", op.name, fmt::join(shapes, " and "),
                                dim.text(), have.text()),
                    undecided ? fmt::format("assume {} = {} if they are meant to be equal", dim.text(), have.text()) : "");
            return false;
        }
    }
    for (Value& v : operands)
        if (v.valid()) v = broadcast_to(v, dims, where);
    return !failed_;
}

// NumPy's rule: shapes align at their last dims. Dims of 1 that are stretched leave by a reshape; the rest keep their place.
Value Builder::broadcast_to(Value v, const Dims& dims, Where where) {
    if (failed_) return {this, {}};
    if (!check_owner("broadcast", v, where)) return {this, {}};
    if (v.dims() == dims) return v;
    const size_t offset = dims.size() - v.rank();
    const auto mismatch = [&] {
        return fail_at(where, fmt::format("[broadcast] {} does not broadcast to {}", to_string(v.dims()), to_string(dims)));
    };
    if (v.rank() > dims.size()) return mismatch();
    Dims kept;
    std::vector<int64_t> axes;
    for (size_t i = 0; i < v.rank(); ++i) {
        if (v.dims()[i] == dims[offset + i]) {
            kept.push_back(v.dims()[i]);
            axes.push_back(static_cast<int64_t>(offset + i));
        } else if (v.dims()[i] != Dim(1)) {
            return mismatch();
        }
    }
    if (kept.size() != v.rank()) v = call("reshape", {v}, {{"shape", kept}}, where);
    return call("broadcast", {v}, {{"shape", dims}, {"axes", axes}}, where);
}

// --- results --------------------------------------------------------------------------------------------------------

void Builder::output(std::string_view name, Value v, Where where) {
    if (failed_ || !check_owner("output", v, where)) return;
    if (name.empty()) return void(fail_at(where, "[output] a name is needed: got an empty one"));
    if (!outputs_.emplace(name, v.id).second)
        return void(fail_at(where, fmt::format("[output] the name \"{}\" is taken by another output", name)));
    graph_.outputs.push_back({std::string(name), v.id});
}

void Builder::output_per_step(std::string_view name, Value v, Where where) {
    const size_t before = graph_.outputs.size();
    output(name, v, where);
    if (graph_.outputs.size() > before) graph_.outputs.back().per_step = true;
}

void Builder::update(Value param, Value value, Where where) {
    if (failed_ || !check_owner("update", param, where) || !check_owner("update", value, where)) return;
    const Node& node = graph_.node(param.id);
    if (node.kind != NodeKind::param)
        return void(fail_at(where, fmt::format("[update] only a param can be updated: got {}", graph_.describe(param.id))));
    const std::string& name = graph_.params[node.leaf].name;
    if (updated_[node.leaf]) return void(fail_at(where, fmt::format("[update] the param \"{}\" is updated twice", name)));
    if (value.type() != node.type)
        return void(fail_at(where, fmt::format("[update] wrong type of the new value of \"{}\": got {}, expected {}", name,
                                               to_string(value.type()), to_string(node.type))));
    updated_[node.leaf] = true;
    graph_.updates.push_back({param.id, value.id});
}

Result<Graph> Builder::finish() {
    if (failed_) return error_;
    TRY(verify(graph_));
    failed_ = true;
    error_ = invalid("[builder] used after finish()");
    return std::move(graph_);
}

}  // namespace darner
