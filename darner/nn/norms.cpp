// SPDX-License-Identifier: MIT
// Norms and dropout as layers.
#include "darner/nn/norms.h"

#include <fmt/format.h>

namespace darner {
namespace {

Value fail(Value x, std::string message, Where where) {
    x.builder->fail(invalid(std::move(message), *where.file ? fmt::format("{}:{}", where.file, where.line) : ""));
    return {};
}

class NormLayer {
public:
    NormLayer(Value x, const std::string& name, Where where) : builder_(*x.builder), where_(where) {
        if (!name.empty()) scope_.emplace(builder_, name);
    }

    Value filled(std::string_view name, const Type& type, double start, bool trainable = true) {
        const ParamOptions options{.init = builder_.constant(type, start, where_),
                                   .trainable = trainable,
                                   .role = trainable ? Role::param : Role::statistic};
        return builder_.param(name, type, options, where_);
    }

private:
    Builder& builder_;
    Where where_;
    std::optional<Builder::Scope> scope_;
};

// Whether x can be normalised by channels, and the error if not.
bool has_channels(std::string_view layer, Value x, Where where) {
    if (!x.valid() || x.builder->failed()) return false;
    if (is_float(x.dtype()) && x.rank() >= 2 && x.dims()[1].is_constant()) return true;
    fail(x, fmt::format("[{}] got {}, expected floats [N, C, ..] with a known number of channels C", layer, to_string(x.type())),
         where);
    return false;
}

Type of_channels(Value x, DType dtype) { return {dtype, {x.dims()[1]}}; }

}  // namespace

Value layer_norm(Value x, LayerNormOptions options, Where where) {
    if (!x.valid() || x.builder->failed()) return {};
    const auto axis = normalize_axis(options.axis, x.rank());
    if (!axis || !is_float(x.dtype()))
        return fail(x,
                    fmt::format("[layer_norm] got {} and axis {}, expected floats that have this axis", to_string(x.type()),
                                options.axis),
                    where);
    NormLayer layer(x, options.name, where);
    const Type type{x.dtype(), Dims(x.dims().begin() + static_cast<ptrdiff_t>(*axis), x.dims().end())};
    const Value w = options.weight ? layer.filled("weight", type, 1) : Value{};
    const Value b = options.bias ? layer.filled("bias", type, 0) : Value{};
    return layer_norm(x, w, b, options.axis, options.eps, where);
}

Value group_norm(Value x, int64_t groups, ChannelNormOptions options, Where where) {
    if (!has_channels("group_norm", x, where)) return {};
    NormLayer layer(x, options.name, where);
    const Value w = options.affine ? layer.filled("weight", of_channels(x, x.dtype()), 1) : Value{};
    const Value b = options.affine ? layer.filled("bias", of_channels(x, x.dtype()), 0) : Value{};
    return group_norm(x, groups, w, b, options.eps, where);
}

Value instance_norm(Value x, ChannelNormOptions options, Where where) {
    if (!has_channels("instance_norm", x, where)) return {};
    NormLayer layer(x, options.name, where);
    const Value w = options.affine ? layer.filled("weight", of_channels(x, x.dtype()), 1) : Value{};
    const Value b = options.affine ? layer.filled("bias", of_channels(x, x.dtype()), 0) : Value{};
    return instance_norm(x, w, b, options.eps, where);
}

Value batch_norm(Value x, Mode mode, BatchNormOptions options, Where where) {
    if (!has_channels("batch_norm", x, where)) return {};
    if (options.momentum && !(*options.momentum >= 0 && *options.momentum <= 1))
        return fail(x, fmt::format("[batch_norm] momentum must be between 0 and 1: got {}", *options.momentum), where);
    Builder& b = *x.builder;
    const DType dtype = x.dtype(), wide = byte_size(dtype) < 4 ? DType::f32 : dtype;
    const auto as = [&](Value v, DType to) { return v.dtype() == to ? v : cast(v, to, where); };
    NormLayer layer(x, options.name, where);
    BatchNormOperands operands;
    if (options.affine) {
        operands.w = as(layer.filled("weight", of_channels(x, dtype), 1), wide);
        operands.b = as(layer.filled("bias", of_channels(x, dtype), 0), wide);
    }
    // Statistics are not kept in half precision: small shares of new batches would be lost.
    const Value running_mean = layer.filled("running_mean", of_channels(x, wide), 0, false);
    const Value running_var = layer.filled("running_var", of_channels(x, wide), 1, false);
    const Value values = as(x, wide);
    if (mode == Mode::inference) {
        operands.mean = running_mean;
        operands.variance = running_var;
        return as(batch_norm(values, operands, options.eps, where), dtype);
    }
    const Value tracked = layer.filled("num_batches_tracked", i32(), 0, false);
    const Value seen = add(tracked, b.constant(i32(), 1, where), where);
    const Value share =
        options.momentum ? b.constant({wide, {}}, *options.momentum, where) : reciprocal(cast(seen, wide, where), where);
    std::vector<int64_t> axes = {0};
    for (size_t a = 2; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
    const auto moved = [&](Value running, Value newest) {
        return add(mul(running, sub(b.constant({wide, {}}, 1, where), share, where), where), mul(newest, share, where), where);
    };
    b.update(running_mean, moved(running_mean, mean(values, axes, false, where)), where);
    b.update(running_var, moved(running_var, variance(values, axes, false, 1, where)), where);
    b.update(tracked, seen, where);
    return as(batch_norm(values, operands, options.eps, where), dtype);
}

Value dropout(Value x, Mode mode, double p, Where where) {
    if (!x.valid() || mode == Mode::inference) return x;
    return dropout(x, x.builder->seed(), x.builder->step(), p, where);
}

Layer layer_norm(LayerNormOptions options, Where where) {
    return {[=](Value x) { return layer_norm(x, options, where); }};
}
Layer group_norm(int64_t groups, ChannelNormOptions options, Where where) {
    return {[=](Value x) { return group_norm(x, groups, options, where); }};
}
Layer instance_norm(ChannelNormOptions options, Where where) {
    return {[=](Value x) { return instance_norm(x, options, where); }};
}
Layer batch_norm(Mode mode, BatchNormOptions options, Where where) {
    return {[=](Value x) { return batch_norm(x, mode, options, where); }};
}
Layer dropout(Mode mode, double p, Where where) {
    return {[=](Value x) { return dropout(x, mode, p, where); }};
}

}  // namespace darner
