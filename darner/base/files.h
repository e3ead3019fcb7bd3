// SPDX-License-Identifier: MIT
// Whole files in and out. Reading has a size limit that the caller can raise; writing is atomic: whatever happens, the name
// holds either the old contents or the new ones, never a part. POSIX calls; errors name the file and the system's reason.
#pragma once

#include "darner/base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darner {

inline constexpr uint64_t default_max_file_bytes = uint64_t{16} << 30;

// Reads to the end of the file, also of pipes. More than `max_bytes` is an error of kind limit, found before memory is
// taken where the size is known.
Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t max_bytes = default_max_file_bytes);
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes = default_max_file_bytes);

// A regular file opened for reading in pieces, so that a large container is not held twice in memory.
class InputFile {
public:
    static Result<InputFile> open(const std::string& path);
    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;
    ~InputFile();

    const std::string& path() const { return path_; }
    uint64_t size() const { return size_; }
    // Fills `into` from the bytes at `offset`; fewer bytes there is an error.
    Result<void> read_at(uint64_t offset, std::span<std::byte> into) const;

private:
    InputFile(std::string path, int descriptor, uint64_t size) : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
    std::string path_;
    int descriptor_ = -1;
    uint64_t size_ = 0;
};

// Writes the pieces one behind the other to a temporary file in the same folder, syncs it, renames it to `path` and syncs
// the folder. Follows a symbolic link and keeps the permissions of the file it replaces. A device or a pipe (/dev/stdout) is
// written directly. On error the temporary file is gone and the old file untouched.
Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
Result<void> write_file(const std::string& path, std::span<const std::byte> bytes);
Result<void> write_text_file(const std::string& path, std::string_view text);

// Removes the temporary files that writers of `path` left in its folder when they were killed. A writer still at work, in any
// process, keeps its own.
void remove_leftovers(const std::string& path);

// Creates a folder and those above it; it is no error if they exist.
Result<void> make_folder(const std::string& path);

// darner's folder for caches: $XDG_CACHE_HOME/darner or ~/.cache/darner, not created. Empty when neither variable names an
// absolute path: then nothing is cached.
std::string cache_folder();

}  // namespace darner
