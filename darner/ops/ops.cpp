// SPDX-License-Identifier: MIT
// The typed calls of ops.h: each passes its arguments to the op of the same name.
#include "darner/ops/ops.h"

#include <algorithm>

namespace darner {
namespace {

using Attrs = std::initializer_list<NamedAttr>;

// Operands that are all invalid leave nothing to report to: an earlier error has been kept by their builder.
Value call(Where where, std::string_view op, std::span<const Value> operands, Attrs attrs = {}) {
    for (const Value& v : operands)
        if (v.builder) return v.builder->call(op, operands, std::span(attrs.begin(), attrs.size()), where);
    return {};
}
Value call(Where where, std::string_view op, std::initializer_list<Value> operands, Attrs attrs = {}) {
    return call(where, op, std::span(operands.begin(), operands.size()), attrs);
}

// A dim of -1 stands for what the others leave over; where nothing fits it stays, and the op explains.
Dims resolve_open_dim(const Value& x, Dims shape) {
    const auto open = std::find(shape.begin(), shape.end(), Dim(-1));
    if (!x.valid() || open == shape.end()) return shape;
    Dim known = 1;
    for (auto d = shape.begin(); d != shape.end(); ++d)
        if (d != open) known = known * *d;
    if (known == Dim(0)) return shape;
    if (const std::optional<Dim> rest = x.type().elements().exact_div(known)) *open = *rest;
    return shape;
}

}  // namespace

Value add(Value a, Value b, Where where) { return call(where, "add", {a, b}); }
Value sub(Value a, Value b, Where where) { return call(where, "sub", {a, b}); }
Value mul(Value a, Value b, Where where) { return call(where, "mul", {a, b}); }
Value div(Value a, Value b, Where where) { return call(where, "div", {a, b}); }
Value rem(Value a, Value b, Where where) { return call(where, "rem", {a, b}); }
Value pow(Value a, Value b, Where where) { return call(where, "pow", {a, b}); }
Value maximum(Value a, Value b, Where where) { return call(where, "maximum", {a, b}); }
Value minimum(Value a, Value b, Where where) { return call(where, "minimum", {a, b}); }
Value neg(Value x, Where where) { return call(where, "neg", {x}); }
Value abs(Value x, Where where) { return call(where, "abs", {x}); }
Value sign(Value x, Where where) { return call(where, "sign", {x}); }
Value exp(Value x, Where where) { return call(where, "exp", {x}); }
Value log(Value x, Where where) { return call(where, "log", {x}); }
Value sqrt(Value x, Where where) { return call(where, "sqrt", {x}); }
Value rsqrt(Value x, Where where) { return call(where, "rsqrt", {x}); }
Value sin(Value x, Where where) { return call(where, "sin", {x}); }
Value cos(Value x, Where where) { return call(where, "cos", {x}); }
Value tanh(Value x, Where where) { return call(where, "tanh", {x}); }
Value sigmoid(Value x, Where where) { return call(where, "sigmoid", {x}); }
Value relu(Value x, Where where) { return call(where, "relu", {x}); }
Value floor(Value x, Where where) { return call(where, "floor", {x}); }

Value eq(Value a, Value b, Where where) { return call(where, "eq", {a, b}); }
Value ne(Value a, Value b, Where where) { return call(where, "ne", {a, b}); }
Value lt(Value a, Value b, Where where) { return call(where, "lt", {a, b}); }
Value le(Value a, Value b, Where where) { return call(where, "le", {a, b}); }
Value gt(Value a, Value b, Where where) { return call(where, "gt", {a, b}); }
Value ge(Value a, Value b, Where where) { return call(where, "ge", {a, b}); }
Value logical_and(Value a, Value b, Where where) { return call(where, "logical_and", {a, b}); }
Value logical_or(Value a, Value b, Where where) { return call(where, "logical_or", {a, b}); }
Value logical_not(Value a, Where where) { return call(where, "logical_not", {a}); }
Value select(Value condition, Value if_true, Value if_false, Where where) {
    return call(where, "select", {condition, if_true, if_false});
}
Value cast(Value x, DType dtype, Where where) { return call(where, "cast", {x}, {{"dtype", dtype}}); }
Value materialize(Value x, Where where) { return call(where, "materialize", {x}); }

Value reshape(Value x, Dims shape, Where where) {
    return call(where, "reshape", {x}, {{"shape", resolve_open_dim(x, std::move(shape))}});
}
Value transpose(Value x, std::vector<int64_t> perm, Where where) { return call(where, "transpose", {x}, {{"perm", perm}}); }
Value broadcast(Value x, Dims shape, std::vector<int64_t> axes, Where where) {
    return call(where, "broadcast", {x}, {{"shape", shape}, {"axes", axes}});
}
Value slice(Value x, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> step, Where where) {
    return call(where, "slice", {x}, {{"start", start}, {"stop", stop}, {"step", step}});
}
Value concat(std::span<const Value> parts, int64_t axis, Where where) { return call(where, "concat", parts, {{"axis", axis}}); }
Value pad(Value x, std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior, double value,
          Where where) {
    return call(where, "pad", {x}, {{"low", low}, {"high", high}, {"interior", interior}, {"value", value}});
}
Value gather(Value table, Value indices, int64_t axis, Where where) {
    return call(where, "gather", {table, indices}, {{"axis", axis}});
}
Value scatter_add(Value indices, Value updates, int64_t size, int64_t axis, Where where) {
    return call(where, "scatter_add", {indices, updates}, {{"size", size}, {"axis", axis}});
}

Value sum(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "sum", {x}, {{"axes", axes}, {"keep", keep}});
}
Value mean(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "mean", {x}, {{"axes", axes}, {"keep", keep}});
}
Value max(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "max", {x}, {{"axes", axes}, {"keep", keep}});
}
Value min(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "min", {x}, {{"axes", axes}, {"keep", keep}});
}
Value argmax(Value x, int64_t axis, bool keep, Where where) {
    return call(where, "argmax", {x}, {{"axis", axis}, {"keep", keep}});
}

