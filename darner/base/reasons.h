// SPDX-License-Identifier: MIT
// Everything that is wrong with one thing, as a list that stays readable however long it gets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace darner {

class Reasons {
public:
    explicit Reasons(size_t most_listed = 10) : most_(most_listed) {}

    // What was added before is not listed again; what is very long is cut.
    void add(std::string reason);
    bool empty() const { return listed_.empty(); }
    bool is_full() const { return listed_.size() >= most_; }
    // "a; b; and 3 more"
    std::string text(std::string_view separator = "; ") const;

private:
    size_t most_, unlisted_ = 0;
    std::vector<std::string> listed_;
};

}  // namespace darner
