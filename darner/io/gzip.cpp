// SPDX-License-Identifier: MIT
// zlib's inflate over chunks: the result grows only as far as the input really unpacks.
#include "darner/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace darner {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 18;

// Ends the stream on every way out.
struct Inflater {
    z_stream stream = {};
    bool ready = false;
    Inflater() { ready = inflateInit2(&stream, 15 + 16) == Z_OK; }  // 16: a gzip header, not a zlib one
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;
    ~Inflater() {
        if (ready) inflateEnd(&stream);
    }
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
    return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::vector<std::byte>> gunzip(std::span<const std::byte> packed, uint64_t max_bytes, const std::string& where) {
    Inflater inflater;
    if (!inflater.ready) return io_error("[gzip] zlib cannot start", where);
    z_stream& stream = inflater.stream;
    std::vector<std::byte> out, chunk(chunk_bytes);
    size_t fed = 0;  // bytes of `packed` handed to zlib, some of which it may still hold
    while (true) {
        if (stream.avail_in == 0) {
            const size_t more = std::min<size_t>(packed.size() - fed, std::numeric_limits<uInt>::max());
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + fed));
            stream.avail_in = static_cast<uInt>(more);
            fed += more;
        }
        stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
        stream.avail_out = static_cast<uInt>(chunk.size());
        const int status = inflate(&stream, Z_NO_FLUSH);
        const size_t got = chunk.size() - stream.avail_out, used = fed - stream.avail_in;
        if (got > max_bytes - out.size())
            return limit_error(fmt::format("[gzip] the file unpacks to more than the limit of {} bytes", max_bytes), where);
        out.insert(out.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(got));
        if (status == Z_STREAM_END) {
            if (used == packed.size()) return out;
            // gzip files may be joined one behind the other; anything else behind a member is damage.
            if (!is_gzip(packed.subspan(used))) return invalid(fmt::format("[gzip] unexpected bytes at byte {}", used), where);
            if (inflateReset(&stream) != Z_OK) return io_error("[gzip] zlib cannot start", where);
        } else if (status == Z_BUF_ERROR || (status == Z_OK && got == 0 && used == packed.size())) {
            return invalid(fmt::format("[gzip] the file ends too early, at byte {}", used), where);
        } else if (status == Z_MEM_ERROR) {
            return limit_error("[gzip] no memory left", where);
        } else if (status != Z_OK) {
            return invalid(fmt::format("[gzip] damaged at byte {}: {}", used, stream.msg ? stream.msg : "unreadable"), where);
        }
    }
}

}  // namespace darner
