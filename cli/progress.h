// SPDX-License-Identifier: MIT
// A progress bar on the last line of the terminal: share done, what the caller has to say, time left. It is drawn on stderr
// and only where stderr is a terminal; in a pipe nothing is drawn.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace darner::cli {

class Progress {
public:
    explicit Progress(bool wanted);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    bool shown() const { return shown_; }
    // Redraws at most ten times a second, always when `done` is `total`. The time left is guessed from the time since the
    // start when the caller does not know better.
    void update(uint64_t done, uint64_t total, std::string_view text, std::optional<double> seconds_left = {});
    // Takes the bar away, so that a line can be printed in its place.
    void clear();

private:
    using Clock = std::chrono::steady_clock;
    bool shown_ = false, drawn_ = false;
    Clock::time_point started_ = Clock::now(), last_ = {};
};

// "1:05", "2:03:00".
std::string duration_text(double seconds);
// The bar's line, `columns` wide at most.
std::string bar_text(uint64_t done, uint64_t total, double seconds_left, std::string_view text, int columns);

}  // namespace darner::cli
