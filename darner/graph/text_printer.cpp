// SPDX-License-Identifier: MIT
// Prints graphs as text. Nodes are printed in their order, one a line; a node that is unnamed, used once and made just before
// its user moves into the user's line. The parser makes the operands of a call in the order of the text, then the constants
// that stand as bare numbers, then the call: so nodes come back in the same order with the same ids.
#include "darner/graph/attr.h"
#include "darner/graph/lexer.h"
#include "darner/graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace darner {

namespace {

constexpr size_t max_line = 110;
constexpr int max_nesting = 4;
constexpr size_t max_waiting = 64;

// The shortest decimal that the parser rounds to the same value, else an exact hexadecimal number.
std::string spell_element(const Tensor& tensor, size_t i) {
    if (tensor.dtype == DType::boolean) return tensor.integer[i] ? "true" : "false";
    if (!is_float(tensor.dtype)) return fmt::format("{}", tensor.integer[i]);
    const double value = tensor.real[i];
    if (tensor.dtype == DType::f64 || !std::isfinite(value)) return real_text(value);
    if (value == std::trunc(value) && std::abs(value) < 1e9) return fmt::format("{:.0f}", value);
    const auto reads_back = [&](std::string_view decimal) {
        const std::optional<double> read = parse_real(decimal);
        return read && round_to(tensor.dtype, *read) == value;
    };
    if (tensor.dtype == DType::f32) {
        std::string decimal = fmt::format("{}", static_cast<float>(value));
        return reads_back(decimal) ? decimal : hex_real_text(value);
    }
    for (int digits = 1; digits <= 5; ++digits)
        if (std::string decimal = fmt::format("{:.{}g}", value, digits); reads_back(decimal)) return decimal;
    return hex_real_text(value);
}

std::string spell_constant(const Tensor& value, const Type& type) {
    std::string out = fmt::format("constant {} {{", to_string(type));
    for (size_t i = 0; i < static_cast<size_t>(value.count()); ++i) {
        if (i) out += ", ";
        out += spell_element(value, i);
    }
    return out + "}";
}

std::string spell_provenance(const Provenance& from) {
    if (from == Provenance{}) return {};
    std::string out = fmt::format(" @{}", quote(from.scope));
    if (from.file.empty() && from.line == 0) return out;
    const bool plain = !from.file.empty() && std::all_of(from.file.begin(), from.file.end(), is_path_character);
    return fmt::format("{} {}:{}", out, plain ? from.file : quote(from.file), from.line);
}

class Printer {
public:
    explicit Printer(const Graph& graph) : graph_(graph), labels_(graph.nodes.size()), uses_(graph.nodes.size()) {
        choose_labels();
        count_uses();
    }

    std::string run() {
        out_ = fmt::format("graph {} {{\n", spell_name(graph_.name));
        for (size_t i = 0; i < graph_.nodes.size(); ++i) print_node(NodeId(i));
        print_results();
        return std::move(out_) + "}\n";
    }

private:
    // A node whose text waits for its only user.
    struct Pending {
        NodeId id;
        std::string text;
        int nesting = 0;
    };
    // What one operand becomes in its user's line.
    enum class Spelling : uint8_t { reference, nested, number };
    struct Slot {
        NodeId id;
        Spelling spelling = Spelling::reference;
    };

    void choose_labels() {
        std::unordered_set<std::string_view> taken;
        for (const GraphInput& input : graph_.inputs)
            taken.insert(input.name), labels_[input.node.value] = spell_name(input.name);
        for (const GraphParam& param : graph_.params)
            taken.insert(param.name), labels_[param.node.value] = spell_name(param.name);
        for (size_t i = 0; i < labels_.size(); ++i) {
            if (!labels_[i].empty()) continue;
            const std::string& name = graph_.names[i];
            if (!name.empty() && taken.insert(name).second) labels_[i] = spell_name(name);
        }
    }

    void count_uses() {
        for (const Node& node : graph_.nodes)
            for (NodeId operand : node.operands)
                if (operand.valid()) ++uses_[operand.value];
        for (const GraphParam& param : graph_.params)
            if (param.init.valid()) ++uses_[param.init.value];
        for (const GraphOutput& output : graph_.outputs) ++uses_[output.node.value];
        for (const GraphUpdate& update : graph_.updates) ++uses_[update.value.value];
    }

    std::string label(NodeId id) const { return labels_[id.value].empty() ? fmt::format("%{}", id.value) : labels_[id.value]; }
    bool may_wait(NodeId id) const {
        const NodeKind kind = graph_.node(id).kind;
        return labels_[id.value].empty() && uses_[id.value] == 1 && (kind == NodeKind::op || kind == NodeKind::constant);
    }
    const Pending* find_pending(NodeId id) const {
        for (size_t i = pending_.size(); i-- > 0;)
            if (pending_[i].id == id) return &pending_[i];
        return nullptr;
    }

