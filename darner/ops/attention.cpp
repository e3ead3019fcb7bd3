// SPDX-License-Identifier: MIT
// Attention and its gradients. `attention` is what users call; it expands to `attention_forward`, which is a kernel of its own
// and whose gradients are kernels again (flash attention: weights are computed again where they are needed, and no tensor of
// queries x keys is ever stored). All of these kernels have one expansion into primitives, built from the pieces in Weights.
#include "darner/ops/compose.h"
#include "darner/ops/families.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef attention_operands[] = {
    {"q"}, {"k"}, {"v"}, {"mask", true}, {"position", true}, {"key", true}, {"counter", true}};
constexpr OperandDef forward_operands[] = {{"q"}, {"k"}, {"v"}, {"mask", true}, {"position", true}, {"bits", true, false, true}};
constexpr OperandDef backward_operands[] = {
    {"q"}, {"k"}, {"v"}, {"mask", true}, {"position", true}, {"bits", true, false, true}, {"dy"}, {"rows"}};

#define MASKING_ATTRS                                                                                                      \
    {"causal", AttrKind::boolean, "false", "query i sees no key behind position + i"}, {                                   \
        "window", AttrKind::integer, "0", "query i sees no key `window` or more places from position + i; 0: any distance" \
    }
#define SHAPING_ATTRS                                                                                                      \
    {"soft_cap", AttrKind::real, "0", "scores become soft_cap * tanh(score / soft_cap), before the mask; 0: they stay"}, { \
        "dropout", AttrKind::real, "0", "the probability of a weight to become 0; the others grow by 1 / (1 - dropout)"    \
    }

constexpr AttrDef attention_attrs[] = {
    MASKING_ATTRS,
    {"scale", AttrKind::real, "none", "of the scores; left out: 1 / sqrt(head_dim)"},
    SHAPING_ATTRS,
    {"stream", AttrKind::integer, "none", "which of the independent random streams; the Builder numbers its calls"}};
constexpr AttrDef kernel_attrs[] = {MASKING_ATTRS, {"scale", AttrKind::real, "", "of the scores"}, SHAPING_ATTRS};

#undef MASKING_ATTRS
#undef SHAPING_ATTRS

enum Operand : size_t { q_at, k_at, v_at, mask_at, position_at, key_at, counter_at };
constexpr size_t bits_at = 5, dy_at = 6, rows_at = 7;  // of the kernels

// --- types ----------------------------------------------------------------------------------------------------------

// Half-precision operands are computed with in f32, and so are the numbers that their kernels hand each other.
DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Scores of every query with every key: [batch, heads, queries, keys].
Dims score_dims(const Call& c) {
    const Dims &q = c.type(q_at).dims, &k = c.type(k_at).dims;
    return {q[0], q[1], q[2], k[2]};
}

Result<void> check_heads(const Call& c, const Dim& heads, const Dim& kv_heads) {
    if (heads == kv_heads) return {};
    const bool known = heads.is_constant() && kv_heads.is_constant();
    if (known && kv_heads.value() > 0 && heads.value() % kv_heads.value() == 0) return {};
    return c.error(
        fmt::format("the heads of {} are no multiple of those of {}", infer::describe(c, q_at), infer::describe(c, k_at)));
}

// q [batch, heads, queries, head_dim], k [batch, kv_heads, keys, head_dim], v [batch, kv_heads, keys, any].
Result<void> check_operands(const Call& c) {
    for (const size_t operand : {q_at, k_at, v_at}) {
        TRY(infer::dtype(c, operand, Accept::floats));
        TRY(infer::equal_dtypes(c, q_at, operand));
        if (c.type(operand).rank() != 4)
            return c.error(fmt::format("{} needs 4 axes: [batch, heads, length, head_dim]", infer::describe(c, operand)));
    }
    const Dims &q = c.type(q_at).dims, &k = c.type(k_at).dims, &v = c.type(v_at).dims;
    TRY(infer::equal_dim(c, k[0], q[0], "batch of k and q differ"));
    TRY(infer::equal_dim(c, k[3], q[3], "head_dim of k and q differ"));
    TRY(infer::equal_dims(c, {v[0], v[1], v[2]}, {k[0], k[1], k[2]}, "batch, heads and length of v, those of k"));
    TRY(check_heads(c, q[1], k[1]));
    if (q[3] == Dim(0)) return c.error(fmt::format("head_dim of {} is 0", infer::describe(c, q_at)));
    if (!c.has(mask_at)) return {};
    if (c.type(mask_at).dtype != DType::boolean) TRY(infer::dtype(c, mask_at, Accept::floats));
    return infer::broadcasts(c, mask_at, score_dims(c));
}

