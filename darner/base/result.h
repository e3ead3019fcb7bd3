// SPDX-License-Identifier: MIT
// Result<T>: the value of a call or the Error that a caller or the world caused. The member names are those of
// std::expected, so that it can become an alias later. Our own mistakes are not errors: they go through CHECK.
#pragma once

#include "darner/base/check.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace darner {

enum class ErrorKind : uint8_t { invalid, unsupported, device, io, limit };

const char* to_string(ErrorKind kind);

// One readable line: "[op or file] what is wrong: got X, expected Y". `where` is the user's file:line or the place
// in an input file, empty when there is none; `hint` says what to do next, empty when the message does.
struct Error {
    ErrorKind kind = ErrorKind::invalid;
    std::string message;
    std::string where = {};
    std::string hint = {};

    // "where: message (hint)": what the command line prints.
    std::string text() const;
};

inline Error invalid(std::string message, std::string where = {}) {
    return {ErrorKind::invalid, std::move(message), std::move(where), {}};
}
inline Error unsupported(std::string message, std::string where = {}) {
    return {ErrorKind::unsupported, std::move(message), std::move(where), {}};
}
inline Error device_error(std::string message, std::string where = {}) {
    return {ErrorKind::device, std::move(message), std::move(where), {}};
}
inline Error io_error(std::string message, std::string where = {}) {
    return {ErrorKind::io, std::move(message), std::move(where), {}};
}
inline Error limit_error(std::string message, std::string where = {}) {
    return {ErrorKind::limit, std::move(message), std::move(where), {}};
}

template <class T>
class [[nodiscard]] Result {
public:
    using value_type = T;
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    T& value() & { return checked(); }
    const T& value() const& { return const_cast<Result*>(this)->checked(); }
    T&& value() && { return std::move(checked()); }
    T& operator*() & { return checked(); }
    const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
    T&& operator*() && { return std::move(checked()); }
    T* operator->() { return &checked(); }
    const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

    const Error& error() const& { return *std::get_if<1>(&state_); }
    Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

private:
    T& checked() {
        if (!has_value()) bug(__FILE__, __LINE__, "value() of a Result that holds an error: " + error().text());
        return *std::get_if<0>(&state_);
    }
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    using value_type = void;
    Result() = default;
    Result(Error error) : error_(std::move(error)), failed_(true) {}
    bool has_value() const { return !failed_; }
    explicit operator bool() const { return has_value(); }
    const Error& error() const& { return error_; }
    Error&& error() && { return std::move(error_); }

private:
    Error error_;
    bool failed_ = false;
};

}  // namespace darner

// TRY(expr);             returns the error of `expr`, if it has one, from the enclosing function.
// TRY(auto x, expr);     the same, and declares x as the value.
#define DARNER_CONCAT_(a, b) a##b
#define DARNER_CONCAT(a, b) DARNER_CONCAT_(a, b)
#define DARNER_TRY_VOID(tmp, expr) \
    if (auto tmp = (expr); !tmp) return std::move(tmp).error()
#define DARNER_TRY_DECL(tmp, decl, expr)     \
    auto tmp = (expr);                       \
    if (!tmp) return std::move(tmp).error(); \
    decl = std::move(*tmp)
#define DARNER_TRY_1(expr) DARNER_TRY_VOID(DARNER_CONCAT(try_result_, __COUNTER__), expr)
#define DARNER_TRY_2(decl, expr) DARNER_TRY_DECL(DARNER_CONCAT(try_result_, __COUNTER__), decl, expr)
#define DARNER_TRY_PICK(_1, _2, name, ...) name
#define TRY(...) DARNER_TRY_PICK(__VA_ARGS__, DARNER_TRY_2, DARNER_TRY_1, )(__VA_ARGS__)
