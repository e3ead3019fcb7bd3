// SPDX-License-Identifier: MIT
// verify(Program): what every device relies on when it loads a Program, checked in one place. It goes through all of it;
// a device that has seen verify() succeed may index and record without checks of its own. Hazards between dispatches are
// not judged here: the interpreter device proves the barriers by running them.
#include "darner/base/reasons.h"
#include "darner/program/program.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace darner {
namespace {

// Nothing sensible nests deeper; it keeps recursion over hostile files bounded.
constexpr int max_repeat_depth = 32;
constexpr uint64_t allocation_alignment = 16;
// Far more runs in flight than any queue takes; each slot costs a device some memory of its own.
constexpr uint32_t max_ring_slots = 1024;

std::optional<uint64_t> element_bytes(std::string_view dtype) {
    if (dtype == "f64" || dtype == "i64") return 8;
    if (dtype == "f32" || dtype == "i32" || dtype == "u32") return 4;
    if (dtype == "f16" || dtype == "bf16") return 2;
    if (dtype == "i8" || dtype == "u8" || dtype == "bool") return 1;
    return std::nullopt;
}

bool overlap(const BindingWindow& a, const BindingWindow& b) {
    return a.segment == b.segment && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

class Verifier {
public:
    Verifier(const Program& program, const Caps& caps) : program_(program), caps_(caps) {}

    Result<void> run() {
        for (size_t i = 0; i < program_.segments.size(); ++i) check_segment(i);
        for (size_t i = 0; i < program_.tensors.size(); ++i) check_tensor(i);
        check_rings();
        check_state_names();
        for (size_t i = 0; i < program_.constants.size(); ++i) check_constant(i);
        for (const KernelCode& code : program_.kernels) check_kernel(code.kir);
        std::set<std::string_view> names;
        for (const Entry& entry : program_.entries) {
            if (!names.insert(entry.name).second) fail("entry '{}' appears twice", entry.name);
            entry_ = &entry;
            place_ = fmt::format("entry '{}'", entry.name);
            check_table(entry.inputs, "input");
            check_table(entry.outputs, "output");
            check_items(entry.body, 0);
        }
        if (violations_.empty()) return {};
        return invalid("[program] not valid: " + violations_.text());
    }

private:
    template <class... Args>
    void fail(fmt::format_string<Args...> format, Args&&... args) {
        violations_.add(fmt::format(format, std::forward<Args>(args)...));
    }

    // False when the range is not usable at all; reports why.
    bool check_range(std::string_view what, SegmentId segment, uint64_t offset, uint64_t bytes) {
        if (segment.value >= program_.segments.size()) {
            fail("{}: segment {} does not exist ({} segments)", what, segment.value, program_.segments.size());
            return false;
        }
        const uint64_t size = program_.segment(segment).bytes;
        if (offset > size || bytes > size - offset) {
            fail("{}: bytes [{}, +{}) end behind segment {} of {} bytes", what, offset, bytes, segment.value, size);
            return false;
        }
        check_ring_use(segment);
        return true;
    }

    // The slots of a ring go by the runs of one entry.
    void check_ring_use(SegmentId segment) {
        if (entry_ == nullptr || program_.segment(segment).slots <= 1) return;
        const Entry*& user = ring_users_.try_emplace(segment.value, entry_).first->second;
        if (user == entry_) return;
        fail("{}: uses ring segment {} of entry '{}'", place_, segment.value, user->name);
        user = entry_;  // once is enough
    }

    void check_segment(size_t index) {
        const Segment& s = program_.segments[index];
        if (s.bytes > caps_.max_segment_bytes)
            fail("segment {}: {} bytes, the device's limit is {}", index, s.bytes, caps_.max_segment_bytes);
        if (s.bytes % allocation_alignment)
            fail("segment {}: {} bytes is no multiple of {}", index, s.bytes, allocation_alignment);
        if (s.slots == 0 || s.slots > max_ring_slots)
            fail("segment {}: a ring of {} slots, allowed are 1 to {}", index, s.slots, max_ring_slots);
        if (s.slots > 1 && s.kind != SegmentKind::io)
            fail("segment {}: a ring of {} slots of kind {}; only io has rings", index, s.slots, to_string(s.kind));
        uint64_t end = 0;
        for (const ByteRange& zeros : s.kept_zero) {
            if (zeros.offset < end || zeros.offset > s.bytes || zeros.bytes > s.bytes - zeros.offset || zeros.bytes == 0)
                return fail("segment {}: kept zeros [{}, +{}) are not ascending ranges within its {} bytes", index, zeros.offset,
                            zeros.bytes, s.bytes);
            end = zeros.offset + zeros.bytes;
        }
        if (!s.kept_zero.empty() && (s.kind != SegmentKind::scratch || !s.zeroed))
            fail("segment {}: keeps zeros but is no zeroed scratch", index);
    }

    void check_tensor(size_t index) {
        const ProgramTensor& t = program_.tensors[index];
        const std::string what = fmt::format("tensor '{}'", t.name);
        check_range(what, t.segment, t.offset, t.bytes);
        if (t.offset % allocation_alignment) fail("{}: offset {} is no multiple of {}", what, t.offset, allocation_alignment);
        uint64_t elements = 1;
        for (int64_t d : t.dims) {
            if (d < 0 || (d > 0 && elements > UINT64_MAX / 8 / uint64_t(d))) return fail("{}: impossible dimension {}", what, d);
            elements *= uint64_t(d);
        }
        const std::optional<uint64_t> size = element_bytes(t.dtype);
        if (!size)
            fail("{}: unknown dtype '{}'", what, t.dtype);
        else if (elements * *size != t.bytes)
            fail("{}: {} bytes, but {}[{}] has {}", what, t.bytes, t.dtype, fmt::join(t.dims, ","), elements * *size);
    }

    // Per-step tensors lie in io, in segments of their own; and what is not per step in no ring.
    void check_rings() {
        std::map<uint32_t, bool> per_step;  // of a segment
        for (const ProgramTensor& t : program_.tensors) {
            if (t.segment.value >= program_.segments.size()) continue;
            const Segment& s = program_.segment(t.segment);
            if (t.per_step && s.kind != SegmentKind::io)
                fail("tensor '{}': per step, but in segment {} of kind {}", t.name, t.segment.value, to_string(s.kind));
            if (!t.per_step && s.slots > 1)
                fail("tensor '{}': not per step, but in ring segment {}", t.name, t.segment.value);
            else if (per_step.try_emplace(t.segment.value, t.per_step).first->second != t.per_step)
                fail("tensor '{}': segment {} holds tensors per step and others", t.name, t.segment.value);
        }
    }

    void check_state_names() {
        std::set<std::string_view> names;
        for (const ProgramTensor& t : program_.tensors) {
            if (t.segment.value >= program_.segments.size() || program_.segment(t.segment).kind != SegmentKind::state) continue;
            if (!names.insert(t.name).second) fail("state tensor '{}' appears twice", t.name);
        }
    }

    void check_constant(size_t index) {
        const Constant& c = program_.constants[index];
        const std::string what = fmt::format("constant {}", index);
        if (!check_range(what, c.segment, c.offset, c.bytes.size())) return;
        if (program_.segment(c.segment).kind == SegmentKind::scratch)
            fail("{}: lies in scratch segment {}, which does not last", what, c.segment.value);
        if (c.offset % 4) fail("{}: offset {} is no multiple of 4", what, c.offset);
    }

    void check_kernel(const kir::Kernel& k) {
        const std::string what = fmt::format("kernel '{}'", k.name);
        uint64_t invocations = 1;
        for (size_t axis = 0; axis < 3; ++axis) {
            const uint32_t size = k.workgroup_size[axis];
            if (size == 0 || size > caps_.max_workgroup_size[axis])
                fail("{}: workgroup size {} on axis {}, allowed are 1 to {}", what, size, axis, caps_.max_workgroup_size[axis]);
            invocations *= size;
        }
        if (invocations > caps_.max_invocations)
            fail("{}: {} invocations a workgroup, the device's limit is {}", what, invocations, caps_.max_invocations);
        if (k.workgroup_bytes() > caps_.max_workgroup_bytes)
            fail("{}: {} bytes of workgroup memory, the device's limit is {}", what, k.workgroup_bytes(),
                 caps_.max_workgroup_bytes);
        if (k.bindings.size() > caps_.max_storage_bindings)
            fail("{}: {} bindings, the device's limit is {}", what, k.bindings.size(), caps_.max_storage_bindings);
        if (k.params.size() * 4 > caps_.max_param_bytes)
            fail("{}: {} bytes of parameters, the device's limit is {}", what, k.params.size() * 4, caps_.max_param_bytes);
        const uint32_t wanted = k.required_subgroup_size;
        const bool controlled = caps_.subgroup_size_control && wanted >= caps_.subgroup_min && wanted <= caps_.subgroup_max;
        const bool fixed = wanted == caps_.subgroup_size && caps_.subgroup_min == caps_.subgroup_max;
        if (wanted != 0 && !controlled && !fixed)
            fail("{}: needs subgroups of {}, which the device cannot promise", what, wanted);
    }

    void check_table(const std::vector<TensorId>& ids, const char* table) {
        std::set<std::string_view> names;
        for (TensorId id : ids) {
            if (id.value >= program_.tensors.size()) {
                fail("{}: {} tensor {} does not exist", place_, table, id.value);
                continue;
            }
            const ProgramTensor& t = program_.tensor(id);
            if (!names.insert(t.name).second) fail("{}: {} '{}' appears twice", place_, table, t.name);
            if (t.segment.value >= program_.segments.size()) continue;  // reported with the tensor
            check_ring_use(t.segment);
            if (const SegmentKind kind = program_.segment(t.segment).kind; kind != SegmentKind::io && kind != SegmentKind::state)
                fail("{}: {} '{}' lies in segment {} of kind {}, out of the host's reach", place_, table, t.name, t.segment.value,
                     to_string(kind));
        }
    }

    void check_items(const std::vector<Item>& items, int depth) {
        if (depth > max_repeat_depth) return fail("{}: repeats nest deeper than {}", place_, max_repeat_depth);
        for (const Item& item : items) {
            if (const Dispatch* d = std::get_if<Dispatch>(&item)) check_dispatch(*d);
            if (const Copy* c = std::get_if<Copy>(&item)) check_copy(*c);
            if (const Repeat* r = std::get_if<Repeat>(&item)) check_repeat(*r, depth);
        }
    }

    // The body may read its counter, never write it: the device counts on the host's side and would overwrite what it finds.
    void check_repeat(const Repeat& r, int depth) {
        counters_.push_back(r.counter ? &*r.counter : nullptr);
        if (r.counter) check_counter(*r.counter);
        check_items(r.body, depth + 1);
        counters_.pop_back();
    }

    void check_counter(const BindingWindow& w) {
        const std::string what = place_ + ", counter of a repeat";
        if (w.bytes != 4 || w.offset % 4) fail("{}: bytes [{}, +{}) are not one word", what, w.offset, w.bytes);
        if (check_range(what, w.segment, w.offset, w.bytes)) check_written(what, w, counters_.size() - 1);
    }

    // `w` is written by an item within the first `depth` of the repeats around it.
    void check_written(std::string_view what, const BindingWindow& w, size_t depth) {
        if (program_.segment(w.segment).kind == SegmentKind::constant)
            fail("{}: writes constant segment {}", what, w.segment.value);
        for (size_t i = 0; i < depth; ++i)
            if (counters_[i] != nullptr && overlap(*counters_[i], w)) fail("{}: writes the counter of a repeat around it", what);
    }

    void check_dispatch(const Dispatch& d) {
        const std::string what = fmt::format("{}, dispatch '{}'", place_, d.label);
        if (d.kernel.value >= program_.kernels.size()) return fail("{}: kernel {} does not exist", what, d.kernel.value);
        const kir::Kernel& k = program_.kernel(d.kernel).kir;
        for (size_t axis = 0; axis < 3; ++axis)
            if (d.groups[axis] == 0 || d.groups[axis] > caps_.max_groups[axis])
                fail("{}: {} workgroups on axis {}, allowed are 1 to {}", what, d.groups[axis], axis, caps_.max_groups[axis]);
        if (d.params.size() != k.params.size())
            fail("{}: {} parameter words, kernel '{}' takes {}", what, d.params.size(), k.name, k.params.size());
        if (d.bindings.size() != k.bindings.size())
            return fail("{}: {} bindings, kernel '{}' has {}", what, d.bindings.size(), k.name, k.bindings.size());
        for (size_t i = 0; i < d.bindings.size(); ++i) check_binding(what, d.bindings[i], k.bindings[i]);
        for (size_t i = 0; i < d.bindings.size(); ++i)
            for (size_t j = 0; j < i; ++j) {
                const BindingWindow &a = d.bindings[j], &b = d.bindings[i];
                if ((a.access != kir::Access::read || b.access != kir::Access::read) && overlap(a, b))
                    fail("{}: bindings '{}' and '{}' overlap and one is written", what, k.bindings[j].name, k.bindings[i].name);
            }
        if (caps_.hazard == HazardKind::per_buffer) check_one_use_per_buffer(what, d, k);
        if (d.groups_from) check_groups_from(what, d, k);
    }

    // Where hazards go by buffer, a dispatch has each buffer either read-only or writable.
    void check_one_use_per_buffer(const std::string& what, const Dispatch& d, const kir::Kernel& k) {
        for (size_t i = 0; i < d.bindings.size(); ++i) {
            if (d.bindings[i].access != kir::Access::read || k.bindings[i].in_written_buffer) continue;
            for (size_t j = 0; j < d.bindings.size(); ++j)
                if (d.bindings[j].segment == d.bindings[i].segment &&
                    (d.bindings[j].access != kir::Access::read || k.bindings[j].in_written_buffer)) {
                    fail("{}: binding '{}' is read-only in segment {}, which '{}' has writable", what, k.bindings[i].name,
                         d.bindings[i].segment.value, k.bindings[j].name);
                    break;
                }
        }
    }

    // Where hazards go by buffer, no buffer is both the source of the counts and written in one dispatch.
    void check_groups_from(const std::string& dispatch, const Dispatch& d, const kir::Kernel& k) {
        const BindingWindow& w = *d.groups_from;
        const std::string what = dispatch + ", workgroup counts";
        if (w.bytes != 12 || w.offset % 4) fail("{}: bytes [{}, +{}) are not three words", what, w.offset, w.bytes);
        if (!check_range(what, w.segment, w.offset, w.bytes)) return;
        const bool whole_buffer = caps_.hazard == HazardKind::per_buffer;
        for (size_t i = 0; i < d.bindings.size(); ++i) {
            const BindingWindow& b = d.bindings[i];
            if (b.access == kir::Access::read || !(whole_buffer ? b.segment == w.segment : overlap(b, w))) continue;
            fail("{}: binding '{}' of the same dispatch writes {}", what, k.bindings[i].name,
                 whole_buffer ? "in their segment" : "them");
        }
    }

    void check_binding(std::string_view dispatch, const BindingWindow& w, const kir::Binding& binding) {
        const std::string what = fmt::format("{}, binding '{}'", dispatch, binding.name);
        if (w.access != binding.access)
            fail("{}: bound for {}, the kernel declares {}", what, kir::to_string(w.access), kir::to_string(binding.access));
        if (!check_range(what, w.segment, w.offset, w.bytes)) return;
        if (w.bytes == 0 || w.bytes % 4) fail("{}: window of {} bytes; it must be a positive multiple of 4", what, w.bytes);
        if (w.bytes > caps_.max_binding_bytes)
            fail("{}: window of {} bytes, the device's limit is {}", what, w.bytes, caps_.max_binding_bytes);
        if (caps_.offset_alignment != 0 && w.offset % caps_.offset_alignment)
            fail("{}: offset {} is no multiple of the device's {}", what, w.offset, caps_.offset_alignment);
        const uint64_t element = uint64_t(kir::byte_size(binding.scalar)) * binding.lanes;
        if (binding.elements > w.bytes / element)
            fail("{}: the kernel touches {} elements of {} bytes, the window has {} bytes", what, binding.elements, element,
                 w.bytes);
        if (w.access != kir::Access::read) check_written(what, w, counters_.size());
    }

    void check_copy(const Copy& c) {
        const std::string what = place_ + ", copy";
        const bool source_usable = check_range(what + " source", c.source.segment, c.source.offset, c.source.bytes);
        const bool target_usable = check_range(what + " target", c.target.segment, c.target.offset, c.target.bytes);
        if (c.source.bytes != c.target.bytes) fail("{}: source has {} bytes, target {}", what, c.source.bytes, c.target.bytes);
        if (c.source.bytes == 0 || (c.source.bytes | c.source.offset | c.target.offset) % 4)
            fail("{}: sizes and offsets must be multiples of 4 and sizes above zero", what);
        if (!source_usable || !target_usable) return;
        if (overlap(c.source, c.target)) fail("{}: source and target overlap", what);
        check_written(what + " target", c.target, counters_.size());
    }

    const Program& program_;
    const Caps& caps_;
    const Entry* entry_ = nullptr;                 // whose items are being checked
    std::vector<const BindingWindow*> counters_;   // of the repeats around the item; null for one without
    std::map<uint32_t, const Entry*> ring_users_;  // of a ring segment
    std::string place_;
    Reasons violations_;
};

}  // namespace

Result<void> verify(const Program& program) { return verify(program, program.caps); }

Result<void> verify(const Program& program, const Caps& caps) { return Verifier(program, caps).run(); }

}  // namespace darner
