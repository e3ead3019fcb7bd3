// SPDX-License-Identifier: MIT
// The JSON header of a .dp file and the blobs that it points to. One description of each struct serves both directions, so that
// what is written is what is read.
#pragma once

#include "darner/program/program.h"

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

using Blob = std::span<const std::byte>;

// Blobs lie one behind the other in the order of the header, each at a multiple of this.
inline constexpr uint64_t blob_alignment = 8;

// Where the header keeps the content hash; its digits count as zeros in the hash itself.
inline constexpr std::string_view header_begin = "{\"hash\":\"";
inline constexpr size_t hash_digits = 64;

struct DpContents {
    std::string header;             // with zeros for the hash
    std::vector<Blob> blobs;        // point into the Program or into `texts`
    std::deque<std::string> texts;  // of kernels; a deque keeps their places
};

Result<DpContents> describe_program(const Program& program);

// `data` is what stands behind the header.
Result<Program> parse_header(std::string_view header, Blob data, const std::string& where);

}  // namespace darner
