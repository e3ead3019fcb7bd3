// SPDX-License-Identifier: MIT
// Unpacks gzip (RFC 1952) from memory, several members included, with a limit on the result.
#pragma once

#include "darner/base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace darner {

bool is_gzip(std::span<const std::byte> bytes);

// Checksums are verified. More than `max_bytes` is an error of kind limit.
Result<std::vector<std::byte>> gunzip(std::span<const std::byte> packed, uint64_t max_bytes, const std::string& where);

}  // namespace darner
