// SPDX-License-Identifier: MIT
// CHECK and bug(): for our own mistakes. They print the place and abort; a user's mistake is an Error (result.h).
#pragma once

#include <cstdint>
#include <string>

namespace darner {

[[noreturn]] void bug(const char* file, int line, const std::string& message);

}  // namespace darner

#define CHECK(condition, ...)                                                                                           \
    do {                                                                                                                \
        if (!(condition)) [[unlikely]]                                                                                  \
            ::darner::bug(__FILE__, __LINE__, std::string("CHECK failed: " #condition " ") + std::string{__VA_ARGS__}); \
    } while (false)

#ifdef NDEBUG
#define DCHECK(condition, ...) \
    do {                       \
    } while (false)
#else
#define DCHECK(condition, ...) CHECK(condition, __VA_ARGS__)
#endif