Result<void> check_attrs(const Call& c) {
    const int64_t window = c.integer("window");
    if (window < 0 || window > infer::max_extent)
        return c.error(fmt::format("window out of range: got {}, expected 0 to {}", window, infer::max_extent));
    constexpr double most = std::numeric_limits<float>::max();  // scores are f32 at least
    if (!(c.real("soft_cap") >= 0 && c.real("soft_cap") <= most))
        return c.error(fmt::format("soft_cap must be a number of f32 not below 0: got {}", c.real("soft_cap")));
    if (!(c.real("dropout") >= 0 && c.real("dropout") <= 1))
        return c.error(fmt::format("dropout must be in 0 to 1: got {}", c.real("dropout")));
    if (c.given("scale") && !(std::fabs(c.real("scale")) <= most))
        return c.error(fmt::format("scale must be a finite number of f32: got {}", c.real("scale")));
    return {};
}

Result<void> check_position(const Call& c, bool one_for_all) {
    if (!c.has(position_at)) return {};
    TRY(infer::dtype(c, position_at, Accept::index));
    if (one_for_all && c.type(position_at).rank() == 0) return {};
    return infer::equal_dims(c, c.type(position_at).dims, {c.type(q_at).dims[0]}, "shape of position, one for each of the batch");
}

Type forward_type(const Call& c) {
    Dims y = c.type(q_at).dims;
    y[3] = c.type(v_at).dims[3];
    return c.type(q_at).with(std::move(y));
}

Result<Type> infer_attention(const Call& c) {
    TRY(check_operands(c));
    TRY(check_attrs(c));
    TRY(check_position(c, true));
    if (c.has(position_at) && !c.boolean("causal") && c.integer("window") == 0)
        return c.error("position means nothing without causal=true or a window");
    if (c.real("dropout") > 0 && !(c.has(key_at) && c.has(counter_at)))
        return c.error("dropout needs the operands key and counter (Builder::seed() and step())");
    for (const size_t operand : {key_at, counter_at}) {
        const Type expected = operand == key_at ? u32({2}) : u32();
        if (c.has(operand) && c.type(operand) != expected)
            return c.error(fmt::format("wrong type of {}: got {}, expected {}", infer::operand_name(c, operand),
                                       to_string(c.type(operand)), to_string(expected)));
    }
    return forward_type(c);
}

// The bits' rows are padded to whole blocks of four words, so that a block belongs to one query.
Dims bits_dims(const Dims& scores) {
    Dims dims = scores;
    if (dims[3].is_constant()) dims[3] = (dims[3].value() + 3) / 4 * 4;
    return dims;
}

Result<void> check_kernel(const Call& c) {
    TRY(check_operands(c));
    TRY(check_attrs(c));
    TRY(check_position(c, false));
    for (const Dim& dim : score_dims(c))
        if (!dim.is_constant() || dim == Dim(0)) return c.error("extents must be known and not 0: use attention");
    if (c.has(position_at) && c.type(position_at).dtype != DType::i32)
        return c.error(fmt::format("wrong dtype of {}: expected i32", infer::describe(c, position_at)));
    if (c.has(mask_at) && c.type(mask_at).rank() != 4)
        return c.error(fmt::format("{} needs 4 axes", infer::describe(c, mask_at)));
    if (c.has(bits_at) != (c.real("dropout") > 0)) return c.error("dropout and the operand bits go together");
    if (!c.has(bits_at)) return {};
    const Type bits = u32(bits_dims(score_dims(c)));
    if (c.type(bits_at) == bits) return {};
    return c.error(fmt::format("wrong type of bits: got {}, expected {}", to_string(c.type(bits_at)), to_string(bits)));
}

Type rows_type(const Call& c, int64_t numbers) {
    const Dims& q = c.type(q_at).dims;
    return {wide(c.type(q_at).dtype), {q[0], q[1], q[2], numbers}};
}

