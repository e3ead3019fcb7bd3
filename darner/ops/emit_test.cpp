// SPDX-License-Identifier: MIT
// Every elementwise op's kernel form against its reference, on edge values of each dtype it accepts, scalar and vectorised,
// run by the checking interpreter. The ops come from the registry, so a new one is tested by existing.
#include "darner/graph/op_def.h"
#include "darner/kir/builder.h"
#include "darner/kir/interpret.h"
#include "darner/kir/verify.h"
#include "darner/ops/registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace darner {
namespace {

constexpr DType kernel_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8,
                                   DType::u8,  DType::i32, DType::u32,  DType::boolean};

// Values at which implementations go wrong, then random ones. Integers are given for their dtype.
std::vector<double> samples(DType dtype) {
    std::mt19937 random(7);
    std::vector<double> v;
    if (dtype == DType::boolean) return {0, 1, 1, 0};
    if (is_float(dtype)) {
        v = {0,    0.5, 1,   -1,  2,    -2,    3,      0.25, -0.75, 1e-3, -1e-3, 7.5,        -7.5,       10,   -10,
             15.9, 60,  -60, 100, -100, 65504, -300.5, 2049, 2051,  257,  259,   1.00390625, 1.01171875, 1.001};
        std::uniform_real_distribution<double> spread(-20, 20);
        while (v.size() < 60) v.push_back(round_to(dtype, spread(random)));
        constexpr double infinity = std::numeric_limits<double>::infinity();
        v.insert(v.end(), {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity});
        for (double& x : v) x = round_to(dtype, x);
        return v;
    }
    const bool is_signed = is_signed_integer(dtype);
    const int bits = 8 * static_cast<int>(byte_size(dtype));
    const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0, high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    for (const int64_t x :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{31}, high, high - 1, low, low + 1, high / 2})
        v.push_back(static_cast<double>(x));
    if (is_signed) v.insert(v.end(), {-1, -2, -3, -7});
    std::uniform_int_distribution<int64_t> spread(low, high);
    while (v.size() < 40) v.push_back(static_cast<double>(spread(random)));
    return v;
}

uint32_t to_word(DType dtype, double v) {
    switch (register_scalar(dtype)) {
        case kir::Scalar::f32: return std::bit_cast<uint32_t>(static_cast<float>(v));
        default: return static_cast<uint32_t>(static_cast<int64_t>(v));
    }
}

double from_word(DType dtype, uint32_t word) {
    switch (register_scalar(dtype)) {
        case kir::Scalar::f32: return std::bit_cast<float>(word);
        case kir::Scalar::i32: return static_cast<int32_t>(word);
        default: return word;
    }
}

struct Case {
    const OpDef* op = nullptr;
    std::vector<DType> dtypes;
    std::vector<AttrValue> attrs;
    std::vector<Tensor> operands;

    std::vector<Type> types;
    std::vector<const Type*> type_pointers;
    Type out;

    Call call() {
        types.clear();
        for (const Tensor& t : operands) types.push_back(t.type());
        type_pointers.clear();
        for (const Type& t : types) type_pointers.push_back(&t);
        Call c;
        c.op = op;
        c.types = type_pointers;
        c.attrs = attrs;
        return c;
    }
};

Tensor reference(const Call& c, std::span<const Tensor> operands) {
    std::vector<const Tensor*> pointers;
    for (const Tensor& t : operands) pointers.push_back(&t);
    if (const auto* tensor = std::get_if<TensorRef>(&c.op->ref)) return tensor->eval(c, pointers);
    const auto& element = std::get<ElementRef>(c.op->ref);
    Tensor y = Tensor::zeros(c.out->dtype, c.out->shape());
    for (int64_t i = 0; i < y.count(); ++i) {
        double real = 0;
        int64_t integer = 0;
        const bool is_real = is_float(operands[0].dtype);
        if (is_real) {
            std::vector<double> v;
            for (const Tensor& t : operands) v.push_back(t.real[i]);
            real = element.real(v);
            integer = static_cast<int64_t>(real);
        } else {
            std::vector<int64_t> v;
            for (const Tensor& t : operands) v.push_back(t.integer[i]);
            integer = element.integer(v, operands[0].dtype);
        }
        if (is_float(y.dtype))
            y.real[i] = real;
        else
            y.integer[i] = wrap_to(y.dtype, integer);
    }
    return y;
}

// One invocation an element (or vector of them); values pass memory in their register form, bools as words.
std::vector<double> run_kernel(const Call& c, std::span<const Tensor> operands, uint8_t lanes) {
    const auto count = static_cast<uint32_t>(c.out->count());
    const uint32_t vectors = (count + lanes - 1) / lanes;
    kir::Builder k("map");
    k.workgroup_size(1);
    const auto storage = [](DType dtype) {
        const kir::Scalar scalar = register_scalar(dtype);
        return scalar == kir::Scalar::boolean ? kir::Scalar::u32 : scalar;
    };
    std::vector<std::vector<uint32_t>> memory;
    std::vector<kir::Expr> values;
    for (size_t i = 0; i < operands.size(); ++i) {
        auto& words = memory.emplace_back(size_t{vectors} * lanes, to_word(operands[i].dtype, 1));
        for (uint32_t e = 0; e < count; ++e) words[e] = to_word(operands[i].dtype, operands[i].at(e));
        const auto binding = k.binding("x" + std::to_string(i), storage(operands[i].dtype), lanes, kir::Access::read, vectors);
        kir::Expr v = k.load(binding, k.workgroup_id(0));
        if (operands[i].dtype == DType::boolean) v = v != 0;
        values.push_back(v);
    }
    memory.emplace_back(size_t{vectors} * lanes, 0xdeadbeef);
    const auto result = k.binding("y", storage(c.out->dtype), lanes, kir::Access::write, vectors);
    kir::Expr y = std::get<MapLower>(c.op->lower).emit(k, values, c);
    if (c.out->dtype == DType::boolean) y = k.convert(y, kir::Scalar::u32);
    k.store(result, k.workgroup_id(0), y);
    const kir::Kernel kernel = k.finish();
    const auto verified = kir::verify(kernel);
    EXPECT_TRUE(verified) << c.op->name << ": " << (verified ? "" : verified.error().text());
    if (!verified) return {};
    std::vector<kir::Buffer> buffers;
    for (auto& words : memory) buffers.push_back({reinterpret_cast<std::byte*>(words.data()), words.size() * 4});
    const auto ran = kir::interpret(kernel, {vectors, 1, 1}, buffers, {});
    EXPECT_TRUE(ran) << c.op->name << ": " << (ran ? "" : ran.error().text());
    std::vector<double> values_out;
    for (uint32_t e = 0; e < count; ++e) values_out.push_back(from_word(c.out->dtype, memory.back()[e]));
    return values_out;
}

