// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4): the content hash of files, which other readers, browsers among them, compute with what they have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace darner {

class Sha256 {
public:
    void add(std::span<const std::byte> bytes);
    std::string hex() const;  // of all that was added: 64 lower-case digits

private:
    void block(const std::byte* bytes);
    std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, 64> rest_ = {};  // the last block, as far as it is there
    uint64_t count_ = 0;                   // bytes added
};

}  // namespace darner