Result<Type> infer_forward(const Call& c) {
    TRY(check_kernel(c));
    return forward_type(c);
}
Result<Type> infer_rows(const Call& c) {
    TRY(check_kernel(c));
    return rows_type(c, 2);
}
template <Operand of>
Result<Type> infer_gradient(const Call& c) {
    TRY(check_kernel(c));
    TRY(infer::equal_dtypes(c, q_at, dy_at));
    TRY(infer::equal_dims(c, c.type(dy_at).dims, forward_type(c).dims, "shape of dy, that of the result"));
    if (c.type(rows_at) != rows_type(c, 3))
        return c.error(
            fmt::format("wrong type of rows: got {}, expected {}", to_string(c.type(rows_at)), to_string(rows_type(c, 3))));
    if (of == mask_at && (!c.has(mask_at) || !is_float(c.type(mask_at).dtype))) return c.error("there is no additive mask");
    return c.type(of);
}

// --- in primitives --------------------------------------------------------------------------------------------------

// Scores and weights with the query heads that share a key head side by side: [batch, kv_heads, group, queries, keys].
class Weights {
public:
    explicit Weights(const BuildCall& c) : c_(c), b_(*c.builder) {
        const Dims &q = c.type(q_at).dims, &k = c.type(k_at).dims;
        dims_ = {q[0], k[1], Dim(q[1].value() / k[1].value()), q[2], k[2]};
        q_ = grouped(widen(c.operand(q_at)));
        k_ = widen(c.operand(k_at));
        v_ = widen(c.operand(v_at));
        find_visible();
        scores_ = capped(dot(q_, k_, {{4}, {3}}, {{0, 1}, {0, 1}}) * c.real("scale"));
        if (additive()) scores_ = add(scores_, over_scores(select(logical_not(blocks()), mask(), splat(mask(), 0)), mask()));
    }

    // The largest visible score and the sum of exp(score - largest) of each query, both 0 for one that sees nothing: [batch,
    // kv_heads, group, queries, 2].
    Value row_numbers() const {
        Value largest;
        if (visible_.valid())
            largest = max(select(visible_, scores_, over_keys(min(scores_, {4}, true))), {4}, true);
        else
            largest = max(scores_, {4}, true);
        const Value total = sum(exponentials(largest), {4}, true);
        if (visible_.valid()) largest = select(eq(total, splat(total, 0)), splat(total, 0), largest);
        const std::array<Value, 2> parts = {largest, total};
        return concat(parts, 4);
    }

    // What the queries give each key before dropout; 0 for a query that sees nothing. `rows` as row_numbers() has it.
    Value probabilities(Value rows) const {
        const Value total = column(rows, 1);
        const Value divisor = select(eq(total, splat(total, 0)), splat(total, 1), total);
        return div(exponentials(column(rows, 0)), over_keys(divisor));
    }
    Value dropped(Value weights) const {
        const double p = c_.real("dropout");
        if (p == 0) return weights;
        const Value bits = grouped(slice(c_.operand(bits_at), {0, 0, 0, 0}, {all, all, all, c_.type(k_at).dims[2].value()}));
        const Value keeps = ge(cast(div(bits, splat(bits, 256)), DType::f32), b_.constant(f32(bits.dims()), p * 0x1p24));
        return select(keeps, weights * (p < 1 ? 1 / (1 - p) : 0), splat(weights, 0));
    }

    Value times_values(Value weights) const { return ungrouped(dot(weights, v_, {{4}, {2}}, {{0, 1}, {0, 1}})); }

    // From the cotangent of the result to that of the scores behind cap and mask; `rows` holds sum(dy * y) as its third number.
    Value score_gradient(Value dy, Value rows) const {
        const Value of_weights = dropped(dot(grouped(dy), v_, {{4}, {3}}, {{0, 1}, {0, 1}}));
        return mul(probabilities(rows), sub(of_weights, over_keys(column(rows, 2))));
    }
    Value before_cap(Value gradient) const {
        return mul(slope_.valid() ? mul(gradient, slope_) : gradient, splat(gradient, c_.real("scale")));
    }
    Value query_gradient(Value of_products) const { return ungrouped(dot(of_products, k_, {{4}, {2}}, {{0, 1}, {0, 1}})); }
    Value key_gradient(Value of_products) const { return dot(of_products, q_, {{2, 3}, {2, 3}}, {{0, 1}, {0, 1}}); }
    Value value_gradient(Value weights, Value dy) const { return dot(weights, grouped(dy), {{2, 3}, {2, 3}}, {{0, 1}, {0, 1}}); }
    Value mask_gradient(Value of_scores) const {
        Value d = ungrouped(of_scores);
        std::vector<int64_t> axes;
        for (size_t i = 0; i < 4; ++i)
            if (c_.type(mask_at).dims[i] == Dim(1)) axes.push_back(static_cast<int64_t>(i));
        if (!axes.empty()) d = sum(d, axes, true);
        return select(blocks(), splat(d, 0), d);
    }

