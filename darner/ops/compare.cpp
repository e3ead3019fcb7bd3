// SPDX-License-Identifier: MIT
// Comparisons, logic, select, cast and materialize.
#include "darner/base/fault.h"
#include "darner/ops/compose.h"
#include "darner/ops/families.h"
#include "darner/ops/registers.h"

#include <cmath>

namespace darner {
namespace {

using infer::Accept;
using kir::Expr;
using Reals = std::span<const double>;
using Integers = std::span<const int64_t>;
using Registers = std::span<const Expr>;

constexpr OperandDef a_operand[] = {{"a"}};
constexpr OperandDef x_operand[] = {{"x"}};
constexpr OperandDef a_b[] = {{"a"}, {"b"}};
constexpr OperandDef select_operands[] = {{"condition"}, {"if_true"}, {"if_false"}};
constexpr AttrDef cast_attrs[] = {{"dtype", AttrKind::dtype, "", "the dtype of the result"}};

Result<Type> infer_comparison(const Call& c) {
    TRY(const Type type, infer::same_type(c, Accept::any));
    return type.with(DType::boolean);
}

Result<Type> infer_select(const Call& c) {
    TRY(infer::dtype(c, 0, Accept::boolean));
    TRY(infer::equal_dtypes(c, 1, 2));
    for (size_t i : {size_t{0}, size_t{2}})
        TRY(infer::equal_dims(c, c.type(i).dims, c.type(1).dims, "shape of " + infer::operand_name(c, i)));
    return c.type(1);
}

Result<Type> infer_cast(const Call& c) { return c.type(0).with(c.dtype("dtype")); }

Tensor eval_select(const Call& c, std::span<const Tensor* const> operands) {
    Tensor y = Tensor::zeros(c.out->dtype, operands[1]->dims);
    for (int64_t i = 0; i < y.count(); ++i) {
        const Tensor& from = *operands[operands[0]->integer[i] != 0 ? 1 : 2];
        if (is_float(y.dtype))
            y.real[i] = from.real[i];
        else
            y.integer[i] = from.integer[i];
    }
    return y;
}

Tensor eval_cast(const Call& c, std::span<const Tensor* const> operands) {
    const Tensor& x = *operands[0];
    const DType to = c.out->dtype;
    if (x.dtype == to) return x;
    Tensor y = Tensor::zeros(to, x.dims);
    for (int64_t i = 0; i < y.count(); ++i) {
        if (is_float(to))
            y.real[i] = round_to(to, x.at(i));
        else if (to == DType::boolean)
            y.integer[i] = is_float(x.dtype) ? (fault(36) ? std::trunc(x.real[i]) : x.real[i]) != 0 : x.integer[i] != 0;
        else
            y.integer[i] = is_float(x.dtype) ? saturate_to(to, x.real[i]) : wrap_to(to, x.integer[i]);
    }
    return y;
}

// Booleans are ordered false < true; kernels compare them as numbers.
template <kir::Opcode op>
Expr emit_comparison(kir::Builder& k, Registers v, const Call& c) {
    if (c.type(0).dtype != DType::boolean) return k.binary(op, v[0], v[1]);
    return k.binary(op, k.convert(v[0], kir::Scalar::u32), k.convert(v[1], kir::Scalar::u32));
}

#define COMPARISON(op_name, op, onnx_name, symmetric)                                                                  \
    {                                                                                                                  \
        .name = #op_name, .doc = "y = a " #op " b, a bool; false < true.", .operands = a_b, .infer = infer_comparison, \
        .ref = ElementRef{[](Reals v) -> double { return v[0] op v[1]; },                                              \
                          [](Integers v, DType) -> int64_t { return v[0] op v[1]; }},                                  \
        .lower = MapLower{emit_comparison<kir::Opcode::op_name>}, .onnx = onnx_name, .commutative = symmetric          \
    }

constexpr OpDef defs[] = {
    COMPARISON(eq, ==, "Equal", true),
    COMPARISON(ne, !=, "", true),
    COMPARISON(lt, <, "Less", false),
    COMPARISON(le, <=, "LessOrEqual", false),
    COMPARISON(gt, >, "Greater", false),
    COMPARISON(ge, >=, "GreaterOrEqual", false),
#undef COMPARISON
    {.name = "logical_and",
     .doc = "y = a and b.",
     .operands = a_b,
     .infer = infer::same_type<Accept::boolean>,
     .ref = ElementRef{.integer = [](Integers v, DType) -> int64_t { return v[0] != 0 && v[1] != 0; }},
     .lower = MapLower{[](kir::Builder&, Registers v, const Call&) { return v[0] & v[1]; }},
     .onnx = "And",
     .commutative = true},
    {.name = "logical_or",
     .doc = "y = a or b.",
     .operands = a_b,
     .infer = infer::same_type<Accept::boolean>,
     .ref = ElementRef{.integer = [](Integers v, DType) -> int64_t { return v[0] != 0 || v[1] != 0; }},
     .lower = MapLower{[](kir::Builder&, Registers v, const Call&) { return v[0] | v[1]; }},
     .onnx = "Or",
     .commutative = true},
    {.name = "logical_not",
     .doc = "y = not a.",
     .operands = a_operand,
     .infer = infer::same_type<Accept::boolean>,
     .ref = ElementRef{.integer = [](Integers v, DType) -> int64_t { return v[0] == 0; }},
     .lower = MapLower{[](kir::Builder&, Registers v, const Call&) { return !v[0]; }},
     .onnx = "Not"},
    {.name = "select",
     .doc = "y = if_true where condition holds, else if_false.",
     .operands = select_operands,
     .infer = infer_select,
     .ref = TensorRef{eval_select},
     .grad = Linear{[](const BuildCall& c, size_t operand, Value dy) {
         if (operand == 0) return Value{};
         const Value zero = splat(dy, 0);
         return operand == 1 || fault(9) ? select(c.operand(0), dy, zero) : select(c.operand(0), zero, dy);
     }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call&) { return k.select(v[0], v[1], v[2]); }},
     .onnx = "Where"},
    {.name = "cast",
     .doc = "y = x as another dtype: to a float rounds to nearest even, float to integer truncates and saturates (NaN gives 0), "
            "integers "
            "wrap, to bool is x != 0.",
     .operands = x_operand,
     .attrs = cast_attrs,
     .infer = infer_cast,
     .ref = TensorRef{eval_cast},
     .grad = Linear{[](const BuildCall& c, size_t, Value dy) { return cast(dy, c.type(0).dtype); }},
     .lower = MapLower{[](kir::Builder& k, Registers v, const Call& c) {
         return cast_register(k, v[0], c.type(0).dtype, c.out->dtype);
     }},
     .onnx = "Cast"},
    {.name = "materialize",
     .doc = "y = x, kept in memory: fusion stops here.",
     .operands = x_operand,
     .infer = infer::same_type<Accept::any>,
     .ref = ElementRef{[](Reals v) { return v[0]; }, [](Integers v, DType) { return v[0]; }},
     .grad = Linear{[](const BuildCall&, size_t, Value dy) { return dy; }},
     .lower = KernelLower{"materialize"}},
};

}  // namespace

std::span<const OpDef> compare_ops() { return defs; }

}  // namespace darner
