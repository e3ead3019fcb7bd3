// SPDX-License-Identifier: MIT
#include "tests/subprocess.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

namespace darner::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Appends what is there; false at the end of the stream.
bool drain(int descriptor, std::string& into) {
    char buffer[4096];
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got > 0) into.append(buffer, static_cast<size_t>(got));
    return got > 0;
}

[[noreturn]] void become(const std::vector<std::string>& words, const std::vector<std::string>& environment, int out, int err) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                          const OnOutput& on_output) {
    ProcessResult result;
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return result;
    const Clock::time_point start = Clock::now();
    const pid_t child = fork();
    if (child == 0) become(words, environment, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    pollfd streams[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    int open_streams = 2;
    while (open_streams > 0 && poll(streams, 2, -1) > 0) {
        for (pollfd& stream : streams) {
            if ((stream.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
            const bool is_out = &stream == &streams[0];
            if (drain(stream.fd, is_out ? result.out : result.err)) {
                if (is_out && result.first_out_seconds < 0) result.first_out_seconds = seconds_since(start);
                if (on_output) on_output(child, result);
                continue;
            }
            stream.fd = -1;  // poll skips it
            --open_streams;
        }
    }
    close(out[0]);
    close(err[0]);
    int status = 0;
    waitpid(child, &status, 0);
    result.seconds = seconds_since(start);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

std::string error_of(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.out, testing::IsEmpty());
    EXPECT_THAT(result.err, testing::StartsWith("error: "));
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
    return result.err;
}

TemporaryFolder::TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "darner-test-XXXXXX";
    path_ = mkdtemp(name.data()) != nullptr ? name : std::string();
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace darner::test
