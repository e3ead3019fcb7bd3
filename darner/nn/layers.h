// SPDX-License-Identifier: MIT
// Layers: ops with params of their own, named and initialised as PyTorch does, so that state dicts fit both ways. A layer is
// called on a Value, or listed in a Sequential:
//     Sequential net{linear(128), relu(), linear(10)};   // params 0.weight, 0.bias, 2.weight, 2.bias
//     Value logits = net(x);
#pragma once

#include "darner/graph/builder.h"
#include "darner/ops/ops.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace darner {

// `name` goes before the param's own, within the builder's scope: "fc1.weight"; empty: "weight".
struct LinearOptions {
    std::string name = {};
    bool bias = true;
    double stddev = 0;  // of a normal start for `weight` with a bias of zeros; 0: PyTorch's uniform start
};
struct EmbeddingOptions {
    std::string name = {};
    DType dtype = DType::f32;
    double stddev = 1;
};
struct RmsNormOptions {
    std::string name = {};
    bool weight = true;
    double eps = 1e-5;
};

// y = x W^T + b over the last axis of x, with W `weight` [out_features, in_features] and b `bias` [out_features], both
// uniform in +-1/sqrt(in_features) at the start.
Value linear(Value x, int64_t out_features, LinearOptions options = {}, Where where = Where::here());

// Rows of `weight` [count, features] by index (i32 or u32), normal at the start; the table itself is what tied output layers
// read.
struct Embedding {
    Value rows, weight;
};
Embedding embedding(Value indices, int64_t count, int64_t features, EmbeddingOptions options = {}, Where where = Where::here());

// rms_norm over the last axis with a scale `weight` of ones.
Value rms_norm(Value x, RmsNormOptions options, Where where = Where::here());

// Uniform numbers in [-bound, bound) for the init of a param: a random stream of its own, read with the module's seed.
Value uniform_init(Builder& builder, const Type& type, double bound, Where where = Where::here());
// The same, normal around 0.
Value normal_init(Builder& builder, const Type& type, double stddev, Where where = Where::here());

// A step from one value to the next.
struct Layer {
    std::function<Value(Value)> apply;
    Value operator()(Value x) const { return apply(x); }
};

Layer linear(int64_t out_features, LinearOptions options = {}, Where where = Where::here());
Layer rms_norm(RmsNormOptions options, Where where = Where::here());
Layer relu(Where where = Where::here());
Layer sigmoid(Where where = Where::here());
Layer tanh(Where where = Where::here());
Layer silu(Where where = Where::here());
Layer mish(Where where = Where::here());
Layer hard_swish(Where where = Where::here());
Layer gelu(std::string_view approximate = "none", Where where = Where::here());
Layer elu(double alpha = 1, Where where = Where::here());
Layer leaky_relu(double negative_slope = 0.01, Where where = Where::here());
Layer softplus(double beta = 1, Where where = Where::here());
Layer max_pool(std::vector<int64_t> window, PoolOptions options = {}, Where where = Where::here());
Layer avg_pool(std::vector<int64_t> window, PoolOptions options = {}, Where where = Where::here());
Layer adaptive_max_pool(std::vector<int64_t> output_size, Where where = Where::here());
Layer adaptive_avg_pool(std::vector<int64_t> output_size, Where where = Where::here());
// Over all axes behind the channels of [N, C, ..], which stay with extent 1.
Value global_max_pool(Value x, Where where = Where::here());
Value global_avg_pool(Value x, Where where = Where::here());
Layer global_max_pool(Where where = Where::here());
Layer global_avg_pool(Where where = Where::here());
Layer flatten(int64_t start_axis = 1, Where where = Where::here());

// Layers one after the other, each in the scope of its index. A Sequential is a layer itself.
class Sequential {
public:
    Sequential() = default;
    Sequential(std::initializer_list<Layer> layers) : layers_(layers) {}
    void add(Layer layer) { layers_.push_back(std::move(layer)); }
    Value operator()(Value x) const;
    operator Layer() const;

private:
    std::vector<Layer> layers_;
};

}  // namespace darner
