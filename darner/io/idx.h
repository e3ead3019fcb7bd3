// SPDX-License-Identifier: MIT
// IDX files, the format of MNIST and its kin: a magic number with element type and rank, big-endian extents, big-endian
// elements. Plain or compressed by gzip, which is seen from the contents.
#pragma once

#include "darner/base/files.h"
#include "darner/base/result.h"
#include "darner/io/array.h"

#include <cstddef>
#include <span>
#include <string>

namespace darner {

// A file of a few bytes may unpack to very many; no more than `max_bytes` are ever unpacked.
inline constexpr uint64_t default_max_idx_bytes = uint64_t{4} << 30;

Result<Array> parse_idx(std::span<const std::byte> file, const std::string& where = "idx",
                        uint64_t max_bytes = default_max_idx_bytes);
Result<Array> read_idx(const std::string& path, uint64_t max_bytes = default_max_idx_bytes);

}  // namespace darner
