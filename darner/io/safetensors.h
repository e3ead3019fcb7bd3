// SPDX-License-Identifier: MIT
// safetensors files: a JSON header of names, types and offsets, then the bytes. Read with the format's full rules: no holes,
// no overlap, no name twice, sizes that agree. Written atomically, with a header padded to 8 bytes, names in order, and
// wider elements first, so that each tensor lies at a multiple of its element's size.
#pragma once

#include "darner/base/files.h"
#include "darner/base/result.h"
#include "darner/io/array.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace darner {

struct Safetensors {
    std::map<std::string, Array> tensors;
    std::map<std::string, std::string> metadata;

    bool operator==(const Safetensors&) const = default;
};

// One whole file; `where` names it in errors. Element types without a dtype here (16-bit and unsigned 64-bit integers, 8-bit
// floats, complex numbers) are refused by the tensor's name.
Result<Safetensors> parse_safetensors(std::span<const std::byte> file, const std::string& where = "safetensors");
// Reads tensor by tensor: the file is never held twice.
Result<Safetensors> read_safetensors(const std::string& path, uint64_t max_bytes = default_max_file_bytes);
Result<void> write_safetensors(const std::string& path, const Safetensors& contents);

}  // namespace darner