// Where f32 cannot follow double: the reference result is beyond f32's range or precision, or an argument beyond the stated one.
bool is_comparable(const Call& c, std::span<const Tensor> operands, int64_t i, double want) {
    if (!is_float(c.out->dtype)) return true;
    if (std::isfinite(want) && (std::fabs(want) > 3e38 || (want != 0 && std::fabs(want) < 1.2e-38))) return false;
    if (c.op->name == "pow") {
        const double x = operands[0].at(i), y = operands[1].at(i);
        return x == 0 || std::isnan(x) || std::isnan(y) || (std::fabs(y * std::log2(std::fabs(x))) <= 60 && std::fabs(y) <= 8);
    }
    return true;
}

void compare(Case& test, uint8_t lanes) {
    Call c = test.call();
    const auto inferred = test.op->infer(c);
    if (!inferred) return;
    test.out = *inferred;
    c.out = &test.out;
    const Tensor want = reference(c, test.operands);
    const std::vector<double> got = run_kernel(c, test.operands, lanes);
    if (got.empty()) return;
    // Functions whose bound is stated at magnitude 1 (see their entries).
    const bool absolute = test.op->name == "log" || test.op->name == "log2" || test.op->name == "sin" || test.op->name == "cos";
    for (int64_t i = 0; i < want.count(); ++i) {
        const double w = want.at(i), g = got[static_cast<size_t>(i)];
        if (!is_comparable(c, test.operands, i, w)) continue;
        std::string arguments;
        for (const Tensor& t : test.operands) arguments += " " + std::to_string(t.at(i));
        const std::string where = std::string(test.op->name) + " " + to_string(test.operands[0].type()) + " -> " +
                                  to_string(test.out) + " of" + arguments + ": got " + std::to_string(g) + ", expected " +
                                  std::to_string(w);
        if (std::isnan(w)) {
            EXPECT_TRUE(std::isnan(g)) << where;
        } else if (std::isinf(w) || !is_float(test.out.dtype) || test.op->ulp == 0) {
            EXPECT_EQ(g, static_cast<double>(is_float(test.out.dtype) ? round_to(DType::f32, w) : w)) << where;
        } else {
            const double unit = std::ldexp(1.0, std::ilogb(absolute ? std::max(1.0, std::fabs(w)) : w == 0 ? 1e-30 : w) - 23);
            EXPECT_LE(std::fabs(g - w), test.op->ulp * unit) << where;
        }
    }
}

// Every combination of two samples; a third operand follows the second.
std::vector<Tensor> operands_of(std::span<const DType> dtypes) {
    const std::vector<double> first = samples(dtypes[0]),
                              second = dtypes.size() > 1 ? samples(dtypes[1]) : std::vector<double>{0};
    std::vector<std::vector<double>> columns(dtypes.size());
    for (size_t i = 0; i < first.size(); ++i) {
        for (size_t j = 0; j < second.size(); ++j) {
            columns[0].push_back(first[i]);
            if (dtypes.size() > 1) columns[1].push_back(second[j]);
            if (dtypes.size() > 2) columns[2].push_back(second[(j + 1) % second.size()]);
        }
    }
    std::vector<Tensor> tensors;
    const auto count = static_cast<int64_t>(columns[0].size());
    for (size_t i = 0; i < dtypes.size(); ++i) tensors.push_back(Tensor::of(dtypes[i], {count}, columns[i]));
    return tensors;
}

TEST(Emit, EveryMapOpAgreesWithItsReference) {
    size_t ops = 0;
    for (const OpDef* op : op_registry().all()) {
        if (!op->is_map()) continue;
        ++ops;
        size_t accepted = 0;
        for (const DType dtype : kernel_dtypes) {
            for (const DType target : kernel_dtypes) {
                if (op->name != "cast" && target != DType::f32) continue;
                Case test;
                test.op = op;
                test.dtypes.assign(op->operands.size(), dtype);
                if (op->name == "select") test.dtypes[0] = DType::boolean;
                if (op->name == "cast") test.attrs = {target};
                test.operands = operands_of(test.dtypes);
                if (!op->infer(test.call())) continue;
                ++accepted;
                for (const uint8_t lanes : {1, 4}) compare(test, lanes);
            }
        }
        EXPECT_GT(accepted, 0u) << op->name << " accepts no dtype of kernels";
    }
    EXPECT_GT(ops, 25u);
}

}  // namespace
}  // namespace darner
