// SPDX-License-Identifier: MIT
#include "darner/base/result.h"

#include <cstdio>
#include <cstdlib>

namespace darner {

const char* to_string(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid: return "invalid";
        case ErrorKind::unsupported: return "unsupported";
        case ErrorKind::device: return "device";
        case ErrorKind::io: return "io";
        case ErrorKind::limit: return "limit";
    }
    return "error";
}

std::string Error::text() const {
    std::string out;
    if (!where.empty()) out += where + ": ";
    out += message;
    if (!hint.empty()) out += " (" + hint + ")";
    return out;
}

void bug(const char* file, int line, const std::string& message) {
    std::fprintf(stderr, "darner: internal error at %s:%d: %s\nThis is a bug in darner; please report it with the input.\n", file,
                 line, message.c_str());
    std::abort();
}

}  // namespace darner
