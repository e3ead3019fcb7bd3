// SPDX-License-Identifier: MIT
// Strong ids: an index into one kind of table that cannot be mistaken for an index into another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace darner {

template <class Tag>
struct Id {
    static constexpr uint32_t none = 0xffffffffu;
    uint32_t value = none;

    constexpr Id() = default;
    constexpr explicit Id(uint32_t v) : value(v) {}
    constexpr explicit Id(size_t v) : value(static_cast<uint32_t>(v)) {}
    constexpr explicit Id(int v) : value(static_cast<uint32_t>(v)) {}
    constexpr bool valid() const { return value != none; }
    constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace darner

template <class Tag>
struct std::hash<darner::Id<Tag>> {
    size_t operator()(darner::Id<Tag> id) const noexcept { return id.value * 0x9e3779b97f4a7c15ull; }
};
