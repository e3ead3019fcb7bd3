// SPDX-License-Identifier: MIT
// NumPy's .npy files, format versions 1 to 3 (numpy.lib.format). Read: either byte order, C or Fortran order. Written: version
// 1, little-endian, C order. Element types without a dtype here (16-bit and unsigned 64-bit
// integers, complex numbers, text, records, objects) are refused with a reason; objects are pickles and are never opened.
#pragma once

#include "darner/base/files.h"
#include "darner/base/result.h"
#include "darner/io/array.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace darner {

// One whole file; `where` names it in errors. Hostile bytes give an Error and take no more memory than they have bytes.
Result<Array> parse_npy(std::span<const std::byte> file, const std::string& where = "npy");
// Reads the header first and then as many bytes as it says, also from a pipe or a device that never ends.
Result<Array> read_npy(const std::string& path, uint64_t max_bytes = default_max_file_bytes);

// bf16 has no NumPy type and is refused.
Result<std::vector<std::byte>> format_npy(const Array& array);
Result<void> write_npy(const std::string& path, const Array& array);

}  // namespace darner
