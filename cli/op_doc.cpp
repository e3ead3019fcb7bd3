// SPDX-License-Identifier: MIT
// docs/ops.md from the registry. What stands here is about all ops or about kinds of them; what is about one op is read from
// its entry.
#include "cli/op_doc.h"

#include <fmt/format.h>

#include <iterator>

namespace darner::cli {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
    using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

constexpr std::string_view head = R"(# Ops

Every op that graphs are made of, read from the op table: `darner op list --markdown` prints this page, and `./dev update`
writes it. `darner op show NAME` prints one op; `darner op check NAME` checks one against the reference.

A signature is spelled as in the text form (`docs/text-form.md`): `x?` may be left out, `x...` is one or more, an attribute
shows its default, and `<kind>` stands for one that must be given.

## What holds for all

- **Shapes** are explicit: elementwise ops take operands of one shape. The Builder and the text form add `broadcast`.
- **NaN** propagates through arithmetic, min, max and relu, elementwise and as reductions.
- **Integers** wrap; division and remainder truncate, and by zero give 0. Float to integer truncates and saturates, NaN gives 0.
- **Ties**: the gradient of a max or min reduction splits evenly among ties; argmax takes the lowest index.
- **Indices** are i32 or u32; out of range, reads clamp and scatters drop.
- **Empty**: a sum over nothing is 0; max, min, mean and argmax over nothing are errors.

**Gradient** says what an entry states and reverse mode derives the rest from:

| kind | what the entry states |
|---|---|
| zero | nothing: the result does not depend smoothly on the operands |
| deriv | the derivative by each operand; the engine multiplies by the cotangent |
| linear | the transpose, applied to the cotangent |
| bilinear | the transpose by each operand with the other one held fixed |
| custom | the cotangents of the operands |
| by_expansion | nothing: the ops that it expands into are differentiated |

**Error** is what `op check` allows on a device, against the reference in f64 and at magnitudes of 1e-2, 1 and 1e2:

- an elementwise op has its bound in ULP of f32; *exact* is a bound of 0;
- a product sums K terms: `4 u sqrt(K) (|a| |b|)`, where u is half the spacing of the dtype's values at 1 (2^-24 for f32) and
  `|a| |b|` is the product of the magnitudes;
- everything else, and all other gradients: 1e-5 of the value, plus 1e-6 of the tensor's largest magnitude, plus four times
  what perturbing each step of the formula by its own bound changes;
- f16 and bf16 results may be off by their own rounding too, integers and bools not at all.
)";

// One section a kind of lowering: what is alike to the planner is alike to a reader.
struct Section {
    std::string_view lowering, title, text;
};
constexpr Section sections[] = {
    {"map", "Elementwise", "Each element from the operands' elements at the same place."},
    {"reduce", "Reductions", "Over some axes, in an order that is fixed on a device."},
    {"contract", "Products", "Sums of products of two operands' elements."},
    {"view", "Views", "The operand's elements under other indices; fused into whatever reads them."},
    {"index", "Indexed", "Elements of the operands, or of a formula, at computed places."},
    {"kernel", "With a kernel of their own", "The planner knows their kernels by name."},
    {"expand", "Composites", "Expanded into the ops above before planning, which fuses them again by structure."},
};

// Within a table a bar would end the cell.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

void append_attributes(std::string& out, const OpDef& op) {
    if (op.attrs.empty()) return;
    out += "\n| attribute | kind | default | meaning |\n|---|---|---|---|\n";
    for (const AttrDef& attr : op.attrs) {
        const std::string kind = attr.choices.empty() ? to_string(attr.kind) : cell(attr.choices);
        const std::string given = attr.default_text.empty() ? "required" : fmt::format("`{}`", attr.default_text);
        fmt::format_to(std::back_inserter(out), "| `{}` | {} | {} | {} |\n", attr.name, kind, given, cell(attr.doc));
    }
}

std::string facts(const OpDef& op) {
    std::string out = fmt::format("Gradient: {}.", gradient_kind(op));
    if (op.is_map()) out += op.ulp == 0 ? std::string(" Error: exact.") : fmt::format(" Error: at most {} ULP.", op.ulp);
    if (std::holds_alternative<ContractLower>(op.lower)) out += " Error: that of a product.";
    if (op.commutative) out += " Commutative.";
    if (const auto* kernel = std::get_if<KernelLower>(&op.lower)) out += fmt::format(" Kernel: {}.", kernel->name);
    if (!op.onnx.empty()) out += fmt::format(" ONNX: `{}`.", op.onnx);
    return out;
}

void append_op(std::string& out, const OpDef& op) {
    fmt::format_to(std::back_inserter(out), "\n### {}\n\n`{}`\n\n{}\n", op.name, signature(op), op.doc);
    append_attributes(out, op);
    fmt::format_to(std::back_inserter(out), "\n{}\n", facts(op));
}

bool belongs(const OpDef& op, const Section& section) {
    const std::string kind = lowering_kind(op);
    return kind == section.lowering || kind.starts_with(std::string(section.lowering) + " ");
}

}  // namespace

std::string gradient_kind(const OpDef& op) {
    return std::visit(Overloaded{[](const ZeroGrad&) { return "zero"; }, [](const Deriv&) { return "deriv"; },
                                 [](const Linear&) { return "linear"; }, [](const Bilinear&) { return "bilinear"; },
                                 [](const CustomGrad&) { return "custom"; }, [](const ByExpansion&) { return "by_expansion"; }},
                      op.grad);
}

std::string lowering_kind(const OpDef& op) {
    using std::string;
    return std::visit(
        Overloaded{[](const MapLower&) { return string("map"); }, [](const ReduceLower&) { return string("reduce"); },
                   [](const ViewLower&) { return string("view"); }, [](const IndexLower&) { return string("index"); },
                   [](const ContractLower&) { return string("contract"); },
                   [](const KernelLower& kernel) { return fmt::format("kernel {}", kernel.name); },
                   [](const ExpandLower&) { return string("expand"); }},
        op.lower);
}

std::string signature(const OpDef& op) {
    std::string inside;
    const auto add = [&](const std::string& part) { inside += (inside.empty() ? "" : ", ") + part; };
    for (const OperandDef& operand : op.operands)
        add(std::string(operand.name) + (operand.optional ? "?" : "") + (operand.variadic ? "..." : ""));
    for (const AttrDef& attr : op.attrs)
        add(fmt::format("{}={}", attr.name,
                        attr.default_text.empty() ? fmt::format("<{}>", to_string(attr.kind)) : attr.default_text));
    return fmt::format("{}({})", op.name, inside);
}

std::string ops_markdown() {
    std::string out(head);
    for (const Section& section : sections) {
        std::string links, ops;
        for (const OpDef* op : op_registry().all()) {
            if (!belongs(*op, section)) continue;
            links += fmt::format("{}[{}](#{})", links.empty() ? "" : ", ", op->name, op->name);
            append_op(ops, *op);
        }
        if (!ops.empty()) out += fmt::format("\n## {}\n\n{}\n\n{}\n{}", section.title, section.text, links, ops);
    }
    return out;
}

}  // namespace darner::cli
