// SPDX-License-Identifier: MIT
// Attribute values: do they fit a definition, and how numbers are spelled. parse_attr and to_text are in op_def.h.
#pragma once

#include "darner/graph/op_def.h"

#include <optional>
#include <string>
#include <string_view>

namespace darner {

// Whether a value is of the attribute's kind (monostate: where it may be left out). What it should be, if not.
bool fits(const AttrDef& def, const AttrValue& value);
std::string expected_text(const AttrDef& def);
// A caller's value made to fit: integers are accepted for reals and dims, the name of a dtype for a dtype.
std::optional<AttrValue> convert_attr(const AttrDef& def, const AttrValue& value);

// "3", "-1e-5", "0x1.8p-3", "inf", "-inf", "nan"; nothing for other text and for what a double or int64 cannot hold.
std::optional<double> parse_real(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);
std::string real_text(double value);      // the shortest decimal that reads back as the same
std::string hex_real_text(double value);  // "0x1.8p-3"

}  // namespace darner
