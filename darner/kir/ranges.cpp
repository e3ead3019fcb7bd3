// SPDX-License-Identifier: MIT
// Interval sets, the rules of the integer opcodes on them, and the walk over a kernel's blocks.
#include "darner/kir/ranges.h"

#include "darner/base/check.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace darner::kir {

namespace {

constexpr size_t max_intervals = 8;
constexpr int64_t two32 = int64_t{1} << 32;

Interval domain(Scalar s) {
    switch (s) {
        case Scalar::boolean: return {0, 1};
        case Scalar::i32: return {-(int64_t{1} << 31), (int64_t{1} << 31) - 1};
        default: return {0, two32 - 1};
    }
}

// Sorted and joined; where there are too many, the closest neighbours become one.
Intervals normal(Intervals set) {
    std::sort(set.begin(), set.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
    Intervals out;
    for (const Interval& i : set)
        if (out.empty() || i.low > out.back().high + 1)
            out.push_back(i);
        else
            out.back().high = std::max(out.back().high, i.high);
    while (out.size() > max_intervals) {
        size_t closest = 1;
        for (size_t i = 2; i < out.size(); ++i)
            if (out[i].low - out[i - 1].high < out[closest].low - out[closest - 1].high) closest = i;
        out[closest - 1].high = out[closest].high;
        out.erase(out.begin() + static_cast<ptrdiff_t>(closest));
    }
    return out;
}

// Values beyond 32 bits wrap.
Intervals wrapped(const Intervals& set, Scalar scalar) {
    const Interval range = domain(scalar);
    Intervals out;
    for (Interval i : set) {
        if (i.high - i.low >= two32 - 1) return {range};
        // Moved so that it starts within the range; then at most its tail leaves it.
        const int64_t turns = (i.low - range.low >= 0 ? i.low - range.low : i.low - range.low - (two32 - 1)) / two32;
        i.low -= turns * two32;
        i.high -= turns * two32;
        out.push_back({i.low, std::min(i.high, range.high)});
        if (i.high > range.high) out.push_back({range.low, i.high - two32});
    }
    return normal(std::move(out));
}

int64_t size_of(const Intervals& set) {
    int64_t size = 0;
    for (const Interval& i : set) size += i.high - i.low + 1;
    return size;
}

// A few values as one interval each, so that a product with a constant keeps the gaps between them.
Intervals spread(const Intervals& set) {
    if (size_of(set) > static_cast<int64_t>(max_intervals) / 2) return set;
    Intervals points;
    for (const Interval& i : set)
        for (int64_t v = i.low; v <= i.high; ++v) points.push_back({v, v});
    return points;
}

void append(Intervals& set, const Intervals& more) { set.insert(set.end(), more.begin(), more.end()); }

int64_t magnitude(const Intervals& set) { return std::max(std::abs(set[0].low), std::abs(set.back().high)); }

bool is_point(const Intervals& set) { return set.size() == 1 && set[0].low == set[0].high; }
bool is_non_negative(const Intervals& set) { return !set.empty() && set[0].low >= 0; }

Intervals pairwise(const Intervals& a, const Intervals& b, const std::function<Interval(Interval, Interval)>& rule) {
    Intervals out;
    for (const Interval& x : a)
        for (const Interval& y : b) out.push_back(rule(x, y));
    return out;
}

Intervals product(const Intervals& a, const Intervals& b) {
    return pairwise(is_point(b) ? spread(a) : a, is_point(a) ? spread(b) : b, [](Interval x, Interval y) {
        const auto [low, high] = std::minmax({x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high});
        return Interval{low, high};
    });
}

// Of non-negative values by a positive constant.
Intervals remainder(const Intervals& a, int64_t divisor) {
    Intervals out;
    for (const Interval& i : a) {
        const int64_t low = i.low % divisor, high = i.high % divisor;
        if (i.high - i.low + 1 >= divisor) return {{0, divisor - 1}};
        if (low <= high) {
            out.push_back({low, high});
        } else {
            out.push_back({low, divisor - 1});
            out.push_back({0, high});
        }
    }
    return out;
}

bool is_integer(Scalar s) { return s == Scalar::boolean || s == Scalar::i32 || s == Scalar::u32; }
bool is_integer(Type t) { return t.is_scalar() && is_integer(t.scalar); }

}  // namespace

AccessRanges::AccessRanges(const Kernel& kernel, std::array<uint32_t, 3> groups, uint32_t subgroup_size)
    : kernel_(kernel),
      groups_(groups),
      subgroup_size_(kernel.required_subgroup_size != 0 ? kernel.required_subgroup_size : subgroup_size),
      needed_(kernel.instructions.size(), false),
      values_(kernel.instructions.size()),
      taken_(kernel.blocks.size(), false) {
    find_needed();
}

// Backwards from indices, conditions and loop bounds. A result needs what its blocks yield.
void AccessRanges::find_needed() {
    std::vector<ValueId> work;
    const auto need = [&](ValueId v) {
        if (needed_[v.value]) return;
        needed_[v.value] = true;
        work.push_back(v);
    };
    for (const Block& block : kernel_.blocks)
        for (ValueId v : block.instructions) switch (kernel_.at(v).op) {
                case Opcode::load:
                case Opcode::store:
                case Opcode::atomic:
                case Opcode::branch: need(kernel_.operand(v, 0)); break;
                case Opcode::loop:
                    for (size_t i = 0; i < 3; ++i) need(kernel_.operand(v, i));
                    break;
                default: break;
            }
    while (!work.empty()) {
        const ValueId v = work.back();
        work.pop_back();
        const Instruction& inst = kernel_.at(v);
        if (inst.op == Opcode::result) {
            const Instruction& from = kernel_.at(kernel_.operand(v, 0));
            for (uint32_t n = 0; n < from.block_count; ++n) need(kernel_.blocks[from.first_block.value + n].yields[inst.aux]);
        } else if (is_integer(inst.type) && inst.op != Opcode::load && inst.op != Opcode::atomic) {
            for (ValueId operand : kernel_.operands_of(v)) need(operand);
        }
    }
}

std::vector<Intervals> AccessRanges::of(const WorkgroupBox& box) {
    box_ = box;
    touched_.assign(kernel_.bindings.size(), {});
    run_block(BlockId(0u));
    for (size_t b = 0; b < touched_.size(); ++b) {
        const int64_t last = static_cast<int64_t>(kernel_.bindings[b].elements * kernel_.bindings[b].lanes) - 1;
        Intervals within;
        for (const Interval& i : normal(std::move(touched_[b])))
            if (i.low <= last) within.push_back({i.low, std::min(i.high, last)});
        touched_[b] = std::move(within);
    }
    return std::move(touched_);
}

void AccessRanges::run_block(BlockId id) {
    for (ValueId v : kernel_.block(id).instructions) run(v);
}

void AccessRanges::run(ValueId v) {
    switch (kernel_.at(v).op) {
        case Opcode::loop:
        case Opcode::branch: control(v); break;
        case Opcode::load:
        case Opcode::store:
        case Opcode::atomic:
        case Opcode::coop_load:
        case Opcode::coop_store: access(v); [[fallthrough]];
        default:
            if (needed_[v.value]) values_[v.value] = value(v);
    }
}

void AccessRanges::access(ValueId v) {
    const Instruction& inst = kernel_.at(v);
    const bool matrix = inst.op == Opcode::coop_load || inst.op == Opcode::coop_store;
    if (matrix && (inst.aux2 & coop_from_array) != 0) return;
    const Binding& binding = kernel_.bindings[inst.aux];
    Intervals& touched = touched_[inst.aux];
    if (matrix) {
        touched = {{0, static_cast<int64_t>(binding.elements * binding.lanes) - 1}};
        return;
    }
    // A scalar load of a vector binding counts scalars.
    const bool component = inst.op == Opcode::load && inst.type.lanes == 1;
    const int64_t lanes = component ? 1 : binding.lanes;
    for (const Interval& i : at(kernel_.operand(v, 0))) touched.push_back({i.low * lanes, i.high * lanes + lanes - 1});
    if (touched.size() > 64) touched = normal(std::move(touched));
}

void AccessRanges::control(ValueId v) {
    const Instruction& inst = kernel_.at(v);
    if (inst.op == Opcode::loop) {
        const Intervals &low = at(kernel_.operand(v, 0)), &high = at(kernel_.operand(v, 1));
        if (low.empty() || high.empty() || high.back().high <= low[0].low) return;  // no round
        const Block& body = kernel_.block(inst.first_block);
        for (ValueId argument : body.arguments)
            values_[argument.value] = {kernel_.at(argument).aux == 0 ? Interval{low[0].low, high.back().high - 1}
                                                                     : domain(kernel_.at(argument).type.scalar)};
        run_block(inst.first_block);
        return;
    }
    for (uint32_t side = 0; side < 2; ++side) {
        const size_t before = undo_.size();
        const BlockId block(inst.first_block.value + side);
        taken_[block.value] = assume(kernel_.operand(v, 0), side == 0);
        if (taken_[block.value]) run_block(block);
        for (; undo_.size() > before; undo_.pop_back()) values_[undo_.back().first.value] = std::move(undo_.back().second);
    }
}

bool AccessRanges::narrow(ValueId v, int64_t low, int64_t high) {
    Intervals within;
    for (const Interval& i : at(v))
        if (i.low <= high && i.high >= low) within.push_back({std::max(i.low, low), std::min(i.high, high)});
    const bool possible = !within.empty();
    undo_.push_back({v, std::exchange(values_[v.value], std::move(within))});
    return possible;
}

bool AccessRanges::assume(ValueId condition, bool holds) {
    const Instruction& inst = kernel_.at(condition);
    if (!narrow(condition, holds ? 1 : 0, holds ? 1 : 0)) return false;
    if (inst.op == Opcode::bit_not) return assume(kernel_.operand(condition, 0), !holds);
    if (inst.op == (holds ? Opcode::bit_and : Opcode::bit_or))
        return assume(kernel_.operand(condition, 0), holds) && assume(kernel_.operand(condition, 1), holds);
    if (!is_comparison(inst.op)) return true;
    const ValueId a = kernel_.operand(condition, 0), b = kernel_.operand(condition, 1);
    if (!is_integer(kernel_.at(a).type) || at(a).empty() || at(b).empty()) return true;
    const Interval x{at(a)[0].low, at(a).back().high}, y{at(b)[0].low, at(b).back().high};
    constexpr int64_t least = -two32, most = two32;
    switch (inst.op) {
        case Opcode::eq: return !holds || (narrow(a, y.low, y.high) && narrow(b, x.low, x.high));
        case Opcode::ne: return holds || (narrow(a, y.low, y.high) && narrow(b, x.low, x.high));
        case Opcode::lt:
            return holds ? narrow(a, least, y.high - 1) && narrow(b, x.low + 1, most)
                         : narrow(a, y.low, most) && narrow(b, least, x.high);
        case Opcode::ge:
            return holds ? narrow(a, y.low, most) && narrow(b, least, x.high)
                         : narrow(a, least, y.high - 1) && narrow(b, x.low + 1, most);
        case Opcode::le:
            return holds ? narrow(a, least, y.high) && narrow(b, x.low, most)
                         : narrow(a, y.low + 1, most) && narrow(b, least, x.high - 1);
        default:
            return holds ? narrow(a, y.low + 1, most) && narrow(b, least, x.high - 1)
                         : narrow(a, least, y.high) && narrow(b, x.low, most);
    }
}

Intervals AccessRanges::compare(const Instruction& inst, ValueId a, ValueId b) const {
    const Intervals both = {{0, 1}}, yes = {{1, 1}}, no = {{0, 0}};
    if (!is_integer(kernel_.at(a).type) || at(a).empty() || at(b).empty()) return both;
    const Interval x{at(a)[0].low, at(a).back().high}, y{at(b)[0].low, at(b).back().high};
    const auto decided = [&](bool always, bool never) { return always ? yes : never ? no : both; };
    const bool same = is_point(at(a)) && at(a) == at(b), apart = x.high < y.low || y.high < x.low;
    switch (inst.op) {
        case Opcode::eq: return decided(same, apart);
        case Opcode::ne: return decided(apart, same);
        case Opcode::lt: return decided(x.high < y.low, x.low >= y.high);
        case Opcode::le: return decided(x.high <= y.low, x.low > y.high);
        case Opcode::gt: return decided(x.low > y.high, x.high <= y.low);
        default: return decided(x.low >= y.high, x.high < y.low);
    }
}

Intervals AccessRanges::binary(Opcode op, Type type, const Intervals& a, const Intervals& b) const {
    const Intervals all = {domain(type.scalar)};
    const bool plain = is_non_negative(a) && is_non_negative(b);
    switch (op) {
        case Opcode::add:
            return wrapped(pairwise(a, b, [](auto x, auto y) { return Interval{x.low + y.low, x.high + y.high}; }), type.scalar);
        case Opcode::sub:
            return wrapped(pairwise(a, b, [](auto x, auto y) { return Interval{x.low - y.high, x.high - y.low}; }), type.scalar);
        case Opcode::mul:
            if (magnitude(a) > (int64_t{1} << 62) / std::max<int64_t>(magnitude(b), 1)) return all;  // beyond 64 bits
            return wrapped(product(a, b), type.scalar);
        case Opcode::div:
            if (!plain || b[0].low == 0) return all;
            return normal(pairwise(a, b, [](auto x, auto y) { return Interval{x.low / y.high, x.high / y.low}; }));
        case Opcode::rem:
            if (!plain || b[0].low == 0) return all;
            if (is_point(b)) return normal(remainder(a, b[0].low));
            return {{0, std::min(a.back().high, b.back().high - 1)}};
        case Opcode::min:
            return normal(pairwise(a, b, [](auto x, auto y) {
                return Interval{std::min(x.low, y.low), std::min(x.high, y.high)};
            }));
        case Opcode::max:
            return normal(pairwise(a, b, [](auto x, auto y) {
                return Interval{std::max(x.low, y.low), std::max(x.high, y.high)};
            }));
        case Opcode::bit_and:
            if (!plain) return all;
            if (is_point(b) && std::has_single_bit(static_cast<uint64_t>(b[0].low) + 1))
                return normal(remainder(a, b[0].low + 1));
            return {{type == boolean_type ? std::min(a[0].low, b[0].low) : 0, std::min(a.back().high, b.back().high)}};
        case Opcode::bit_or:
        case Opcode::bit_xor: {
            if (!plain) return all;
            const auto most = static_cast<uint64_t>(std::max(a.back().high, b.back().high));
            const int64_t low = op == Opcode::bit_or ? std::max(a[0].low, b[0].low) : 0;
            return {{low, static_cast<int64_t>(std::bit_ceil(most + 1)) - 1}};
        }
        case Opcode::shl:
            if (!is_point(b)) return all;
            return wrapped(product(a, {{int64_t{1} << (b[0].low & 31), int64_t{1} << (b[0].low & 31)}}), type.scalar);
        case Opcode::shr:
            if (!is_point(b)) return all;
            return normal(pairwise(a, b, [](auto x, auto y) { return Interval{x.low >> (y.low & 31), x.high >> (y.low & 31)}; }));
        default: return all;
    }
}

Intervals AccessRanges::value(ValueId v) const {
    const Instruction& inst = kernel_.at(v);
    const Intervals all = {domain(inst.type.scalar)};
    const auto below = [](int64_t n) { return Intervals{{0, std::max<int64_t>(n, 1) - 1}}; };
    const int64_t invocations = kernel_.invocations();
    if (!is_integer(inst.type)) return all;
    const auto operand = [&](size_t i) -> const Intervals& { return at(kernel_.operand(v, i)); };
    switch (inst.op) {
        case Opcode::constant: {
            const int64_t bits = inst.type.scalar == Scalar::i32 ? static_cast<int32_t>(inst.aux) : int64_t{inst.aux};
            return {{bits, bits}};
        }
        case Opcode::workgroup_id: return {{box_.low[inst.aux], int64_t{box_.high[inst.aux]} - 1}};
        case Opcode::num_workgroups: return {{groups_[inst.aux], groups_[inst.aux]}};
        case Opcode::local_id: return below(kernel_.workgroup_size[inst.aux]);
        case Opcode::local_index: return below(invocations);
        case Opcode::subgroup_id:
            return below(subgroup_size_ == 0 ? invocations : (invocations + subgroup_size_ - 1) / subgroup_size_);
        case Opcode::lane_id: return below(subgroup_size_ == 0 ? 128 : subgroup_size_);
        case Opcode::result: {
            const Instruction& from = kernel_.at(kernel_.operand(v, 0));
            if (from.op != Opcode::branch) return all;
            Intervals either;
            for (uint32_t block = from.first_block.value; block < from.first_block.value + 2; ++block)
                if (taken_[block]) append(either, at(kernel_.blocks[block].yields[inst.aux]));
            return normal(std::move(either));
        }
        default: break;
    }
    // Operands that nothing reaches (in a block that is never entered) reach nothing.
    for (ValueId o : kernel_.operands_of(v))
        if (is_integer(kernel_.at(o).type) && needed_[o.value] && at(o).empty()) return {};
    switch (inst.op) {
        case Opcode::bit_not:
            return inst.type == boolean_type ? Intervals{{1 - operand(0).back().high, 1 - operand(0)[0].low}} : all;
        case Opcode::fma:
            return binary(Opcode::add, inst.type, binary(Opcode::mul, inst.type, operand(0), operand(1)), operand(2));
        case Opcode::select: {
            const Intervals& condition = operand(0);
            if (is_point(condition)) return operand(condition[0].low == 1 ? 1 : 2);
            Intervals either = operand(1);
            append(either, operand(2));
            return normal(std::move(either));
        }
        case Opcode::convert:
        case Opcode::bitcast:
            if (!is_integer(kernel_.at(kernel_.operand(v, 0)).type) || inst.type == boolean_type) return all;
            return wrapped(operand(0), inst.type.scalar);
        // Whichever invocation the value comes from: a range holds for all of them.
        case Opcode::subgroup_broadcast:
        case Opcode::subgroup_shuffle_xor: return operand(0);
        default: break;
    }
    if (is_comparison(inst.op)) return compare(inst, kernel_.operand(v, 0), kernel_.operand(v, 1));
    const bool arithmetic = inst.op >= Opcode::add && inst.op <= Opcode::shr;
    return arithmetic && inst.operand_count == 2 ? binary(inst.op, inst.type, operand(0), operand(1)) : all;
}

}  // namespace darner::kir