    // Of scores: the change that changes of q, k and mask make (an invalid one is none).
    Value score_tangent(Value dq, Value dk, Value dmask) const {
        Value total = splat(scores_, 0);
        if (dq.valid()) total = add(total, before_cap(dot(grouped(widen(dq)), k_, {{4}, {3}}, {{0, 1}, {0, 1}})));
        if (dk.valid()) total = add(total, before_cap(dot(q_, widen(dk), {{4}, {3}}, {{0, 1}, {0, 1}})));
        if (dmask.valid()) total = add(total, over_scores(narrow(dmask, scores_.dtype()), dmask));
        return total;
    }

    Value grouped(Value x) const { return reshape(x, {x.dims()[0], dims_[1], dims_[2], x.dims()[2], x.dims()[3]}); }
    Value ungrouped(Value x) const {
        if (!x.valid()) return x;  // the builder has an error
        return reshape(x, {x.dims()[0], c_.type(q_at).dims[1], x.dims()[3], x.dims()[4]});
    }
    Value column(Value rows, int64_t which) const { return slice(rows, {0, 0, 0, 0, which}, {all, all, all, all, which + 1}); }
    Value over_keys(Value per_query) const { return broadcast(per_query, dims_, {0, 1, 2, 3, 4}); }

private:
    static constexpr int64_t all = std::numeric_limits<int64_t>::max();

    bool additive() const { return c_.has(mask_at) && is_float(c_.type(mask_at).dtype); }
    Value mask() const { return narrow(c_.operand(mask_at), scores_.dtype()); }
    // Where an additive mask is minus infinity.
    Value blocks() const {
        const Value m = c_.operand(mask_at);
        return logical_and(isinf(m), lt(m, splat(m, 0)));
    }

    // A mask [1 or batch, 1 or heads, 1 or queries, 1 or keys] spread over the scores. `like` has its dims.
    Value over_scores(Value mask, Value like) const {
        const Dims& m = like.dims();
        const bool by_head = !(m[1] == Dim(1));
        const Value five = reshape(mask, {m[0], by_head ? dims_[1] : Dim(1), by_head ? dims_[2] : Dim(1), m[2], m[3]});
        return broadcast(five, dims_, {0, 1, 2, 3, 4});
    }

    void also_visible(Value test) {
        const Value spread = b_.broadcast_to(test, dims_);
        visible_ = visible_.valid() ? logical_and(visible_, spread) : spread;
    }
    void find_visible() {
        const int64_t window = c_.integer("window");
        if (c_.boolean("causal") || window > 0) {
            const Type type = i32(dims_);
            Value at = b_.iota(type, 3);
            if (c_.has(position_at)) at = add(at, broadcast(c_.operand(position_at), dims_, {0}));
            const Value ahead = sub(b_.iota(type, 4), at);  // of the query
            if (c_.boolean("causal")) also_visible(le(ahead, splat(ahead, 0)));
            if (window > 0) also_visible(gt(ahead, splat(ahead, static_cast<double>(-window))));
            if (window > 0 && !c_.boolean("causal")) also_visible(lt(ahead, splat(ahead, static_cast<double>(window))));
        }
        if (!c_.has(mask_at)) return;
        const Value m = c_.operand(mask_at);
        also_visible(over_scores(additive() ? logical_not(blocks()) : m, m));
    }

    Value capped(Value products) {
        const double cap = c_.real("soft_cap");
        if (cap == 0) return products;
        const Value t = tanh(products * (1 / cap));
        slope_ = 1.0 - mul(t, t);
        return t * cap;
    }
    // What is not visible may be larger than the largest, and stays away from exp.
    Value exponentials(Value largest) const {
        const Value below = sub(scores_, over_keys(largest));
        if (!visible_.valid()) return exp(below);
        const Value e = exp(select(visible_, below, splat(below, 0)));
        return select(visible_, e, splat(e, 0));
    }

