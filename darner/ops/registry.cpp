// SPDX-License-Identifier: MIT
// The explicit list of op families: no static initialisers, so that nothing is lost when a static library is linked.
#include "darner/ops/families.h"

namespace darner {

const OpRegistry& op_registry() {
    static const std::span<const OpDef> families[] = {
        elementwise_ops(), function_ops(),      bit_ops(),      activation_ops(), compare_ops(),   shape_ops(),
        arrange_ops(),     index_ops(),         lookup_ops(),   resize_ops(),     unfold_ops(),    pool_ops(),
        reduce_ops(),      statistics_ops(),    contract_ops(), conv_ops(),       normalize_ops(), norm_ops(),
        loss_ops(),        distance_loss_ops(), random_ops(),   attention_ops(),  rotary_ops()};
    static const OpRegistry registry(families);
    return registry;
}

}  // namespace darner
