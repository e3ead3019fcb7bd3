// SPDX-License-Identifier: MIT
// First the boxes: greedy, each as long as its windows allow, cut where written windows do not overlap. Then one rewritten kernel
// for each number of windows that occurs.
#include "darner/kernels/windows.h"

#include "darner/base/check.h"
#include "darner/kernels/window_access.h"
#include "darner/kir/ranges.h"

#include <algorithm>
#include <map>

namespace darner::kernels {

namespace {

using kir::WorkgroupBox;

uint64_t scalar_bytes(const kir::Binding& b) { return kir::byte_size(b.scalar); }
uint64_t element_bytes(const kir::Binding& b) { return scalar_bytes(b) * b.lanes; }
uint64_t total_bytes(const kir::Binding& b) { return b.elements * element_bytes(b); }
uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

class Cutter {
public:
    Cutter(const kir::Kernel& kernel, std::array<uint32_t, 3> groups, const Caps& caps)
        : kernel_(kernel),
          groups_(groups),
          caps_(caps),
          ranges_(kernel, groups, caps.known_subgroup_size()),
          alignment_(std::max<uint64_t>(caps.offset_alignment, 16)),
          reach_(caps.max_binding_bytes / alignment_ * alignment_) {
        for (const kir::Binding& b : kernel.bindings) {
            const bool large = total_bytes(b) > caps.max_binding_bytes;
            if (large) fewest_parts_ = std::max(fewest_parts_, total_bytes(b) / reach_or_one() + 1);
            // What parts write is bound by window even where it is small, so that they do not seem to write the same bytes.
            windowed_.push_back(large || b.access != kir::Access::read);
        }
        single_window_.assign(kernel.bindings.size(), false);
        for (const kir::Instruction& inst : kernel.instructions)
            if ((inst.op == kir::Opcode::coop_load || inst.op == kir::Opcode::coop_store) &&
                (inst.aux2 & kir::coop_from_array) == 0)
                single_window_[inst.aux] = true;  // a matrix lies in one binding
    }

    std::optional<CutKernel> run() {
        if (reach_ == 0) return std::nullopt;
        WorkgroupBox all;
        all.high = groups_;
        // One window each, unless that takes many more parts than there are windows of data.
        most_windows_ = 1;
        most_parts_ = 4 * fewest_parts_;
        bool done = cut(all);
        if (!done) {
            parts_.clear();
            most_windows_ = caps_.max_storage_bindings;
            most_parts_ = SIZE_MAX;
            done = cut(all);
        }
        if (!done) return std::nullopt;
        return build();
    }

private:
    using Windows = std::vector<std::vector<Window>>;  // by binding
    struct Part {
        WorkgroupBox box;
        Windows windows;
    };

    uint64_t reach_or_one() const { return std::max<uint64_t>(reach_, 1); }

    std::vector<Window> cover(uint32_t binding, const kir::Intervals& touched) const {
        const kir::Binding& b = kernel_.bindings[binding];
        std::vector<Window> windows;
        for (const kir::Interval& i : touched) {
            uint64_t low = static_cast<uint64_t>(i.low) * scalar_bytes(b);
            const uint64_t end = round_up(round_up((static_cast<uint64_t>(i.high) + 1) * scalar_bytes(b), element_bytes(b)), 4);
            while (low < end) {
                if (windows.empty() || low >= windows.back().offset + reach_)
                    windows.push_back({binding, low / alignment_ * alignment_, 0});
                Window& last = windows.back();
                last.bytes = std::max(last.bytes, std::min(end - last.offset, reach_));
                low = last.offset + last.bytes;
            }
        }
        // Bound, but not touched.
        if (windows.empty()) windows.push_back({binding, 0, std::min(round_up(total_bytes(b), 4), alignment_)});
        return windows;
    }

    std::optional<Windows> fit(const WorkgroupBox& box) {
        const auto touched = ranges_.of(box);
        Windows all;
        size_t count = 0, in_windows = 0;
        for (uint32_t b = 0; b < touched.size(); ++b) {
            if (!windowed_[b]) {
                all.push_back({{b, 0, round_up(total_bytes(kernel_.bindings[b]), 4)}});
            } else {
                all.push_back(cover(b, touched[b]));
                in_windows += all.back().size();
            }
            const size_t most = single_window_[b] ? 1 : most_windows_;
            if (all.back().size() > most) return std::nullopt;
            count += all.back().size();
        }
        const size_t params = std::min<size_t>(caps_.max_param_bytes / 4, kir::max_param_words);
        if (count > caps_.max_storage_bindings || in_windows + 3 > params) return std::nullopt;
        return all;
    }

    static WorkgroupBox prefix(WorkgroupBox box, size_t axis, uint32_t length) {
        box.high[axis] = box.low[axis] + length;
        return box;
    }
    static WorkgroupBox rest(WorkgroupBox box, size_t axis, uint32_t length) {
        box.low[axis] += length;
        return box;
    }

    // The longest start of the box along an axis that fits, 0 where not even one slice does.
    uint32_t longest_prefix(const WorkgroupBox& box, size_t axis) {
        uint32_t fits = 0, fails = box.high[axis] - box.low[axis];
        while (fits + 1 < fails) {
            const uint32_t middle = fits == 0 ? std::max(1u, fails / 2) : fits + (fails - fits) / 2;
            (fit(prefix(box, axis, middle)) ? fits : fails) = middle;
        }
        return fits;
    }

