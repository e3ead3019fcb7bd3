// SPDX-License-Identifier: MIT
// Look-ups in a Program and its text for people. The text has no parser: the .dp file is the lossless form.
#include "darner/program/program.h"

#include <fmt/format.h>

#include <iterator>

namespace darner {

const char* to_string(SegmentKind kind) {
    switch (kind) {
        case SegmentKind::state: return "state";
        case SegmentKind::io: return "io";
        case SegmentKind::scratch: return "scratch";
        case SegmentKind::constant: return "constant";
    }
    bug(__FILE__, __LINE__, "SegmentKind out of range");
}

const Entry* Program::find_entry(std::string_view name) const {
    for (const Entry& entry : entries)
        if (entry.name == name) return &entry;
    return nullptr;
}

TensorId Program::find_state(std::string_view name) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
        const ProgramTensor& t = tensors[i];
        if (t.name == name && t.segment.value < segments.size() && segment(t.segment).kind == SegmentKind::state)
            return TensorId(i);
    }
    return {};
}

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string window_text(const BindingWindow& w) { return fmt::format("s{}[{}+{}]", w.segment.value, w.offset, w.bytes); }

void write_items(Out out, const Program& program, const std::vector<Item>& items, int depth) {
    const std::string indent(size_t(depth) * 2, ' ');
    for (const Item& item : items) {
        if (const Dispatch* d = std::get_if<Dispatch>(&item)) {
            const bool known = d->kernel.value < program.kernels.size();
            fmt::format_to(out, "{}dispatch k{} {} [{}, {}, {}] (", indent, d->kernel.value,
                           known ? program.kernel(d->kernel).kir.name : "?", d->groups[0], d->groups[1], d->groups[2]);
            for (size_t i = 0; i < d->bindings.size(); ++i)
                fmt::format_to(out, "{}{} {}", i ? ", " : "", kir::to_string(d->bindings[i].access), window_text(d->bindings[i]));
            fmt::format_to(out, ")");
            for (size_t i = 0; i < d->params.size(); ++i) fmt::format_to(out, "{}{}", i ? ", " : " params ", d->params[i]);
            if (d->groups_from) fmt::format_to(out, " groups from {}", window_text(*d->groups_from));
            fmt::format_to(out, "{}{}\n", d->label.empty() ? "" : "  # ", d->label);
        } else if (std::holds_alternative<Barrier>(item)) {
            fmt::format_to(out, "{}barrier\n", indent);
        } else if (const Copy* c = std::get_if<Copy>(&item)) {
            fmt::format_to(out, "{}copy {} -> {}\n", indent, window_text(c->source), window_text(c->target));
        } else if (const Repeat* r = std::get_if<Repeat>(&item)) {
            fmt::format_to(out, "{}repeat {}{} {{\n", indent, r->count, r->counter ? " counter " + window_text(*r->counter) : "");
            write_items(out, program, r->body, depth + 1);
            fmt::format_to(out, "{}}}\n", indent);
        }
    }
}

void write_table(Out out, const Program& program, const char* title, const std::vector<TensorId>& ids) {
    fmt::format_to(out, "  {}:", title);
    for (TensorId id : ids) fmt::format_to(out, " {}", id.value < program.tensors.size() ? program.tensor(id).name : "?");
    fmt::format_to(out, "\n");
}

}  // namespace

std::string to_text(const Program& program) {
    std::string text;
    Out out(text);
    for (size_t i = 0; i < program.segments.size(); ++i) {
        const Segment& s = program.segments[i];
        fmt::format_to(out, "segment s{} {} {} bytes{}{}\n", i, to_string(s.kind), s.bytes, s.zeroed ? " zeroed" : "",
                       s.slots == 1 ? "" : fmt::format(" slots {}", s.slots));
    }
    for (size_t i = 0; i < program.tensors.size(); ++i) {
        const ProgramTensor& t = program.tensors[i];
        fmt::format_to(out, "tensor t{} {} {}[{}] s{}[{}+{}]{}{}{}{}\n", i, t.name, t.dtype, fmt::join(t.dims, ","),
                       t.segment.value, t.offset, t.bytes, t.role.empty() ? "" : " ", t.role, t.trainable ? " trainable" : "",
                       t.per_step ? " per_step" : "");
    }
    for (const Constant& c : program.constants)
        fmt::format_to(out, "constant s{}[{}+{}]\n", c.segment.value, c.offset, c.bytes.size());
    for (size_t i = 0; i < program.kernels.size(); ++i) {
        const kir::Kernel& k = program.kernels[i].kir;
        fmt::format_to(out, "kernel k{} {} workgroup [{}, {}, {}] bindings {} hash {:016x}\n", i, k.name, k.workgroup_size[0],
                       k.workgroup_size[1], k.workgroup_size[2], k.bindings.size(), program.kernels[i].hash);
    }
    for (const Entry& entry : program.entries) {
        fmt::format_to(out, "entry {} {{\n", entry.name);
        write_table(out, program, "inputs", entry.inputs);
        write_table(out, program, "outputs", entry.outputs);
        write_items(out, program, entry.body, 1);
        fmt::format_to(out, "}}\n");
    }
    for (const PlanReport& r : program.reports)
        fmt::format_to(
            out,
            "report {}: kernels {}, dispatches {}, barriers {}, scratch {} bytes (lower bound {}, without reuse {}), state {} "
            "bytes, moved {} bytes, {} FLOP\n",
            r.entry, r.kernels, r.dispatches, r.barriers, r.scratch_bytes, r.scratch_lower_bound, r.scratch_sum, r.state_bytes,
            r.bytes_moved, r.flops);
    return text;
}

}  // namespace darner
