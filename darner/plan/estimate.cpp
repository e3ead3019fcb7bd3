// SPDX-License-Identifier: MIT
#include "darner/plan/estimate.h"

#include "darner/kir/features.h"
#include "darner/program/groups.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace darner {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

// What one invocation does to memory at most.
struct Accesses {
    std::vector<double> read, written;  // bytes, a binding
    double waits = 0;                   // loads one after the other
};

class AccessCounter {
public:
    explicit AccessCounter(const kir::Kernel& kernel) : kernel_(kernel) {
        result_.read.resize(kernel.bindings.size());
        result_.written.resize(kernel.bindings.size());
    }
    Accesses run() {
        result_.waits = walk(BlockId(0), 1);
        return std::move(result_);
    }

private:
    using BlockId = kir::BlockId;

    // The waits of one pass through a block that runs `times` times.
    double walk(BlockId id, double times) {
        double waits = 0;
        bool loads = false;
        for (const kir::ValueId v : kernel_.block(id).instructions) {
            const kir::Instruction& inst = kernel_.at(v);
            switch (inst.op) {
                case kir::Opcode::load:
                    add(result_.read, inst.aux, times * kir::byte_size(inst.type.scalar) * inst.type.lanes);
                    loads = true;
                    break;
                case kir::Opcode::store: add(result_.written, inst.aux, times * element_bytes(inst.aux)); break;
                case kir::Opcode::loop: {
                    const std::optional<uint64_t> rounds = kir::rounds_of(kernel_, v);
                    if (rounds == 0u) break;
                    const double body = walk(inst.first_block, times * (rounds ? double(*rounds) : unbounded));
                    waits += double(rounds.value_or(1)) * body;
                    break;
                }
                case kir::Opcode::branch:
                    waits += std::max(walk(inst.first_block, times), walk(BlockId(inst.first_block.value + 1), times));
                    break;
                case kir::Opcode::atomic:
                    add(result_.read, inst.aux, times * 4);
                    add(result_.written, inst.aux, times * 4);
                    break;
                case kir::Opcode::coop_load:
                case kir::Opcode::coop_store:
                    // The matrix's memory is spread over the subgroup; the window is bound enough.
                    if ((inst.aux2 & kir::coop_from_array) == 0)
                        add(inst.op == kir::Opcode::coop_load ? result_.read : result_.written, inst.aux, unbounded);
                    loads |= inst.op == kir::Opcode::coop_load;
                    break;
                default: break;
            }
        }
        return waits + (loads ? 1 : 0);
    }

    void add(std::vector<double>& bytes, uint32_t binding, double more) { bytes[binding] += more; }
    double element_bytes(uint32_t binding) const {
        return double(kir::byte_size(kernel_.bindings[binding].scalar)) * kernel_.bindings[binding].lanes;
    }

    const kir::Kernel& kernel_;
    Accesses result_;
};

// Bytes of a set of windows, overlaps once; no more than `most` of each window.
struct Range {
    BindingWindow window;
    double most = unbounded;
};
double bytes_of(std::vector<Range> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return std::pair(a.window.segment, a.window.offset) < std::pair(b.window.segment, b.window.offset);
    });
    double total = 0;
    SegmentId segment;
    uint64_t end = 0;
    for (const Range& range : ranges) {
        if (range.window.segment != segment) end = 0;
        segment = range.window.segment;
        const uint64_t begin = std::max(end, range.window.offset), stop = range.window.offset + range.window.bytes;
        if (stop > begin) total += std::min(static_cast<double>(stop - begin), range.most);
        end = std::max(end, stop);
    }
    return total;
}

class Estimator {
public:
    Estimator(const Program& program, const Rates& rates) : program_(program), rates_(rates) {}

