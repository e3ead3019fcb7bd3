// SPDX-License-Identifier: MIT
#include "tests/fuzz_graphs.h"

#include "darner/graph/builder.h"
#include "darner/ops/ops.h"
#include "darner/transform/vjp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

namespace darner::test {
namespace {

constexpr DType device_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8,
                                   DType::u8,  DType::i32, DType::u32,  DType::boolean};
constexpr int64_t max_count = 1200;   // elements of a value
constexpr double max_magnitude = 40;  // of a float value
constexpr double max_slope = 30;      // of an elementwise op

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

class Random {
public:
    explicit Random(uint64_t seed) : bits_(seed) {}
    int64_t below(int64_t n) { return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n)); }
    bool one_in(int64_t n) { return below(n) == 0; }
    double unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
    double signed_unit() { return 2 * unit() - 1; }
    template <class T>
    const T& pick(const std::vector<T>& choices) {
        return choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
    }
    template <class T>
    void shuffle(std::vector<T>& values) {
        for (size_t i = values.size(); i > 1; --i)
            std::swap(values[i - 1], values[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    }

private:
    std::mt19937_64 bits_;
};

// Attributes of one call, from their kinds, names and the operands' types.
class AttrSource {
public:
    AttrSource(Random& random, const std::vector<int64_t>& extents) : random_(random), extents_(extents) {}

    Dims dims(size_t max_rank = 4) {
        Dims dims;
        const auto rank = static_cast<size_t>(random_.below(static_cast<int64_t>(max_rank) + 1));
        for (size_t i = 0; i < rank; ++i) dims.emplace_back(random_.pick(extents_));
        return dims;
    }

    std::vector<NamedAttr> draw(const OpDef& op, std::span<const Type* const> types) {
        std::vector<NamedAttr> attrs;
        const Type empty;
        const Type& x = types.empty() || types[0] == nullptr ? empty : *types[0];
        windowed_ = static_cast<size_t>(1 + random_.below(static_cast<int64_t>(std::clamp<size_t>(x.rank(), 1, 3))));
        if (op.find_attr("groups") != nullptr && x.rank() > 2 && types[1] != nullptr && types[1]->rank() == x.rank())
            return conv_attrs(op, x, *types[1]);
        for (const AttrDef& def : op.attrs) {
            if (def.name == "stream" || (!def.default_text.empty() && random_.one_in(3))) continue;
            attrs.emplace_back(def.name, value(def, op, x, types));
        }
        if (op.find_attr("shape") != nullptr && op.find_attr("axes") != nullptr) spread_axes(attrs, x);
        if (op.find_attr("lengths") != nullptr) fold_axes(attrs, x);
        return attrs;
    }

private:
    // Small numbers for each spatial axis, and groups that the weights may have been made for.
    std::vector<NamedAttr> conv_attrs(const OpDef& op, const Type& x, const Type& w) {
        std::vector<NamedAttr> attrs;
        const auto each = [&](std::string_view name, size_t per_axis, int64_t low, int64_t count) {
            if (op.find_attr(name) == nullptr || random_.one_in(3)) return;
            std::vector<int64_t> list((x.rank() - 2) * per_axis);
            for (int64_t& entry : list) entry = low + random_.below(count);
            attrs.emplace_back(name, list);
        };
        each("strides", 1, 1, 3);
        each("dilation", 1, 1, 3);
        each("padding", 2, -1, 4);
        each("output_padding", 1, 0, 2);
        const int64_t channels = x.dims[1].value(), depth = w.dims[1].value();
        const bool grouped = op.find_attr("output_padding") != nullptr ? random_.one_in(2) : depth < channels;
        if (grouped && channels > 0) attrs.emplace_back("groups", channels);
        return attrs;
    }

    AttrValue value(const AttrDef& def, const OpDef& op, const Type& x, std::span<const Type* const> types) {
        const auto rank = static_cast<int64_t>(x.rank());
        switch (def.kind) {
            case AttrKind::integer: return def.name == "axis" ? random_.below(2 * rank + 1) - rank : random_.below(7);
            case AttrKind::real: return random_.pick<double>({0, 0.5, -1, 0.01, 2});
            case AttrKind::boolean: return random_.one_in(2);
            case AttrKind::choice: return choice(def);
            case AttrKind::integers: return is_of_windows(def.name) ? window_integers(def) : integers(def, op, x);
            case AttrKind::integer_lists: return integer_lists(types);
            case AttrKind::dtype: return device_dtypes[random_.below(std::size(device_dtypes))];
            case AttrKind::dims: return op.operands.empty() || op.has_side_stream ? dims() : reshaped(x);
        }
        return {};
    }

    std::string choice(const AttrDef& def) {
        std::vector<std::string> choices;
        for (size_t at = 0; at <= def.choices.size();) {
            const size_t end = std::min(def.choices.find('|', at), def.choices.size());
            choices.emplace_back(def.choices.substr(at, end - at));
            at = end + 1;
        }
        return random_.pick(choices);
    }

    static bool is_of_windows(std::string_view name) {
        constexpr std::string_view names[] = {"window",    "sizes",    "output_size", "strides", "steps",
                                              "dilations", "dilation", "divisors",    "padding"};
        return std::find(std::begin(names), std::end(names), name) != std::end(names);
    }

    // One entry for each of the axes that windows lie along; of padding two.
    std::vector<int64_t> window_integers(const AttrDef& def) {
        std::vector<int64_t> list(def.name == "padding" ? 2 * windowed_ : windowed_);
        for (int64_t& entry : list) entry = def.name == "padding" ? random_.below(2) : 1 + random_.below(3);
        return list;
    }

    std::vector<int64_t> integers(const AttrDef& def, const OpDef& op, const Type& x) {
        std::vector<int64_t> list(x.rank());
        std::iota(list.begin(), list.end(), 0);
        if (def.name == "perm" || def.name == "axes") {
            random_.shuffle(list);
            if (op.find_attr("sizes") != nullptr)
                list.resize(std::min(windowed_, list.size()));
            else if (def.name == "axes")
                list.resize(static_cast<size_t>(random_.below(static_cast<int64_t>(list.size()) + 1)));
            for (int64_t& axis : list)
                if (random_.one_in(4)) axis -= static_cast<int64_t>(x.rank());
            return list;
        }
        for (int64_t& axis : list) {
            const int64_t extent = x.dims[static_cast<size_t>(axis)].value();
            if (def.name == "start")
                axis = random_.below(std::max<int64_t>(1, extent / 2 + 1));
            else if (def.name == "stop")
                axis = extent - random_.below(std::max<int64_t>(1, extent / 2 + 1));
            else if (def.name == "step")
                axis = 1 + random_.below(3);
            else
                axis = random_.below(3);
        }
        return list;
    }

    // Pairs of axes with equal extents: of the first and of the second operand.
    std::vector<std::vector<int64_t>> integer_lists(std::span<const Type* const> types) {
        std::vector<std::vector<int64_t>> pairs(2);
        if (types.size() < 2 || types[0] == nullptr || types[1] == nullptr) return pairs;
        for (size_t i = 0; i < types[0]->rank(); ++i)
            for (size_t k = 0; k < types[1]->rank(); ++k) {
                const bool used =
                    std::count(pairs[0].begin(), pairs[0].end(), i) || std::count(pairs[1].begin(), pairs[1].end(), k);
                if (used || types[0]->dims[i] != types[1]->dims[k] || random_.one_in(3)) continue;
                pairs[0].push_back(static_cast<int64_t>(i));
                pairs[1].push_back(static_cast<int64_t>(k));
            }
        return pairs;
    }

    // The same elements in other dims: factors of the extents, merged and split at random.
    Dims reshaped(const Type& x) {
        std::vector<int64_t> factors;
        for (int64_t extent : x.shape())
            for (int64_t prime = 2; extent > 1;) {
                if (extent % prime != 0) {
                    ++prime;
                    continue;
                }
                factors.push_back(prime);
                extent /= prime;
            }
        if (x.count() == 0) factors = {0};
        Dims out;
        for (const int64_t factor : factors) {
            if (out.empty() || (out.size() < 4 && random_.one_in(2))) out.emplace_back(1);
            out.back() = out.back() * factor;
        }
        if (out.size() < 4 && random_.one_in(4))
            out.insert(out.begin() + random_.below(static_cast<int64_t>(out.size()) + 1), Dim(1));
        return out;
    }

    // shape and axes of a broadcast: the operand's dims with others between them.
    void spread_axes(std::vector<NamedAttr>& attrs, const Type& x) {
        Dims shape;
        std::vector<int64_t> axes;
        for (const Dim& dim : x.dims) {
            if (shape.size() + x.rank() < 4 && random_.one_in(2)) shape.emplace_back(random_.pick(extents_));
            axes.push_back(static_cast<int64_t>(shape.size()));
            shape.push_back(dim == Dim(1) && random_.one_in(2) ? Dim(random_.pick(extents_)) : dim);
        }
        if (shape.size() < 4) shape.emplace_back(random_.pick(extents_));
        std::erase_if(attrs, [](const NamedAttr& attr) { return attr.first == "shape" || attr.first == "axes"; });
        attrs.emplace_back("shape", std::move(shape));
        attrs.emplace_back("axes", std::move(axes));
    }

    // Axes of a fold, and the lengths that the windows along them reach over.
    void fold_axes(std::vector<NamedAttr>& attrs, const Type& x) {
        const size_t count = std::min(windowed_, x.rank() / 2), outer = x.rank() - count;
        std::vector<int64_t> axes(outer), steps(count), dilations(count), lengths(count);
        std::iota(axes.begin(), axes.end(), 0);
        random_.shuffle(axes);
        axes.resize(count);
        for (size_t i = 0; i < count; ++i) {
            const int64_t windows = x.dims[static_cast<size_t>(axes[i])].value(), size = x.dims[outer + i].value();
            steps[i] = 1 + random_.below(3);
            dilations[i] = 1 + random_.below(2);
            lengths[i] = std::max<int64_t>(0, (windows - 1) * steps[i] + (size - 1) * dilations[i] + 1);
        }
        attrs = {{"axes", axes}, {"lengths", lengths}, {"steps", steps}, {"dilations", dilations}};
    }

    size_t windowed_ = 1;  // axes of windows in this call
    Random& random_;
    const std::vector<int64_t>& extents_;
};

class Generator {
public:
    explicit Generator(const FuzzOptions& options) : options_(options), random_(options.seed * 0x9e3779b97f4a7c15u + 1) {}

    Result<FuzzCase> run() {
        choose_extents();
        make_leaves();
        const int nodes = 4 + static_cast<int>(random_.below(std::max(1, options_.max_nodes - 3)));
        for (int i = 0; i < nodes && !b_.failed(); ++i) add_random_op();
        finish_outputs();
        TRY(case_.graph, b_.finish());
        return std::move(case_);
    }

private:
    // --- leaves -----------------------------------------------------------------------------------------------------
    void choose_extents() {
        std::vector<int64_t> all = {1, 2, 3, 5, 7, 17, 31};
        std::erase_if(all, [&](int64_t extent) { return extent > options_.max_extent; });
        for (int i = 0; i < 3; ++i) extents_.push_back(random_.pick(all));
        if (random_.one_in(10) && options_.max_extent >= 31) extents_.push_back(257);
        if (random_.one_in(12)) extents_.push_back(0);
        half_ = random_.pick<DType>({DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16});
        if (options_.for_differences) half_ = DType::f32;
    }

    Dims fitting_dims() {
        while (true) {
            Dims dims = AttrSource(random_, extents_).dims();
            if (Type{DType::f32, dims}.count() <= max_count) return dims;
        }
    }

    Tensor leaf_value(const Type& type) {
        Tensor tensor = Tensor::zeros(type.dtype, type.shape());
        const bool positive = random_.one_in(4), ties = random_.one_in(5);
        for (int64_t i = 0; i < tensor.count(); ++i) {
            const double magnitude = ties ? 0.5 * static_cast<double>(1 + random_.below(3)) : 0.1 + 1.6 * random_.unit();
            if (is_float(type.dtype))
                tensor.real[i] = round_to(type.dtype, positive || random_.one_in(2) ? magnitude : -magnitude);
            else
                tensor.integer[i] = random_.below(type.dtype == DType::boolean ? 2 : 8) -
                                    (is_signed_integer(type.dtype) && random_.one_in(8) ? 3 : 0);
        }
        return tensor;
    }

    void add_leaf(const std::string& name, const Type& type, bool is_param) {
        const Role role = is_float(type.dtype) ? random_.pick<Role>({Role::param, Role::param, Role::moment}) : Role::counter;
        const Value v = is_param ? b_.param(name, type, {.trainable = role == Role::param, .role = role}) : b_.input(name, type);
        case_.leaves[name] = leaf_value(type);
        (is_param ? params_ : inputs_).push_back(v);
        pool_.push_back(v);
        evaluate_new();
    }

    void make_leaves() {
        const std::vector<DType> integers = {DType::i32, DType::i32, DType::u32, DType::i8, DType::u8, DType::boolean};
        const auto float_dtype = [&] { return random_.one_in(3) ? half_ : DType::f32; };
        const int64_t params = 1 + random_.below(4), inputs = 1 + random_.below(2), others = random_.below(3);
        Dims dims = fitting_dims();
        for (int64_t i = 0; i < params; ++i) {
            if (!random_.one_in(2)) dims = fitting_dims();
            add_leaf(fmt::format("p{}", i), {float_dtype(), dims}, true);
        }
        for (int64_t i = 0; i < inputs; ++i) add_leaf(fmt::format("x{}", i), {float_dtype(), fitting_dims()}, false);
        for (int64_t i = 0; i < others; ++i) add_leaf(fmt::format("k{}", i), {random_.pick(integers), fitting_dims()}, false);
        if (random_.one_in(3)) add_leaf("n", {random_.pick<DType>({DType::i32, DType::u32}), {}}, true);
    }

    // --- values -----------------------------------------------------------------------------------------------------
    const Tensor& tensor(Value v) const { return tensors_[v.id.value]; }

    // The reference's values of the nodes that were added since the last call.
    void evaluate_new() {
        const Graph& graph = b_.graph();
        for (size_t id = tensors_.size(); id < graph.nodes.size() && !b_.failed(); ++id) {
            const Node& node = graph.nodes[id];
            Tensor value;
            if (node.kind == NodeKind::input) value = case_.leaves.at(graph.inputs[node.leaf].name);
            if (node.kind == NodeKind::param) value = case_.leaves.at(graph.params[node.leaf].name);
            if (node.kind == NodeKind::constant) value = whole(graph.constant(node), node.type);
            if (node.kind == NodeKind::op) {
                std::vector<const Tensor*> operands;
                for (NodeId operand : node.operands) operands.push_back(operand.valid() ? &tensors_[operand.value] : nullptr);
                auto result = eval_call(*NodeCall(graph, NodeId(id)), operands);
                if (!result) return b_.fail(result.error());
                value = std::move(*result);
            }
            tensors_.push_back(std::move(value));
        }
    }

    static Tensor whole(Tensor value, const Type& type) {
        const auto count = static_cast<size_t>(type.count());
        if (value.count() == 1) {
            if (!value.real.empty()) value.real.assign(count, value.real[0]);
            if (!value.integer.empty()) value.integer.assign(count, value.integer[0]);
        }
        value.dims = type.shape();
        return value;
    }

    // --- ops --------------------------------------------------------------------------------------------------------
    void add_random_op() {
        const auto all = op_registry().all();
        for (int attempt = 0; attempt < 40; ++attempt) {
            const OpDef& op = *all[static_cast<size_t>(random_.below(static_cast<int64_t>(all.size())))];
            for (int draw = 0; draw < 30; ++draw)
                if (try_op(op, draw % 3 == 2)) {
                    case_.ops.emplace(op.name);
                    return;
                }
        }
    }

    // Later values are likelier, so that graphs get deep; floats with axes too, since most ops want them.
    Value any_value(bool of_any_dtype) {
        const size_t recent = random_.one_in(2) ? std::min<size_t>(pool_.size(), 6) : pool_.size();
        Value v;
        for (int tries = 0; tries < 4; ++tries) {
            v = pool_[pool_.size() - recent + static_cast<size_t>(random_.below(static_cast<int64_t>(recent)))];
            if ((of_any_dtype || is_float(v.dtype())) && (v.rank() > 0 || random_.one_in(4))) break;
        }
        return v;
    }

    // Another operand beside `first`: of its type, of its dtype, any, or indices into it; seldom the same value again.
    Value beside(Value first) {
        const int64_t choice = random_.below(7);
        if (choice == 6 && first.rank() > 0 && first.type().count() > 0) return indices_into(first);
        std::vector<Value> fitting;
        for (const Value& v : pool_)
            if (choice == 0 || (choice < 3 ? v.dtype() == first.dtype() : v.type() == first.type()))
                if (v.id != first.id || random_.one_in(8)) fitting.push_back(v);
        return fitting.empty() ? first : random_.pick(fitting);
    }

    // A label for each row, or one index an axis.
    Value indices_into(Value v) {
        const auto rank = static_cast<int64_t>(v.rank());
        const bool labels = v.dtype() != DType::boolean && random_.one_in(2);
        const Value indices = labels ? argmax(v, random_.below(rank)) : b_.iota(i32({rank}));
        evaluate_new();
        pool_.push_back(indices);
        return indices;
    }

    // Weights for a convolution of x, with all channels in one group or each in its own: the first elements of some value.
    Value weights_for(Value x) {
        const int64_t channels = x.dims()[1].value();
        Dims dims = {channels, 1};
        if (random_.one_in(2)) dims = {1 + random_.below(3), channels};
        if (random_.one_in(3)) std::swap(dims[0], dims[1]);
        for (size_t axis = 2; axis < x.rank(); ++axis) dims.emplace_back(1 + random_.below(3));
        const int64_t count = Type{x.dtype(), dims}.count();
        std::vector<Value> fitting;
        for (const Value& v : pool_)
            if (v.dtype() == x.dtype() && v.type().count() >= count) fitting.push_back(v);
        if (fitting.empty()) return x;
        const Value from = random_.pick(fitting);
        return reshape(slice(reshape(from, {from.type().count()}), {0}, {count}), dims);
    }

    // q, k and v of attention and its kernels: a value's elements as rows of features, in one head or two that may share keys.
    // Empty where there is no such value.
    std::vector<Value> attention_operands(const OpDef& op) {
        const Value x = any_value(false);
        const int64_t count = x.type().count(), features = x.rank() > 0 ? x.dims().back().value() : 1;
        if (!is_float(x.dtype()) || count == 0 || features > 64 || count / features > 64) return {};
        const int64_t rows = count / features, heads = rows % 2 == 0 && random_.one_in(2) ? 2 : 1, length = rows / heads;
        const Value q = reshape(x, {1, heads, length, features});
        const Value k = heads == 2 && random_.one_in(2) ? slice(q, {0, 0, 0, 0}, {1, 1, length, features}) : q;
        std::vector<Value> operands = {q, k, tanh(k)};
        const bool of_mask = op.name == "attention_dmask";
        operands.push_back(of_mask || random_.one_in(3) ? b_.iota(f32({1, 1, 1, length}), 3) : Value{});
        operands.push_back(random_.one_in(3) ? b_.constant(i32({1}), 1) : Value{});
        operands.resize(op.operands.size());
        if (op.operands.back().name == "rows") {
            operands[operands.size() - 2] = tanh(q);
            operands.back() = b_.constant(f32({1, heads, length, 3}), 1.5);
        }
        evaluate_new();
        return operands;
    }

    std::vector<Value> draw_operands(const OpDef& op, bool of_any_dtype) {
        std::vector<Value> operands;
        if (op.operands.size() > 3 && op.operands[0].name == "q") operands = attention_operands(op);
        if (!operands.empty()) return operands;
        if (op.find_attr("groups") != nullptr) {
            const Value x = any_value(false);
            if (x.rank() > 2 && is_float(x.dtype())) {
                operands = {x, weights_for(x), random_.one_in(2) ? beside(x) : Value{}};
                evaluate_new();
                return operands;
            }
        }
        for (const OperandDef& def : op.operands) {
            const int64_t repeats = def.variadic ? 1 + random_.below(3) : 1;
            for (int64_t i = 0; i < repeats; ++i) {
                if (def.optional && random_.one_in(2))
                    operands.push_back({});
                else if (operands.empty())
                    operands.push_back(any_value(of_any_dtype));
                else
                    operands.push_back(beside(operands[0]));
            }
        }
        return operands;
    }

    // NumPy's rule; nothing where the dims do not broadcast.
    static std::optional<Dims> broadcast_dims(std::span<const Value> operands) {
        Dims out;
        for (const Value& v : operands) {
            const Dims& dims = v.dims();
            while (out.size() < dims.size()) out.insert(out.begin(), Dim(1));
            for (size_t i = 0; i < dims.size(); ++i) {
                Dim& at = out[out.size() - dims.size() + i];
                if (at == Dim(1))
                    at = dims[i];
                else if (dims[i] != at && dims[i] != Dim(1))
                    return {};
            }
        }
        return out;
    }

    bool try_op(const OpDef& op, bool of_any_dtype) {
        std::vector<Value> operands = draw_operands(op, of_any_dtype);
        if (op.has_side_stream) {
            if (!random_.one_in(3)) return false;
            operands.resize(op.operands.size() - 2);  // the last two are the key and the counter
            operands.push_back(random_key());
            operands.push_back(random_counter());
            evaluate_new();
        }
        std::optional<Dims> common;
        if (op.batch == Batch::pointwise) {
            common = broadcast_dims(operands);
            if (!common || Type{DType::f32, *common}.count() > max_count) return false;
        }
        std::vector<Type> held;
        for (const Value& v : operands) held.push_back(v.valid() ? (common ? v.type().with(*common) : v.type()) : Type{});
        std::vector<const Type*> types;
        for (size_t i = 0; i < operands.size(); ++i) types.push_back(operands[i].valid() ? &held[i] : nullptr);
        const std::vector<NamedAttr> named = AttrSource(random_, extents_).draw(op, types);
        std::vector<AttrValue> attrs(op_registry().defaults(op).begin(), op_registry().defaults(op).end());
        for (const auto& [name, value] : named) attrs[static_cast<size_t>(op.find_attr(name) - op.attrs.data())] = value;
        if (op.has_side_stream) attrs[static_cast<size_t>(op.find_attr("stream") - op.attrs.data())] = int64_t{0};
        Call call;
        call.op = &op;
        call.types = types;
        call.attrs = attrs;
        const Result<Type> type = op.infer(call);
        if (!type || type->rank() > 5 || type->count() > max_count) return false;
        if (type->dtype == DType::f64 || type->dtype == DType::i64) return false;
        if (options_.for_differences && is_half(type->dtype)) return false;
        call.out = &*type;
        if (!is_tame(call, operands, common)) return false;
        for (Value& v : operands)
            if (common && v.dims() != *common) v = b_.broadcast_to(v, *common);
        const Value result = b_.call(op.name, operands, named);
        evaluate_new();
        if (b_.failed()) return false;
        pool_.push_back(result);
        return true;
    }

    Value random_key() {
        if (!case_.leaves.contains("seed"))
            case_.leaves["seed"] = Tensor::of(DType::u32, {2}, {static_cast<double>(options_.seed % 1000), 7});
        return b_.seed();
    }
    Value random_counter() {
        if (!case_.leaves.contains("step")) case_.leaves["step"] = Tensor::scalar(DType::u32, 3);
        return b_.step();
    }

    // The operand at the call's dims, each element moved by `by` of its size.
    static Tensor moved(const Tensor& t, const std::optional<Dims>& common, double by) {
        Tensor out = t;
        if (common) {
            std::vector<int64_t> dims;
            for (const Dim& dim : *common) dims.push_back(dim.value());
            out = Tensor::zeros(t.dtype, dims);
            std::vector<int64_t> index(dims.size());
            const std::vector<int64_t> strides = row_major_strides(t.dims);
            int64_t i = 0;
            if (out.count() > 0) do {
                    int64_t at = 0;
                    for (size_t axis = 0; axis < t.dims.size(); ++axis)
                        at += t.dims[axis] == 1 ? 0 : strides[axis] * index[index.size() - t.dims.size() + axis];
                    if (is_float(t.dtype))
                        out.real[i] = t.real[at];
                    else
                        out.integer[i] = t.integer[at];
                    ++i;
                } while (next_index(dims, index));
        }
        for (double& v : out.real) v += by * std::max(std::fabs(v), 0.1);
        return out;
    }

    // Whether the values stay of moderate size and, when the operands move a little, move about as much: no pole, no jump.
    bool is_tame(const Call& call, std::span<const Value> operands, const std::optional<Dims>& common) const {
        double margin = 1e-3;
        for (const Value& v : operands)
            if (v.valid() && is_half(v.dtype())) margin = 2e-2;
        std::vector<Tensor> results;
        for (const double by : {0.0, margin, -margin}) {
            std::vector<Tensor> tensors;
            for (const Value& v : operands) tensors.push_back(v.valid() ? moved(tensor(v), common, by) : Tensor{});
            std::vector<const Tensor*> addresses;
            for (size_t i = 0; i < tensors.size(); ++i) addresses.push_back(operands[i].valid() ? &tensors[i] : nullptr);
            auto value = eval_call(call, addresses);
            if (!value) return false;
            results.push_back(std::move(*value));
        }
        const Tensor& at = results[0];
        for (int64_t i = 0; i < at.count(); ++i) {
            if (!is_float(at.dtype)) {
                if (results[1].integer[i] != at.integer[i] || results[2].integer[i] != at.integer[i]) return false;
                continue;
            }
            if (!(std::fabs(at.real[i]) <= max_magnitude)) return false;
            if (!call.op->is_map()) continue;
            for (const Tensor& near : {results[1], results[2]})
                if (!(std::fabs(near.real[i] - at.real[i]) <= max_slope * margin * std::max(1.0, std::fabs(at.real[i]))))
                    return false;
        }
        return true;
    }

    // --- loss, gradients, updates -----------------------------------------------------------------------------------
    // A weighted sum over the value: each element has a cotangent of its own.
    Value term(Value v) {
        Tensor weights = Tensor::zeros(DType::f32, v.type().shape());
        for (double& w : weights.real)
            w = round_to(DType::f32, random_.signed_unit() / std::max<double>(1, static_cast<double>(v.type().count())));
        const Value wide = v.dtype() == DType::f32 ? v : cast(v, DType::f32);
        return sum(wide * b_.constant(v.type().with(DType::f32), std::move(weights)));
    }

    Value loss() {
        std::vector<bool> used(b_.graph().nodes.size());
        for (const Node& node : b_.graph().nodes)
            for (NodeId operand : node.operands)
                if (operand.valid()) used[operand.value] = true;
        Value total = b_.constant(f32(), 0.5);
        for (const Value& v : std::vector<Value>(pool_))
            if (is_float(v.dtype()) && (!used[v.id.value] || random_.one_in(6))) total = total + term(v);
        return total;
    }

    void finish_outputs() {
        const std::vector<Value> drawn = pool_;
        const Value of = loss();
        b_.output("loss", of);
        std::vector<Value> wrt;
        for (const auto* leaves : {&params_, &inputs_})
            for (const Value& v : *leaves)
                if (is_float(v.dtype())) wrt.push_back(v);
        const std::vector<Value> d = gradients(of, wrt);
        size_t next = 0;
        for (const Value& param : params_) {
            Value update;
            if (is_float(param.dtype())) {
                const Value gradient = d[next++];
                if (random_.one_in(3) || options_.for_differences) b_.output(fmt::format("d{}", next), gradient);
                update = updated(param, gradient, drawn);
            } else {
                update = param + b_.constant(param.type(), 1);
            }
            if (!random_.one_in(6)) b_.update(param, update);
        }
        for (; next < d.size(); ++next) b_.output(fmt::format("d{}", next + 1), d[next]);
        for (int64_t i = random_.below(4); i > 0; --i) b_.output(fmt::format("y{}", i), random_.pick(drawn));
        if (case_.leaves.contains("step") && random_.one_in(2)) b_.update(b_.step(), b_.step() + b_.constant(u32(), 1));
    }

    Value updated(Value param, Value gradient, const std::vector<Value>& drawn) {
        std::vector<Value> same;
        for (const Value& v : drawn)
            if (v.type() == param.type()) same.push_back(v);
        switch (random_.below(4)) {
            case 0: return random_.pick(same);  // at least the param itself
            case 1: return param * 0.75 + random_.pick(same) * 0.25;
            default: return param - gradient * 0.125;
        }
    }

    FuzzOptions options_;
    Random random_;
    Builder b_{"fuzz"};
    FuzzCase case_;
    std::vector<int64_t> extents_;
    DType half_ = DType::f32;
    std::vector<Value> params_, inputs_, pool_;  // pool_: what ops may read
    std::vector<Tensor> tensors_;                // a node
};

}  // namespace

Result<FuzzCase> random_case(const FuzzOptions& options) { return Generator(options).run(); }

}  // namespace darner::test
