// SPDX-License-Identifier: MIT
// Loader: batches of a data set that does not fit on the device, filled on the host ahead of the steps that use them. Its
// order is that of the batch numbers whatever the number of workers, so a run is as deterministic as the fill function.
#pragma once

#include "darner/runtime/session.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace darner {

struct LoaderOptions {
    uint32_t depth = 4;                  // batches that are filled ahead, up to 4096
    uint32_t workers = 1;                // threads that fill; more than depth or than 256 are not started
    uint64_t first = 0;                  // number of the first batch, where a run resumes
    std::optional<uint64_t> count = {};  // of batches; without it they do not end
};

// What fill() and the Loader's threads share.
class LoaderState;

class Loader {
public:
    // Fills batch `number` with named arrays. `batch` holds an earlier batch, whose memory may be used again, or nothing. Called
    // from the worker threads, by several at a time for different batches when there are several; must not throw.
    using Fill = std::function<Result<void>(uint64_t number, NamedArrays& batch)>;

    static Result<Loader> start(Fill fill, const LoaderOptions& options = {});
    Loader(Loader&&) noexcept;
    Loader& operator=(Loader&&) noexcept;
    // Waits for the calls of fill() that are under way; no more are made.
    ~Loader();

    // The next batch in order, which stays valid until the next call; waits while it is being filled. Null behind the last. A
    // batch that could not be filled gives the error of fill(), and so does every later call.
    Result<const NamedArrays*> next();

private:
    explicit Loader(std::unique_ptr<LoaderState> state);
    std::unique_ptr<LoaderState> state_;
};

// Queues up to `steps` runs of a graph, each with the loader's next batch as its inputs, and says how many: fewer when the
// batches end. Does not wait for the runs, but while a ring is full; `queued` is called behind each.
Result<uint64_t> run_steps(Session& session, std::string_view graph, Loader& loader, uint64_t steps,
                           const std::function<Result<void>(uint64_t run)>& queued = {});

}  // namespace darner
