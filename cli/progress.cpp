// SPDX-License-Identifier: MIT
#include "cli/progress.h"

#include "cli/command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>

namespace darner::cli {
namespace {

int terminal_columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
    const auto whole = static_cast<int64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
    if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string bar_text(uint64_t done, uint64_t total, double seconds_left, std::string_view text, int columns) {
    const double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const std::string tail = fmt::format(" {:3.0f} %  {}  {} left", 100 * share, text, duration_text(seconds_left));
    // The last column stays free: some terminals wrap when it is written.
    const int width = std::min(40, columns - 3 - static_cast<int>(tail.size()));
    std::string line;
    if (width >= 5) {
        const auto full = static_cast<size_t>(share * width);
        line = "[" + std::string(full, '=') + std::string(static_cast<size_t>(width) - full, ' ') + "]";
    }
    line += tail;
    return line.substr(0, static_cast<size_t>(std::max(columns - 1, 0)));
}

Progress::Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}

void Progress::update(uint64_t done, uint64_t total, std::string_view text, std::optional<double> seconds_left) {
    if (!shown_) return;
    const Clock::time_point now = Clock::now();
    if (drawn_ && done < total && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    const double elapsed = std::chrono::duration<double>(now - started_).count();
    const double guess = done == 0 ? 0 : elapsed * static_cast<double>(total - std::min(done, total)) / static_cast<double>(done);
    write_stderr("\r\033[K" + bar_text(done, total, seconds_left.value_or(guess), text, terminal_columns()));
}

void Progress::clear() {
    if (!drawn_) return;
    drawn_ = false;
    write_stderr("\r\033[K");
}

}  // namespace darner::cli
