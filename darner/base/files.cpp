// SPDX-License-Identifier: MIT
// POSIX file access. Every call that a signal may interrupt is retried; every failure carries errno's text.
#include "darner/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace darner {

namespace {

// Linux moves at most about 2 GiB in one call.
constexpr size_t max_call_bytes = size_t{1} << 30;
constexpr size_t pipe_chunk_bytes = size_t{1} << 16;

Error system_error(const std::string& path, const char* what) {
    const int code = errno;
    return io_error(fmt::format("cannot {}: {}", what, std::generic_category().message(code)), path);
}

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    int get() const { return value_; }
    // close() reports delayed write errors, so writers call it themselves.
    bool close_now() { return ::close(std::exchange(value_, -1)) == 0; }
    int release() { return std::exchange(value_, -1); }

private:
    int value_;
};

int open_retrying(const char* path, int flags, mode_t mode = 0) {
    int descriptor;
    do descriptor = ::open(path, flags | O_CLOEXEC, mode);
    while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

Result<int> open_for_reading(const std::string& path, struct stat& status) {
    Descriptor file(open_retrying(path.c_str(), O_RDONLY));
    if (file.get() < 0) return system_error(path, "open the file");
    if (::fstat(file.get(), &status) != 0) return system_error(path, "read the file's size");
    if (S_ISDIR(status.st_mode)) return io_error("cannot read: it is a folder", path);
    return file.release();
}

Error too_large(const std::string& path, uint64_t max_bytes) {
    return limit_error(fmt::format("the file is larger than the limit of {} bytes", max_bytes), path);
}

// Grows `out` chunk by chunk: a file in /proc says that its size is 0, a pipe has none, and a file may grow meanwhile.
template <class Buffer>
Result<void> read_to_end(int file, const std::string& path, uint64_t size_hint, uint64_t max_bytes, Buffer& out) {
    if (size_hint > max_bytes) return too_large(path, max_bytes);
    size_t filled = 0;
    out.resize(static_cast<size_t>(size_hint));
    while (true) {
        if (filled == out.size()) {
            // A one-byte probe first, so that a file of the expected size is not copied into a larger buffer.
            std::byte probe;
            const ssize_t got = ::read(file, &probe, 1);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return system_error(path, "read the file");
            if (got == 0) return {};
            if (filled >= max_bytes) return too_large(path, max_bytes);
            const uint64_t grown = std::max<uint64_t>(pipe_chunk_bytes, uint64_t{filled} * 2);
            out.resize(static_cast<size_t>(std::min(grown, std::max(max_bytes, uint64_t{filled} + 1))));
            reinterpret_cast<std::byte&>(out[filled++]) = probe;
        }
        const ssize_t got = ::read(file, out.data() + filled, std::min(out.size() - filled, max_call_bytes));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error(path, "read the file");
        if (got == 0) {
            if (filled == out.size()) continue;
            out.resize(filled);
            return {};
        }
        filled += static_cast<size_t>(got);
    }
}

template <class Buffer>
Result<Buffer> read_whole(const std::string& path, uint64_t max_bytes) {
    struct stat status;
    TRY(const int descriptor, open_for_reading(path, status));
    const Descriptor file(descriptor);
    Buffer out;
    TRY(read_to_end(file.get(), path, S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0, max_bytes, out));
    return out;
}

Result<void> write_all(int file, const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    for (std::span<const std::byte> piece : pieces) {
        while (!piece.empty()) {
            const ssize_t put = ::write(file, piece.data(), std::min(piece.size(), max_call_bytes));
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) return system_error(path, "write the file");
            piece = piece.subspan(static_cast<size_t>(put));
        }
    }
    return {};
}

// Some file systems cannot sync a folder, and one may lack the right to open it; the rename itself has happened, so
// neither is a failure of the write.
Result<void> sync_folder(const std::string& folder) {
    const Descriptor opened(open_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY));
    if (opened.get() < 0 || ::fsync(opened.get()) == 0) return {};
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) return {};
    return system_error(folder, "sync the folder");
}

// What a write to `path` replaces: behind symbolic links, so that a link stays one.
std::string target_of(const std::string& path) {
    std::error_code failure;
    const std::string resolved = std::filesystem::canonical(path, failure).string();
    return failure ? path : resolved;
}

