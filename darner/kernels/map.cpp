// SPDX-License-Identifier: MIT
#include "darner/kernels/map.h"

#include "darner/base/fault.h"

#include <algorithm>

namespace darner::kernels {

using kir::Builder;
using kir::Expr;

Result<Grid> build_map(Builder& b, const MapSpec& spec, const Caps& caps) {
    // An invocation owns whole words of every output.
    uint32_t elements = 1;
    for (const auto& output : spec.outputs) elements = std::max(elements, per_word(output.storage));
    const uint32_t invocations =
        static_cast<uint32_t>(fault(17) ? std::max<uint64_t>(1, spec.count / elements) : ceil_div(spec.count, elements));
    const uint32_t size = std::min({caps.max_invocations, 128u, std::max(8u, power_of_two_at_least(invocations))});
    const auto grid = fold(ceil_div(invocations, size), caps);
    if (!grid) return limit_error("[map] more workgroups than the device takes: " + std::to_string(spec.count) + " elements");

    b.workgroup_size(size);
    const Expr id = linear_workgroup(b, *grid) * size + b.local_id(0);
    when_below(b, id, invocations, [&] {
        std::vector<std::vector<Expr>> values(spec.outputs.size());
        for (uint32_t e = 0; e < elements; ++e) {
            // The last word may reach past the end: such elements repeat the last one, and land in the allocation's padding.
            const Expr linear =
                elements == 1 ? b.assume_max(id, spec.count - 1) : b.min(id * elements + e, b.u32(spec.count - 1));
            const std::vector<Expr> here = spec.body(b, linear);
            for (size_t o = 0; o < here.size(); ++o) values[o].push_back(here[o]);
        }
        for (size_t o = 0; o < spec.outputs.size(); ++o) {
            const auto& [binding, storage] = spec.outputs[o];
            const uint32_t width = per_word(storage);
            for (uint32_t first = 0; first < elements; first += width) {
                const Expr at = id * elements + first;
                when_below(b, at, spec.count,
                           [&] { store_elements(b, binding, storage, at, std::span(values[o]).subspan(first, width)); });
            }
        }
    });
    return *grid;
}

}  // namespace darner::kernels