    EntryEstimate run(const std::vector<BarrierGroup>& groups) {
        EntryEstimate total;
        for (const BarrierGroup& group : groups) {
            GroupEstimate& out = total.groups.emplace_back();
            double longest = 0, work = 0;
            for (const Member& member : group) {
                const Cost cost = member.dispatch ? cost_of(*member.dispatch) : member.copy ? cost_of(*member.copy) : Cost{};
                const double alone = std::max(cost.work / cost.share, cost.latency);
                longest = std::max(longest, alone);
                work += cost.work;
                DispatchEstimate& row = out.members.emplace_back();
                row.label = member.dispatch ? member.dispatch->label : member.copy ? "copy" : "counter";
                if (member.dispatch) {
                    row.kernel = program_.kernel(member.dispatch->kernel).kir.name;
                    row.workgroups = member.dispatch->groups;
                    row.flops = member.dispatch->flops;
                }
                row.bytes = static_cast<uint64_t>(cost.bytes);
                row.seconds = alone + rates_.dispatch_seconds;
                total.bytes += row.bytes;
                total.flops += row.flops;
            }
            out.seconds = rates_.group_seconds + double(group.size()) * rates_.dispatch_seconds + std::max(longest, work);
            total.seconds += out.seconds;
        }
        return total;
    }

private:
    struct Cost {
        double bytes = 0, work = 0, share = 1, latency = 0;
    };

    Cost cost_of(const Dispatch& dispatch) {
        const kir::Kernel& kernel = program_.kernel(dispatch.kernel).kir;
        auto found = accesses_.find(dispatch.kernel);
        if (found == accesses_.end()) found = accesses_.emplace(dispatch.kernel, AccessCounter(kernel).run()).first;
        const Accesses& accesses = found->second;
        const double workgroups = double(dispatch.groups[0]) * dispatch.groups[1] * dispatch.groups[2];
        const double invocations = workgroups * kernel.invocations();
        std::vector<Range> read, written;
        for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
            if (accesses.read[i] > 0) read.push_back({dispatch.bindings[i], accesses.read[i] * invocations});
            if (accesses.written[i] > 0) written.push_back({dispatch.bindings[i], accesses.written[i] * invocations});
        }
        Cost cost;
        cost.bytes = bytes_of(std::move(read)) + bytes_of(std::move(written));
        const double rate = dispatch.label.starts_with("contract[") ? rates_.contraction_flops : rates_.flops;
        cost.work = std::max(cost.bytes / rates_.bytes_per_second, double(dispatch.flops) / rate);
        cost.share = std::min(1.0, workgroups / rates_.compute_units);
        cost.latency = accesses.waits * rates_.load_seconds;
        return cost;
    }

    Cost cost_of(const Copy& copy) const {
        Cost cost;
        cost.bytes = 2.0 * double(copy.source.bytes);
        cost.work = cost.bytes / rates_.bytes_per_second;
        cost.latency = rates_.load_seconds;
        return cost;
    }

    const Program& program_;
    const Rates& rates_;
    std::map<KernelId, Accesses> accesses_;
};

}  // namespace

Rates rates_of(const Caps& caps) {
    const Caps usual = h200_caps();
    const auto measured = [](double rate, double otherwise) { return rate > 0 ? rate : otherwise; };
    Rates rates;
    rates.bytes_per_second = measured(caps.copy_bytes_per_second, usual.copy_bytes_per_second);
    rates.flops = measured(caps.f32_flops, usual.f32_flops);
    rates.contraction_flops = rates.flops;
    rates.dispatch_seconds = measured(caps.dispatch_seconds, usual.dispatch_seconds);
    rates.group_seconds = measured(caps.barrier_seconds, usual.barrier_seconds);
    rates.load_seconds = 0.3e-6;  // of memory behind the caches of a large GPU
    rates.compute_units = std::max(1u, caps.compute_units);
    return rates;
}

Result<EntryEstimate> estimate(const Program& program, const Entry& entry, const Rates& rates) {
    TRY(const std::vector<BarrierGroup> groups, barrier_groups(entry));
    return Estimator(program, rates).run(groups);
}

}  // namespace darner
