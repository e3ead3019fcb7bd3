// SPDX-License-Identifier: MIT
// The .dp file: a Program, lossless, in one file that C++ devices and browsers load; docs/program-format.md has the layout.
// A file is read whole and believed in nothing: the hash finds damage, each field is checked, the kernels and the Program are
// verified for the Caps in the file. Whether a device has those is for who loads it to ask. Machine code in the file
// (SPIR-V, WGSL) is taken as it is: who loads a file trusts its author as with any program.
#pragma once

#include "darner/base/files.h"
#include "darner/program/program.h"

#include <span>
#include <string>
#include <vector>

namespace darner {

inline constexpr uint32_t dp_format_version = 1;

// By content: whether the bytes, or the beginning of a file, are those of a .dp file.
bool is_dp(std::span<const std::byte> bytes);

// Names and labels must be UTF-8. Equal Programs give equal bytes.
Result<std::vector<std::byte>> to_dp(const Program& program);
// `where` is for messages: the file's name.
Result<Program> parse_dp(std::span<const std::byte> file, const std::string& where = {});

Result<void> write_dp(const std::string& path, const Program& program);  // atomically, see files.h
Result<Program> read_dp(const std::string& path, uint64_t max_bytes = default_max_file_bytes);

// The device features that the kernels need, as the file's header lists them: sorted, each once. "f16_storage",
// "subgroup_size_32", "coop_f16_f32_16x16x16", ...
std::vector<std::string> required_features(const Program& program);

}  // namespace darner
