// SPDX-License-Identifier: MIT
// Ranges of a Shadow.
#include "darner/kir/shadow.h"

#include "darner/base/check.h"

#include <algorithm>

namespace darner::kir {

namespace {

// Calls use(word, mask of its halves) for the words of a byte range.
template <class Use>
void for_words(uint64_t offset, uint64_t bytes, Use&& use) {
    if (bytes == 0) return;
    uint64_t first = offset / 2, end = (offset + bytes + 1) / 2;
    for (uint64_t word = first / 2; word * 2 < end; ++word)
        use(word, static_cast<uint8_t>((word * 2 >= first ? 1u : 0u) | (word * 2 + 1 >= first && word * 2 + 1 < end ? 2u : 0u)));
}

}  // namespace

Shadow::Shadow(uint64_t bytes, bool initialised) : words_((bytes + 3) / 4), initialised_((bytes + 3) / 4, initialised ? 3 : 0) {}

void Shadow::begin_dispatch() {
    if (next_ > 0x40000000u) {
        std::fill(words_.begin(), words_.end(), Word{});
        next_ = 1;
    }
    start_ = next_;
}

void Shadow::mark_initialised(uint64_t offset, uint64_t bytes) {
    CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "range outside the shadow");
    for_words(offset, bytes, [&](uint64_t word, uint8_t mask) { initialised_[word] |= mask; });
}

void Shadow::poison(uint64_t offset, uint64_t bytes) {
    CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "range outside the shadow");
    for_words(offset, bytes, [&](uint64_t word, uint8_t mask) { initialised_[word] &= static_cast<uint8_t>(~mask); });
}

bool Shadow::is_initialised(uint64_t offset, uint64_t bytes) const {
    CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "range outside the shadow");
    bool all = true;
    for_words(offset, bytes, [&](uint64_t word, uint8_t mask) { all = all && (initialised_[word] & mask) == mask; });
    return all;
}

bool Shadow::touch(uint64_t offset, uint64_t bytes, bool write) {
    CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "range outside the shadow");
    Moment moment{next_, next_};
    ++next_;
    bool ordered = true;
    for_words(offset, bytes, [&](uint64_t word, uint8_t mask) {
        Conflict conflict = write ? on_write(word, moment, 0) : on_read(word, moment, 0);
        ordered = ordered && conflict == Conflict::none;
        if (write) set_halves(word, mask);
    });
    return ordered;
}

}  // namespace darner::kir
