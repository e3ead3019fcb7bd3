// SPDX-License-Identifier: MIT
// A row is reduced by one workgroup. Where there are few rows and they are long (the sum of a whole tensor), most of the device
// would wait: such a reduction becomes two, over pieces of the rows and then over the pieces' results. How many pieces there are
// depends on the shape and on how many workgroups run side by side, so equal devices add in equal order. The same goes for
// contractions of few outputs and a long k.
#pragma once

#include "darner/graph/builder.h"
#include "darner/program/caps.h"

namespace darner::plan {

// The reduction node in two stages, built in `builder`; invalid where one is right. `x`: the operand there.
Value reduce_in_two_stages(Builder& builder, const Graph& graph, NodeId reduction, const Value& x, const Caps& caps);

// The contraction node as a sum of pieces; invalid where it is right as it is.
Value contract_in_pieces(Builder& builder, const Graph& graph, NodeId contraction, const std::vector<Value>& operands,
                         const Caps& caps);

}  // namespace darner::plan
