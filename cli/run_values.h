// SPDX-License-Identifier: MIT
// What darner run does alike for graphs and for compiled programs: the values that go in, and how those that come out are shown.
#pragma once

#include "cli/values.h"
#include "darner/runtime/session.h"

#include <optional>
#include <string>
#include <vector>

namespace darner::cli {

// The options of darner run.
struct RunOptions {
    std::string file, graph, fill, out_dir, device;
    std::vector<std::string> sets, dims;
    std::optional<uint64_t> seed;
    bool json = false, find_nan = false;
};

// An input or a param of what is run.
struct Leaf {
    std::string name;
    Type type;
    bool is_param = false;
    bool may_stay_unset = false;  // a param that the device initialises
};

struct Given {
    NamedArrays inputs, params;
    std::optional<Fill> fill;
    std::vector<Leaf> to_fill;
};

// Values of the leaves as --set and --fill say. What is neither given nor initialised nor filled is an error that lists it.
Result<Given> gather_values(const RunOptions& options, const std::vector<Leaf>& leaves);
// Values are made after the device has accepted the program: one that is too large is refused before memory is spent on it.
Result<void> fill_values(Given& given);

// Writes the params that the session has; nothing reads the others.
Result<void> write_params(Session& session, const NamedArrays& params);
// Puts the state at its start: the seed, the given params, and what `init` makes of them where there is one. Given values win
// over initial ones, a seed of --seed included; an init expression may read a given param.
Result<void> set_state(Session& session, const RunOptions& options, const Given& given, bool run_init);

// A result: an output, or the new value of a param.
struct Shown {
    std::string name, file;
    Array value;
    bool is_update = false;
};

// Writes the files of --out-dir and prints the results.
Result<void> show_results(const RunOptions& options, const std::string& graph, const DeviceInfo& device,
                          std::vector<Shown> results);

// darner run of a .dp file.
Result<void> run_program(const RunOptions& options, std::span<const std::byte> file);

}  // namespace darner::cli