    void print_line(std::string_view text, uint32_t provenance) {
        out_ += fmt::format("  {}{}\n", text, spell_provenance(graph_.provenances[provenance]));
    }
    // Gives the first `count` waiting nodes lines of their own.
    void flush(size_t count) {
        for (size_t i = 0; i < count; ++i)
            print_line(fmt::format("{} = {}", label(pending_[i].id), pending_[i].text), graph_.node(pending_[i].id).provenance);
        pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    }

    void print_node(NodeId id) {
        const Node& node = graph_.node(id);
        int nesting = 0;
        std::string text;
        switch (node.kind) {
            case NodeKind::input:
                text = fmt::format("input {}{}", to_string(node.type), graph_.inputs[node.leaf].per_step ? " per_step" : "");
                break;
            case NodeKind::param: text = param_text(graph_.params[node.leaf], node); break;
            case NodeKind::constant: text = spell_constant(graph_.constant(node), node.type); break;
            case NodeKind::op: text = call_text(node, nesting); break;
        }
        if (may_wait(id) && nesting < max_nesting && text.size() < max_line) {
            pending_.push_back({id, std::move(text), nesting + 1});
            if (pending_.size() > max_waiting) flush(1);
            return;
        }
        flush(pending_.size());
        print_line(fmt::format("{} = {}", label(id), text), node.provenance);
    }

    std::string param_text(const GraphParam& param, const Node& node) {
        std::string text = fmt::format("param {}", to_string(node.type));
        if (param.init.valid()) {
            std::vector<Slot> slots = {{param.init, Spelling::reference}};
            if (const Pending* waits = find_pending(param.init); waits && graph_.node(param.init).provenance == node.provenance)
                slots[0].spelling = graph_.is_splat(graph_.node(param.init)) ? Spelling::number : Spelling::nested;
            match_order(slots);
            int nesting = 0;
            text += fmt::format(" init={}", take(slots, nesting)[0]);
        }
        if (!param.trainable) text += " trainable=false";
        if (param.role != Role::param) text += fmt::format(" role={}", to_string(param.role));
        return text;
    }

    // A number stands for a splat of its neighbour's type: the next operand to the right that is no number, else to the left.
    bool number_fits(const std::vector<Slot>& slots, size_t i) const {
        const Type& type = graph_.type(slots[i].id);
        for (size_t k = i + 1; k < slots.size(); ++k)
            if (slots[k].spelling != Spelling::number) return slots[k].id.valid() && graph_.type(slots[k].id) == type;
        for (size_t k = i; k-- > 0;)
            if (slots[k].spelling != Spelling::number) return slots[k].id.valid() && graph_.type(slots[k].id) == type;
        return false;
    }

    // The operands that move into the line. Every refusal of a number may take another number's neighbour away, so it starts
    // over.
    std::vector<Slot> choose_spellings(const Node& node) const {
        std::vector<Slot> slots;
        for (NodeId operand : node.operands) {
            const Pending* waits = operand.valid() ? find_pending(operand) : nullptr;
            const bool inside = waits && graph_.node(operand).provenance == node.provenance;
            const bool number = inside && node.op->batch == Batch::pointwise && graph_.is_splat(graph_.node(operand));
            slots.push_back({operand, number ? Spelling::number : inside ? Spelling::nested : Spelling::reference});
        }
        for (size_t i = 0; i < slots.size();) {
            if (slots[i].spelling == Spelling::number && !number_fits(slots, i)) {
                slots[i].spelling = Spelling::nested;
                i = 0;
            } else {
                ++i;
            }
        }
        return slots;
    }

    // Only the last waiting nodes, in the order in which the parser makes them, can move into the line; other slots become
    // references. False when that happened to a number: others may have lost their neighbour.
    bool match_order(std::vector<Slot>& slots) const {
        std::vector<size_t> order;
        for (Spelling spelling : {Spelling::nested, Spelling::number})
            for (size_t i = 0; i < slots.size(); ++i)
                if (slots[i].spelling == spelling) order.push_back(i);
        bool holds = true, matching = true;
        size_t top = pending_.size();
        for (size_t k = order.size(); k-- > 0;) {
            Slot& slot = slots[order[k]];
            matching = matching && top > 0 && pending_[top - 1].id == slot.id;
            if (matching) {
                --top;
                continue;
            }
            holds = holds && slot.spelling != Spelling::number;
            slot.spelling = Spelling::reference;
        }
        return holds;
    }

