// SPDX-License-Identifier: MIT
// Operators of Value. A number next to a value becomes a splat constant of its type.
#include "darner/graph/builder.h"

namespace darner {

const Type& Value::type() const {
    static const Type none;
    return valid() ? builder->types_[id.value] : none;
}

namespace {

// Two values without a builder are left over from an error elsewhere: nothing to do and nobody to tell.
Value binary(std::string_view op, Value a, Value b, Where where) {
    Builder* builder = a.builder ? a.builder : b.builder;
    return builder ? builder->call(op, {a, b}, {}, where) : Value{};
}

Value binary(std::string_view op, Value a, double b, Where where) {
    if (!a.builder) return {};
    if (!a.valid()) return a.builder->call(op, {a, a}, {}, where);
    return a.builder->call(op, {a, a.builder->constant(a.type(), b, where)}, {}, where);
}

Value binary(std::string_view op, double a, Value b, Where where) {
    if (!b.builder) return {};
    if (!b.valid()) return b.builder->call(op, {b, b}, {}, where);
    return b.builder->call(op, {b.builder->constant(b.type(), a, where), b}, {}, where);
}

}  // namespace

Value operator+(ValueAt a, Value b) { return binary("add", a.value, b, a.where); }
Value operator-(ValueAt a, Value b) { return binary("sub", a.value, b, a.where); }
Value operator*(ValueAt a, Value b) { return binary("mul", a.value, b, a.where); }
Value operator/(ValueAt a, Value b) { return binary("div", a.value, b, a.where); }
Value operator%(ValueAt a, Value b) { return binary("rem", a.value, b, a.where); }
Value operator-(ValueAt a) { return a.value.builder ? a.value.builder->call("neg", {a.value}, {}, a.where) : Value{}; }
Value operator<(ValueAt a, Value b) { return binary("lt", a.value, b, a.where); }
Value operator<=(ValueAt a, Value b) { return binary("le", a.value, b, a.where); }
Value operator>(ValueAt a, Value b) { return binary("gt", a.value, b, a.where); }
Value operator>=(ValueAt a, Value b) { return binary("ge", a.value, b, a.where); }
Value operator+(ValueAt a, double b) { return binary("add", a.value, b, a.where); }
Value operator-(ValueAt a, double b) { return binary("sub", a.value, b, a.where); }
Value operator*(ValueAt a, double b) { return binary("mul", a.value, b, a.where); }
Value operator/(ValueAt a, double b) { return binary("div", a.value, b, a.where); }
Value operator+(double a, ValueAt b) { return binary("add", a, b.value, b.where); }
Value operator-(double a, ValueAt b) { return binary("sub", a, b.value, b.where); }
Value operator*(double a, ValueAt b) { return binary("mul", a, b.value, b.where); }
Value operator/(double a, ValueAt b) { return binary("div", a, b.value, b.where); }

}  // namespace darner
