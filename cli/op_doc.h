// SPDX-License-Identifier: MIT
// What an op's entry says, as text: pieces that the op commands print, and docs/ops.md as a whole.
#pragma once

#include "darner/graph/op_def.h"

#include <string>

namespace darner::cli {

std::string gradient_kind(const OpDef& op);  // "deriv"
std::string lowering_kind(const OpDef& op);  // "map"

// "cross_entropy(logits, labels, axis=-1, reduction=mean)": required attributes show their kind, optional operands a "?".
std::string signature(const OpDef& op);

// All ops in Markdown: docs/ops.md.
std::string ops_markdown();

}  // namespace darner::cli