    // Texts of the operands; waiting nodes that are not in the line but come before one of it, or are referred to, get lines.
    std::vector<std::string> take(const std::vector<Slot>& slots, int& nesting) {
        std::vector<std::string> texts;
        size_t taken = 0, referred = 0;
        for (const Slot& slot : slots) {
            if (!slot.id.valid()) {
                texts.emplace_back();
                continue;
            }
            const Pending* waits = find_pending(slot.id);
            if (slot.spelling == Spelling::reference) {
                texts.push_back(label(slot.id));
                if (waits) referred = std::max(referred, static_cast<size_t>(waits - pending_.data()) + 1);
                continue;
            }
            const Node& node = graph_.node(slot.id);
            texts.push_back(slot.spelling == Spelling::number ? spell_element(graph_.constant(node), 0) : waits->text);
            if (slot.spelling == Spelling::nested) nesting = std::max(nesting, waits->nesting);
            ++taken;
        }
        pending_.resize(pending_.size() - taken);
        flush(std::min(referred, pending_.size()));
        return texts;
    }

    std::string call_text(const Node& node, int& nesting) {
        std::vector<Slot> slots = choose_spellings(node);
        const std::string attrs = attrs_text(node);
        if (!match_order(slots) || line_length(slots) + attrs.size() + node.op->name.size() > max_line)
            for (Slot& slot : slots) slot.spelling = Spelling::reference;
        const std::vector<std::string> texts = take(slots, nesting);
        std::string out = fmt::format("{}(", node.op->name);
        bool first = true, skipped = false;
        for (size_t i = 0; i < texts.size(); ++i) {
            if (!node.operands[i].valid()) {
                skipped = true;
                continue;
            }
            // Behind an operand that was left out the others go by name.
            out += fmt::format("{}{}{}{}", first ? "" : ", ", skipped ? node.op->operands[i].name : "", skipped ? "=" : "",
                               texts[i]);
            first = false;
        }
        return fmt::format("{}{}{})", out, first || attrs.empty() ? "" : ", ", attrs);
    }

    size_t line_length(const std::vector<Slot>& slots) const {
        size_t length = 0;
        for (const Slot& slot : slots) {
            const Pending* waits = slot.spelling == Spelling::nested ? find_pending(slot.id) : nullptr;
            length += waits ? waits->text.size() : 10;
        }
        return length;
    }

    static std::string attrs_text(const Node& node) {
        const std::span<const AttrValue> defaults = op_registry().defaults(*node.op);
        std::vector<std::string> texts;
        for (size_t i = 0; i < node.attrs.size(); ++i) {
            const AttrDef& def = node.op->attrs[i];
            const std::string text = to_text(node.attrs[i]);
            // A stream that is not printed would be drawn anew by the parser.
            const bool is_stream = node.op->has_side_stream && def.name == "stream";
            const bool is_default = !def.default_text.empty() && text == to_text(defaults[i]);
            if (is_stream || !is_default) texts.push_back(fmt::format("{}={}", def.name, text));
        }
        return fmt::format("{}", fmt::join(texts, ", "));
    }

    // Outputs and updates take the nodes that wait at the end, if those are in the same order.
    void print_results() {
        std::vector<NodeId> roots;
        for (const GraphOutput& output : graph_.outputs) roots.push_back(output.node);
        for (const GraphUpdate& update : graph_.updates) roots.push_back(update.value);
        std::vector<NodeId> waiting;
        for (NodeId root : roots)
            if (find_pending(root)) waiting.push_back(root);
        size_t matched = 0;
        while (matched < std::min(waiting.size(), pending_.size()) &&
               waiting[waiting.size() - 1 - matched] == pending_[pending_.size() - 1 - matched].id)
            ++matched;
        flush(pending_.size() - matched);
        const auto root_text = [&](NodeId id, uint32_t& provenance) {
            const Pending* waits = find_pending(id);
            if (waits) provenance = graph_.node(id).provenance;
            return waits ? waits->text : label(id);
        };
        for (const GraphOutput& output : graph_.outputs) {
            uint32_t provenance = 0;
            const std::string name = spell_name(output.name), text = root_text(output.node, provenance);
            print_line(fmt::format("output {}{}{}", name, output.per_step ? " per_step" : "", text == name ? "" : " = " + text),
                       provenance);
        }
        for (const GraphUpdate& update : graph_.updates) {
            uint32_t provenance = 0;
            const std::string text = root_text(update.value, provenance);
            print_line(fmt::format("update {} = {}", label(update.param), text), provenance);
        }
    }

    const Graph& graph_;
    std::vector<std::string> labels_;  // empty: %id
    std::vector<uint32_t> uses_;
    std::vector<Pending> pending_;
    std::string out_;
};

}  // namespace

std::string to_text(const Graph& graph) { return Printer(graph).run(); }

std::string to_text(const Module& module) {
    std::string out;
    for (const Graph& graph : module.graphs) {
        if (!out.empty()) out += '\n';
        out += to_text(graph);
    }
    return out;
}

}  // namespace darner
