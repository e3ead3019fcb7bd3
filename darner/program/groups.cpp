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
        uint64_t count = 1;
        if (const Repeat* r = std::get_if<Repeat>(&item)) {
            const std::optional<uint64_t> body = count_items(r->body);
            const std::optional<uint64_t> all = body ? checked_mul(*body, r->count) : std::nullopt;
            if (!all) return std::nullopt;
            count = *all;
        }
        const std::optional<uint64_t> sum = checked_add(total, count);
        if (!sum) return std::nullopt;
        total = *sum;
    }
    return total;
}

void append(const std::vector<Item>& items, std::vector<BarrierGroup>& groups, bool& barrier) {
    for (const Item& item : items) {
        if (const Repeat* r = std::get_if<Repeat>(&item)) {
            if (r->body.empty()) continue;
            for (uint32_t round = 0; round < r->count; ++round) append(r->body, groups, barrier);
            continue;
        }
        if (std::holds_alternative<Barrier>(item)) {
            barrier = true;
            continue;
        }
        if (barrier || groups.empty()) groups.emplace_back();
        barrier = false;
        groups.back().push_back({std::get_if<Dispatch>(&item), std::get_if<Copy>(&item)});
    }
}

}  // namespace

Result<std::vector<BarrierGroup>> barrier_groups(const Entry& entry) {
    const std::optional<uint64_t> count = count_items(entry.body);
    if (!count || *count > max_unrolled_items)
        return limit_error(fmt::format("[program] entry '{}' unrolls to {} items, the limit is {}", entry.name,
                                       count ? std::to_string(*count) : "more than 2^64", max_unrolled_items));
    std::vector<BarrierGroup> groups;
    bool barrier = false;
    append(entry.body, groups, barrier);
    return groups;
}

}  // namespace darner
