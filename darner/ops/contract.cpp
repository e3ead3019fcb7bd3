// SPDX-License-Identifier: MIT
// Contractions: dot, and matmul and linear, which are dot under other conventions.
#include "darner/ops/contract.h"

#include "darner/base/fault.h"
#include "darner/kir/builder.h"
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace darner {
namespace {

using infer::Accept;

constexpr OperandDef a_b[] = {{"a"}, {"b"}};
constexpr OperandDef linear_operands[] = {{"x"}, {"w"}, {"b", true}};
constexpr AttrDef dot_attrs[] = {
    {"batch", AttrKind::integer_lists, "[[],[]]", "batch axes of a and of b, in pairs"},
    {"contract", AttrKind::integer_lists, "", "axes of a and of b that are multiplied and summed over, in pairs"}};

std::vector<size_t> normal_axes(const std::vector<int64_t>& axes, size_t rank) {
    std::vector<size_t> result;
    for (const int64_t a : axes) result.push_back(*normalize_axis(a, rank));
    return result;
}

std::vector<size_t> free_axes(size_t rank, std::vector<size_t> batch, const std::vector<size_t>& contract) {
    batch.insert(batch.end(), contract.begin(), contract.end());
    return other_axes(rank, batch);
}

// Floats and 32- or 64-bit integers; sums of i8 or u8 products would wrap at once.
Result<void> check_dot_dtypes(const Call& c) {
    for (size_t i : {size_t{0}, size_t{1}}) {
        TRY(infer::dtype(c, i, Accept::numbers));
        if (c.type(i).dtype == DType::i8 || c.type(i).dtype == DType::u8)
            return c.error(fmt::format("wrong dtype of {}: got {}, expected a float dtype, i32, u32 or i64 (cast it first)",
                                       infer::operand_name(c, i), to_string(c.type(i))));
    }
    return infer::equal_dtypes(c, 0, 1);
}

Result<Type> infer_dot(const Call& c) {
    TRY(check_dot_dtypes(c));
    for (std::string_view attr : {"batch", "contract"}) {
        const auto& lists = c.integer_lists(attr);
        if (lists.size() != 2 || lists[0].size() != lists[1].size())
            return c.error(
                fmt::format("{} needs two lists of one length, axes of a and of b: got {}", attr, to_text(c.attr(attr))));
    }
    for (size_t i : {size_t{0}, size_t{1}}) {
        std::vector<int64_t> named = c.integer_lists("batch")[i];
        named.insert(named.end(), c.integer_lists("contract")[i].begin(), c.integer_lists("contract")[i].end());
        TRY(infer::axes(c, named, c.type(i).rank()));
    }
    const DotAxes axes = dot_axes(c);
    const Dims& a = c.type(0).dims;
    const Dims& b = c.type(1).dims;
    const auto check_pairs = [&](const std::vector<size_t>& of_a, const std::vector<size_t>& of_b,
                                 const char* kind) -> Result<void> {
        for (size_t i = 0; i < of_a.size(); ++i)
            TRY(infer::equal_dim(c, b[of_b[i]], a[of_a[i]],
                                 fmt::format("{} extents of {} axis {} and {} axis {} differ", kind, infer::describe(c, 0),
                                             of_a[i], infer::describe(c, 1), of_b[i])));
        return {};
    };
    TRY(check_pairs(axes.batch_a, axes.batch_b, "batch"));
    TRY(check_pairs(axes.contract_a, axes.contract_b, "contracted"));
    Dims dims;
    for (const size_t i : axes.batch_a) dims.push_back(a[i]);
    for (const size_t i : axes.free_a) dims.push_back(a[i]);
    for (const size_t i : axes.free_b) dims.push_back(b[i]);
    return c.type(0).with(std::move(dims));
}

// The offset of each element of the sub-shape that `axes` select.
std::vector<int64_t> offsets(const Tensor& t, const std::vector<size_t>& axes) {
    const auto strides = row_major_strides(t.dims);
    std::vector<int64_t> result = {0};
    for (const size_t a : axes) {
        std::vector<int64_t> next;
        next.reserve(result.size() * static_cast<size_t>(t.dims[a]));
        for (const int64_t base : result)
            for (int64_t i = 0; i < t.dims[a]; ++i) next.push_back(base + i * strides[a]);
        result = std::move(next);
    }
    return result;
}

Tensor eval_dot(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& a = *operands[0];
    const Tensor& b = *operands[1];
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    if (y.count() == 0) return y;
    const DotAxes axes = dot_axes(c);
    const auto batch_a = offsets(a, axes.batch_a), batch_b = offsets(b, axes.batch_b);
    const auto free_a = offsets(a, axes.free_a), free_b = offsets(b, axes.free_b);
    const auto contract_a = offsets(a, axes.contract_a), contract_b = offsets(b, axes.contract_b);
    size_t to = 0;
    for (size_t batch = 0; batch < batch_a.size(); ++batch) {
        for (const int64_t row : free_a) {
            for (const int64_t col : free_b) {
                const int64_t base_a = batch_a[batch] + row, base_b = batch_b[batch] + col;
                double real = 0;
                uint64_t integer = 0;
                for (size_t i = 0; i < contract_a.size(); ++i) {
                    const auto at_a = static_cast<size_t>(base_a + contract_a[i]),
                               at_b = static_cast<size_t>(base_b + contract_b[i]);
                    if (is_float(y.dtype))
                        real += a.real[at_a] * b.real[at_b];
                    else
                        integer += static_cast<uint64_t>(a.integer[at_a]) * static_cast<uint64_t>(b.integer[at_b]);
                }
                if (is_float(y.dtype))
                    y.real[to++] = real;
                else
                    y.integer[to++] = wrap_to(y.dtype, static_cast<int64_t>(integer));
            }
        }
    }
    return y;
}

std::vector<int64_t> range(size_t first, size_t count) {
    std::vector<int64_t> r(count);
    std::iota(r.begin(), r.end(), static_cast<int64_t>(first));
    return r;
}

// The transpose with respect to one operand ("self"): the cotangent contracted with the other operand over the other's free
// axes. That gives self's axes in the order batch, free, contracted as the other operand orders them; they are then put back.
Value dot_back(const BuildCall& c, size_t operand, Value dy) {
    const DotAxes x = dot_axes(c);
    const bool first = operand == 0;
    const auto& batch_self = first ? x.batch_a : x.batch_b;
    const auto& batch_other = first ? x.batch_b : x.batch_a;
    const auto& free_self = first ? x.free_a : x.free_b;
    const auto& free_other = first ? x.free_b : x.free_a;
    const auto& contract_self = first ? x.contract_a : x.contract_b;
    const auto& contract_other = first ? x.contract_b : x.contract_a;

    const size_t batches = batch_self.size();
    const size_t other_begin = first ? batches + x.free_a.size() : batches;  // axes of dy that belong to the other operand
    const Value product = dot(dy, c.operand(1 - operand), {range(other_begin, free_other.size()), to_integers(free_other)},
                              {range(0, batches), to_integers(batch_other)});

    // product's axes, as axes of self: batch, free, then contracted ones in ascending order of the other operand's axes.
    std::vector<size_t> order(contract_other.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return contract_other[i] < contract_other[j]; });
    std::vector<size_t> self_axes = batch_self;
    self_axes.insert(self_axes.end(), free_self.begin(), free_self.end());
    for (const size_t i : order) self_axes.push_back(contract_self[i]);

    std::vector<int64_t> perm(self_axes.size());
    for (size_t i = 0; i < self_axes.size(); ++i) perm[self_axes[i]] = static_cast<int64_t>(i);
    if (fault(7) && product.type() == c.type(operand)) return product;
    return std::is_sorted(perm.begin(), perm.end()) ? product : transpose(product, perm);
}

// --- lowering of dot ------------------------------------------------------------------------------------------------

ContractSpace dot_space(const Call& c) {
    const DotAxes axes = dot_axes(c);
    const auto a = c.type(0).shape(), b = c.type(1).shape();
    const auto extents = [](const std::vector<int64_t>& dims, const std::vector<size_t>& of) {
        std::vector<int64_t> result;
        for (const size_t axis : of) result.push_back(dims[axis]);
        return result;
    };
    return {extents(a, axes.batch_a), extents(a, axes.free_a), extents(b, axes.free_b), extents(a, axes.contract_a)};
}

kir::Expr read_dot(const Call& c, kir::Builder&, size_t operand, ContractIndex batch, ContractIndex side, ContractIndex k,
                   std::vector<kir::Expr>& index) {
    const DotAxes axes = dot_axes(c);
    const bool first = operand == 0;
    index.resize(c.type(operand).rank());
    const auto place = [&](const std::vector<size_t>& at, ContractIndex values) {
        for (size_t i = 0; i < at.size(); ++i) index[at[i]] = values[i];
    };
    place(first ? axes.batch_a : axes.batch_b, batch);
    place(first ? axes.free_a : axes.free_b, side);
    place(first ? axes.contract_a : axes.contract_b, k);
    return {};
}

// Elements [first, end) along one axis.
Value part_of(Value v, size_t axis, int64_t first, int64_t end) {
    std::vector<int64_t> start(v.rank(), 0), stop(v.rank(), slice_end);
    start[axis] = first;
    stop[axis] = end;
    return slice(v, start, stop);
}

Value same_dot(const BuildCall& c, Value a, Value b) { return dot(a, b, c.integer_lists("contract"), c.integer_lists("batch")); }

// Pieces of the longest contracted axis as one more batch axis; what does not part evenly is added.
Value split_dot(const BuildCall& c, int64_t pieces) {
    const DotAxes axes = dot_axes(c);
    const auto extent = [&](size_t i) { return c.type(0).dims[axes.contract_a[i]].value(); };
    size_t longest = 0;
    for (size_t i = 1; i < axes.contract_a.size(); ++i)
        if (extent(i) > extent(longest)) longest = i;
    if (axes.contract_a.empty() || extent(longest) < pieces) return {};
    const int64_t all = extent(longest);
    pieces = even_pieces(all, pieces);
    const int64_t length = all / pieces, whole = length * pieces;
    const size_t at[] = {axes.contract_a[longest], axes.contract_b[longest]};
    const auto apart = [&](size_t operand) {
        const Value v = whole == all ? c.operand(operand) : part_of(c.operand(operand), at[operand], 0, whole);
        Dims dims = v.dims();
        dims[at[operand]] = length;
        dims.insert(dims.begin() + static_cast<ptrdiff_t>(at[operand]), Dim(pieces));
        return reshape(v, dims);
    };
    std::vector<std::vector<int64_t>> batch = {to_integers(axes.batch_a), to_integers(axes.batch_b)},
                                      contract = {to_integers(axes.contract_a), to_integers(axes.contract_b)};
    for (size_t operand : {size_t{0}, size_t{1}}) {
        const auto piece = static_cast<int64_t>(at[operand]);
        for (auto* list : {&batch[operand], &contract[operand]})
            for (int64_t& axis : *list) axis += axis >= piece;
        batch[operand].push_back(piece);
    }
    const Value total = sum(dot(apart(0), apart(1), contract, batch), {static_cast<int64_t>(axes.batch_a.size())});
    if (whole == all) return total;
    return add(total, same_dot(c, part_of(c.operand(0), at[0], whole, all), part_of(c.operand(1), at[1], whole, all)));
}

// The operand in memory as [batch, free, contracted], unless its batch axes lead and its contracted axes lie side by side.
std::optional<Value> canonical(Value v, const std::vector<size_t>& batch, const std::vector<size_t>& contract) {
    const auto role = [&](size_t axis) {
        const auto has = [&](const std::vector<size_t>& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
        return has(batch) ? 0 : has(contract) ? 2 : 1;
    };
    std::vector<int> runs;
    for (size_t axis = 0; axis < v.rank(); ++axis)
        if (!(v.dims()[axis] == Dim(1)) && (runs.empty() || runs.back() != role(axis))) runs.push_back(role(axis));
    if (!runs.empty() && runs[0] == 0) runs.erase(runs.begin());
    if (runs.size() <= 1 || (runs.size() == 2 && runs[0] != 0 && runs[1] != 0)) return std::nullopt;
    std::vector<size_t> perm = batch, free = free_axes(v.rank(), batch, contract);
    perm.insert(perm.end(), free.begin(), free.end());
    perm.insert(perm.end(), contract.begin(), contract.end());
    return materialize(transpose(v, to_integers(perm)));
}

// A part along an inner axis is copied: its rows would lie as far apart as those of the whole.
Value dense(Value part, size_t axis) {
    for (size_t outer = 0; outer < axis; ++outer)
        if (!(part.dims()[outer] == Dim(1))) return materialize(part);
    return part;
}

Value halve_dot(const BuildCall& c) {
    const DotAxes axes = dot_axes(c);
    std::vector<std::vector<int64_t>> batch = {to_integers(axes.batch_a), to_integers(axes.batch_b)},
                                      contract = {to_integers(axes.contract_a), to_integers(axes.contract_b)};
    Value operands[] = {c.operand(0), c.operand(1)};
    bool moved = false;
    for (size_t i : {size_t{0}, size_t{1}}) {
        const auto better =
            canonical(operands[i], i == 0 ? axes.batch_a : axes.batch_b, i == 0 ? axes.contract_a : axes.contract_b);
        if (!better) continue;
        operands[i] = *better;
        moved = true;
        std::iota(batch[i].begin(), batch[i].end(), int64_t{0});
        std::iota(contract[i].begin(), contract[i].end(), static_cast<int64_t>(better->rank() - contract[i].size()));
    }
    if (moved) return dot(operands[0], operands[1], contract, batch);
    for (size_t i = 0; i < axes.contract_a.size(); ++i) {
        const size_t left = axes.contract_a[i], right = axes.contract_b[i];
        const int64_t extent = c.type(0).dims[left].value(), middle = extent / 2;
        if (extent < 2) continue;
        const auto half = [&](int64_t first, int64_t end) {
            return same_dot(c, dense(part_of(operands[0], left, first, end), left),
                            dense(part_of(operands[1], right, first, end), right));
        };
        return add(half(0, middle), half(middle, extent));
    }
    return {};
}

// --- matmul ---------------------------------------------------------------------------------------------------------

bool is_one(const Dim& d) { return d.is_constant() && d.value() == 1; }

// All axes but the last two, broadcast to each other as NumPy does.
Result<Dims> batch_dims(const Call& c) {
    const Dims& a = c.type(0).dims;
    const Dims& b = c.type(1).dims;
    const size_t batch_a = a.size() < 2 ? 0 : a.size() - 2, batch_b = b.size() < 2 ? 0 : b.size() - 2;
    const size_t rank = std::max(batch_a, batch_b);
    Dims dims;
    for (size_t i = 0; i < rank; ++i) {
        const Dim da = i + batch_a < rank ? Dim(1) : a[i + batch_a - rank];
        const Dim db = i + batch_b < rank ? Dim(1) : b[i + batch_b - rank];
        if (!is_one(da) && !is_one(db))
            TRY(infer::equal_dim(
                c, db, da,
                fmt::format("batch extents of {} and {} do not broadcast", infer::describe(c, 0), infer::describe(c, 1))));
        dims.push_back(is_one(da) ? db : da);
    }
    return dims;
}

Result<Type> infer_matmul(const Call& c) {
    TRY(check_dot_dtypes(c));
    for (size_t i : {size_t{0}, size_t{1}})
        if (c.type(i).rank() == 0)
            return c.error(fmt::format("{} is a scalar, expected at least one axis (use mul)", infer::describe(c, i)));
    const Dims& a = c.type(0).dims;
    const Dims& b = c.type(1).dims;
    const Dim& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
    TRY(infer::equal_dim(c, inner_b, a.back(),
                         fmt::format("inner extents of {} and {} differ", infer::describe(c, 0), infer::describe(c, 1))));
    TRY(Dims dims, batch_dims(c));
    if (a.size() > 1) dims.push_back(a[a.size() - 2]);
    if (b.size() > 1) dims.push_back(b.back());
    return c.type(0).with(std::move(dims));
}

Value expand_matmul(const BuildCall& c) {
    Value a = c.operand(0), b = c.operand(1);
    const auto rank_a = static_cast<int64_t>(a.rank()), rank_b = static_cast<int64_t>(b.rank());
    // One matrix (or vector) on a side needs no batch axes, however many the other side has.
    if (rank_b <= 2) return dot(a, b, {{rank_a - 1}, {0}});
    if (rank_a == 1) return dot(b, a, {{rank_b - 2}, {0}});
    const Result<Dims> batch = batch_dims(c);
    CHECK(batch.has_value(), "inference has checked the batch extents");
    const auto with_batch = [&](Value v) {
        Dims dims = *batch;
        dims.insert(dims.end(), v.dims().end() - 2, v.dims().end());
        return c.builder->broadcast_to(v, dims);
    };
    a = with_batch(a);
    b = with_batch(b);
    const auto axes = range(0, batch->size());
    const auto last = static_cast<int64_t>(axes.size());
    return dot(a, b, {{last + 1}, {last}}, {axes, axes});
}

// --- linear ---------------------------------------------------------------------------------------------------------

Result<Type> infer_linear(const Call& c) {
    TRY(check_dot_dtypes(c));
    const Dims& x = c.type(0).dims;
    const Dims& w = c.type(1).dims;
    if (x.empty()) return c.error(fmt::format("{} is a scalar, expected [.., in]", infer::describe(c, 0)));
    if (w.size() != 2) return c.error(fmt::format("wrong shape of w: got {}, expected [out, in]", to_string(c.type(1))));
    TRY(infer::equal_dim(c, w[1], x.back(),
                         fmt::format("input features of {} and {} differ", infer::describe(c, 0), infer::describe(c, 1))));
    if (c.has(2)) {
        TRY(infer::equal_dtypes(c, 0, 2));
        TRY(infer::equal_dims(c, c.type(2).dims, {w[0]}, "shape of b, one entry an output feature"));
    }
    Dims dims = x;
    dims.back() = w[0];
    return c.type(0).with(std::move(dims));
}

Value expand_linear(const BuildCall& c) {
    const Value x = c.operand(0);
    const auto last = static_cast<int64_t>(x.rank()) - 1;
    const Value product = dot(x, c.operand(1), {{last}, {1}});
    return c.has(2) ? add(product, broadcast(c.operand(2), product.dims(), {last})) : product;
}

constexpr OpDef defs[] = {
    {.name = "dot",
     .doc = "y[batch, free a, free b] = the sum over the contracted axes of a * b.",
     .operands = a_b,
     .attrs = dot_attrs,
     .infer = infer_dot,
     .ref = TensorRef{eval_dot},
     .grad = Bilinear{dot_back},
     .batch = Batch::shift_axes,
     .lower = ContractLower{0, 1, dot_space, read_dot, nullptr, split_dot, halve_dot}},
    {.name = "matmul",
     .doc = "y = a b, the matrix product over the last two axes with the others broadcast (NumPy's matmul).",
     .operands = a_b,
     .infer = infer_matmul,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_matmul},
     .onnx = "MatMul"},
    {.name = "linear",
     .doc = "y = x w^T + b with w [out, in]; b may be left out.",
     .operands = linear_operands,
     .infer = infer_linear,
     .grad = ByExpansion{},
     .batch = Batch::by_expansion,
     .lower = ExpandLower{expand_linear}},
};

}  // namespace

DotAxes dot_axes(const Call& c) {
    const auto& batch = c.integer_lists("batch");
    const auto& contract = c.integer_lists("contract");
    const size_t rank_a = c.type(0).rank(), rank_b = c.type(1).rank();
    DotAxes axes;
    axes.batch_a = normal_axes(batch[0], rank_a);
    axes.batch_b = normal_axes(batch[1], rank_b);
    axes.contract_a = normal_axes(contract[0], rank_a);
    axes.contract_b = normal_axes(contract[1], rank_b);
    axes.free_a = free_axes(rank_a, axes.batch_a, axes.contract_a);
    axes.free_b = free_axes(rank_b, axes.batch_b, axes.contract_b);
    return axes;
}

std::span<const OpDef> contract_ops() { return defs; }

}  // namespace darner
