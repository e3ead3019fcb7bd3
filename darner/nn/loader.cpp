// SPDX-License-Identifier: MIT
// The loader's ring of batches. Batch i lies in slot i % (depth + 1): one with the caller, `depth` being filled or ready.
#include "darner/nn/loader.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace darner {

namespace {

constexpr uint32_t most_depth = 4096, most_workers = 256;

}  // namespace

class LoaderState {
public:
    LoaderState(Loader::Fill fill, const LoaderOptions& options)
        : fill_(std::move(fill)),
          slots_(size_t{options.depth} + 1),
          depth_(options.depth),
          claimed_(options.first),
          next_(options.first),
          end_(options.count ? options.first + std::min(*options.count, UINT64_MAX - options.first) : UINT64_MAX) {
        for (uint32_t i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
    }
    ~LoaderState() {
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
        }
        room_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    Result<const NamedArrays*> next() {
        std::unique_lock lock(mutex_);
        if (failure_) return *failure_;
        // The batch of the call before is free now.
        if (held_) {
            held_ = false;
            ++next_;
        }
        if (next_ == end_) return nullptr;
        Slot& slot = slot_of(next_);
        ready_.wait(lock, [&] { return slot.filled == next_; });
        if (slot.error) {
            failure_ = slot.error;
            return *failure_;
        }
        held_ = true;
        room_.notify_all();  // one more may be filled beside the one that the caller has
        return &slot.batch;
    }

private:
    struct Slot {
        NamedArrays batch;
        std::optional<Error> error;
        std::optional<uint64_t> filled;  // number of the batch that it holds
    };
    Slot& slot_of(uint64_t number) { return slots_[number % slots_.size()]; }

    void work() {
        std::unique_lock lock(mutex_);
        while (true) {
            // Batches behind one that failed are of no use; those before it are claimed already.
            room_.wait(lock,
                       [&] { return stopped_ || failed_ || claimed_ == end_ || claimed_ - next_ < depth_ + (held_ ? 1 : 0); });
            if (stopped_ || failed_ || claimed_ == end_) return;
            const uint64_t number = claimed_++;
            Slot& slot = slot_of(number);
            lock.unlock();
            const Result<void> done = fill_(number, slot.batch);  // the slot is this thread's alone
            lock.lock();
            if (!done) {
                slot.error = done.error();
                failed_ = true;
                room_.notify_all();
            }
            slot.filled = number;
            ready_.notify_all();
        }
    }

    const Loader::Fill fill_;
    std::mutex mutex_;
    std::condition_variable room_, ready_;
    std::vector<Slot> slots_;
    const uint64_t depth_;
    uint64_t claimed_;  // the next batch that a worker takes
    uint64_t next_;     // the batch that the caller holds, or else takes next
    const uint64_t end_;
    bool held_ = false, stopped_ = false, failed_ = false;
    std::optional<Error> failure_;  // given to the caller
    std::vector<std::thread> workers_;
};

Loader::Loader(std::unique_ptr<LoaderState> state) : state_(std::move(state)) {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

Result<Loader> Loader::start(Fill fill, const LoaderOptions& options) {
    if (!fill) return invalid("[loader] there is no function that fills batches");
    if (options.depth < 1) return invalid("[loader] the depth is 0, expected at least 1 batch");
    if (options.workers < 1) return invalid("[loader] the number of workers is 0, expected at least 1");
    if (options.depth > most_depth)
        return invalid("[loader] the depth is " + std::to_string(options.depth) + ", expected at most " +
                       std::to_string(most_depth));
    LoaderOptions bounded = options;
    bounded.workers = std::min({options.workers, options.depth, most_workers});
    return Loader(std::make_unique<LoaderState>(std::move(fill), bounded));
}

Result<const NamedArrays*> Loader::next() { return state_->next(); }

Result<uint64_t> run_steps(Session& session, std::string_view graph, Loader& loader, uint64_t steps,
                           const std::function<Result<void>(uint64_t)>& queued) {
    for (uint64_t run = 0; run < steps; ++run) {
        TRY(const NamedArrays* batch, loader.next());
        if (batch == nullptr) return run;
        TRY(session.run_async(graph, *batch));
        if (queued) TRY(queued(run));
    }
    return steps;
}

}  // namespace darner
