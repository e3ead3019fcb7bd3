// SPDX-License-Identifier: MIT
// The planner's list of steps: prepare, group, lower, order, place, emit items; then the Program's tables.
#include "darner/plan/plan.h"

#include "darner/plan/grouping.h"
#include "darner/plan/lower.h"
#include "darner/plan/memory.h"
#include "darner/plan/prepare.h"
#include "darner/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::plan {

namespace {

class Planner {
public:
    Planner(const Module& module, const Caps& caps, const PlanOptions& options)
        : module_(module),
          caps_(caps),
          options_(options),
          kernels_(program_.kernels),
          constants_(program_.segments, SegmentKind::constant, false, caps),
          bundles_(program_.segments, SegmentKind::scratch, true, caps) {
        program_.caps = caps;
    }

    Result<Program> run() {
        std::vector<Graph> graphs;
        for (const Graph& graph : module_.graphs) {
            TRY(Graph prepared, prepare(graph, caps_));
            graphs.push_back(std::move(prepared));
        }
        TRY(place_state(graphs));
        for (const Graph& graph : graphs) TRY(plan_entry(graph));
        TRY(check_memory());
        if (auto verified = verify(program_); !verified) {
            DCHECK(false, "the plan is not valid: " + verified.error().text());
            return unsupported("[plan] the plan came out wrong, which is a bug in darner; please report it with the graph: " +
                               verified.error().text());
        }
        return std::move(program_);
    }

private:
    ProgramTensor tensor_of(const std::string& name, const Type& type, SegmentId segment, uint64_t offset) const {
        ProgramTensor tensor;
        tensor.name = name;
        tensor.dtype = to_string(type.dtype);
        tensor.dims = type.shape();
        tensor.segment = segment;
        tensor.offset = offset;
        tensor.bytes = static_cast<uint64_t>(type.count()) * byte_size(type.dtype);
        return tensor;
    }

    Result<void> check_size(const std::string& what, uint64_t bytes) const {
        if (bytes <= caps_.max_binding_bytes && bytes <= caps_.max_segment_bytes) return {};
        return limit_error(fmt::format("[plan] {} takes {} bytes, more than the device binds at once ({} bytes)", what, bytes,
                                       std::min(caps_.max_binding_bytes, caps_.max_segment_bytes)));
    }

    // Params of one role lie side by side in name order, trainable ones first; each role in segments of its own.
    Result<void> place_state(const std::vector<Graph>& graphs) {
        std::map<std::tuple<Role, bool, std::string>, Type> params;
        for (const Graph& graph : graphs)
            for (const GraphParam& param : graph.params) {
                const Type& type = graph.type(param.node);
                const auto [at, fresh] = params.try_emplace({param.role, !param.trainable, param.name}, type);
                if (!fresh && !(at->second == type))
                    return invalid(fmt::format("[plan] param {} is {} in one graph and {} in another", param.name,
                                               to_string(at->second), to_string(type)));
            }
        std::optional<SegmentAllocator> allocator;
        std::optional<Role> role;
        for (const auto& [key, type] : params) {
            const auto& [param_role, frozen, name] = key;
            if (memory_.state.contains(name))
                return invalid(fmt::format("[plan] param {} has different roles in different graphs", name));
            if (role != param_role) allocator.emplace(program_.segments, SegmentKind::state, true, caps_);
            role = param_role;
            const uint64_t bytes = static_cast<uint64_t>(type.count()) * byte_size(type.dtype);
            TRY(check_size("param " + name, bytes));
            const auto [segment, offset] = allocator->append(bytes);
            memory_.state[name] = {segment, offset};
            ProgramTensor tensor = tensor_of(name, type, segment, offset);
            tensor.role = to_string(param_role);
            tensor.trainable = !frozen;
            program_.tensors.push_back(std::move(tensor));
        }
        return {};
    }