Value dot(Value a, Value b, std::vector<std::vector<int64_t>> contract, std::vector<std::vector<int64_t>> batch, Where where) {
    return call(where, "dot", {a, b}, {{"batch", batch}, {"contract", contract}});
}
Value matmul(Value a, Value b, Where where) { return call(where, "matmul", {a, b}); }
Value linear(Value x, Value w, Value b, Where where) { return call(where, "linear", {x, w, b}); }

Value softmax(Value x, int64_t axis, Where where) { return call(where, "softmax", {x}, {{"axis", axis}}); }
Value log_softmax(Value x, int64_t axis, Where where) { return call(where, "log_softmax", {x}, {{"axis", axis}}); }
Value rms_norm(Value x, Value w, Value b, int64_t axis, double eps, Where where) {
    return call(where, "rms_norm", {x, w, b}, {{"axis", axis}, {"eps", eps}});
}
Value cross_entropy(Value logits, Value labels, std::string_view reduction, Where where) {
    return call(where, "cross_entropy", {logits, labels}, {{"reduction", std::string(reduction)}});
}
Value mse(Value prediction, Value target, std::string_view reduction, Where where) {
    return call(where, "mse", {prediction, target}, {{"reduction", std::string(reduction)}});
}

Value random_bits(Value key, Value counter, Dims shape, Where where) {
    return call(where, "random_bits", {key, counter}, {{"shape", shape}});
}
Value uniform(Value key, Value counter, Dims shape, double low, double high, Where where) {
    return call(where, "uniform", {key, counter}, {{"shape", shape}, {"low", low}, {"high", high}});
}
Value normal(Value key, Value counter, Dims shape, double mean, double stddev, Where where) {
    return call(where, "normal", {key, counter}, {{"shape", shape}, {"mean", mean}, {"stddev", stddev}});
}

}  // namespace darner
