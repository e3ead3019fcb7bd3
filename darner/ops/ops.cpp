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

template <class T>
AttrValue optional_attr(const std::optional<T>& value) {
    return value ? AttrValue(*value) : AttrValue();
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
Value ceil(Value x, Where where) { return call(where, "ceil", {x}); }
Value trunc(Value x, Where where) { return call(where, "trunc", {x}); }
Value round(Value x, Where where) { return call(where, "round", {x}); }
Value reciprocal(Value x, Where where) { return call(where, "reciprocal", {x}); }
Value exp2(Value x, Where where) { return call(where, "exp2", {x}); }
Value expm1(Value x, Where where) { return call(where, "expm1", {x}); }
Value log2(Value x, Where where) { return call(where, "log2", {x}); }
Value log1p(Value x, Where where) { return call(where, "log1p", {x}); }
Value tan(Value x, Where where) { return call(where, "tan", {x}); }
Value asin(Value x, Where where) { return call(where, "asin", {x}); }
Value acos(Value x, Where where) { return call(where, "acos", {x}); }
Value atan(Value x, Where where) { return call(where, "atan", {x}); }
Value sinh(Value x, Where where) { return call(where, "sinh", {x}); }
Value cosh(Value x, Where where) { return call(where, "cosh", {x}); }
Value asinh(Value x, Where where) { return call(where, "asinh", {x}); }
Value acosh(Value x, Where where) { return call(where, "acosh", {x}); }
Value atanh(Value x, Where where) { return call(where, "atanh", {x}); }
Value erf(Value x, Where where) { return call(where, "erf", {x}); }
Value erfc(Value x, Where where) { return call(where, "erfc", {x}); }
Value mod(Value a, Value b, Where where) { return call(where, "mod", {a, b}); }
Value logaddexp(Value a, Value b, Where where) { return call(where, "logaddexp", {a, b}); }
Value atan2(Value y, Value x, Where where) { return call(where, "atan2", {y, x}); }
Value clamp(Value x, std::optional<double> min, std::optional<double> max, Where where) {
    return call(where, "clamp", {x}, {{"min", optional_attr(min)}, {"max", optional_attr(max)}});
}

Value bitwise_and(Value a, Value b, Where where) { return call(where, "bitwise_and", {a, b}); }
Value bitwise_or(Value a, Value b, Where where) { return call(where, "bitwise_or", {a, b}); }
Value bitwise_xor(Value a, Value b, Where where) { return call(where, "bitwise_xor", {a, b}); }
Value bitwise_not(Value x, Where where) { return call(where, "bitwise_not", {x}); }
Value bitwise_left_shift(Value x, Value count, Where where) { return call(where, "bitwise_left_shift", {x, count}); }
Value bitwise_right_shift(Value x, Value count, Where where) { return call(where, "bitwise_right_shift", {x, count}); }
Value isnan(Value x, Where where) { return call(where, "isnan", {x}); }
Value isinf(Value x, Where where) { return call(where, "isinf", {x}); }
Value isfinite(Value x, Where where) { return call(where, "isfinite", {x}); }

Value silu(Value x, Where where) { return call(where, "silu", {x}); }
Value selu(Value x, Where where) { return call(where, "selu", {x}); }
Value mish(Value x, Where where) { return call(where, "mish", {x}); }
Value softsign(Value x, Where where) { return call(where, "softsign", {x}); }
Value log_sigmoid(Value x, Where where) { return call(where, "log_sigmoid", {x}); }
Value hard_sigmoid(Value x, Where where) { return call(where, "hard_sigmoid", {x}); }
Value hard_swish(Value x, Where where) { return call(where, "hard_swish", {x}); }
Value relu6(Value x, Where where) { return call(where, "relu6", {x}); }
Value gelu(Value x, std::string_view approximate, Where where) {
    return call(where, "gelu", {x}, {{"approximate", std::string(approximate)}});
}
Value elu(Value x, double alpha, Where where) { return call(where, "elu", {x}, {{"alpha", alpha}}); }
Value celu(Value x, double alpha, Where where) { return call(where, "celu", {x}, {{"alpha", alpha}}); }
Value softplus(Value x, double beta, Where where) { return call(where, "softplus", {x}, {{"beta", beta}}); }
Value leaky_relu(Value x, double negative_slope, Where where) {
    return call(where, "leaky_relu", {x}, {{"negative_slope", negative_slope}});
}
Value prelu(Value x, Value weight, int64_t axis, Where where) { return call(where, "prelu", {x, weight}, {{"axis", axis}}); }
Value hard_tanh(Value x, double min, double max, Where where) {
    return call(where, "hard_tanh", {x}, {{"min", min}, {"max", max}});
}
Value thresholded_relu(Value x, double alpha, Where where) { return call(where, "thresholded_relu", {x}, {{"alpha", alpha}}); }
Value glu(Value x, int64_t axis, Where where) { return call(where, "glu", {x}, {{"axis", axis}}); }
Value swiglu(Value gate, Value up, Where where) { return call(where, "swiglu", {gate, up}); }
Value geglu(Value gate, Value up, std::string_view approximate, Where where) {
    return call(where, "geglu", {gate, up}, {{"approximate", std::string(approximate)}});
}

Value eq(Value a, Value b, Where where) { return call(where, "eq", {a, b}); }
Value ne(Value a, Value b, Where where) { return call(where, "ne", {a, b}); }
Value lt(Value a, Value b, Where where) { return call(where, "lt", {a, b}); }
Value le(Value a, Value b, Where where) { return call(where, "le", {a, b}); }
Value gt(Value a, Value b, Where where) { return call(where, "gt", {a, b}); }
Value ge(Value a, Value b, Where where) { return call(where, "ge", {a, b}); }
Value logical_and(Value a, Value b, Where where) { return call(where, "logical_and", {a, b}); }
Value logical_or(Value a, Value b, Where where) { return call(where, "logical_or", {a, b}); }
Value logical_xor(Value a, Value b, Where where) { return call(where, "logical_xor", {a, b}); }
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
Value gather_elements(Value x, Value indices, int64_t axis, Where where) {
    return call(where, "gather_elements", {x, indices}, {{"axis", axis}});
}
Value gather_nd(Value x, Value indices, Where where) { return call(where, "gather_nd", {x, indices}); }
Value dynamic_slice(Value x, Value start, std::vector<int64_t> sizes, Where where) {
    return call(where, "dynamic_slice", {x, start}, {{"sizes", sizes}});
}
Value dynamic_update_slice(Value x, Value update, Value start, Where where) {
    return call(where, "dynamic_update_slice", {x, update, start});
}
Value one_hot(Value indices, int64_t classes, int64_t axis, DType dtype, Where where) {
    return call(where, "one_hot", {indices}, {{"classes", classes}, {"axis", axis}, {"dtype", dtype}});
}
Value stack(std::span<const Value> parts, int64_t axis, Where where) { return call(where, "stack", parts, {{"axis", axis}}); }
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis, Where where) {
    std::vector<Value> parts;
    for (size_t i = 0; i < sizes.size(); ++i)
        parts.push_back(call(where, "split", {x}, {{"sizes", sizes}, {"index", static_cast<int64_t>(i)}, {"axis", axis}}));
    return parts;
}
Value tile(Value x, std::vector<int64_t> repeats, Where where) { return call(where, "tile", {x}, {{"repeats", repeats}}); }
Value repeat_interleave(Value x, int64_t repeats, int64_t axis, Where where) {
    return call(where, "repeat_interleave", {x}, {{"repeats", repeats}, {"axis", axis}});
}
Value reverse(Value x, std::vector<int64_t> axes, Where where) { return call(where, "reverse", {x}, {{"axes", axes}}); }
Value flatten(Value x, int64_t start_axis, int64_t end_axis, Where where) {
    return call(where, "flatten", {x}, {{"start_axis", start_axis}, {"end_axis", end_axis}});
}
Value squeeze(Value x, std::vector<int64_t> axes, Where where) { return call(where, "squeeze", {x}, {{"axes", axes}}); }
Value unsqueeze(Value x, std::vector<int64_t> axes, Where where) { return call(where, "unsqueeze", {x}, {{"axes", axes}}); }
Value pad_edge(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Where where) {
    return call(where, "pad_edge", {x}, {{"low", low}, {"high", high}});
}
Value pad_reflect(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Where where) {
    return call(where, "pad_reflect", {x}, {{"low", low}, {"high", high}});
}
Value tril(Value x, int64_t diagonal, Where where) { return call(where, "tril", {x}, {{"diagonal", diagonal}}); }
Value triu(Value x, int64_t diagonal, Where where) { return call(where, "triu", {x}, {{"diagonal", diagonal}}); }
Value resize(Value x, std::vector<int64_t> axes, std::vector<int64_t> sizes, ResizeOptions options, Where where) {
    return call(
        where, "resize", {x},
        {{"axes", axes}, {"sizes", sizes}, {"mode", std::string(options.mode)}, {"align_corners", options.align_corners}});
}

