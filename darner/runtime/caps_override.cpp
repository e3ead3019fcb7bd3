// SPDX-License-Identifier: MIT
#include "darner/runtime/caps_override.h"

#include "darner/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace darner {
namespace {

constexpr std::string_view binding_prefix = "binding=";
constexpr std::array<std::string_view, 4> known_words = {"webgpu", "no-subgroups", "no-f16", "binding=N"};

void drop_subgroups(Caps& caps) {
    caps.subgroup_min = caps.subgroup_max = caps.subgroup_size = 0;
    caps.subgroup_size_control = caps.subgroup_shuffle = false;
    caps.coop_shapes.clear();
}

void drop_f16(Caps& caps) {
    caps.f16_storage = caps.f16_arithmetic = false;
    std::erase_if(caps.coop_shapes, [](const CoopShape& shape) {
        return shape.input == kir::Scalar::f16 || shape.accumulator == kir::Scalar::f16;
    });
}

// What the device has beyond WebGPU's guarantee goes; what it has less of stays; what it is, and how fast, stays too.
void lower_to_webgpu(Caps& caps) {
    const Caps floor = webgpu_default_caps();
    const auto at_most = [](auto& value, auto limit) { value = std::min(value, limit); };
    at_most(caps.max_storage_bindings, floor.max_storage_bindings);
    at_most(caps.max_binding_bytes, floor.max_binding_bytes);
    at_most(caps.max_segment_bytes, floor.max_segment_bytes);
    at_most(caps.max_workgroup_bytes, floor.max_workgroup_bytes);
    at_most(caps.max_invocations, floor.max_invocations);
    at_most(caps.max_param_bytes, floor.max_param_bytes);
    for (size_t i = 0; i < 3; ++i) {
        at_most(caps.max_workgroup_size[i], floor.max_workgroup_size[i]);
        at_most(caps.max_groups[i], floor.max_groups[i]);
    }
    caps.offset_alignment = std::max(caps.offset_alignment, floor.offset_alignment);
    caps.hazard = floor.hazard;
    caps.bf16_coop = false;
    drop_subgroups(caps);
    drop_f16(caps);
}

Result<void> apply(Caps& caps, std::string_view word) {
    if (word == "webgpu") return lower_to_webgpu(caps), Result<void>();
    if (word == "no-subgroups") return drop_subgroups(caps), Result<void>();
    if (word == "no-f16") return drop_f16(caps), Result<void>();
    if (word.starts_with(binding_prefix)) {
        const char* end = word.data() + word.size();
        uint64_t bytes = 0;
        const auto [parsed, error] = std::from_chars(word.data() + binding_prefix.size(), end, bytes);
        if (error != std::errc() || parsed != end || bytes < caps.offset_alignment || bytes % 4 != 0)
            return invalid(
                fmt::format("[caps] DARNER_CAPS: got \"{}\", expected binding= and a multiple of 4 bytes that is at least "
                            "the alignment of offsets, {}",
                            word, caps.offset_alignment));
        caps.max_binding_bytes = std::min(caps.max_binding_bytes, bytes);
        return {};
    }
    Error error =
        invalid(fmt::format("[caps] DARNER_CAPS: there is no \"{}\"; known are {}", word, fmt::join(known_words, ", ")));
    error.hint = did_you_mean(word, known_words);
    return error;
}

}  // namespace

Result<Caps> lower_caps(Caps caps, std::string_view words) {
    while (!words.empty()) {
        const size_t comma = std::min(words.find(','), words.size());
        TRY(apply(caps, words.substr(0, comma)));
        words.remove_prefix(std::min(comma + 1, words.size()));
    }
    return caps;
}

Result<Caps> lower_caps_by_environment(Caps caps) {
    const char* words = std::getenv("DARNER_CAPS");
    return words == nullptr ? Result<Caps>(std::move(caps)) : lower_caps(std::move(caps), words);
}

}  // namespace darner
