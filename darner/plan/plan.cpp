// SPDX-License-Identifier: MIT
// The planner's list of steps: prepare, group, lower; then for all entries together schedules and memory; then barriers and the
// Program's tables.
#include "darner/plan/plan.h"

#include "darner/base/reasons.h"
#include "darner/plan/grouping.h"
#include "darner/plan/hazards.h"
#include "darner/plan/lower.h"
#include "darner/plan/memory.h"
#include "darner/plan/prepare.h"
#include "darner/plan/refusal.h"
#include "darner/plan/spread.h"
#include "darner/program/buffer_barriers.h"

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
          scratch_(program_.segments, caps, options.alias_scratch) {
        program_.caps = caps;
    }

    Result<Program> run() {
        std::vector<Graph> graphs;
        for (const Graph& graph : module_.graphs) {
            Result<Graph> prepared = prepare(graph, caps_);
            if (!refuse_if(prepared)) graphs.push_back(std::move(prepared).value());
        }
        if (refusal_) return refusal();
        refuse_if(place_state(graphs));
        for (const Graph& graph : graphs) refuse_if(lower(graph));
        if (refusal_) return refusal();
        TRY(place_scratch());
        for (size_t e = 0; e < plans_.size(); ++e) {
            program_.entries[e].body = emit_items(plans_[e]);
        }
        if (caps_.hazard == HazardKind::per_buffer) declare_written_buffers(program_, kernels_);
        for (size_t e = 0; e < plans_.size(); ++e) {
            TRY(PlanReport made, report(program_.entries[e], layouts_[e].report));
            program_.reports.push_back(std::move(made));
        }
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

    // Keeps why a part cannot be planned; the other parts are still looked at.
    template <class T>
    bool refuse_if(const Result<T>& part) {
        if (part) return false;
        if (!refusal_) refusal_ = part.error();
        reasons_.add(part.error().message);
        return true;
    }
    Error refusal() const {
        Error error = *refusal_;
        error.message = reasons_.text();
        return error;
    }

    Result<void> check_size(const std::string& what, uint64_t bytes) const {
        if (bytes <= caps_.max_segment_bytes) return {};
        return limit_error(fmt::format("[plan] {} takes {} bytes, more than one buffer of the device holds ({} bytes)", what,
                                       bytes, caps_.max_segment_bytes));
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
            refuse_if(check_size("param " + name, bytes));
            const auto [segment, offset] = allocator->append(bytes);
            memory_.state[name] = {segment, offset};
            ProgramTensor tensor = tensor_of(name, type, segment, offset);
            tensor.role = to_string(param_role);
            tensor.trainable = !frozen;
            program_.tensors.push_back(std::move(tensor));
        }
        return {};
    }

    Result<void> lower(const Graph& graph) {
        TRY(Grouping grouping, group_nodes(graph, caps_, options_));
        Entry& entry = program_.entries.emplace_back();
        entry.name = graph.name;
        // Where hazards are tracked by buffer, a dispatch that reads an input and writes an output must find them in two.
        SegmentAllocator in(program_.segments, SegmentKind::io, false, caps_),
            out(program_.segments, SegmentKind::io, false, caps_);
        const uint32_t slots = std::max(1u, options_.ring_slots);
        SegmentAllocator ring_in(program_.segments, SegmentKind::io, false, caps_, slots),
            ring_out(program_.segments, SegmentKind::io, false, caps_, slots);
        memory_.io = [&](const std::string& name, const Type& type, bool output, bool per_step) {
            const uint64_t bytes = static_cast<uint64_t>(type.count()) * byte_size(type.dtype);
            SegmentAllocator& allocator = output ? (per_step ? ring_out : out) : (per_step ? ring_in : in);
            const auto [segment, offset] = allocator.append(bytes);
            (output ? entry.outputs : entry.inputs).push_back(TensorId(program_.tensors.size()));
            program_.tensors.push_back(tensor_of(name, type, segment, offset));
            program_.tensors.back().per_step = per_step;
            return SharedMemory::Placed{segment, offset};
        };
        memory_.constant = [&](const Tensor& value) { return place_constant(value); };
        TRY(EntryPlan plan, lower_entry(graph, grouping, memory_, kernels_, caps_, options_));
        for (const Buffer& buffer : plan.buffers) refuse_if(check_size(buffer.label, buffer.bytes()));
        plans_.push_back(std::move(plan));
        return {};
    }

    // Of the schedules of each entry the one whose memory packs best; where that is more than there is, longer ones too. What
    // still does not fit is refused before anything is allocated.
    Result<void> place_scratch() {
        for (EntryPlan& plan : plans_) scratch_.place_bundles(plan);
        for (const EntryPlan& plan : plans_) {
            const Dependence dependence = dependence_of(plan);
            std::vector<Schedule> schedules = shortest_schedules(dependence, scratch_.sizes(plan));
            layouts_.push_back(lay_out(plan, dependence, std::move(schedules.front())));
            schedules.erase(schedules.begin());
            if (options_.shorten_lives) improve(layouts_.back(), plan, dependence, std::move(schedules));
        }
        scarce_ = !fits();
        if (scarce_)
            for (size_t e = 0; e < plans_.size(); ++e) {
                const Dependence dependence = dependence_of(plans_[e]);
                std::vector<Schedule> schedules = serial_schedules(dependence, scratch_.sizes(plans_[e]), layouts_[e].schedule);
                schedules.push_back(layouts_[e].schedule);
                improve(layouts_[e], plans_[e], dependence, std::move(schedules));
            }
        if (!fits()) return memory_error(program_, plans_, layouts_, scratch_.needed_bytes(layouts_));
        scratch_.reserve(layouts_);
        for (size_t e = 0; e < plans_.size(); ++e) scratch_.place(plans_[e], layouts_[e]);
        return {};
    }

    Layout lay_out(const EntryPlan& plan, const Dependence& dependence, Schedule schedule) const {
        std::vector<uint32_t> pool;
        if (caps_.hazard == HazardKind::per_buffer && options_.spread_scratch && !scarce_)
            pool = spread(plan, dependence, schedule, scratch_.pools(plan), scratch_.sizes(plan));
        return scratch_.lay_out(plan, dependence, std::move(schedule), pool);
    }

    void improve(Layout& best, const EntryPlan& plan, const Dependence& dependence, std::vector<Schedule> schedules) const {
        for (Schedule& schedule : schedules) {
            Layout layout = lay_out(plan, dependence, std::move(schedule));
            if (layout.report.peak < best.report.peak) best = std::move(layout);
        }
    }

    bool fits() const {
        return caps_.memory_bytes == 0 || lasting_bytes(program_) + scratch_.needed_bytes(layouts_) <= caps_.memory_bytes;
    }

    SharedMemory::Placed place_constant(const Tensor& value) {
        std::vector<std::byte> bytes = value.bytes();
        for (const Constant& known : program_.constants)
            if (known.bytes == bytes) return {known.segment, known.offset};
        const auto [segment, offset] = constants_.append(bytes.size());
        program_.constants.push_back({segment, offset, std::move(bytes)});
        return {segment, offset};
    }

    Result<PlanReport> report(const Entry& entry, const ScratchReport& scratch) const {
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
        if (caps_.hazard == HazardKind::per_buffer) {
            TRY(out.buffer_barriers, buffer_barriers(entry));
        }
        out.scratch_bytes = scratch.peak;
        out.scratch_lower_bound = scratch.lower_bound;
        out.scratch_sum = scratch.sum;
        for (const Segment& segment : program_.segments)
            if (segment.kind == SegmentKind::state) out.state_bytes += segment.bytes;
        return out;
    }

    const Module& module_;
    const Caps& caps_;
    const PlanOptions& options_;
    Program program_;
    KernelTable kernels_;
    SegmentAllocator constants_;
    Scratch scratch_;
    SharedMemory memory_;
    std::vector<EntryPlan> plans_;  // by entry
    std::vector<Layout> layouts_;
    bool scarce_ = false;           // memory counts more than barriers
    std::optional<Error> refusal_;  // the first; all are in reasons_
    Reasons reasons_;
};

}  // namespace
}  // namespace darner::plan

namespace darner {

Result<Program> plan_module(const Module& module, const Caps& caps, const PlanOptions& options) {
    return plan::Planner(module, caps, options).run();
}

}  // namespace darner
