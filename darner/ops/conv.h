// SPDX-License-Identifier: MIT
// The geometry of a convolution, axis by axis, and the convolutions that its gradients are: what conv.cpp and
// conv_gradient.cpp share.
#pragma once

#include "darner/ops/infer.h"
#include "darner/ops/ops.h"

#include <vector>

namespace darner {

// The attributes with defaults filled in, one entry for each of `spatial` axes.
ConvGeometry conv_geometry(const Call& c, size_t spatial);
inline int64_t low_padding(const ConvGeometry& g, size_t axis) { return g.padding[2 * axis]; }
inline int64_t high_padding(const ConvGeometry& g, size_t axis) { return g.padding[2 * axis + 1]; }

// x[n, c, p] from dy[n, o, i] and w[o, c, t]: the transpose of y = conv(x, w) by x, whose type the result has.
Value conv_transpose_data(Value dy, Value w, const Dims& x_dims, const ConvGeometry& geometry);
// w[o, c, t] from x and dy: the transpose of y = conv(x, w) by w.
Value conv_transpose_weight(Value x, Value dy, const Dims& w_dims, const ConvGeometry& geometry);
// Whether all extents of x and w but the batch are known, which the transposes take apart; else the builder fails with a message
// that names the op.
bool has_known_extents(const BuildCall& c);

}  // namespace darner
