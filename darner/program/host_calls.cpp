// SPDX-License-Identifier: MIT
// Checks of the host's calls.
#include "darner/program/host_calls.h"

#include <fmt/format.h>

namespace darner {

Result<void> check_entry(const Program& program, uint32_t entry) {
    if (entry < program.entries.size()) return {};
    return invalid(fmt::format("[device] no entry {}: the program has {}", entry, program.entries.size()));
}

Result<const ProgramTensor*> find_tensor(const Program& program, TensorId id, size_t bytes, const char* call) {
    if (id.value >= program.tensors.size()) return invalid(fmt::format("[{}] no tensor {}", call, id.value));
    const ProgramTensor& tensor = program.tensor(id);
    if (bytes == tensor.bytes) return &tensor;
    return invalid(fmt::format("[{}] tensor '{}': got {} bytes, expected {}", call, tensor.name, bytes, tensor.bytes));
}

}  // namespace darner