// A lock lives as long as its writer: it tells a temporary file in use from one that a killed process left. Where the file
// system has no locks, none is ever taken for left.
bool lock(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

// Between creating and locking, remove_leftovers() may have taken the file away.
bool lock_own(int file) {
    struct stat status;
    return lock(file) && ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

// NAME.PROCESS-COUNT.tmp, as create_beside() makes it.
bool is_temporary_of(std::string_view name, std::string_view file) {
    if (!file.starts_with(name) || !file.ends_with(".tmp") || file.size() < name.size() + 5 || file[name.size()] != '.')
        return false;
    const std::string_view numbers = file.substr(name.size() + 1, file.size() - name.size() - 5);
    const size_t dash = numbers.find('-');
    if (dash == 0 || dash >= numbers.size() - 1) return false;
    return numbers.substr(0, dash).find_first_not_of("0123456789") == std::string_view::npos &&
           numbers.substr(dash + 1).find_first_not_of("0123456789") == std::string_view::npos;
}

// A fresh file beside the target: no other process or thread uses the name.
Result<int> create_beside(const std::string& target, std::string& temporary) {
    static std::atomic<uint32_t> counter = 0;
    for (int attempt = 0; attempt < 100; ++attempt) {
        temporary = fmt::format("{}.{}-{}.tmp", target, ::getpid(), counter++);
        const int descriptor = open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (descriptor >= 0 && lock_own(descriptor)) return descriptor;
        if (descriptor >= 0) {
            ::close(descriptor);
            ::unlink(temporary.c_str());
        } else if (errno != EEXIST) {
            break;
        }
    }
    return system_error(target, "create a file in its folder");
}

Result<void> write_temporary(int descriptor, const std::string& target, const struct stat* replaced,
                             std::span<const std::span<const std::byte>> pieces) {
    Descriptor file(descriptor);
    if (replaced && ::fchmod(file.get(), replaced->st_mode & 07777) != 0) return system_error(target, "keep the permissions");
    TRY(write_all(file.get(), target, pieces));
    if (::fsync(file.get()) != 0) return system_error(target, "sync the file");
    if (!file.close_now()) return system_error(target, "close the file");
    return {};
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t max_bytes) {
    return read_whole<std::vector<std::byte>>(path, max_bytes);
}

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) {
    return read_whole<std::string>(path, max_bytes);
}

Result<InputFile> InputFile::open(const std::string& path) {
    struct stat status;
    TRY(const int descriptor, open_for_reading(path, status));
    Descriptor file(descriptor);
    if (!S_ISREG(status.st_mode)) return io_error("cannot read in pieces: it is not a regular file", path);
    return InputFile(path, file.release(), static_cast<uint64_t>(status.st_size));
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
}

InputFile::~InputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> InputFile::read_at(uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        const ssize_t got = ::pread(descriptor_, into.data(), std::min(into.size(), max_call_bytes), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error(path_, "read the file");
        if (got == 0) return io_error(fmt::format("the file ends at byte {}: {} more expected", offset, into.size()), path_);
        offset += static_cast<uint64_t>(got);
        into = into.subspan(static_cast<size_t>(got));
    }
    return {};
}

Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    struct stat status;
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) return system_error(path, "write the file");
    if (exists && S_ISDIR(status.st_mode)) return io_error("cannot write: it is a folder", path);
    if (exists && !S_ISREG(status.st_mode)) {
        Descriptor file(open_retrying(path.c_str(), O_WRONLY));
        if (file.get() < 0) return system_error(path, "open the file for writing");
        return write_all(file.get(), path, pieces);
    }

    const std::string target = exists ? target_of(path) : path;
    std::string temporary;
    TRY(const int descriptor, create_beside(target, temporary));
    const Descriptor holds_lock(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));  // until the file has its name
    Result<void> written = write_temporary(descriptor, path, exists ? &status : nullptr, pieces);
    if (written && ::rename(temporary.c_str(), target.c_str()) != 0) written = system_error(path, "rename the finished file");
    if (!written) {
        ::unlink(temporary.c_str());
        return written;
    }
    const std::string folder = std::filesystem::path(target).parent_path().string();
    return sync_folder(folder.empty() ? "." : folder);
}

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) {
    return write_file(path, std::span<const std::span<const std::byte>>(&bytes, 1));
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
    return write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

void remove_leftovers(const std::string& path) {
    const std::filesystem::path target = target_of(path);
    const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
    std::error_code failure;
    std::vector<std::string> candidates;
    for (auto it = std::filesystem::directory_iterator(folder, failure); !failure && it != std::filesystem::end(it);
         it.increment(failure))
        if (is_temporary_of(target.filename().string(), it->path().filename().string())) candidates.push_back(it->path());
    for (const std::string& candidate : candidates) {
        const Descriptor file(open_retrying(candidate.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
        if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(candidate.c_str());
    }
}

Result<void> make_folder(const std::string& path) {
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) return io_error(fmt::format("cannot create the folder: {}", failure.message()), path);
    if (!std::filesystem::is_directory(path, failure)) return io_error("cannot create the folder: a file has its name", path);
    return {};
}

std::string cache_folder() {
    // The XDG specification says that relative paths are to be ignored.
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache && cache[0] == '/') return std::string(cache) + "/darner";
    const char* home = std::getenv("HOME");
    if (home && home[0] == '/') return std::string(home) + "/.cache/darner";
    return {};
}

}  // namespace darner
