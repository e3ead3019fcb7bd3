// SPDX-License-Identifier: MIT
// darner op list and op show: the op table as text. Everything printed is read from the entries.
#include "cli/command.h"
#include "cli/op_doc.h"
#include "darner/base/nearest.h"
#include "darner/graph/op_def.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const OpDef& op) {
    Json operands = Json::array(), attrs = Json::array();
    for (const OperandDef& operand : op.operands)
        operands.push_back({{"name", operand.name}, {"optional", operand.optional}, {"variadic", operand.variadic}});
    for (const AttrDef& attr : op.attrs) {
        Json item{{"name", attr.name}, {"kind", to_string(attr.kind)}, {"required", attr.default_text.empty()}};
        if (!attr.default_text.empty()) item["default"] = attr.default_text;
        if (!attr.choices.empty()) item["choices"] = attr.choices;
        item["doc"] = attr.doc;
        attrs.push_back(std::move(item));
    }
    Json out{{"name", op.name},
             {"doc", op.doc},
             {"signature", signature(op)},
             {"operands", operands},
             {"attributes", attrs},
             {"gradient", gradient_kind(op)},
             {"lowering", lowering_kind(op)}};
    if (op.is_map()) out["ulp"] = op.ulp;
    if (!op.onnx.empty()) out["onnx"] = op.onnx;
    return out;
}

struct ListOptions {
    bool json = false, markdown = false;
};

Result<void> list_ops(const ListOptions& options) {
    if (options.markdown) {
        fmt::print("{}", ops_markdown());
        return {};
    }
    if (options.json) {
        Json out = Json::array();
        for (const OpDef* op : op_registry().all()) out.push_back(to_json(*op));
        fmt::print("{}\n", out.dump());
        return {};
    }
    size_t width = 0;
    for (const OpDef* op : op_registry().all()) width = std::max(width, op->name.size());
    for (const OpDef* op : op_registry().all()) fmt::print("{:<{}}  {}\n", op->name, width, op->doc);
    return {};
}

void print_attr(const AttrDef& attr) {
    const std::string kind = attr.choices.empty() ? to_string(attr.kind) : std::string(attr.choices);
    const std::string given = attr.default_text.empty() ? "required" : fmt::format("default {}", attr.default_text);
    if (attr.doc.empty())
        fmt::print("    {}: {}, {}\n", attr.name, kind, given);
    else
        fmt::print("    {}: {} ({}, {})\n", attr.name, attr.doc, kind, given);
}

void print_op(const OpDef& op) {
    fmt::print("{}\n  {}\n", signature(op), op.doc);
    if (!op.operands.empty()) fmt::print("  operands\n");
    for (const OperandDef& operand : op.operands)
        fmt::print("    {}{}\n", operand.name, operand.optional ? ": may be left out" : operand.variadic ? ": one or more" : "");
    if (!op.attrs.empty()) fmt::print("  attributes\n");
    for (const AttrDef& attr : op.attrs) print_attr(attr);
    fmt::print("  gradient  {}\n  lowering  {}\n", gradient_kind(op), lowering_kind(op));
    if (op.is_map())
        fmt::print("  error     {}\n", op.ulp == 0 ? std::string("exact") : fmt::format("at most {} ULP in f32", op.ulp));
    fmt::print("  ONNX      {}\n", op.onnx.empty() ? "no operator means the same" : op.onnx);
}

Result<void> show_op(const std::string& name, bool json) {
    const OpDef* op = op_registry().find(name);
    if (op == nullptr) {
        const std::string near = op_registry().nearest(name);
        return with_hint(invalid(fmt::format("[op] there is no op \"{}\"", name)),
                         near.empty() ? "darner op list shows all" : fmt::format("did you mean \"{}\"?", near));
    }
    if (json)
        fmt::print("{}\n", to_json(*op).dump());
    else
        print_op(*op);
    return {};
}

struct ShowOptions {
    std::string name;
    bool json = false;
};

}  // namespace

void add_op(CommandLine& line) {
    CLI::App& op = line.add_group("op", "List, describe and check the ops that graphs are made of");
    op.footer("Example:\n  darner op show rms_norm");

    auto list_options = std::make_shared<ListOptions>();
    CLI::App& list = line.add(op, "list", "All ops, a line each", "darner op list");
    add_json(list, list_options->json);
    list.add_flag("--markdown", list_options->markdown, "Print the manual of all ops, docs/ops.md")->excludes("--json");
    line.on_run(list, [list_options] { return list_ops(*list_options); });

    auto show_options = std::make_shared<ShowOptions>();
    CLI::App& show = line.add(op, "show", "What one op does, takes and how it is differentiated", "darner op show rms_norm");
    show.add_option("NAME", show_options->name, "Name of the op")->required()->type_name("");
    add_json(show, show_options->json);
    line.on_run(show, [show_options] { return show_op(show_options->name, show_options->json); });

    add_op_check(line, op);
}

}  // namespace darner::cli