Value unfold(Value x, std::vector<int64_t> axes, std::vector<int64_t> sizes, const WindowOptions& options, Where where) {
    return call(where, "unfold", {x},
                {{"axes", axes},
                 {"sizes", sizes},
                 {"steps", options.steps},
                 {"dilations", options.dilations},
                 {"divisors", options.divisors}});
}
Value fold(Value y, std::vector<int64_t> axes, std::vector<int64_t> lengths, const WindowOptions& options, Where where) {
    return call(where, "fold", {y},
                {{"axes", axes},
                 {"lengths", lengths},
                 {"steps", options.steps},
                 {"dilations", options.dilations},
                 {"divisors", options.divisors}});
}
Value max_pool(Value x, std::vector<int64_t> window, const PoolOptions& options, Where where) {
    return call(where, "max_pool", {x},
                {{"window", window},
                 {"strides", options.strides},
                 {"padding", options.padding},
                 {"dilation", options.dilation},
                 {"ceil_mode", options.ceil_mode}});
}
Value avg_pool(Value x, std::vector<int64_t> window, const PoolOptions& options, Where where) {
    return call(where, "avg_pool", {x},
                {{"window", window},
                 {"strides", options.strides},
                 {"padding", options.padding},
                 {"dilation", options.dilation},
                 {"ceil_mode", options.ceil_mode},
                 {"count_include_pad", options.count_include_pad}});
}
Value adaptive_max_pool(Value x, std::vector<int64_t> output_size, Where where) {
    return call(where, "adaptive_max_pool", {x}, {{"output_size", output_size}});
}
Value adaptive_avg_pool(Value x, std::vector<int64_t> output_size, Where where) {
    return call(where, "adaptive_avg_pool", {x}, {{"output_size", output_size}});
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
Value argmin(Value x, int64_t axis, bool keep, Where where) {
    return call(where, "argmin", {x}, {{"axis", axis}, {"keep", keep}});
}
Value prod(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "prod", {x}, {{"axes", axes}, {"keep", keep}});
}
Value any(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "any", {x}, {{"axes", axes}, {"keep", keep}});
}
Value all(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "all", {x}, {{"axes", axes}, {"keep", keep}});
}
Value log_sum_exp(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "log_sum_exp", {x}, {{"axes", axes}, {"keep", keep}});
}
Value l1_norm(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "l1_norm", {x}, {{"axes", axes}, {"keep", keep}});
}
Value l2_norm(Value x, std::vector<int64_t> axes, bool keep, Where where) {
    return call(where, "l2_norm", {x}, {{"axes", axes}, {"keep", keep}});
}
Value variance(Value x, std::vector<int64_t> axes, bool keep, int64_t correction, Where where) {
    return call(where, "variance", {x}, {{"axes", axes}, {"keep", keep}, {"correction", correction}});
}
Value std(Value x, std::vector<int64_t> axes, bool keep, int64_t correction, Where where) {
    return call(where, "std", {x}, {{"axes", axes}, {"keep", keep}, {"correction", correction}});
}
Value cumsum(Value x, int64_t axis, bool exclusive, bool reverse, Where where) {
    return call(where, "cumsum", {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
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
Value standardize(Value x, std::vector<int64_t> axes, double eps, Where where) {
    return call(where, "standardize", {x}, {{"axes", axes}, {"eps", eps}});
}
Value layer_norm(Value x, Value w, Value b, int64_t axis, double eps, Where where) {
    return call(where, "layer_norm", {x, w, b}, {{"axis", axis}, {"eps", eps}});
}
Value group_norm(Value x, int64_t groups, Value w, Value b, double eps, Where where) {
    return call(where, "group_norm", {x, w, b}, {{"groups", groups}, {"eps", eps}});
}
Value instance_norm(Value x, Value w, Value b, double eps, Where where) {
    return call(where, "instance_norm", {x, w, b}, {{"eps", eps}});
}
Value batch_norm(Value x, const BatchNormOperands& operands, double eps, Where where) {
    return call(where, "batch_norm", {x, operands.w, operands.b, operands.mean, operands.variance}, {{"eps", eps}});
}
Value cross_entropy(Value logits, Value labels, std::string_view reduction, Where where) {
    return call(where, "cross_entropy", {logits, labels}, {{"reduction", std::string(reduction)}});
}
Value mse(Value prediction, Value target, std::string_view reduction, Where where) {
    return call(where, "mse", {prediction, target}, {{"reduction", std::string(reduction)}});
}
Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options, Where where) {
    return call(where, "cross_entropy", {logits, labels, options.weight},
                {{"axis", options.axis},
                 {"reduction", std::string(options.reduction)},
                 {"ignore_index", optional_attr(options.ignore_index)},
                 {"label_smoothing", options.label_smoothing}});
}
Value nll(Value log_probabilities, Value labels, const NllOptions& options, Where where) {
    return call(where, "nll", {log_probabilities, labels, options.weight},
                {{"axis", options.axis},
                 {"reduction", std::string(options.reduction)},
                 {"ignore_index", optional_attr(options.ignore_index)}});
}
Value l1(Value prediction, Value target, std::string_view reduction, Where where) {
    return call(where, "l1", {prediction, target}, {{"reduction", std::string(reduction)}});
}
Value huber(Value prediction, Value target, double delta, std::string_view reduction, Where where) {
    return call(where, "huber", {prediction, target}, {{"delta", delta}, {"reduction", std::string(reduction)}});
}
Value smooth_l1(Value prediction, Value target, double beta, std::string_view reduction, Where where) {
    return call(where, "smooth_l1", {prediction, target}, {{"beta", beta}, {"reduction", std::string(reduction)}});
}
Value hinge(Value prediction, Value target, double margin, std::string_view reduction, Where where) {
    return call(where, "hinge", {prediction, target}, {{"margin", margin}, {"reduction", std::string(reduction)}});
}
Value hinge_embedding(Value prediction, Value target, double margin, std::string_view reduction, Where where) {
    return call(where, "hinge_embedding", {prediction, target}, {{"margin", margin}, {"reduction", std::string(reduction)}});
}
Value kl_div(Value log_probabilities, Value target, bool log_target, std::string_view reduction, Where where) {
    return call(where, "kl_div", {log_probabilities, target},
                {{"log_target", log_target}, {"reduction", std::string(reduction)}});
}
Value binary_cross_entropy_with_logits(Value logits, Value target, const BinaryCrossEntropyOptions& options, Where where) {
    return call(where, "binary_cross_entropy_with_logits", {logits, target, options.weight, options.pos_weight},
                {{"reduction", std::string(options.reduction)}});
}

Value attention(Value q, Value k, Value v, const AttentionOptions& o, Where where) {
    return call(where, "attention", {q, k, v, o.mask, o.position, o.key, o.counter},
                {{"causal", o.causal},
                 {"window", o.window},
                 {"scale", optional_attr(o.scale)},
                 {"soft_cap", o.soft_cap},
                 {"dropout", o.dropout}});
}

Value rotary(Value x, const RotaryOptions& o, Where where) {
    return call(where, "rotary", {x, o.position},
                {{"theta", o.theta}, {"layout", std::string(o.layout)}, {"dims", optional_attr(o.dims)}, {"offset", o.offset}});
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
Value bernoulli(Value p, Value key, Value counter, Where where) { return call(where, "bernoulli", {p, key, counter}); }
Value dropout(Value x, Value key, Value counter, double p, Where where) {
    return call(where, "dropout", {x, key, counter}, {{"p", p}});
}

}  // namespace darner
