// SPDX-License-Identifier: MIT
// Flattens an entry into barrier groups.
#include "darner/program/groups.h"

#include "darner/base/checked.h"

#include <fmt/format.h>

#include <optional>

namespace darner {
namespace {

// About a gigabyte of recorded commands.
constexpr uint64_t max_unrolled_items = 4u << 20;

// Nothing when the number does not fit.
std::optional<uint64_t> count_items(const std::vector<Item>& items) {
    uint64_t total = 0;
    for (const Item& item : items) {
        uint64_t count = std::holds_alternative<Barrier>(item) ? 0 : 1;
        if (const Repeat* r = std::get_if<Repeat>(&item)) {
            std::optional<uint64_t> round = count_items(r->body);
            if (round && *round != 0 && r->counter) round = checked_add(*round, 1);
            const std::optional<uint64_t> all = round ? checked_mul(*round, r->count) : std::nullopt;
            if (!all) return std::nullopt;
            count = *all;
        }
        const std::optional<uint64_t> sum = checked_add(total, count);
        if (!sum) return std::nullopt;
        total = *sum;
    }
    return total;
}

class Flattener {
public:
    void append(const std::vector<Item>& items) {
        for (const Item& item : items) {
            if (const Repeat* r = std::get_if<Repeat>(&item))
                append_rounds(*r);
            else if (std::holds_alternative<Barrier>(item))
                barrier_ = true;
            else
                append(Member{std::get_if<Dispatch>(&item), std::get_if<Copy>(&item)});
        }
    }
    std::vector<BarrierGroup> take() { return std::move(groups_); }

private:
    void append(const Member& member) {
        if (barrier_ || groups_.empty()) groups_.emplace_back();
        barrier_ = false;
        groups_.back().push_back(member);
    }

    void append_rounds(const Repeat& repeat) {
        if (count_items(repeat.body) == 0u) return;  // however many rounds
        for (uint32_t round = 0; round < repeat.count; ++round) {
            if (repeat.counter) {
                barrier_ = true;
                append(Member{.counter = &*repeat.counter, .round = round});
                barrier_ = true;
            }
            append(repeat.body);
        }
    }

    std::vector<BarrierGroup> groups_;
    bool barrier_ = false;  // since the last member
};

}  // namespace

Result<std::vector<BarrierGroup>> barrier_groups(const Entry& entry) {
    const std::optional<uint64_t> count = count_items(entry.body);
    if (!count || *count > max_unrolled_items)
        return limit_error(fmt::format("[program] entry '{}' unrolls to {} items, the limit is {}", entry.name,
                                       count ? std::to_string(*count) : "more than 2^64", max_unrolled_items));
    Flattener flattener;
    flattener.append(entry.body);
    return flattener.take();
}

}  // namespace darner
