// SPDX-License-Identifier: MIT
// Networks of usual form.
#include "darner/nn/models.h"

namespace darner {

Value mlp(Value x, std::span<const int64_t> hidden, int64_t classes, Where where) {
    Sequential net;
    for (int64_t features : hidden) {
        net.add(linear(features, {}, where));
        net.add(relu(where));
    }
    net.add(linear(classes, {}, where));
    return net(x);
}

}  // namespace darner
