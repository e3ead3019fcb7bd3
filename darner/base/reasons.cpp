// SPDX-License-Identifier: MIT
#include "darner/base/reasons.h"

#include <algorithm>

namespace darner {
namespace {

constexpr size_t longest = 2000;  // bytes: a few kernels' or nodes' descriptions

// Never inside a UTF-8 character.
void cut(std::string& text) {
    if (text.size() <= longest) return;
    size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
    text.resize(end);
    text += "…";
}

}  // namespace

void Reasons::add(std::string reason) {
    cut(reason);
    if (std::find(listed_.begin(), listed_.end(), reason) != listed_.end()) return;
    if (is_full())
        ++unlisted_;
    else
        listed_.push_back(std::move(reason));
}

std::string Reasons::text(std::string_view separator) const {
    std::string all;
    for (const std::string& reason : listed_) {
        if (!all.empty()) all += separator;
        all += reason;
    }
    if (unlisted_ != 0) all += std::string(separator) + "and " + std::to_string(unlisted_) + " more";
    return all;
}

}  // namespace darner
