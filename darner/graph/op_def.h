// SPDX-License-Identifier: MIT
// OpDef: all facts of one op in one entry. Op families (darner/ops/) are tables of these; everything else reads them: the
// text form, the verifier, the reference evaluator, transforms, the planner, the command line, generated documents.
//
// Semantics that hold for every op
//   Shapes are explicit: elementwise ops take operands of one shape; `broadcast` is an op. The Builder adds broadcasts.
//   NaN      propagates through arithmetic, min, max and relu, elementwise and as reductions.
//   Integers wrap; division and remainder truncate, by zero they give 0. Float to integer truncates and saturates, NaN gives 0.
//   Ties     the gradient of a max or min reduction splits evenly among ties; argmax takes the lowest index, as i32,
//            and the first NaN where there is one.
//   Indices  are i32 or u32; out of range, reads clamp and scatters drop.
//   Order    reductions have a fixed order on one device; it is not part of an op's meaning.
//   Empty    a sum over nothing is 0; max, min, mean and argmax over nothing are errors of type inference.
#pragma once

#include "darner/base/result.h"
#include "darner/graph/tensor.h"
#include "darner/graph/type.h"

#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace darner::kir {
class Builder;
struct Expr;
}  // namespace darner::kir

namespace darner {

class Builder;
struct Value;
struct OpDef;

struct OperandDef {
    std::string_view name;
    bool optional = false;
    bool variadic = false;  // the last one only: one or more; such an op is associative: op(a, b, c) = op(op(a, b), c)
    bool computed = false;  // of a kernel: an index op (random bits) is computed where it is read, never stored
};

enum class AttrKind : uint8_t { integer, real, boolean, choice, integers, integer_lists, dtype, dims };
const char* to_string(AttrKind kind);

// std::monostate: an optional attribute that was not given (default text "none").
using AttrValue = std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<int64_t>,
                               std::vector<std::vector<int64_t>>, DType, Dims>;

struct AttrDef {
    std::string_view name;
    AttrKind kind = AttrKind::integer;
    std::string_view default_text = {};  // as in the text form; empty: required; "none": may be left out
    std::string_view doc = {};
    std::string_view choices = {};  // of a choice: "none|tanh"
};

// One application of an op, as inference, evaluation and lowering see it. An optional operand left out has no type (nullptr).
struct Call {
    const OpDef* op = nullptr;
    std::span<const Type* const> types;
    std::span<const AttrValue> attrs;  // in the order of op->attrs, defaults filled in
    const Type* out = nullptr;         // not yet known during inference

