// SPDX-License-Identifier: MIT
// What an op entry offers to its readers, and the registry, which checks every entry once at start.
#include "darner/graph/op_def.h"

#include "darner/base/nearest.h"
#include "darner/graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {

const AttrValue& Call::attr(std::string_view name) const {
    for (size_t i = 0; i < op->attrs.size(); ++i)
        if (op->attrs[i].name == name) return attrs[i];
    bug(__FILE__, __LINE__, fmt::format("the op {} has no attribute \"{}\"", op->name, name));
}

size_t Call::axis(std::string_view name, size_t rank) const {
    const std::optional<size_t> axis = normalize_axis(integer(name), rank);
    CHECK(axis.has_value(), fmt::format("[{}] {} = {} of rank {}", op->name, name, integer(name), rank));
    return *axis;
}

Error Call::error(std::string message) const { return invalid(fmt::format("[{}] {}", op->name, message)); }

const Value& BuildCall::operand(size_t i) const {
    static const Value left_out;
    return i < operands.size() ? operands[i] : left_out;
}

const Value& BuildCall::value() const {
    CHECK(result != nullptr, fmt::format("[{}] an expansion has no result to read", op->name));
    return *result;
}

int64_t ContractSpace::terms() const { return std::accumulate(k.begin(), k.end(), int64_t{1}, std::multiplies<int64_t>()); }

const AttrDef* OpDef::find_attr(std::string_view attr_name) const {
    for (const AttrDef& def : attrs)
        if (def.name == attr_name) return &def;
    return nullptr;
}

size_t OpDef::required_operands() const {
    return static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [](const OperandDef& o) { return !o.optional; }));
}

namespace {

void check_operands(const OpDef& op) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
        const OperandDef& operand = op.operands[i];
        CHECK(!operand.name.empty(), fmt::format("[{}] an operand without a name", op.name));
        CHECK(!operand.variadic || i + 1 == op.operands.size(), fmt::format("[{}] only the last operand may repeat", op.name));
        CHECK(!op.find_attr(operand.name), fmt::format("[{}] \"{}\" is an operand and an attribute", op.name, operand.name));
        for (size_t j = 0; j < i; ++j)
            CHECK(op.operands[j].name != operand.name, fmt::format("[{}] two operands \"{}\"", op.name, operand.name));
    }
}

std::vector<AttrValue> check_attrs(const OpDef& op) {
    std::vector<AttrValue> defaults;
    for (const AttrDef& def : op.attrs) {
        CHECK(op.find_attr(def.name) == &def, fmt::format("[{}] two attributes \"{}\"", op.name, def.name));
        CHECK((def.kind == AttrKind::choice) == !def.choices.empty(), fmt::format("[{}] choices of \"{}\"", op.name, def.name));
        if (def.default_text.empty()) {
            defaults.emplace_back();
            continue;
        }
        Result<AttrValue> value = parse_attr(def, def.default_text);
        CHECK(value.has_value(), fmt::format("[{}] default of \"{}\": {}", op.name, def.name, value.error().text()));
        defaults.push_back(*value);
    }
    return defaults;
}

}  // namespace

Value (*OpDef::expansion() const)(const BuildCall&) {
    if (const auto* composite = std::get_if<ExpandLower>(&lower)) return composite->expand;
    const auto* kernel = std::get_if<KernelLower>(&lower);
    return kernel != nullptr ? kernel->expand : nullptr;
}

OpRegistry::OpRegistry(std::span<const std::span<const OpDef>> families) {
    for (std::span<const OpDef> family : families)
        for (const OpDef& op : family) sorted_.push_back(&op);
    std::sort(sorted_.begin(), sorted_.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
    for (size_t i = 0; i < sorted_.size(); ++i) {
        const OpDef& op = *sorted_[i];
        CHECK(!op.name.empty(), "an op without a name");
        CHECK(i == 0 || sorted_[i - 1]->name != op.name, fmt::format("two ops \"{}\"", op.name));
        CHECK(op.infer != nullptr, fmt::format("[{}] no type inference", op.name));
        CHECK(op.expansion() || !std::holds_alternative<std::monostate>(op.ref), fmt::format("[{}] no reference", op.name));
        CHECK(!op.has_side_stream || op.find_attr("stream"), fmt::format("[{}] no attribute \"stream\"", op.name));
        check_operands(op);
        defaults_.push_back(check_attrs(op));
    }
}

const OpDef* OpRegistry::find(std::string_view name) const {
    const auto found =
        std::lower_bound(sorted_.begin(), sorted_.end(), name, [](const OpDef* op, std::string_view n) { return op->name < n; });
    return found != sorted_.end() && (*found)->name == name ? *found : nullptr;
}

std::span<const AttrValue> OpRegistry::defaults(const OpDef& op) const {
    const auto found =
        std::lower_bound(sorted_.begin(), sorted_.end(), op.name, [](const OpDef* a, std::string_view n) { return a->name < n; });
    CHECK(found != sorted_.end() && *found == &op, fmt::format("the op {} is not registered", op.name));
    return defaults_[static_cast<size_t>(found - sorted_.begin())];
}

std::string OpRegistry::nearest(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const OpDef* op : sorted_) names.push_back(op->name);
    return std::string(nearest_name(name, names));
}

}  // namespace darner
