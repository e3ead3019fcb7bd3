// SPDX-License-Identifier: MIT
// Random calls of every op, with operands of any type and attributes at the ends of their ranges: each is refused or gives a
// graph that verifies, survives its text form and can be evaluated. Finds overflow in inference and reads out of range.
#include "darner/graph/eval.h"
#include "darner/graph/test_support.h"
#include "darner/graph/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace darner {
namespace {

class Fuzzer {
public:
    explicit Fuzzer(uint32_t seed) : random_(seed) {}

    int64_t integer() {
        static const int64_t ends[] = {INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, int64_t{1} << 32, 1000000007, -1000000007};
        return random_() % 12 == 0 ? ends[random_() % std::size(ends)] : static_cast<int64_t>(random_() % 6) - 2;
    }
    double real() {
        static const double ends[] = {INFINITY, -INFINITY, NAN, 1e308, -0.0, 5e-324};
        return random_() % 8 == 0 ? ends[random_() % std::size(ends)] : static_cast<double>(random_() % 7) - 3;
    }
    template <class T>
    std::vector<T> list(T (Fuzzer::*element)()) {
        std::vector<T> values(random_() % 4);
        for (T& value : values) value = (this->*element)();
        return values;
    }
    std::vector<int64_t> integers() { return list(&Fuzzer::integer); }
    Dim dim() {
        if (random_() % 16 == 0) return Dim::symbol("n") * integer();
        return random_() % 10 ? Dim(static_cast<int64_t>(random_() % 6)) : Dim(integer());
    }
    DType dtype() { return static_cast<DType>(random_() % dtype_count); }

    AttrValue attr(const AttrDef& def) {
        switch (def.kind) {
            case AttrKind::integer: return integer();
            case AttrKind::real: return real();
            case AttrKind::boolean: return random_() % 2 == 0;
            case AttrKind::choice: return std::string(def.choices.substr(0, def.choices.find('|')));
            case AttrKind::integers: return integers();
            case AttrKind::integer_lists: return std::vector<std::vector<int64_t>>{integers(), integers()};
            case AttrKind::dtype: return dtype();
            case AttrKind::dims: return list(&Fuzzer::dim);
        }
        return {};
    }
    // Small shapes of few extents, so that many calls fit.
    Value leaf(Builder& b, NamedTensors& leaves, bool of_random_op) {
        std::vector<int64_t> dims(random_() % 5);
        for (int64_t& d : dims) d = random_() % 8 == 0 ? 0 : 1 + static_cast<int64_t>(random_() % 3);
        DType type = random_() % 2 ? DType::f32 : random_() % 2 ? DType::i32 : dtype();
        if (of_random_op && random_() % 3) {  // a key or a counter
            type = DType::u32;
            dims = random_() % 2 ? std::vector<int64_t>{2} : std::vector<int64_t>{};
        }
        Tensor value = Tensor::zeros(type, dims);
        for (int64_t i = 0; i < value.count(); ++i)
            value.set(i, random_() % 10 ? static_cast<double>(random_() % 5) - 1 : real());
        const std::string name = "x" + std::to_string(leaves.size());
        const Value v = b.input(name, value.type(), Where{});
        leaves.emplace(name, std::move(value));
        return v;
    }

    // Whether the call was accepted.
    bool call(const OpDef& op) {
        Builder b;
        NamedTensors leaves;
        std::vector<Value> operands;
        for (const OperandDef& def : op.operands) {
            if (def.optional && random_() % 2) {
                operands.emplace_back();
                continue;
            }
            // Operands of equal types are what most ops want.
            const bool again = !operands.empty() && operands[0].valid() && random_() % 3;
            operands.push_back(again ? operands[0] : leaf(b, leaves, op.has_side_stream));
        }
        std::vector<NamedAttr> attrs;
        for (const AttrDef& def : op.attrs)
            if (def.default_text.empty() || random_() % 3 == 0) attrs.emplace_back(def.name, attr(def));
        b.output("y", b.call(op.name, operands, attrs, Where{}), Where{});
        Result<Graph> graph = b.finish();
        if (!graph) {
            EXPECT_FALSE(graph.error().message.empty());
            return false;
        }
        const std::string text = to_text(*graph);
        SCOPED_TRACE(text);
        testing::expect_same(*graph, testing::parse(text));
        const Type& type = graph->type(graph->outputs[0].node);
        if (type.is_concrete() && type.count() < 10000) {
            Result<EvalResult> result = eval(*graph, leaves);
            if (result) EXPECT_EQ(result->outputs.at("y").type(), type);
        }
        return true;
    }

private:
    std::mt19937 random_;
};

TEST(Fuzz, CallsOfEveryOp) {
    for (const OpDef* op : op_registry().all()) {
        Fuzzer fuzzer(7);
        int accepted = 0;
        // Some ops want several operands and attributes that fit each other: they get more tries.
        for (int i = 0; i < 400 || (accepted == 0 && i < 40000); ++i) accepted += fuzzer.call(*op);
        EXPECT_GT(accepted, 0) << op->name << ": no call was right";
    }
}

}  // namespace
}  // namespace darner
