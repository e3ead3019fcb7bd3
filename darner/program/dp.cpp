// SPDX-License-Identifier: MIT
// The container: magic, length of the header, header, data; and the hash over all of it.
#include "darner/program/dp.h"

#include "darner/base/bytes.h"
#include "darner/base/sha256.h"
#include "darner/kir/features.h"
#include "darner/program/dp_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace darner {
namespace {

// The first byte is in no text, and a transfer as text changes the last ones.
constexpr std::string_view magic =
    "\x89"
    "darner\r\n"
    "program";
constexpr size_t prefix_bytes = magic.size() + 8;
static_assert(prefix_bytes % blob_alignment == 0);
constexpr uint64_t max_header_bytes = uint64_t{256} << 20;

Error broken(const std::string& what, const std::string& where) {
    Error error = invalid("[dp] " + what, where);
    error.hint = "the file is damaged or not whole: copy it again, or make it again with darner compile";
    return error;
}

std::string hash_of(std::span<const Blob> pieces) {
    Sha256 hash;
    for (const Blob piece : pieces) hash.add(piece);
    return hash.hex();
}

// The pieces of the file, the header's hash filled in.
std::vector<Blob> pieces_of(DpContents& contents, std::vector<std::byte>& prefix) {
    static constexpr std::byte zeros[blob_alignment] = {};
    prefix.assign(bytes_of(magic).begin(), bytes_of(magic).end());
    append_le(prefix, uint64_t{contents.header.size()});
    std::vector<Blob> pieces = {prefix, bytes_of(contents.header)};
    for (const Blob blob : contents.blobs) {
        pieces.push_back(blob);
        pieces.push_back(Blob(zeros).first((blob_alignment - blob.size() % blob_alignment) % blob_alignment));
    }
    contents.header.replace(header_begin.size(), hash_digits, hash_of(pieces));
    return pieces;
}

// The version stands behind the hash, at a place that no version changes: an unknown one is told from damage.
Result<void> check_version(std::string_view header, const std::string& where) {
    constexpr std::string_view behind_hash = "\",\"format\":";
    if (!header.starts_with(header_begin) || header.size() < header_begin.size() + hash_digits ||
        !header.substr(header_begin.size() + hash_digits).starts_with(behind_hash))
        return broken("the header does not begin with hash and format", where);
    const std::string_view number = header.substr(header_begin.size() + hash_digits + behind_hash.size());
    uint32_t version = 0;
    const auto [stop, code] = std::from_chars(number.data(), number.data() + number.size(), version);
    if (code != std::errc()) return broken("the header has no format version", where);
    if (version == dp_format_version) return {};
    Error error =
        unsupported(fmt::format("[dp] the file has format version {}, this darner reads {}", version, dp_format_version), where);
    error.hint = "compile the graph again with this darner, or use the darner that made the file";
    return error;
}

}  // namespace

bool is_dp(std::span<const std::byte> bytes) {
    return !bytes.empty() && text_of(bytes).substr(0, magic.size()) == magic.substr(0, bytes.size());
}

Result<std::vector<std::byte>> to_dp(const Program& program) {
    TRY(DpContents contents, describe_program(program));
    std::vector<std::byte> prefix, file;
    for (const Blob piece : pieces_of(contents, prefix)) file.insert(file.end(), piece.begin(), piece.end());
    return file;
}

Result<void> write_dp(const std::string& path, const Program& program) {
    TRY(DpContents contents, describe_program(program));
    std::vector<std::byte> prefix;
    return write_file(path, pieces_of(contents, prefix));
}

Result<Program> parse_dp(std::span<const std::byte> file, const std::string& where) {
    if (!is_dp(file)) return invalid("[dp] not a .dp file: it does not begin like one", where);
    if (file.size() < prefix_bytes) return broken("the file ends within its first bytes", where);
    const uint64_t length = load_le<uint64_t>(file.data() + magic.size());
    if (length > max_header_bytes || length > file.size() - prefix_bytes || length % blob_alignment)
        return broken(fmt::format("the header says {} bytes, the file has {} left", length, file.size() - prefix_bytes), where);
    const std::string_view header = text_of(file.subspan(prefix_bytes, length));
    TRY(check_version(header, where));
    const size_t hash_at = prefix_bytes + header_begin.size();
    const std::string zeros(hash_digits, '0');
    const Blob hashed[] = {file.first(hash_at), bytes_of(zeros), file.subspan(hash_at + hash_digits)};
    if (hash_of(hashed) != text_of(file.subspan(hash_at, hash_digits)))
        return broken("the contents do not have the hash that the header gives", where);
    TRY(Program program, parse_header(header, file.subspan(prefix_bytes + length), where));
    if (Result<void> verified = verify(program); !verified) {
        Error error = verified.error();
        error.where = where;
        return error;
    }
    return program;
}

Result<Program> read_dp(const std::string& path, uint64_t max_bytes) {
    TRY(const std::vector<std::byte> file, read_file(path, max_bytes));
    return parse_dp(file, path);
}

std::vector<std::string> required_features(const Program& program) {
    std::set<std::string> names;
    for (const KernelCode& code : program.kernels) {
        const kir::KernelFeatures f = kir::features_of(code.kir);
        if (f.subgroup) names.insert("subgroup");
        if (f.subgroup_reduce || f.subgroup_broadcast || f.subgroup_shuffle) names.insert("subgroup_operations");
        if (f.f16_storage) names.insert("f16_storage");
        if (f.f16_arithmetic) names.insert("f16_arithmetic");
        if (f.bf16) names.insert("bf16");
        if (code.kir.required_subgroup_size != 0) names.insert(fmt::format("subgroup_size_{}", code.kir.required_subgroup_size));
        for (const kir::Instruction& inst : code.kir.instructions) {
            if (inst.op != kir::Opcode::coop_mul_add) continue;
            const kir::Type& a = code.kir.at(code.kir.operands[inst.first_operand]).type;
            names.insert(fmt::format("coop_{}_{}_{}x{}x{}", kir::to_string(a.scalar), kir::to_string(inst.type.scalar),
                                     inst.type.rows, inst.type.cols, a.cols));
        }
    }
    return {names.begin(), names.end()};
}

}  // namespace darner