    // Whether what the prefix writes ends where, at the device's alignment, what follows it begins.
    bool is_clean_cut(const Windows& windows, const WorkgroupBox& after) {
        const auto touched = ranges_.of(after);
        for (uint32_t b = 0; b < windows.size(); ++b) {
            if (kernel_.bindings[b].access == kir::Access::read || touched[b].empty()) continue;
            const uint64_t next = static_cast<uint64_t>(touched[b][0].low) * scalar_bytes(kernel_.bindings[b]);
            const Window& last = windows[b].back();
            if (next / alignment_ * alignment_ < last.offset + last.bytes) return false;
        }
        return true;
    }

    // Shortens a prefix, by no more than half, to a clean cut.
    uint32_t clean_prefix(const WorkgroupBox& box, size_t axis, uint32_t longest) {
        constexpr uint32_t tries = 64;
        for (uint32_t length = longest, n = 0; n < tries && length > longest / 2; --length, ++n) {
            const auto windows = fit(prefix(box, axis, length));
            if (windows && is_clean_cut(*windows, prefix(rest(box, axis, length), axis, 1))) return length;
        }
        return longest;
    }

    static bool is_line(const WorkgroupBox& box) {
        int axes = 0;
        for (size_t a = 0; a < 3; ++a) axes += box.high[a] - box.low[a] > 1;
        return axes == 1;
    }

    // Depth of recursion: an axis a level.
    bool cut(WorkgroupBox box) {
        for (;;) {
            if (parts_.size() >= most_parts_) return false;
            if (auto windows = fit(box)) {
                parts_.push_back({box, std::move(*windows)});
                return true;
            }
            // Along the axis whose prefix takes the largest share of the box; where none fits, a slice of the outermost.
            size_t axis = 3;
            double share = 0;
            uint32_t length = 0;
            for (size_t a = 3; a-- > 0;) {
                const uint32_t extent = box.high[a] - box.low[a];
                if (extent == 1) continue;
                const uint32_t longest = longest_prefix(box, a);
                if (axis != 3 && double(longest) / extent <= share) continue;
                axis = a;
                length = longest;
                share = double(longest) / extent;
            }
            if (axis == 3 || (length == 0 && is_line(box))) return false;  // one workgroup reaches too far
            length = length == 0 ? 1 : clean_prefix(box, axis, length);
            if (!cut(prefix(box, axis, length))) return false;
            box = rest(box, axis, length);
        }
    }

    // What an access is moved by: the first workgroup on each axis, then the first element of each window.
    std::vector<uint32_t> origins_of(const Part& part) const {
        std::vector<uint32_t> origins(part.box.low.begin(), part.box.low.end());
        for (const auto& windows : part.windows)
            for (const Window& w : windows)
                origins.push_back(static_cast<uint32_t>(w.offset / element_bytes(kernel_.bindings[w.binding])));
        return origins;
    }

    CutKernel build() const {
        std::map<std::vector<size_t>, std::vector<const Part*>> variants;  // by windows of each binding
        for (const Part& part : parts_) {
            std::vector<size_t> counts;
            for (const auto& windows : part.windows) counts.push_back(windows.size());
            variants[counts].push_back(&part);
        }
        CutKernel out;
        for (const auto& [counts, parts] : variants) {
            WindowAccess access;
            access.windows.assign(counts.begin(), counts.end());
            for (size_t b = 0; b < counts.size(); ++b) access.whole.push_back(!windowed_[b]);
            access.groups = groups_;
            const std::vector<uint32_t> first = origins_of(*parts[0]);
            std::vector<bool> varies(first.size(), false);
            for (const Part* part : parts) {
                const auto origins = origins_of(*part);
                for (size_t i = 0; i < origins.size(); ++i)
                    if (origins[i] != first[i]) varies[i] = true;
            }
            for (size_t i = 0; i < first.size(); ++i) access.origins.push_back({varies[i], first[i]});
            for (const Part* part : parts) {
                KernelPart made;
                made.kernel = out.kernels.size();
                const auto origins = origins_of(*part);
                for (size_t i = 0; i < origins.size(); ++i)
                    if (varies[i]) made.params.push_back(origins[i]);
                for (size_t a = 0; a < 3; ++a) made.groups[a] = part->box.high[a] - part->box.low[a];
                for (const auto& windows : part->windows) made.windows.insert(made.windows.end(), windows.begin(), windows.end());
                out.parts.push_back(std::move(made));
            }
            out.kernels.push_back(with_windows(kernel_, access));
        }
        return out;
    }

    const kir::Kernel& kernel_;
    std::array<uint32_t, 3> groups_;
    const Caps& caps_;
    kir::AccessRanges ranges_;
    uint64_t alignment_, reach_;  // bytes; reach: the largest window
    std::vector<bool> windowed_, single_window_;
    size_t most_windows_ = 1, most_parts_ = 0, fewest_parts_ = 1;
    std::vector<Part> parts_;
};

}  // namespace

bool needs_windows(const kir::Kernel& kernel, const Caps& caps) {
    return std::any_of(kernel.bindings.begin(), kernel.bindings.end(),
                       [&](const kir::Binding& b) { return total_bytes(b) > caps.max_binding_bytes; });
}

std::optional<CutKernel> cut_to_windows(kir::Kernel kernel, std::array<uint32_t, 3> groups, const Caps& caps) {
    if (needs_windows(kernel, caps)) return Cutter(kernel, groups, caps).run();
    CutKernel whole;
    KernelPart part;
    part.groups = groups;
    for (uint32_t b = 0; b < kernel.bindings.size(); ++b)
        part.windows.push_back({b, 0, round_up(total_bytes(kernel.bindings[b]), 4)});
    whole.parts.push_back(std::move(part));
    whole.kernels.push_back(std::move(kernel));
    return whole;
}

}  // namespace darner::kernels
