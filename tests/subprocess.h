// SPDX-License-Identifier: MIT
// Runs a program as a user would: its own process, stdin empty, stdout and stderr caught apart.
#pragma once

#include <sys/types.h>
#include <functional>
#include <string>
#include <vector>

namespace darner::test {

struct ProcessResult {
    int exit_code = -1;  // 128 + signal when one ended it
    std::string out, err;
    double seconds = 0;
    double first_out_seconds = -1;  // when the first byte of stdout came
};

// Called with what the process has printed so far, whenever it prints: it may send the process a signal.
using OnOutput = std::function<void(pid_t process, const ProcessResult& so_far)>;

// words[0] is the program's path. `environment` holds NAME=VALUE to add.
ProcessResult run_process(const std::vector<std::string>& words, const std::vector<std::string>& environment = {},
                          const OnOutput& on_output = {});

// What a run that must fail says: a line on stderr, perhaps with a hint, and nothing on stdout. Else the test fails.
std::string error_of(const ProcessResult& result);

// A folder of its own under the temporary folder, removed at the end.
class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::string& path() const { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

}  // namespace darner::test