    size_t operand_count() const { return types.size(); }
    bool has(size_t operand) const { return operand < types.size() && types[operand] != nullptr; }
    const Type& type(size_t operand) const { return *types[operand]; }
    const AttrValue& attr(std::string_view name) const;  // bug() when the op has none of that name
    bool given(std::string_view name) const { return !std::holds_alternative<std::monostate>(attr(name)); }
    int64_t integer(std::string_view name) const { return std::get<int64_t>(attr(name)); }
    double real(std::string_view name) const { return std::get<double>(attr(name)); }
    bool boolean(std::string_view name) const { return std::get<bool>(attr(name)); }
    const std::string& choice(std::string_view name) const { return std::get<std::string>(attr(name)); }
    const std::vector<int64_t>& integers(std::string_view name) const { return std::get<std::vector<int64_t>>(attr(name)); }
    const std::vector<std::vector<int64_t>>& integer_lists(std::string_view name) const {
        return std::get<std::vector<std::vector<int64_t>>>(attr(name));
    }
    DType dtype(std::string_view name) const { return std::get<DType>(attr(name)); }
    const Dims& dims(std::string_view name) const { return std::get<Dims>(attr(name)); }
    size_t axis(std::string_view name, size_t rank) const;  // normalised; inference has checked it
    // "[op] message": the form of inference errors.
    Error error(std::string message) const;
};

// A call inside a graph under construction: what gradient rules and expansions work on.
struct BuildCall : Call {
    Builder* builder = nullptr;
    std::span<const Value> operands;  // an invalid Value where an optional operand was left out
    const Value* result = nullptr;    // the op's own value; null in expansions
    const Value& operand(size_t i) const;
    const Value& value() const;
};

// --- reference evaluation -------------------------------------------------------------------------------------------
// Elementwise: in double for float operands, in int64 for integer and bool ones (the evaluator wraps the result to its dtype).
// A comparison gives 0 or 1. `real_to_bool`-style mixes need no own form: the result goes where the output dtype says.
struct ElementRef {
    double (*real)(std::span<const double>) = nullptr;
    int64_t (*integer)(std::span<const int64_t>, DType) = nullptr;
};
struct TensorRef {
    Tensor (*eval)(const Call&, std::span<const Tensor* const>) = nullptr;  // null pointer for an operand left out
};
using Ref = std::variant<std::monostate, ElementRef, TensorRef>;  // monostate: by expansion

// --- gradients ------------------------------------------------------------------------------------------------------
struct ZeroGrad {};
// Elementwise: dy / d operand i, of the output's shape; the engine multiplies by the cotangent. An invalid Value means zero.
struct Deriv {
    Value (*derivative)(const BuildCall&, size_t operand) = nullptr;
};
// Linear in all its float operands together: the transpose applied to the cotangent, for one operand. jvp applies the op to
// tangents.
struct Linear {
    Value (*transpose)(const BuildCall&, size_t operand, Value cotangent) = nullptr;
};
// Linear in each of its two operands with the other held fixed.
struct Bilinear {
    Value (*transpose)(const BuildCall&, size_t operand, Value cotangent) = nullptr;
};
// vjp gives the cotangent of one operand; jvp the tangent of the result. An invalid Value means zero.
struct CustomGrad {
    Value (*vjp)(const BuildCall&, size_t operand, Value cotangent) = nullptr;
    Value (*jvp)(const BuildCall&, std::span<const Value> tangents) = nullptr;
};
struct ByExpansion {};
using Grad = std::variant<ZeroGrad, Deriv, Linear, Bilinear, CustomGrad, ByExpansion>;

// --- batching (vmap) ------------------------------------------------------------------------------------------------
// pointwise: the batch axis goes along. shift_axes: axis attributes move by one. by_expansion: batch the expansion.
enum class Batch : uint8_t { pointwise, shift_axes, by_expansion };

// --- lowering -------------------------------------------------------------------------------------------------------
// Gives the element of an operand at an index (one u32 Expr an axis).
using Fetch = std::function<kir::Expr(size_t operand, std::span<const kir::Expr> index)>;

// Elementwise: the result from the operands at the same index. Register types: floats f32; i8, i32 are i32; u8, u32 are u32;
// bool is boolean.
struct MapLower {
    kir::Expr (*emit)(kir::Builder&, std::span<const kir::Expr>, const Call&) = nullptr;
    bool expensive = false;  // worth storing rather than computing again (exp, log, pow, ...)
};
enum class Reduction : uint8_t { sum, max, min, argmax };
struct ReduceLower {
    Reduction kind = Reduction::sum;
};  // attributes `axes` (or `axis`) and `keep`
// The result is its one operand seen through another index. `alias`: same elements in the same order (reshape).
struct ViewLower {
    void (*map_index)(const Call&, kir::Builder&, std::span<const kir::Expr> out, std::vector<kir::Expr>& in) = nullptr;
    bool alias = false;
};
// The result at an index, from elements of the operands fetched anywhere (gather, concat, pad, iota, random bits).
struct IndexLower {
    kir::Expr (*emit)(const Call&, kir::Builder&, std::span<const kir::Expr> out, const Fetch& fetch) = nullptr;
    bool expensive = false;
};
// A contraction: for each index (batch, m, n) the sum over k of A[batch, m, k] B[batch, k, n], where A and B are operands read
// through index maps. All sizes are concrete here. An operand is read with the indices of batch, of its own side (m of A, n of
// B) and of k, one Expr an axis.
struct ContractSpace {
    std::vector<int64_t> batch, m, n, k;  // extents; the last axis runs fastest
    int64_t terms() const;                // the product of k
};
using ContractIndex = std::span<const kir::Expr>;
struct ContractLower {
    size_t a = 0, b = 1;  // operands; any others are the business of `expand`
    ContractSpace (*space)(const Call&) = nullptr;
    // Gives the element's index, always within the operand, and where it may stand for one outside, which is zero, a test that
    // it does not (else an invalid Expr).
    kir::Expr (*read)(const Call&, kir::Builder&, size_t operand, ContractIndex batch, ContractIndex side, ContractIndex k,
                      std::vector<kir::Expr>& index) = nullptr;
    // The element of the result that (batch, m, n) is; null: the axes of batch, m and n are the result's.
    void (*write)(const Call&, ContractIndex batch, ContractIndex m, ContractIndex n, std::vector<kir::Expr>& index) = nullptr;
    // The same value as a sum, in a fixed order, of at least `pieces` contractions of shorter k that can run side by side.
    // Invalid: k does not part like that.
    Value (*split)(const BuildCall&, int64_t pieces) = nullptr;
    // The same value from contractions that read half as far, with operands moved in memory where that helps. Invalid: none.
    Value (*halve)(const BuildCall&) = nullptr;
    // What stands for a call with more operands than A and B; null: there are no others.
    Value (*expand)(const BuildCall&) = nullptr;
};
// A kernel that the planner knows by name. Nodes of one name with equal operands and attributes share it: it then gives several
// results at once.
struct KernelLower {
    std::string_view name;
    Value (*expand)(const BuildCall&) = nullptr;  // the same in primitives: what it is compared with, and its derivatives
    bool reads_again = false;  // each element of its operands many times: what is no plain view of memory is stored before
};
// Composite: primitives in place of the op. Always taken, before planning.
struct ExpandLower {
    Value (*expand)(const BuildCall&) = nullptr;
};
using Lower = std::variant<MapLower, ReduceLower, ViewLower, IndexLower, ContractLower, KernelLower, ExpandLower>;

struct OpDef {
    std::string_view name;
    std::string_view doc;  // one sentence with the formula
    std::span<const OperandDef> operands;
    std::span<const AttrDef> attrs = {};
    Result<Type> (*infer)(const Call&) = nullptr;
    Ref ref = {};
    Grad grad = ZeroGrad{};
    Batch batch = Batch::pointwise;
    Lower lower = MapLower{};
    std::string_view onnx = {};  // name of the ONNX operator that means the same; empty: none
    double ulp = 0;              // error bound of an elementwise op in ULP of f32; 0: exact
    bool commutative = false;
    bool has_side_stream = false;  // carries a `stream` attribute that the Builder makes unique

    const AttrDef* find_attr(std::string_view attr_name) const;
    size_t required_operands() const;
    bool is_composite() const { return std::holds_alternative<ExpandLower>(lower); }
    // In primitives: of composites and of kernels that state it; else nullptr.
    Value (*expansion() const)(const BuildCall&);
    bool is_map() const { return std::holds_alternative<MapLower>(lower); }
};

// Parses an attribute's text form ("-1", "[0,1]", "[[1],[0]]", "f16", "none"): defaults and the parser of .dg files.
Result<AttrValue> parse_attr(const AttrDef& def, std::string_view text);
std::string to_text(const AttrValue& value);

class OpRegistry {
public:
    explicit OpRegistry(std::span<const std::span<const OpDef>> families);
    const OpDef* find(std::string_view name) const;
    std::span<const OpDef* const> all() const { return sorted_; }  // by name
    std::span<const AttrValue> defaults(const OpDef& op) const;    // monostate where required or "none"
    std::string nearest(std::string_view name) const;              // for "did you mean"

private:
    std::vector<const OpDef*> sorted_;
    std::vector<std::vector<AttrValue>> defaults_;
};

// All ops, from the explicit list in darner/ops/registry.cpp.
const OpRegistry& op_registry();

}  // namespace darner