    Result<void> plan_entry(const Graph& graph) {
        TRY(Grouping grouping, group_nodes(graph, caps_, options_));
        Entry entry;
        entry.name = graph.name;
        SegmentAllocator io(program_.segments, SegmentKind::io, false, caps_);
        SegmentAllocator ring(program_.segments, SegmentKind::io, false, caps_, std::max(1u, options_.ring_slots));
        memory_.io = [&](const std::string& name, const Type& type, bool output, bool per_step) {
            const uint64_t bytes = static_cast<uint64_t>(type.count()) * byte_size(type.dtype);
            const auto [segment, offset] = (per_step ? ring : io).append(bytes);
            (output ? entry.outputs : entry.inputs).push_back(TensorId(program_.tensors.size()));
            program_.tensors.push_back(tensor_of(name, type, segment, offset));
            program_.tensors.back().per_step = per_step;
            return SharedMemory::Placed{segment, offset};
        };
        memory_.constant = [&](const Tensor& value) { return place_constant(value); };
        TRY(EntryPlan plan, lower_entry(graph, grouping, memory_, kernels_, caps_, options_));
        for (const Buffer& buffer : plan.buffers) TRY(check_size(buffer.label, buffer.bytes()));
        order_tasks(plan);
        const ScratchReport scratch = place_scratch(plan, program_.segments, scratch_, bundles_, caps_, options_.alias_scratch);
        entry.body = emit_items(plan);
        program_.reports.push_back(report(entry, scratch));
        program_.entries.push_back(std::move(entry));
        return {};
    }

    SharedMemory::Placed place_constant(const Tensor& value) {
        std::vector<std::byte> bytes = value.bytes();
        for (const Constant& known : program_.constants)
            if (known.bytes == bytes) return {known.segment, known.offset};
        const auto [segment, offset] = constants_.append(bytes.size());
        program_.constants.push_back({segment, offset, std::move(bytes)});
        return {segment, offset};
    }

    PlanReport report(const Entry& entry, const ScratchReport& scratch) const {
        PlanReport out;
        out.entry = entry.name;
        std::vector<KernelId> kernels;
        for (const Item& item : entry.body) {
            if (std::holds_alternative<Barrier>(item)) ++out.barriers;
            const auto* dispatch = std::get_if<Dispatch>(&item);
            if (dispatch == nullptr) continue;
            ++out.dispatches;
            kernels.push_back(dispatch->kernel);
            out.bytes_moved += dispatch->bytes_moved;
            out.flops += dispatch->flops;
        }
        std::sort(kernels.begin(), kernels.end());
        out.kernels = static_cast<uint32_t>(std::unique(kernels.begin(), kernels.end()) - kernels.begin());
        out.scratch_bytes = scratch.peak;
        out.scratch_lower_bound = scratch.lower_bound;
        out.scratch_sum = scratch.sum;
        for (const Segment& segment : program_.segments)
            if (segment.kind == SegmentKind::state) out.state_bytes += segment.bytes;
        return out;
    }

    // Before anything is allocated: does it fit?
    Result<void> check_memory() const {
        uint64_t total = 0;
        for (const Segment& segment : program_.segments) total += segment.bytes * segment.slots;
        if (caps_.memory_bytes == 0 || total <= caps_.memory_bytes) return {};
        std::vector<const ProgramTensor*> largest;
        for (const ProgramTensor& tensor : program_.tensors) largest.push_back(&tensor);
        std::stable_sort(largest.begin(), largest.end(), [](const auto* x, const auto* y) { return x->bytes > y->bytes; });
        std::string list;
        for (size_t i = 0; i < std::min<size_t>(largest.size(), 5); ++i)
            list += fmt::format("{}{} ({} bytes)", i > 0 ? ", " : "", largest[i]->name, largest[i]->bytes);
        Error error = limit_error(fmt::format("[plan] the program needs {} bytes, the device has {}; largest tensors: {}", total,
                                              caps_.memory_bytes, list));
        error.hint = "a smaller batch or model, or a device with more memory";
        return error;
    }

    const Module& module_;
    const Caps& caps_;
    const PlanOptions& options_;
    Program program_;
    KernelTable kernels_;
    SegmentAllocator constants_, bundles_;
    SharedMemory memory_;
    std::vector<SegmentId> scratch_;
};

}  // namespace
}  // namespace darner::plan

namespace darner {

Result<Program> plan_module(const Module& module, const Caps& caps, const PlanOptions& options) {
    return plan::Planner(module, caps, options).run();
}

}  // namespace darner