    const BuildCall& c_;
    Builder& b_;
    Dims dims_;
    Value q_, k_, v_, scores_, visible_, slope_;  // invalid: everything is visible; nothing is capped
};

// The operand `rows` of a gradient.
Value rows_of(const BuildCall& c, const Weights& w) { return w.grouped(c.operand(rows_at)); }

Value expand_forward(const BuildCall& c) {
    const Weights w(c);
    return narrow(w.times_values(w.dropped(w.probabilities(w.row_numbers()))), c.out->dtype);
}
Value expand_rows(const BuildCall& c) {
    const Weights w(c);
    return w.ungrouped(w.row_numbers());
}
Value expand_dq(const BuildCall& c) {
    const Weights w(c);
    return narrow(w.query_gradient(w.before_cap(w.score_gradient(widen(c.operand(dy_at)), rows_of(c, w)))), c.out->dtype);
}
Value expand_dk(const BuildCall& c) {
    const Weights w(c);
    return narrow(w.key_gradient(w.before_cap(w.score_gradient(widen(c.operand(dy_at)), rows_of(c, w)))), c.out->dtype);
}
Value expand_dv(const BuildCall& c) {
    const Weights w(c);
    return narrow(w.value_gradient(w.dropped(w.probabilities(rows_of(c, w))), widen(c.operand(dy_at))), c.out->dtype);
}
Value expand_dmask(const BuildCall& c) {
    const Weights w(c);
    return narrow(w.mask_gradient(w.score_gradient(widen(c.operand(dy_at)), rows_of(c, w))), c.out->dtype);
}

// --- gradients of attention_forward -----------------------------------------------------------------------------------

Value with_kernel_attrs(const BuildCall& c, std::string_view op, std::span<const Value> operands) {
    std::vector<AttrValue> attrs(c.attrs.begin(), c.attrs.end());
    return c.builder->call_exact(*op_registry().find(op), operands, std::move(attrs));
}

// What all gradients need of each query: the numbers of its weights and sum(dy * y), which stands for sum(weight * dweight).
Value vjp_forward(const BuildCall& c, size_t operand, Value dy) {
    constexpr std::string_view gradients[] = {"attention_dq", "attention_dk", "attention_dv", "attention_dmask"};
    const std::array<Value, 6> forward = {c.operand(q_at),    c.operand(k_at),        c.operand(v_at),
                                          c.operand(mask_at), c.operand(position_at), c.operand(bits_at)};
    const Value numbers = with_kernel_attrs(c, "attention_rows", forward);
    const std::array<Value, 2> parts = {numbers, sum(mul(widen(dy), widen(c.value())), {3}, true)};
    std::vector<Value> operands(forward.begin(), forward.end());
    operands.push_back(dy);
    operands.push_back(concat(parts, 3));
    return with_kernel_attrs(c, gradients[operand], operands);
}

Value jvp_forward(const BuildCall& c, std::span<const Value> tangents) {
    const Weights w(c);
    const Value p = w.probabilities(w.row_numbers());
    const Value ds = w.score_tangent(tangents[q_at], tangents[k_at], tangents[mask_at]);
    const Value dp = mul(p, sub(ds, w.over_keys(sum(mul(p, ds), {4}, true))));
    Value dy = w.times_values(w.dropped(dp));
    if (tangents[v_at].valid()) {
        const Value dv = widen(tangents[v_at]);
        dy = add(dy, w.ungrouped(dot(w.dropped(p), dv, {{4}, {2}}, {{0, 1}, {0, 1}})));
    }
    return narrow(dy, c.out->dtype);
}

// --- attention --------------------------------------------------------------------------------------------------------

// Key and counter in one tensor: kernels have few bindings. Stored once, whoever needs them.
Value random_bits_of(const BuildCall& c) {
    const auto keys = concrete_count(c, c.type(k_at).dims, {2});
    if (!keys) return {};
    const std::array<Value, 2> parts = {c.operand(key_at), reshape(c.operand(counter_at), {1})};
    const Value both = materialize(concat(parts, 0));
    return c.builder->call("random_bits", {slice(both, {0}, {2}), reshape(slice(both, {2}, {3}), {})},
                           {{"shape", bits_dims(score_dims(c))}, {"stream", c.given("stream") ? c.integer("stream") : 0}});
}

