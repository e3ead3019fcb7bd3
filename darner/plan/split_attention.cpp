// SPDX-License-Identifier: MIT
#include "darner/plan/split_attention.h"

#include <array>

namespace darner::plan {

namespace {

enum Operand : size_t { q_at, k_at, v_at, mask_at, position_at, bits_at, dy_at, rows_at };

class AttentionSplitter {
public:
    AttentionSplitter(Builder& b, const Node& node, const std::vector<Value>& operands)
        : b_(b), node_(node), operands_(operands) {}

    Value split() {
        const Value& keys = operands_[k_at];
        const size_t axis = extent(keys, 0) > 1 ? 0 : 1;
        if (extent(keys, axis) > 1) return by_heads(axis, extent(keys, axis));
        return std::get<KernelLower>(node_.op->lower).name == "attention_dkv" ? by_queries() : by_keys();
    }

private:
    static int64_t extent(const Value& v, size_t axis) { return v.dims()[axis].value(); }
    Value part(const Value& v, size_t axis, int64_t first, int64_t end) {
        std::vector<int64_t> start(v.rank(), 0), stop;
        for (size_t i = 0; i < v.rank(); ++i) stop.push_back(extent(v, i));
        start[axis] = first;
        stop[axis] = end;
        return b_.call("slice", {v}, {{"start", start}, {"stop", stop}});
    }
    // Puts the halves of an operand in place of it, unless it is left out or spread along the axis.
    void halve(size_t operand, size_t axis, int64_t middle) {
        if (operand >= operands_.size() || !operands_[operand].valid()) return;
        const Value& v = operands_[operand];
        if (axis >= v.rank() || extent(v, axis) == 1) return;
        low_[operand] = part(v, axis, 0, middle);
        high_[operand] = part(v, axis, middle, extent(v, axis));
    }
    Value call(const OpDef& op, const std::vector<Value>& operands) { return b_.call_exact(op, operands, node_.attrs); }

    // Nothing is summed over these. Several query heads go with a key head.
    Value by_heads(size_t axis, int64_t count) {
        for (size_t i = 0; i < operands_.size(); ++i)
            if (operands_[i].valid() && axis < operands_[i].rank())
                halve(i, axis, extent(operands_[i], axis) / count * (count / 2));
        const std::array<Value, 2> parts = {call(*node_.op, low_), call(*node_.op, high_)};
        return b_.call("concat", parts, std::array<NamedAttr, 1>{NamedAttr{"axis", static_cast<int64_t>(axis)}});
    }

    // The second half stands elsewhere among the keys, or its keys do.
    void move_position(double by) {
        Value position = operands_[position_at];
        const Type type{DType::i32, {operands_[q_at].dims()[0]}};
        if (!position.valid()) position = b_.constant(type, 0);
        low_[position_at] = position;
        high_[position_at] = b_.call("add", {position, b_.constant(type, by)});
    }

    Value by_queries() {
        const int64_t middle = extent(operands_[q_at], 2) / 2;
        if (middle == 0) return {};
        for (const size_t operand : {q_at, mask_at, bits_at, dy_at, rows_at}) halve(operand, 2, middle);
        move_position(static_cast<double>(middle));
        return b_.call("add", {call(*node_.op, low_), call(*node_.op, high_)});
    }

    Value by_keys() {
        // Rows of bits are padded to four.
        const int64_t keys = extent(operands_[k_at], 2), middle = operands_[bits_at].valid() ? keys / 8 * 4 : keys / 2;
        if (middle == 0) return {};
        for (const size_t operand : {k_at, v_at}) halve(operand, 2, middle);
        for (const size_t operand : {mask_at, bits_at}) halve(operand, 3, middle);
        move_position(static_cast<double>(-middle));
        const Value low = call(*node_.op, low_), high = call(*node_.op, high_);
        if (std::get<KernelLower>(node_.op->lower).name == "attention_dq") return b_.call("add", {low, high});
        return joined(low, high);
    }

    Value zeros(const Value& like) { return b_.constant(like.type(), 0); }

    // A half that a query sees nothing of has the other's largest score, and a sum of 0.
    Value joined(const Value& low, const Value& high) {
        const OpDef& rows = *op_registry().find("attention_rows");
        std::array<Value, 2> largest, total, none;
        for (size_t half = 0; half < 2; ++half) {
            const Value numbers = call(rows, half == 0 ? low_ : high_);
            largest[half] = part(numbers, 3, 0, 1);
            total[half] = part(numbers, 3, 1, 2);
            none[half] = b_.call("eq", {total[half], zeros(total[half])});
        }
        const std::array<Value, 2> own = {b_.call("select", {none[0], largest[1], largest[0]}),
                                          b_.call("select", {none[1], largest[0], largest[1]})};
        const Value most = b_.call("maximum", {own[0], own[1]});
        for (size_t half = 0; half < 2; ++half)
            total[half] = b_.call("mul", {total[half], b_.call("exp", {b_.call("sub", {own[half], most})})});
        const Value sum = b_.call("add", {total[0], total[1]});
        if (node_.op == &rows)
            return b_.call("concat", std::array<Value, 2>{most, sum}, std::array<NamedAttr, 1>{NamedAttr{"axis", int64_t{3}}});
        const Value divisor = b_.call("select", {b_.call("eq", {sum, zeros(sum)}), b_.constant(sum.type(), 1), sum});
        std::array<Value, 2> shares;
        for (size_t half = 0; half < 2; ++half) {
            const Value y = b_.call("cast", {half == 0 ? low : high}, {{"dtype", DType::f32}});
            shares[half] = b_.call("mul", {y, b_.broadcast_to(b_.call("div", {total[half], divisor}), y.dims())});
        }
        return b_.call("cast", {b_.call("add", {shares[0], shares[1]})}, {{"dtype", low.dtype()}});
    }

    Builder& b_;
    const Node& node_;
    const std::vector<Value>& operands_;
    std::vector<Value> low_ = operands_, high_ = operands_;
};

}  // namespace

Value split_attention(Builder& b, const Node& node, const std::vector<Value>& operands) {
    return AttentionSplitter(b, node, operands).split();
}

}  // namespace darner::plan
