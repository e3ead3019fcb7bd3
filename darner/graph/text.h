// SPDX-License-Identifier: MIT
// The text form of graphs (.dg), printed and parsed without loss. See docs/text-form.md for the grammar.
#pragma once

#include "darner/graph/graph.h"

#include <string>
#include <string_view>

namespace darner {

// `file` is used in messages ("model.dg:3:14: ..."). All graphs of the file, verified.
Result<Module> parse_module(std::string_view text, std::string_view file = "");
std::string to_text(const Graph& graph);
std::string to_text(const Module& module);

}  // namespace darner