Value expand_attention(const BuildCall& c) {
    const auto scores = concrete_count(c, score_dims(c), {0, 1, 2, 3});
    if (!scores) return {};
    if (*scores == 0) return c.builder->constant(*c.out, 0);  // sums over nothing, or no results
    Value mask = c.operand(mask_at), position = c.operand(position_at), bits;
    if (mask.valid()) {
        Dims dims(4 - mask.rank(), Dim(1));
        dims.insert(dims.end(), mask.dims().begin(), mask.dims().end());
        mask = reshape(mask, dims);
    }
    if (position.valid()) {
        // Beyond every sequence, and far from where sums of positions and lengths would wrap round.
        constexpr double far = 1 << 29;
        position = minimum(position, splat(position, far));
        position = position.dtype() == DType::i32 ? maximum(position, splat(position, -far)) : cast(position, DType::i32);
        if (position.rank() == 0) position = broadcast(position, {c.type(q_at).dims[0]}, {});
    }
    if (c.real("dropout") > 0) bits = random_bits_of(c);
    const double scale = c.given("scale") ? c.real("scale") : 1 / std::sqrt(static_cast<double>(c.type(q_at).dims[3].value()));
    return c.builder->call("attention_forward", {c.operand(q_at), c.operand(k_at), c.operand(v_at), mask, position, bits},
                           {{"causal", c.boolean("causal")},
                            {"window", c.integer("window")},
                            {"scale", scale},
                            {"soft_cap", c.real("soft_cap")},
                            {"dropout", c.real("dropout")}});
}

constexpr OpDef defs[] = {
    {.name = "attention",
     .doc =
         "y = softmax(scale q k^T + mask) v for q [batch, heads, queries, head_dim], k and v [batch, kv_heads, keys, ..], where "
         "heads / kv_heads neighbouring query heads share a key head. Query i stands at key position + i (0 + i without the "
         "operand position, i32 or u32, one or one for each of the batch: as PyTorch's is_causal). mask broadcasts to [batch, "
         "heads, queries, keys]; a boolean one is true where a query sees a key. A query that sees no key gives 0.",
     .operands = attention_operands,
     .attrs = attention_attrs,
     .infer = infer_attention,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_attention},
     .has_side_stream = true},
    {.name = "attention_forward",
     .doc =
         "y = attention with everything stated: position i32[batch], mask of 4 axes, and bits, whose top 24 bits below dropout * "
         "2^24 put a weight to 0.",
     .operands = forward_operands,
     .attrs = kernel_attrs,
     .infer = infer_forward,
     .grad = CustomGrad{vjp_forward, jvp_forward},
     .batch = Batch::by_expansion,
     .lower = KernelLower{"attention", expand_forward, true}},
    {.name = "attention_rows",
     .doc = "y[.., 0] = the largest score m of each query, y[.., 1] = the sum of exp(score - m): what attention divides by; "
            "both 0 for a query that sees no key.",
     .operands = forward_operands,
     .attrs = kernel_attrs,
     .infer = infer_rows,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = KernelLower{"attention", expand_rows, true}},
    {.name = "attention_dq",
     .doc = "y = the gradient of attention_forward by q; rows = attention_rows with sum(dy * y) as third number.",
     .operands = backward_operands,
     .attrs = kernel_attrs,
     .infer = infer_gradient<q_at>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = KernelLower{"attention_dq", expand_dq, true}},
    {.name = "attention_dk",
     .doc = "y = the gradient of attention_forward by k, summed over the heads that share it.",
     .operands = backward_operands,
     .attrs = kernel_attrs,
     .infer = infer_gradient<k_at>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = KernelLower{"attention_dkv", expand_dk, true}},
    {.name = "attention_dv",
     .doc = "y = the gradient of attention_forward by v, summed over the heads that share it.",
     .operands = backward_operands,
     .attrs = kernel_attrs,
     .infer = infer_gradient<v_at>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = KernelLower{"attention_dkv", expand_dv, true}},
    {.name = "attention_dmask",
     .doc = "y = the gradient of attention_forward by an additive mask; 0 where that is minus infinity.",
     .operands = backward_operands,
     .attrs = kernel_attrs,
     .infer = infer_gradient<mask_at>,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_dmask}},
};

}  // namespace

std::span<const OpDef> attention_ops() { return defs; }

}  // namespace darner
